"""To clients no engine knows `CLIENT MAINT_NOTIFICATIONS`, by which a server tells them of other addresses.

Keyrail answers it by itself, in every state of a connection, in the words of the engine's version; and what a server
says by pushes of its own reaches nobody (`hotpath/test_pushes.py` has all of those).
"""

from __future__ import annotations

import pytest

from tests.conftest import Fleet, kind_named
from tests.engines import EXPECTED, IN_BETWEEN, NEWEST_REDIS
from tests.keyrail_process import DIRECT
from tests.resp import Wire, pack

ENGINES = [
    pytest.param(name, marks=pytest.mark.long if name == IN_BETWEEN else ()) for name in (*EXPECTED, NEWEST_REDIS)
]
ASKS = [
    pack("CLIENT", "MAINT_NOTIFICATIONS", "ON"),
    pack("client", "maint_notifications", "on", "moving-endpoint-type", "none"),
    pack("CLIENT", "Maint_Notifications\0x", "ON"),
    b"client maint_notifications OFF\r\n",
]
STATES: dict[str, list[bytes]] = {
    "new": [],
    "resp3": [pack("HELLO", "3")],
    "private": [pack("CLIENT", "NO-EVICT", "OFF")],
    "watching": [pack("WATCH", "k")],
    "subscribed": [pack("HELLO", "3"), pack("SUBSCRIBE", "c")],
    "confined": [pack("SUBSCRIBE", "c")],
    "in MULTI": [pack("MULTI")],
    "behind a queued command": [pack("CLIENT", "NO-EVICT", "OFF"), pack("MULTI"), pack("GET", "k")],
    "silent": [pack("CLIENT", "REPLY", "SKIP")],
}
BEHIND = {"in MULTI", "behind a queued command"}


def said(wire: Wire, state: str, ask: bytes) -> list[bytes]:
    """The replies behind those that bring the connection into the state."""
    before = STATES[state]
    wire.send(b"".join(before))
    wire.frames(len(before) - (state == "silent"))
    last = pack("EXEC") if state in BEHIND else pack("PING")
    wire.send(ask + last)
    return wire.frames(2 - (state == "silent"))


@pytest.mark.parametrize("sharing", [True, False], ids=["pooled", "unpooled"])
@pytest.mark.parametrize("engine_name", ENGINES)
def test_it_is_answered_as_by_an_engine_without_it(fleet: Fleet, engine_name: str, sharing: bool) -> None:
    engine, keyrail = fleet.engine(kind_named(engine_name).name), fleet.keyrail(engine_name, pooling=sharing)
    # Of a NUL in a name Keyrail has its own error before Redis 6.2, which never has such a command.
    asks = ASKS if engine.kind.is_valkey or engine.kind.version >= (7, 0) else [ask for ask in ASKS if b"\0" not in ask]
    for state in STATES:
        for ask in asks:
            with engine.wire() as direct, keyrail.wire() as wire:
                assert said(wire, state, ask) == said(direct, state, ask), (state, ask)


@pytest.mark.skipif(DIRECT, reason="Keyrail's own doing")
def test_the_engine_is_not_asked(fleet: Fleet) -> None:
    engine, keyrail = fleet.engine("valkey-9.1"), fleet.keyrail("valkey-9.1")
    with engine.wire() as monitor, keyrail.wire() as wire:
        assert monitor.ask("MONITOR") == b"+OK\r\n"
        for state in STATES:
            with keyrail.wire() as other:
                said(other, state, ASKS[0])
        wire.ask("GET", "the end")
        seen = b""
        while b"the end" not in seen:
            seen += monitor.frame()
        assert b"notifications" not in seen.lower()


@pytest.mark.skipif(DIRECT, reason="a direct connection gets them")
@pytest.mark.parametrize("sharing", [True, False], ids=["pooled", "unpooled"])
@pytest.mark.parametrize("state", ["new", "private", "subscribed", "monitor", "tracking"])
def test_a_push_and_an_attribute_of_an_engine_reach_nobody(fleet: Fleet, sharing: bool, state: str) -> None:
    """DEBUG PROTOCOL makes some, as modules and later engines may."""
    keyrail = fleet.keyrail("valkey-9.1", pooling=sharing)
    with keyrail.wire(protocol=3) as wire:
        if state == "private":
            wire.ask("CLIENT", "NO-EVICT", "OFF")
        elif state == "subscribed":
            wire.ask("SUBSCRIBE", "c")
        elif state == "tracking":
            wire.ask("CLIENT", "TRACKING", "ON")
        elif state == "monitor":
            wire.ask("MONITOR")
        wire.send(pack("DEBUG", "PROTOCOL", "push") + pack("DEBUG", "PROTOCOL", "attrib") + pack("PING", "end"))
        seen = b""
        while b"$3\r\nend\r\n" not in seen:
            seen += wire.frame()
        assert b"server-cpu-usage" not in seen
        assert b"key-popularity" not in seen
        assert b"Some real reply following the push reply" in seen
        assert b"Some real reply following the attribute" in seen


@pytest.mark.parametrize("engine_name", ENGINES)
def test_what_a_subscriber_publishes_in_a_transaction_reaches_itself(fleet: Fleet, engine_name: str) -> None:
    """Redis 6.2 and 7.0 put the message into EXEC's array, between its elements."""
    engine, keyrail = fleet.engine(kind_named(engine_name).name), fleet.keyrail(engine_name)
    heard = []
    for side in (engine, keyrail):
        with side.wire(protocol=3) as wire:
            wire.ask("SUBSCRIBE", "mine")
            commands = [["MULTI"], ["PUBLISH", "mine", "x"], ["PUBLISH", "mine", "y"], ["EXEC"], ["PING", "end"]]
            wire.send(b"".join(pack(*argv) for argv in commands))
            seen = b""
            while not seen.endswith(b"$3\r\nend\r\n"):
                seen += wire.socket.recv(1 << 16)
            heard.append(seen)
    assert heard[0] == heard[1]

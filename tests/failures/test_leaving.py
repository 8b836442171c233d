"""Clients that leave: orderly, after a half-close, in the middle of a command, while Redis works for them.

Proves: after a half-close complete commands run and are answered, then the client is closed; nothing after QUIT is
forwarded; the end of a blocked client is seen at once, so that no element is popped for it; the replies of a vanished
client reach no other client.
"""

from __future__ import annotations

import pytest

from tests.conftest import Fleet
from tests.engines import client_ids
from tests.resp import eventually, pack

ENGINE = "valkey-9.1"


def test_half_closed_clients_get_all_they_are_owed(fleet: Fleet, engine_name: str, pooling: bool) -> None:
    keyrail = fleet.keyrail(engine_name, pooling=pooling)
    with keyrail.wire() as wire:
        wire.send(pack("PING") * 20_000 + b"*2\r\n$3\r\nGET\r\n$3\r\nab")
        wire.half_close()
        assert wire.remaining() == [b"+PONG\r\n"] * 20_000


def test_a_half_close_ends_no_connection_that_others_share(fleet: Fleet) -> None:
    engine, keyrail = fleet.engine(ENGINE), fleet.keyrail(ENGINE)
    with keyrail.wire() as neighbour, engine.wire() as direct:
        assert neighbour.ask("PING") == b"+PONG\r\n"
        before = client_ids(direct)
        with keyrail.wire() as wire:
            wire.send(pack("PING") * 10)
            wire.half_close()
            assert wire.remaining() == [b"+PONG\r\n"] * 10
        assert neighbour.ask("ECHO", "mine") == b"$4\r\nmine\r\n"
        assert client_ids(direct) >= before


def test_half_closed_in_a_transaction(fleet: Fleet, pooling: bool) -> None:
    fleet.engine(ENGINE).do("DEL", "k")
    with fleet.keyrail(ENGINE, pooling=pooling).wire() as wire:
        wire.send(pack("MULTI") + pack("SET", "k", "v"))
        wire.half_close()
        assert wire.remaining() == [b"+OK\r\n", b"+QUEUED\r\n"]
    assert fleet.engine(ENGINE).do("EXISTS", "k") == 0


@pytest.mark.parametrize("how", ["close", "half_close", "reset"])
@pytest.mark.parametrize("blocking", ["BLPOP q 0", "BRPOPLPUSH q other 0", "BZPOPMIN z 0", "XREAD BLOCK 0 STREAMS s $"])
def test_a_blocked_client_leaves(fleet: Fleet, engine_name: str, pooling: bool, blocking: str, how: str) -> None:
    engine = fleet.engine(engine_name)
    engine.do("DEL", "q", "other", "z", "s")
    wire = fleet.keyrail(engine_name, pooling=pooling).wire()
    wire.say(*blocking.split())
    engine.await_info("clients", "blocked_clients", "1")
    getattr(wire, how)()
    engine.await_info("clients", "blocked_clients", "0")
    engine.do("RPUSH", "q", "job")
    assert engine.do("LRANGE", "q", 0, -1) == [b"job"]
    wire.close()


@pytest.mark.parametrize(
    "line", ["BLPOP LONG q 0", "BLPOP q LONG 0", "BLMOVE q LONG LEFT LEFT 0", "XREAD BLOCK\0 0 STREAMS LONG $"]
)
def test_a_client_that_is_blocked_by_a_large_command_leaves(fleet: Fleet, pooling: bool, line: str) -> None:
    """A command of more than a megabyte streams; it blocks like any other, and nothing is popped for nobody."""
    engine = fleet.engine(ENGINE)
    engine.do("DEL", "q")
    wire = fleet.keyrail(ENGINE, pooling=pooling).wire()
    wire.say("SET", "before", "v")
    wire.say(*(b"k" * 1_100_000 if word == "LONG" else word for word in line.split(" ")))
    assert wire.frame() == b"+OK\r\n"
    engine.await_info("clients", "blocked_clients", "1")
    wire.close()
    engine.await_info("clients", "blocked_clients", "0")
    engine.do("RPUSH", "q", "job")
    assert engine.do("LRANGE", "q", 0, -1) == [b"job"]


def test_a_blocked_client_that_has_sent_more_leaves(fleet: Fleet, pooling: bool) -> None:
    """Bytes that wait behind the blocking command must not hide the client's end."""
    engine = fleet.engine(ENGINE)
    engine.do("DEL", "q", "k")
    wire = fleet.keyrail(ENGINE, pooling=pooling).wire()
    wire.say("BLPOP", "q", "0")
    engine.await_info("clients", "blocked_clients", "1")
    wire.send(pack("SET", "k", "x" * 1000) * 200)
    wire.close()
    engine.await_info("clients", "blocked_clients", "0")
    engine.do("RPUSH", "q", "job")
    assert engine.do("LLEN", "q") == 1


def test_subscribers_leave(fleet: Fleet, pooling: bool) -> None:
    engine = fleet.engine(ENGINE)
    wires = [fleet.keyrail(ENGINE, pooling=pooling).wire() for _ in range(20)]
    for wire in wires:
        wire.ask("SUBSCRIBE", "leaving")
    assert engine.do("PUBSUB", "NUMSUB", "leaving") == [b"leaving", 20]
    for index, wire in enumerate(wires):
        (wire.close, wire.half_close, wire.reset)[index % 3]()
    eventually(lambda: engine.do("PUBSUB", "NUMSUB", "leaving") == [b"leaving", 0])
    for wire in wires:
        wire.close()


@pytest.mark.parametrize("how", ["close", "reset"])
def test_replies_of_the_vanished_go_nowhere(fleet: Fleet, pooling: bool, how: str) -> None:
    """Neighbours on the same pool, before and behind the one that left, hear exactly their own."""
    keyrail = fleet.keyrail(ENGINE, pooling=pooling)
    neighbours = [keyrail.wire() for _ in range(8)]
    for round_ in range(30):
        leaver = keyrail.wire()
        leaver.send(pack("ECHO", f"leaver-{round_}" * 50) * 40 + b"*2\r\n$4\r\nECHO\r\n$99\r\nunfinished")
        for index, wire in enumerate(neighbours):
            wire.send(pack("ECHO", f"{round_}-{index}-a") + pack("ECHO", f"{round_}-{index}-b"))
        getattr(leaver, how)()
        for index, wire in enumerate(neighbours):
            for part in "ab":
                text = f"{round_}-{index}-{part}".encode()
                assert wire.frame() == b"$%d\r\n%s\r\n" % (len(text), text)
    for wire in neighbours:
        assert wire.silent(0.01)
        wire.close()


def test_an_unfinished_command_is_never_run(fleet: Fleet, engine_name: str, pooling: bool) -> None:
    engine = fleet.engine(engine_name)
    engine.do("SET", "k", "kept")
    for how in ("close", "half_close", "reset"):
        wire = fleet.keyrail(engine_name, pooling=pooling).wire()
        wire.send(pack("SET", "k", "x" * 100)[:-1])
        getattr(wire, how)()
        wire.close()
    with fleet.keyrail(engine_name, pooling=pooling).wire() as wire:
        assert wire.ask("GET", "k") == b"$4\r\nkept\r\n"


def test_an_unfinished_large_command_is_never_run(fleet: Fleet, pooling: bool) -> None:
    """Large ones stream through; the last byte decides."""
    engine = fleet.engine(ENGINE)
    engine.do("SET", "k", "kept")
    for missing in (1, 2, 3, 1_000_000):
        wire = fleet.keyrail(ENGINE, pooling=pooling).wire()
        wire.send(pack("SET", "k", b"x" * 5_000_000)[:-missing])
        wire.half_close()
        assert wire.remaining() == []
        wire.close()
    assert engine.do("GET", "k") == b"kept"

"""Real engines tell a tenant of its own keys, under the names that it knows, as they would alone, and of no others."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT
from tests.resp import Wire, decode, pack
from tests.tenants.test_against_engines import POLICY, login, prepared
from tests.tenants.test_keyspace import serve

pytestmark = pytest.mark.skipif(DIRECT, reason="tenants are Keyrail's own")

SUBSCRIPTIONS = (
    ("SUBSCRIBE", "__keyspace@0__:a", "__keyspace@0__:acme:a", "__keyevent@0__:del", "news"),
    ("PSUBSCRIBE", "__keyspace@0__:a*", "__keyspace@*__:*", "__keyevent@*__:*", "__key*__:*", "__key*@*__:*", "n*"),
)
CHANGES = (
    (("SET", "a", 1), ("DEL", "a"), ("SET", "acme:a", 1), ("EXPIRE", "acme:a", 100), ("RENAME", "acme:a", "b")),
    (("MULTI",), ("LPUSH", "l", 1, 2), ("LPOP", "l"), ("PUBLISH", "news", "acme:x"), ("EXEC",)),
    (("SELECT", 1), ("SET", "a", 1), ("SELECT", 0), ("PUBLISH", "news", "over")),
)


@pytest.fixture
def engines(fleet: Fleet, engine_name: str) -> Iterator[list[Engine]]:
    found = [prepared(fleet.engine(engine_name)), prepared(fleet.engine(engine_name, "alone"))]
    for engine in found:
        engine.do("CONFIG", "SET", "notify-keyspace-events", "KEA")
    yield found
    for engine in found:
        engine.do("CONFIG", "SET", "notify-keyspace-events", "")


def change(wire: Wire) -> None:
    for lines in CHANGES:
        wire.send(b"".join(pack(*words) for words in lines))
        assert not any(frame.startswith(b"-") for frame in wire.frames(len(lines)))


def heard(wire: Wire) -> dict[str, list[bytes]]:
    """The messages until the last one, by subscription: which of these comes first is the server's to say."""
    found: dict[str, list[bytes]] = {}
    frame = b""
    while b"over" not in frame or b"pmessage" not in frame:
        frame = wire.frame()
        word, name, *_ = cast("list[bytes]", decode(b"*" + frame[1:]))
        found.setdefault(f"{word!r} {name!r}", []).append(frame)
    return found


def test_a_tenant_hears_what_it_would_hear_alone(
    fleet: Fleet, engine_name: str, engines: list[Engine], tmp_path: Path, protocol: int
) -> None:
    keyrail, alone = serve(fleet, engine_name, tmp_path), engines[1]
    listeners = keyrail.wire(protocol=protocol), alone.wire(protocol=protocol)
    writers = keyrail.wire(), keyrail.wire(), alone.wire()
    for wire, name in zip((*listeners, *writers), ("acme", "acme", "acme", "globex", "acme"), strict=True):
        login(wire, name)
    for words in SUBSCRIPTIONS:
        confirmed = []
        for listener in listeners:
            listener.send(pack(*words))
            confirmed.append(listener.frames(len(words) - 1))
        assert confirmed[0] == confirmed[1]
    acme, globex, direct = writers
    globex.ask("SET", "acme:a", 1)
    change(globex)
    change(acme)
    change(direct)
    told, expected = map(heard, listeners)
    assert told == expected
    assert len(told) == 10
    for end in (("UNSUBSCRIBE", "__keyspace@0__:a", "__keyevent@0__:del"), ("PUNSUBSCRIBE", "__keyspace@*__:*")):
        confirmed = []
        for listener in listeners:
            listener.send(pack(*end))
            confirmed.append(listener.frames(len(end) - 1))
        assert confirmed[0] == confirmed[1]
    for wire in (*listeners, *writers):
        wire.close()


def test_another_policy_and_a_client_that_leaves(
    fleet: Fleet, engine_name: str, engines: list[Engine], tmp_path: Path, protocol: int
) -> None:
    keyrail = serve(fleet, engine_name, tmp_path, f", count_age: {protocol}s")
    with keyrail.wire(protocol=protocol) as stays, keyrail.wire(protocol=protocol) as leaves, keyrail.wire() as acme:
        for wire in (stays, leaves, acme):
            login(wire, "acme")
        for wire in (stays, leaves):
            assert wire.ask("SUBSCRIBE", "__keyevent@0__:set")[1:13] == b"3\r\n$9\r\nsubsc"
        acme.ask("SET", "a", 1)
        leaves.close()
        file = tmp_path / "tenants.yaml"
        file.write_text(POLICY.replace("globex]}", "globex], count_age: 9s}"), encoding="utf-8")
        keyrail.process.send_signal(signal.SIGHUP)
        keyrail.await_line("policies reloaded: generation")
        acme.ask("SET", "b", 1)
        engines[0].do("SET", "b", 1)
        acme.ask("SET", "c", 1)
        assert [frame[-9:] for frame in stays.frames(3)] == [b"\r\n$1\r\n%b\r\n" % key for key in (b"a", b"b", b"c")]


def test_a_pattern_that_cannot_have_the_prefix_is_refused(
    fleet: Fleet, engine_name: str, engines: list[Engine], tmp_path: Path, protocol: int
) -> None:
    keyrail = serve(fleet, engine_name, tmp_path)
    with keyrail.wire(protocol=protocol) as acme:
        login(acme, "acme")
        for pattern in ("__key*:a", "__keyspace@?__:*", "__redis__:*"):
            assert b"is not offered to tenants: a pattern of keyspace" in acme.ask("PSUBSCRIBE", pattern)
        assert acme.ask("PING") == b"+PONG\r\n"

"""Real engines tell a tenant's client that tracks keys which of its own have changed, as they would alone."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT
from tests.resp import Wire, pack
from tests.tenants.test_against_engines import POLICY, login, prepared
from tests.tenants.test_keyspace import serve

pytestmark = pytest.mark.skipif(DIRECT, reason="tenants are Keyrail's own")

WAYS = (
    ("CLIENT", "TRACKING", "ON"),
    ("CLIENT", "TRACKING", "ON", "NOLOOP"),
    ("CLIENT", "TRACKING", "ON", "OPTIN"),
    ("CLIENT", "TRACKING", "ON", "BCAST"),
    ("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "l", "PREFIX", "last", "PREFIX", "a"),  # overlap
    ("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a", "PREFIX", "k:", "PREFIX", "l"),
)
READS = (("CLIENT", "CACHING", "YES"), ("GET", "a"), ("MGET", "k:1", "acme:a"), ("LRANGE", "l", 0, -1), ("GET", "last"))
CHANGES = (
    (("SET", "a", 1), ("SET", "b", 1), ("SET", "acme:a", 2)),
    (("MULTI",), ("SET", "k:1", 1), ("LPUSH", "l", 1), ("EXEC",)),
    (("SELECT", 1), ("SET", "a", 1), ("SELECT", 0)),
)


@pytest.fixture
def shared(fleet: Fleet, engine_name: str) -> Engine:
    return prepared(fleet.engine(engine_name))


@pytest.fixture
def alone(fleet: Fleet, engine_name: str) -> Engine:
    return prepared(fleet.engine(engine_name, "alone"))


def change(wire: Wire) -> None:
    for lines in CHANGES:
        wire.send(b"".join(pack(*words) for words in lines))
        assert not any(frame.startswith(b"-") for frame in wire.frames(len(lines)))


def answered(wire: Wire, *words: str | int) -> list[bytes]:
    """The reply and the pushes before it, which come in an order of their own: keys of one EXEC are a set."""
    wire.send(pack(*words))
    frames = [wire.frame()]
    while frames[-1].startswith(b">"):
        frames.append(wire.frame())
    return [b"".join(sorted(frame.split(b"$"))) for frame in frames]


@pytest.mark.parametrize("way", WAYS)
def test_a_tenant_is_told_what_it_would_be_told_alone(
    fleet: Fleet, engine_name: str, shared: Engine, alone: Engine, tmp_path: Path, way: tuple[str, ...]
) -> None:
    keyrail = serve(fleet, engine_name, tmp_path)
    trackers = keyrail.wire(protocol=3), alone.wire(protocol=3)
    writers = keyrail.wire(), keyrail.wire(), alone.wire()
    for wire, name in zip((*trackers, *writers), ("acme", "acme", "globex", "acme", "acme"), strict=True):
        login(wire, name)
    globex, acme, direct = writers
    told: list[list[list[bytes]]] = [[], []]
    for number, tracker in enumerate(trackers):
        told[number] += [answered(tracker, *words) for words in (way, *READS, ("CLIENT", "TRACKINGINFO"))]
    globex.ask("SET", "acme:a", 1)
    change(globex)
    shared.do("SET", "a", 1)
    change(acme)
    change(direct)
    for number, tracker in enumerate(trackers):
        told[number] += [answered(tracker, *words) for words in (("SET", "last", 1), ("PING",))]
    for engine in (shared, alone):
        engine.do("FLUSHALL")
    for number, tracker in enumerate(trackers):
        told[number] += [answered(tracker, *words) for words in (("PING",), ("PING",), ("CLIENT", "TRACKING", "OFF"))]
    assert told[0] == told[1]
    assert (b"invalidate" in b"".join(b"".join(frames) for frames in told[0])) is ("last" not in way)
    for wire in (*trackers, *writers):
        wire.close()


def test_a_resp2_client_is_told_through_another_one(
    fleet: Fleet, engine_name: str, shared: Engine, tmp_path: Path
) -> None:
    keyrail = serve(fleet, engine_name, tmp_path)
    with keyrail.wire() as hears, keyrail.wire() as tracks, keyrail.wire() as globex, keyrail.wire(protocol=3) as other:
        for wire, name in ((hears, "acme"), (tracks, "acme"), (globex, "globex"), (other, "globex")):
            login(wire, name)
        number = hears.value("CLIENT", "ID")
        own = other.value("CLIENT", "ID")
        assert isinstance(number, int)
        assert isinstance(own, int)
        assert hears.ask("SUBSCRIBE", "__redis__:invalidate").endswith(b"$20\r\n__redis__:invalidate\r\n:1\r\n")
        assert tracks.ask("CLIENT", "TRACKING", "ON", "REDIRECT", number) == b"+OK\r\n"
        assert globex.ask("CLIENT", "TRACKING", "ON", "BCAST", "REDIRECT", number) == b"+OK\r\n"
        tracks.ask("GET", "a")
        globex.ask("SET", "a", 1)
        tracks.ask("SET", "a", 1)
        shared.do("FLUSHALL")
        head = b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n"
        assert hears.frame() == head + b"*1\r\n$1\r\na\r\n"
        assert hears.frame() in (head + b"*-1\r\n", head + b"$-1\r\n")
        assert tracks.ask("CLIENT", "TRACKING", "OFF") == b"+OK\r\n"
        assert tracks.ask("CLIENT", "TRACKING", "ON", "BCAST", "REDIRECT", own) == b"+OK\r\n"
        tracks.ask("SET", "a", 1)
        assert other.ask("PING") == b"+PONG\r\n", "nothing of another tenant reaches it"


def test_in_a_transaction_and_over_another_policy(
    fleet: Fleet, engine_name: str, shared: Engine, tmp_path: Path
) -> None:
    keyrail = serve(fleet, engine_name, tmp_path, ", count_age: 7s")
    with keyrail.wire(protocol=3) as tracks, keyrail.wire(protocol=3) as leaves, keyrail.wire() as acme:
        for wire in (tracks, leaves, acme):
            login(wire, "acme")
        tracks.send(pack("MULTI") + pack("CLIENT", "TRACKING", "ON", "BCAST") + pack("GET", "a") + pack("EXEC"))
        assert tracks.frames(4)[-1] == b"*2\r\n+OK\r\n_\r\n"
        assert tracks.ask("CLIENT", "TRACKING", "ON", "BCAST").startswith(b"-ERR Prefix '' overlaps with an existing")
        leaves.ask("CLIENT", "TRACKING", "ON", "BCAST")
        leaves.close()
        (tmp_path / "tenants.yaml").write_text(POLICY.replace("globex]}", "globex], count_age: 8s}"), encoding="utf-8")
        keyrail.process.send_signal(signal.SIGHUP)
        keyrail.await_line("policies reloaded: generation")
        shared.do("SET", "globex:a", 1)
        acme.ask("SET", "a", 1)
        assert tracks.frame() == b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n"


OVERLAPPING = (
    (("a", "b"), ("c",)),
    (("b", "abc", "ab"), ("z",)),
    (("a", "ab", "b"), ("z",)),
    (("z", "a", "b", "a"), ("z",)),
    (("a", "a"),),
    (("a",), ("b", "ab"), ("b",)),
    (("a",), ("ab", "b"), ("b",)),
    ((), ("a", "b"), ()),
)
"""The prefixes of each CLIENT TRACKING, one behind the other."""


@pytest.mark.parametrize("tried", OVERLAPPING, ids=repr)
@pytest.mark.parametrize("way", ["one by one", "in a pipeline", "in a transaction"])
@pytest.mark.parametrize("of", ["acme", "default"])
@pytest.mark.parametrize("kind", ["redis-6.2", "redis-8.2", "valkey-9.1"])
def test_prefixes_that_overlap_have_one_reply(
    fleet: Fleet, tmp_path: Path, tried: tuple[tuple[str, ...], ...], way: str, of: str, kind: str
) -> None:
    prepared(fleet.engine(kind))
    keyrail = serve(fleet, kind, tmp_path)
    lines: list[tuple[str, ...]] = [
        ("CLIENT", "TRACKING", "ON", "BCAST", *(word for each in prefixes for word in ("PREFIX", each)))
        for prefixes in tried
    ]
    if way == "in a transaction":
        lines = [("MULTI",), *lines, ("EXEC",)]
    with keyrail.wire(protocol=3) as wire:
        if of == "acme":
            login(wire, of)
        if way == "one by one":
            told = [wire.ask(*line) for line in lines]
        else:
            wire.send(b"".join(pack(*line) for line in lines))
            told = wire.frames(len(lines))
        assert wire.ask("ECHO", "on it goes") == b"$10\r\non it goes\r\n"
    assert all(frame in (b"+OK\r\n", b"+QUEUED\r\n") or frame[:1] in b"-*" for frame in told), told
    assert b"acme:" not in b"".join(told)
    if tried == OVERLAPPING[1] and way == "one by one":
        assert told[0].startswith(b"-ERR Prefix 'abc' overlaps with another provided prefix 'ab'. Prefixes")

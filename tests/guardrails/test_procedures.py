"""Rules that ask Redis first, in front of real engines: KEYS answered through SCAN has the reply of KEYS itself, large
collections are refused and small ones read, and Keyrail asks as the client's user, in its database."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Closed, decode, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")

POLICY = """
keyrail: 1
defaults: {mode: enforce}
rules:
  walk: {keys_by_scan: {keys: 2000, time: 30s, count: 100}}
  caps: {collections: {members: 3000, streams: 50, sample: 99%, remember: 1s}}
  small: {whole_collections: {max: 100, remember: 1s, unknown: refuse}}
"""
PATTERNS = (
    *(b"*", b"user:*", b"user:?", b"user:[1-3]", b"user:[^1]", b"user\\:1", b"user:1"),
    *(b"none", b"", b"\xff*", b"a\r\nb", b"["),
)
NAMES = (*(b"user:%d" % i for i in range(300)), b"\xff\x00", b"a\r\nb", b"", b"tail[")


@pytest.fixture
def engine(fleet: Fleet, engine_name: str) -> Engine:
    engine = fleet.engine(engine_name)
    engine.do("FLUSHALL")
    return engine


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("procedures") / "policy.yaml"
    file.write_text(POLICY)
    return file


@pytest.fixture
def keyrail(fleet: Fleet, engine: Engine, policy: Path, pooling: bool) -> Keyrail:
    return fleet.keyrail(engine.name, policy=policy, pooling=pooling)


@pytest.fixture
def pooled(fleet: Fleet, engine: Engine, policy: Path) -> Keyrail:
    return fleet.keyrail(engine.name, policy=policy)


def names_in(frame: bytes) -> list[bytes]:
    found = decode(frame)
    assert isinstance(found, list)
    assert all(isinstance(name, bytes) for name in found)
    return sorted(name for name in found if isinstance(name, bytes))


def test_keys_by_a_walk_is_what_keys_would_say(keyrail: Keyrail, engine: Engine, protocol: int) -> None:
    with keyrail.wire(protocol) as wire, engine.wire(protocol) as direct:
        for database in (0, 5):
            direct.ask("SELECT", database)
            wire.ask("SELECT", database)
            direct.send(b"".join(pack("SET", name + b"%d" % database * (database > 0), "v") for name in NAMES))
            direct.frames(len(NAMES))
            engine.do("CONFIG", "RESETSTAT")
            for pattern in PATTERNS:
                wire.send(pack("ECHO", "before") + pack("KEYS", pattern) + pack("ECHO", "behind"))
                _, frame, behind = wire.frames(3)
                assert behind == b"$6\r\nbehind\r\n"
                expected = direct.ask("KEYS", pattern)
                assert names_in(frame) == names_in(expected), pattern
                assert frame[:1] == expected[:1]
                assert len(frame) == len(expected)
            assert engine.calls("keys") == len(PATTERNS), "only those asked directly"


def test_past_the_budget_keys_is_refused(pooled: Keyrail, engine: Engine) -> None:
    engine.do("MSET", *[word for i in range(2001) for word in (f"k:{i}", "v")])
    with pooled.wire() as wire:
        assert wire.ask("KEYS", "*") == (
            b"-DENIED keyrail/walk: KEYS is not answered: more than 2000 keys match; use SCAN with MATCH and COUNT\r\n"
        )
        assert len(names_in(wire.ask("KEYS", "k:1??"))) == 100
        wire.send(pack("MULTI") + pack("KEYS", "*") + pack("EXEC"))
        assert wire.frame() == b"+OK\r\n"
        assert wire.frame().startswith(b"-DENIED keyrail/walk: KEYS is not answered: it is inside MULTI; ")
        assert wire.frame().startswith(b"-EXECABORT")


def test_a_client_that_has_said_all_is_answered_before_it_is_closed(pooled: Keyrail, engine: Engine) -> None:
    engine.do("MSET", *[word for i in range(1000) for word in (f"k:{i}", "v")])
    with pooled.wire() as wire:
        wire.send(pack("KEYS", "*") + pack("ECHO", "last"))
        wire.socket.shutdown(socket.SHUT_WR)
        assert len(names_in(wire.frame())) == 1000
        assert wire.frame() == b"$4\r\nlast\r\n"
        with pytest.raises(Closed):
            wire.frame()


def test_large_collections_are_refused_and_small_ones_are_read(pooled: Keyrail, engine: Engine) -> None:
    members = [f"m{i}" for i in range(101)]
    engine.do("SADD", "set:large", *members)
    engine.do("SADD", "set:small", *members[:60])
    engine.do("RPUSH", "list:large", *members)
    engine.do("ZADD", "zset:large", *[word for i, name in enumerate(members) for word in (str(i), name)])
    engine.do("HSET", "hash:small", "f", "v")
    with pooled.wire() as wire:
        assert wire.ask("HGETALL", "hash:small") == b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
        assert wire.ask("SMEMBERS", "set:small").startswith(b"*60\r\n")
        assert wire.ask("SINTER", "set:small", "set:large").startswith(b"*60\r\n")
        assert wire.ask("LRANGE", "list:large", "0", "49").startswith(b"*50\r\n")
        assert wire.ask("HGETALL", "nothing") == b"*0\r\n"
        assert wire.ask("HGETALL", "set:large").startswith(b"-WRONGTYPE")
        for line in (
            "SMEMBERS set:large",
            "SUNION set:small set:small set:small",
            "LRANGE list:large 0 -1",
            "ZRANGE zset:large 0 -1",
            "ZRANGE zset:large -inf +inf BYSCORE",
        ):
            assert wire.ask(*line.split()).startswith(b"-DENIED keyrail/small: "), line


def test_a_collection_grows_up_to_its_cap(pooled: Keyrail, engine: Engine) -> None:
    with pooled.wire() as wire:
        assert wire.ask("RPUSH", "list", *["x"] * 2999) == b":2999\r\n"
        assert wire.ask("LPUSH", "list", "x", "y").startswith(b"-DENIED keyrail/caps: the list 'list' (arg")
        assert engine.do("LLEN", "list") == 2999
        engine.do("DEL", "list")
        eventually(lambda: wire.ask("LPUSH", "list", "x", "y") == b":2\r\n")
        replies = [wire.ask("XADD", "stream", "*", "f", "v") for _ in range(51)]
        assert all(reply.startswith(b"$") for reply in replies)
        eventually(lambda: wire.ask("XADD", "stream", "*", "f", "v").startswith(b"-DENIED keyrail/caps: the stream '"))
        assert wire.ask("XADD", "stream", "MAXLEN", "40", "*", "f", "v").startswith(b"$")
        eventually(lambda: wire.ask("XADD", "stream", "*", "f", "v").startswith(b"$"))


def test_it_asks_as_the_user_that_the_client_has_logged_in_as(keyrail: Keyrail, engine: Engine, pooling: bool) -> None:
    engine.do("SET", "a:1", "v")
    engine.do("SADD", "b:1", "m")
    engine.do("ACL", "SETUSER", "ada", "reset", "on", ">pw", "~a:*", "+@all", "-scan")
    engine.do("ACL", "SETUSER", "bob", "reset", "on", ">pw", "~*", "+@all", "-scard")
    try:
        with keyrail.wire() as wire:
            assert wire.ask("AUTH", "ada", "pw") == b"+OK\r\n"
            if not pooling:
                # Asked on the connection of the first login, before that is the client's alone.
                assert b"KEYS is not answered: this user may not run SCAN; " in wire.ask("KEYS", "*")
                return
            assert b"KEYS is not answered: this user may not run SCAN; " in wire.ask("KEYS", "*")
            assert wire.ask("KEYS", "a:1") == b"*1\r\n$3\r\na:1\r\n"
            assert b"their number is unknown: Redis does not tell this user" in wire.ask("HGETALL", "b:1")
            assert wire.ask("AUTH", "bob", "pw") == b"+OK\r\n"
            assert wire.ask("KEYS", "a*") == b"*1\r\n$3\r\na:1\r\n"
            assert wire.ask("HGETALL", "nothing") == b"*0\r\n"
            assert b"Redis does not tell this user" in wire.ask("SMEMBERS", "b:1")
    finally:
        engine.do("ACL", "DELUSER", "ada", "bob")


def test_a_redis_that_stands_still_makes_nobody_wait_for_long(fleet: Fleet, policy: Path) -> None:
    engine = fleet.engine("valkey-9.1", "procedures")
    keyrail = fleet.keyrail(engine.name, policy=policy, role="procedures")
    engine.do("SADD", "s", "m")
    with keyrail.wire() as wire, keyrail.wire() as other:
        assert wire.ask("PING") == other.ask("PING") == b"+PONG\r\n"
        engine.freeze()
        try:
            wire.say("SMEMBERS", "s")
            said = wire.frame()
        finally:
            engine.thaw()
        assert said.startswith(b"-DENIED keyrail/small: SMEMBERS reads all members of the key 's' (")
        assert other.ask("GET", "k") == b"$-1\r\n"
        assert wire.ask("SMEMBERS", "s") == b"*1\r\n$1\r\nm\r\n"

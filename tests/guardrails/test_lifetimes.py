"""Lifetimes on real engines: each command gets the engine's own reply, and its keys live as long as the policy says,
for any command that creates them and in any form.

The cases are tables that run over one connection each.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from tests.conftest import Fleet
from tests.engines import Engine
from tests.guardrails.lifetimes import ALL_CASES, EMPTY, POLICY
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, commands, decode, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")

OK = b"+OK\r\n"


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("lifetimes") / "policy.yaml"
    file.write_text(POLICY, encoding="utf-8")
    return file


@pytest.fixture
def engine(fleet: Fleet, engine_name: str) -> Engine:
    return fleet.engine(engine_name)


@pytest.fixture
def keyrail(fleet: Fleet, engine: Engine, pooling: bool, policy: Path) -> Keyrail:
    return fleet.keyrail(engine.name, policy=policy, pooling=pooling)


@pytest.fixture
def protocol(pooling: bool) -> int:
    """Both are asked for, but not everything in both."""
    return 2 if pooling else 3


@pytest.fixture
def wire(keyrail: Keyrail, protocol: int) -> Iterator[Wire]:
    with keyrail.wire(protocol) as wire:
        yield wire


@pytest.fixture
def direct(engine: Engine, protocol: int) -> Iterator[Wire]:
    engine.do("FLUSHALL")
    with engine.wire(protocol) as wire:
        yield wire


def test_every_command_answers_as_before_and_its_keys_expire(wire: Wire, direct: Wire) -> None:
    for case in ALL_CASES:
        case.prepare(direct)
        expected = direct.ask(*case.command)
        case.prepare(direct)
        # A follow-up runs before the client's next command.
        assert wire.ask(*case.command) == expected, case.line
        assert wire.ask("ECHO", "next") == b"$4\r\nnext\r\n"
        case.check(direct)


def test_every_command_inside_a_transaction(wire: Wire, direct: Wire) -> None:
    for case in ALL_CASES:
        case.prepare(direct)
        lines = pack("MULTI") + pack("ECHO", "a") + pack(*case.command) + pack("ECHO", "b") + pack("EXEC")
        direct.send(lines)
        expected = direct.frames(5)
        case.prepare(direct)
        wire.send(lines)
        assert wire.frames(5) == expected, case.line
        assert wire.ask("ECHO", "next") == b"$4\r\nnext\r\n"
        if expected[2] == b"+QUEUED\r\n":
            case.check(direct)


def settled(wire: Wire) -> None:
    """Everything that was to follow has run."""
    assert wire.ask("ECHO", "x") == b"$1\r\nx\r\n"


def ttl(direct: Wire, key: str) -> int:
    return int(direct.ask("TTL", key)[1:])


def test_in_pipelines_cut_anywhere(wire: Wire, direct: Wire) -> None:
    """Each reply in its place, whatever goes along with its neighbours, inline and trickled too."""
    direct.send(EMPTY)
    direct.frame()
    lines = [f"HINCRBY g:k f{i % 7} {i}" if i % 3 else f"ECHO {i}" if i % 2 else "LPUSH g:k x" for i in range(200)]
    direct.send(b"".join(pack(*line.split()) for line in lines))
    expected = direct.frames(200)
    direct.send(EMPTY)
    direct.frame()
    wire.send(b"".join(pack(*line.split()) for line in lines))
    assert wire.frames(200) == expected
    settled(wire)
    assert ttl(direct, "g:k") > 0
    for byte in pack("INCR", "g:l") + b"INCR g:l\r\n" + pack("PFADD", "g:m", "e"):
        wire.send(bytes([byte]))
    assert wire.frames(3) == [b":1\r\n", b":2\r\n", b":1\r\n"]
    settled(wire)
    assert ttl(direct, "g:l") > 0
    assert ttl(direct, "g:m") > 0


def test_what_the_application_does_next_has_the_last_word(wire: Wire, direct: Wire) -> None:
    direct.send(EMPTY)
    direct.frame()
    wire.send(pack("INCR", "g:k") + pack("EXPIRE", "g:k", 9999) + pack("INCR", "g:l") + pack("DEL", "g:l"))
    assert wire.frames(4) == [b":1\r\n"] * 4
    settled(wire)
    assert ttl(direct, "g:k") > 9000
    assert ttl(direct, "g:l") == -2


@pytest.mark.parametrize(
    ("lines", "followed"),
    [
        (["INCR g:k", "SELECT 5", "SELECT 0"], True),
        (["MULTI", "INCR g:k", "SELECT 5", "EXEC", "SELECT 0"], True),
        (["INCR g:k", "MULTI", "SELECT 5", "EXEC", "SELECT 0"], True),
        (["MULTI", "SELECT 5", "SELECT 0", "INCR g:k", "EXEC"], True),
        (["MULTI", "INCR g:k", "SELECT 0", "EXEC"], True),
        (["SET x v", "MULTI", "SELECT 5", "COPY x g:k DB 0", "EXEC", "SELECT 0"], False),
    ],
)
def test_a_key_of_the_same_name_elsewhere_is_left_alone(
    wire: Wire, direct: Wire, lines: list[str], followed: bool
) -> None:
    """A follow-up runs in its command's database, wherever the connection goes next."""
    direct.send(commands(["SELECT 5", "SET g:k 1", "SELECT 0", "DEL g:k x"]))
    direct.frames(4)
    assert wire.ask("CLIENT", "NO-EVICT", "OFF")[:1] in b"+-"  # on a connection of its own, if there is that command
    wire.send(commands(lines))
    wire.frames(len(lines))
    settled(wire)
    assert (ttl(direct, "g:k") > 0) == followed
    direct.ask("SELECT", 5)
    assert ttl(direct, "g:k") == -1


@pytest.mark.parametrize(("last", "reply"), [("QUIT", OK), ("WATCH g:l", OK), ("MULTI", OK), ("BLPOP nobody 0", b"")])
def test_who_leaves_at_once_leaves_no_key_for_ever(keyrail: Keyrail, direct: Wire, last: str, reply: bytes) -> None:
    direct.send(EMPTY)
    direct.frame()
    with keyrail.wire() as wire:
        wire.ask("CLIENT", "NO-EVICT", "OFF")
        wire.send(commands(["INCR g:k", last]))
        assert wire.frame() == b":1\r\n"
        assert not reply or wire.frame() == reply
    eventually(lambda: ttl(direct, "g:k") > 0)


def test_who_crashes_behind_a_command_leaves_no_key_for_ever(keyrail: Keyrail, direct: Wire) -> None:
    """The reply that proves who created the key comes when nobody waits for it any more."""
    direct.send(EMPTY)
    direct.frame()
    with keyrail.wire() as wire:
        wire.ask("CLIENT", "NO-EVICT", "OFF")
        eventually(lambda: keyrail.metric("keyrail_clients") == 1)
        direct.ask("CLIENT", "PAUSE", 60_000, "WRITE")
        try:
            wire.say("LPUSH", "g:k", "a")
            eventually(lambda: b"cmd=lpush" in direct.ask("CLIENT", "LIST"))
            wire.reset()
            eventually(lambda: keyrail.metric("keyrail_clients") == 0)
        finally:
            direct.ask("CLIENT", "UNPAUSE")
    eventually(lambda: ttl(direct, "g:k") > 0)


def test_between_watch_and_exec(wire: Wire, direct: Wire) -> None:
    """A WATCH is neither ended by an EXEC of Keyrail's own nor broken by an EXPIRE. New keys get their TTL at once."""
    direct.send(EMPTY + pack("SET", "s:k", "v", "EX", "60") + pack("SET", "g:old", "1"))
    direct.frames(3)
    assert wire.ask("WATCH", "g:k", "s:k", "g:l") == b"+OK\r\n"
    assert wire.ask("GET", "s:k") == b"$1\r\nv\r\n"
    assert wire.ask("INCR", "g:new") == b":1\r\n"
    assert wire.ask("INCR", "g:old") == b":2\r\n"
    settled(wire)
    assert (ttl(direct, "s:k") <= 60, ttl(direct, "g:new") > 0, ttl(direct, "g:old")) == (True, True, -1)
    wire.send(pack("MULTI") + pack("HSET", "g:k", "f", "v") + pack("EXEC"))
    assert wire.frames(3) == [b"+OK\r\n", b"+QUEUED\r\n", b"*1\r\n:1\r\n"]
    settled(wire)
    assert ttl(direct, "g:k") > 0
    assert ttl(direct, "s:k") > 60  # after EXEC what waited is sent
    wire.ask("WATCH", "g:m")
    assert wire.ask("INCR", "g:l") == b":1\r\n"
    direct.ask("SET", "g:m", "by another")
    wire.send(pack("MULTI") + pack("INCR", "g:l") + pack("EXEC"))
    assert wire.frames(3)[2] in (b"*-1\r\n", b"_\r\n")
    settled(wire)
    assert ttl(direct, "g:l") > 0


def test_a_key_that_a_script_only_reads_is_stamped_behind_exec(wire: Wire, direct: Wire) -> None:
    """With `existing_keys: stamp`: an EXPIRE for a key that was there would make EXEC fail."""
    direct.send(EMPTY + pack("SET", "e:k", "v"))
    direct.frames(2)
    wire.send(commands(["WATCH e:k", "EVAL \"return redis.call('GET', KEYS[1])\" 1 e:k"]))
    assert wire.frames(2) == [OK, b"$1\r\nv\r\n"]
    settled(wire)
    assert ttl(direct, "e:k") == -1
    wire.send(commands(["MULTI", "INCR g:k", "EXEC"]))
    assert wire.frames(3)[2] == b"*1\r\n:1\r\n"
    settled(wire)
    assert ttl(direct, "e:k") > 0


def test_where_no_reply_comes_nothing_follows(keyrail: Keyrail, direct: Wire) -> None:
    direct.send(EMPTY)
    direct.frame()
    with keyrail.wire() as wire:
        wire.send(pack("CLIENT", "REPLY", "SKIP") + pack("INCR", "g:k") + pack("ECHO", "a"))
        assert wire.frame() == b"$1\r\na\r\n"
        wire.send(pack("CLIENT", "REPLY", "OFF") + pack("INCR", "g:k") * 3 + pack("INCR", "r:k"))
        wire.send(pack("CLIENT", "REPLY", "ON"))
        assert wire.frame() == b"+OK\r\n"
        assert wire.ask("INCR", "g:l") == b":1\r\n"
        settled(wire)
    assert (ttl(direct, "g:k"), ttl(direct, "r:k")) == (-1, -2)
    assert ttl(direct, "g:l") > 0


def test_under_tracking_no_read_becomes_a_write(keyrail: Keyrail, direct: Wire) -> None:
    """An EXPIRE would invalidate what the client has only just read. New keys get their TTL all the same."""
    direct.send(EMPTY + pack("SET", "s:k", "v", "EX", 60))
    direct.frames(2)
    with keyrail.wire(3) as wire:
        assert wire.ask("CLIENT", "TRACKING", "ON", "NOLOOP") == b"+OK\r\n"
        assert wire.ask("GET", "s:k") == b"$1\r\nv\r\n"
        assert wire.ask("INCR", "g:k") == b":1\r\n"
        settled(wire)
        assert (ttl(direct, "s:k") <= 60, ttl(direct, "g:k") > 0) == (True, True)
        assert wire.ask("CLIENT", "TRACKING", "OFF") == b"+OK\r\n"
        assert wire.ask("GET", "s:k") == b"$1\r\nv\r\n"
        settled(wire)
    assert ttl(direct, "s:k") > 60


def test_what_follows_takes_no_caching_from_the_next_command(keyrail: Keyrail, direct: Wire) -> None:
    """CLIENT CACHING is about the client's next command: an EXPIRE in front of it would be what is tracked."""
    direct.send(EMPTY + pack("SET", "x", "v"))
    direct.frames(2)
    with keyrail.wire(3) as wire:
        assert wire.ask("CLIENT", "TRACKING", "ON", "OPTIN") == OK
        for number in range(20):
            wire.send(commands([f"INCR g:{number}", "CLIENT CACHING YES", "GET x"]))
            assert wire.frames(3) == [b":1\r\n", OK, b"$1\r\nv\r\n"]
            direct.ask("SET", "x", "v")
            assert wire.frame() == b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nx\r\n"
    eventually(lambda: all(ttl(direct, f"g:{number}") > 0 for number in range(20)))


def test_what_blocks_goes_alone(wire: Wire, direct: Wire) -> None:
    direct.send(EMPTY)
    direct.frame()
    wire.send(pack("BLMOVE", "x", "g:k", "LEFT", "LEFT", 0) + pack("ECHO", "end"))
    assert wire.silent(0.05)
    direct.ask("RPUSH", "x", "a")
    assert wire.frames(2) == [b"$1\r\na\r\n", b"$3\r\nend\r\n"]
    assert ttl(direct, "g:k") == -1


def test_errors_of_redis_stay_its_own(wire: Wire, direct: Wire) -> None:
    """Out of memory, a read-only replica: found at the queue or at EXEC, the client reads what it would read alone."""
    direct.send(EMPTY)
    direct.frame()
    for setting in (("maxmemory", "1", "0"), ("min-replicas-to-write", "3", "0")):
        direct.ask("CONFIG", "SET", *setting[:2])
        try:
            for line in (
                "INCR g:k",
                "HSET g:k f v",
                "LPUSH g:k v",
                "MSET g:k 1 g:l 2",
                "INCR g:k x",
                "SUNIONSTORE g:k a",
            ):
                assert wire.ask(*line.split()) == direct.ask(*line.split()), line
            wire.send(pack("MULTI") + pack("INCR", "g:k") + pack("EXEC"))
            expected = (pack("MULTI"), pack("INCR", "g:k"), pack("EXEC"))
            direct.send(b"".join(expected))
            assert wire.frames(3) == direct.frames(3)
        finally:
            direct.ask("CONFIG", "SET", setting[0], setting[2])
    settled(wire)
    assert ttl(direct, "g:k") == -2


def test_large_values(keyrail: Keyrail, wire: Wire, direct: Wire) -> None:
    """A streamed command has its hidden commands around it, where nothing but the value is still to come."""
    value = b"v" * 1_500_000
    direct.send(EMPTY)
    direct.frame()
    assert wire.ask("LPUSH", "g:k", value) == b":1\r\n"
    assert wire.ask("MSET", "g:l", "1", "x", value) == b"+OK\r\n"
    assert wire.ask("HSET", "g:m", "f", value) == b":1\r\n"
    assert wire.ask("HSET", "u:k", "f", value, "g", "small") == b":2\r\n"
    assert wire.ask("APPEND", "r:k", value) == b":1500000\r\n"
    with keyrail.wire() as other:
        assert other.ask("HSET", "r:l", "f", value, "g", "small").startswith(b"-DENIED keyrail/strict: HSET may create")
    settled(wire)
    assert all(ttl(direct, key) > 0 for key in ("g:k", "g:l", "g:m", "r:k"))
    assert (ttl(direct, "u:k"), ttl(direct, "r:l")) == (-1, -2)
    wire.send(pack("MULTI") + pack("LPUSH", "e:k", value) + pack("LPUSH", "e:k", "small") + pack("EXEC"))
    assert wire.frames(4)[3] == b"*2\r\n:1\r\n:2\r\n"
    settled(wire)
    assert ttl(direct, "e:k") > 0


def test_what_is_restored(wire: Wire, direct: Wire) -> None:
    direct.send(EMPTY + pack("SET", "x", "v") + pack("DUMP", "x") + pack("RPUSH", "y", "v") + pack("DUMP", "y"))
    frames = direct.frames(5)
    string, queue = (frame.split(b"\r\n", 1)[1][:-2] for frame in (frames[2], frames[4]))
    assert wire.ask("RESTORE", "u:k", 0, string) == b"+OK\r\n"
    assert wire.ask("RESTORE", "u:l", 0, queue) == b"+OK\r\n"
    assert wire.ask("RESTORE", "u:k", 0, string, "ABSTTL", "REPLACE") == b"+OK\r\n"
    assert wire.ask("RESTORE", "u:k", 0, string).startswith(b"-BUSYKEY")
    assert wire.ask("RESTORE", "u:m", 0, b"what?").startswith(b"-ERR")
    assert 280 < ttl(direct, "u:k") <= 300
    assert wire.ask("RESTORE-ASKING", "u:k", 0, string, "REPLACE") == b"+OK\r\n"
    assert 280 < ttl(direct, "u:k") <= 300
    assert (ttl(direct, "u:l"), ttl(direct, "u:m")) == (-1, -2)


def test_a_strict_rule(wire: Wire, direct: Wire) -> None:
    direct.send(EMPTY)
    direct.frame()
    for line in (
        "SET r:k v",
        "MSET r:k v",
        "SET r:k v EX 9999",
        "PERSIST r:k",
        "COPY x r:k DB 1",
        "BLMOVE x r:k LEFT LEFT 0",
    ):
        assert wire.ask(*line.split()).startswith(b"-DENIED keyrail/strict: "), line
    assert wire.ask("SET", "r:k", "v", "EX", 60) == b"+OK\r\n"
    assert wire.ask("INCR", "r:l") == b":1\r\n"
    wire.send(pack("MULTI") + pack("SET", "r:k", "w") + pack("INCR", "r:l") + pack("EXEC"))
    assert wire.frames(4)[3].startswith(b"-EXECABORT")
    settled(wire)
    assert ttl(direct, "r:l") > 0


def test_a_user_without_the_hidden_commands(engine: Engine, keyrail: Keyrail, direct: Wire) -> None:
    """The command goes alone and is answered as ever; a rule that wants proof refuses it."""
    direct.send(EMPTY + pack("ACL", "SETUSER", "writer", "reset", "on", ">secret", "~g:*", "~r:*", "+@all", "-exists"))
    assert direct.frames(2)[1] == b"+OK\r\n"
    with keyrail.wire() as wire:
        assert wire.ask("AUTH", "writer", "secret") == b"+OK\r\n"
        assert wire.ask("INCR", "g:k") == b":1\r\n"
        assert wire.ask("LPUSH", "g:l", "v") == b":1\r\n"
        assert wire.ask("INCR", "x").startswith(b"-NOPERM")
        assert wire.ask("INCR", "r:k").startswith(b"-DENIED keyrail/strict: ")
        settled(wire)
    assert ttl(direct, "g:k") == -1


def test_an_application_leaves_no_key_for_ever(keyrail: Keyrail, direct: Wire, protocol: int) -> None:
    """redis-py's pipelines, with and without MULTI, and its optimistic transactions."""

    def work(number: int) -> None:
        with redis.Redis(port=keyrail.address.port, protocol=protocol, decode_responses=True) as client:
            for i in range(40):
                with client.pipeline(transaction=i % 2 == 0) as pipeline:
                    pipeline.incr(f"g:c:{number}:{i}").hset(f"g:h:{number}:{i}", mapping={"a": 1})
                    pipeline.get(f"g:c:{number}:{i}").rpush(f"g:l:{number}:{i}", 1, 2)
                    pipeline.hgetall(f"g:h:{number}:{i}").xadd(f"g:x:{number}:{i}", {"a": 1})
                    assert pipeline.execute()[:-1] == [1, 1, "1", 2, {"a": "1"}]
                client.transaction(lambda watched: add_one(watched, f"g:w:{number}"), f"g:w:{number}")
            assert client.get(f"g:w:{number}") == "40"

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(work, range(3)))
    direct.send(pack("KEYS", "g:[chlwx]:*"))
    keys = decode(direct.frame())
    assert isinstance(keys, list)
    assert len(keys) == 3 * (40 * 4 + 1)
    direct.send(b"".join(pack("TTL", key) for key in keys if isinstance(key, bytes)))
    assert all(0 < int(frame[1:]) <= 300 for frame in direct.frames(len(keys)))


def add_one(pipeline: redis.client.Pipeline, key: str) -> None:
    value = int(pipeline.get(key) or 0)  # it answers at once while it watches
    pipeline.multi()
    pipeline.set(key, value + 1)

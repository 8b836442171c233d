"""CLIENT PAUSE … WRITE: a paused command of one client holds up nobody else's reads, nor what has no keys.

Proves with real engines, and clients of both protocols at several workers: while Redis holds writes back, what it holds
back waits, as directly, and all else is answered at once, whoever writes at the moment in which the pause begins. Each
write runs once, in the order of its client, after the pause; not at all if its client has left meanwhile. A pause that
is set around Keyrail is found out.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import rest_is_long, seeds
from tests.engines import EXPECTED, Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, eventually, pack

NewEngine = Callable[..., Engine]
NewKeyrail = Callable[..., Keyrail]
PAUSE_MS = "600000"
"""Longer than any test waits."""
POLICIES = Path(__file__).parents[2] / "policies"
CACHED = """
keyrail: 1
rules:
  cached: {local_cache: {keys: ["*"], when: always, max_age: 60s}, mode: enforce}
"""
READS = (
    ("GET", "seen"),
    ("MGET", "seen", "n"),
    ("EXISTS", "seen"),
    ("PING",),
    ("ECHO", "x"),
    ("INFO", "replication"),
    ("CONFIG", "GET", "maxmemory"),
    ("DBSIZE",),
    ("KEYS", "see*"),
    ("SCAN", "0"),
)
WRITES = (
    (("INCR", "n"),),
    (("MSET", "a", "1", "b", "2"), ("INCR", "n")),
    (("EVAL", "return redis.call('INCR', KEYS[1])", "1", "n"),),
    (("PUBLISH", "channel", "x"), ("INCR", "n")),
    (("PFCOUNT", "h"), ("INCR", "n")),
    (("MULTI",), ("GET", "seen"), ("INCR", "n"), ("EXEC",)),
    (("BLPOP", "list", "0"), ("INCR", "n")),
    (("GET", "seen"), ("INCR", "n"), ("GET", "seen")),
)
"""What a client sends at once; each increments `n` once."""


@contextmanager
def paused(through: Wire, ends: Wire) -> Iterator[None]:
    assert through.ask("CLIENT", "PAUSE", PAUSE_MS, "WRITE") == b"+OK\r\n"
    yield
    assert ends.ask("CLIENT", "UNPAUSE") == b"+OK\r\n"


def policy_of(name: str, folder: Path) -> str | Path:
    if name != "cached":
        return name if name == "none" else POLICIES / f"{name}.yaml"
    (folder / "cached.yaml").write_text(CACHED)
    return folder / "cached.yaml"


@pytest.mark.parametrize("engine_name", rest_is_long(*EXPECTED))
@pytest.mark.parametrize("policy", rest_is_long("none", "default", "cache", "cached"))
@pytest.mark.parametrize("seed", seeds(1, 6))
def test_who_reads_is_answered_and_each_write_runs_once(
    new_engine: NewEngine, new_keyrail: NewKeyrail, tmp_path: Path, engine_name: str, policy: str, seed: int
) -> None:
    chance = random.Random(seed)
    engine = new_engine(engine_name)
    keyrail = new_keyrail(engine.url, policy=policy_of(policy, tmp_path), workers=2)
    direct, admin = engine.wire(), keyrail.wire()
    count = 0
    for _ in range(3):
        engine.do("SET", "seen", "v")
        writers = [(keyrail.wire(chance.choice((2, 3))), chance.choice(WRITES)) for _ in range(12)]
        readers = [keyrail.wire(chance.choice((2, 3))) for _ in range(6)]
        for wire in (*readers, *(wire for wire, _ in writers)):
            assert wire.ask(*chance.choice(READS[:3]))[:1] != b"-"
        engine.do("RPUSH", "list", *["x"] * len(writers))
        leaves = {wire for wire, _ in writers if chance.random() < 0.3}
        with paused(admin, chance.choice((admin, direct))):
            for wire, commands in writers:
                wire.send(b"".join(pack(*command) for command in commands))
            for reader in readers * 3:
                read = chance.choice([each for each in READS if policy == "none" or each[0] != "KEYS"])
                assert reader.ask(*read)[:1] not in (b"-", b""), read
            assert engine.do("GET", "n") in (None, b"%d" % count)
            for wire in leaves:
                wire.close()
        for wire, commands in writers:
            if wire not in leaves:
                replies = wire.frames(len(commands))
                assert not any(reply.startswith(b"-") for reply in replies), replies
                count += 1
                wire.close()
        for reader in readers:
            reader.close()
        assert engine.do("GET", "n") == b"%d" % count
    assert keyrail.http("/readyz") == (200, "ready\n")
    assert keyrail.metric("keyrail_out_of_step_total") == 0


@pytest.mark.parametrize("workers", [2])
def test_writes_under_way_when_the_pause_begins(new_engine: NewEngine, new_keyrail: NewKeyrail, workers: int) -> None:
    """A script pauses writes and polls INFO, while everybody writes."""
    engine = new_engine()
    keyrail = new_keyrail(engine.url, workers=workers)
    answered, over = [0] * 8, threading.Event()

    def are_more(before: int) -> bool:
        return sum(answered) > before

    def write(number: int) -> None:
        with keyrail.wire() as wire:
            while not over.is_set():
                assert wire.ask("INCR", "n").startswith(b":")
                answered[number] += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(len(answered))]
    for thread in threads:
        thread.start()
    try:
        with keyrail.wire() as script, keyrail.wire() as reader:
            for _ in range(8):
                before = sum(answered)
                with paused(script, script):
                    for _ in range(5):
                        assert b"role:master" in script.ask("INFO", "replication")
                        assert reader.ask("GET", "n").startswith(b"$")
                eventually(partial(are_more, before + len(answered)))
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert engine.do("GET", "n") == b"%d" % sum(answered)


def reads_are_answered(keyrail: Keyrail) -> bool:
    """Whether a new client gets its reply at once."""
    with keyrail.wire() as reader:
        reader.send(pack("GET", "k"))
        return not reader.silent(0.2)


@pytest.mark.skipif(DIRECT, reason="a relay has nothing to find out")
@pytest.mark.parametrize("rights", rest_is_long("+@all -pfcount ~*", "+@all ~k ~n", "+@all ~*"))
@pytest.mark.parametrize("engine_name", rest_is_long(*EXPECTED))
def test_a_pause_around_keyrail_is_found_out(
    new_engine: NewEngine, new_keyrail: NewKeyrail, engine_name: str, rights: str
) -> None:
    engine = new_engine(engine_name, {"user": f"app on >pw &* {rights}"})
    keyrail = new_keyrail(f"redis://app:pw@127.0.0.1:{engine.port}")
    with engine.wire() as direct, keyrail.wire() as writer, keyrail.wire() as late:
        assert writer.ask("SET", "k", "v") == b"+OK\r\n"
        with paused(direct, direct):
            writer.send(pack("INCR", "n"))
            eventually(partial(reads_are_answered, keyrail))
            late.send(pack("INCR", "n"))
            assert reads_are_answered(keyrail)
            assert keyrail.http("/readyz") == (200, "ready\n")
        assert {writer.frame(), late.frame()} == {b":1\r\n", b":2\r\n"}


@pytest.mark.parametrize("engine_name", rest_is_long(*EXPECTED))
def test_reads_that_wait_behind_a_write_paused_around_keyrail_are_answered(
    new_engine: NewEngine, new_keyrail: NewKeyrail, engine_name: str
) -> None:
    engine = new_engine(engine_name)
    keyrail = new_keyrail(engine.url)
    engine.do("SET", "k", "v")
    reads = (pack("GET", "k"), pack("PING"), pack("INFO", "replication"), pack("TIME"), pack("MGET", "k", "n"))
    with engine.wire() as direct, keyrail.wire() as writer, keyrail.wire() as script:
        readers = [keyrail.wire(protocol) for protocol in (2, 3)]
        for count, pauses in enumerate((direct, script, direct), 1):
            for wire in (writer, *readers):
                assert wire.ask("GET", "k") == b"$1\r\nv\r\n"
            pauses.send(pack("MULTI") + pack("CLIENT", "PAUSE", PAUSE_MS, "WRITE") + pack("EXEC"))
            assert pauses.frames(3) == [b"+OK\r\n", b"+QUEUED\r\n", b"*1\r\n+OK\r\n"]
            writer.send(pack("INCR", "n") + pack("GET", "n"))
            assert writer.silent(0.05), "it is at Redis, on the connection that all share"
            for reader in readers:
                reader.send(b"".join(reads))
            for reader in readers:
                frames = reader.frames(len(reads))
                assert frames[:2] == [b"$1\r\nv\r\n", b"+PONG\r\n"]
                assert b"role:master" in frames[2]
            assert engine.do("GET", "n") == (None if count == 1 else b"%d" % (count - 1))
            assert writer.silent(0.05)
            assert direct.ask("CLIENT", "UNPAUSE") == b"+OK\r\n"
            assert writer.frames(2) == [b":%d\r\n" % count, b"$1\r\n%d\r\n" % count]
        for reader in readers:
            assert reader.ask("ECHO", "last") == b"$4\r\nlast\r\n", "nothing else has come"
            reader.close()
    assert engine.do("GET", "n") == b"3"
    assert keyrail.metric("keyrail_out_of_step_total") == 0


@pytest.mark.skipif(DIRECT, reason="a relay has nothing to find out")
@pytest.mark.parametrize("engine_name", ["redis-6.2"])
def test_what_one_engine_alone_holds_back_holds_up_nobody_for_long(
    new_engine: NewEngine, new_keyrail: NewKeyrail, engine_name: str
) -> None:
    engine = new_engine(engine_name)
    keyrail = new_keyrail(engine.url)
    with keyrail.wire() as admin, keyrail.wire() as client:
        assert client.ask("SET", "k", "v") == b"+OK\r\n"
        for _ in range(2):
            with paused(admin, admin):
                client.send(pack("SCRIPT", "EXISTS", "0" * 40))
                assert client.silent(0.1)
                eventually(partial(reads_are_answered, keyrail))
            assert client.frame() == b"*1\r\n:0\r\n"


def test_a_pause_that_ends_by_itself(new_engine: NewEngine, new_keyrail: NewKeyrail) -> None:
    engine = new_engine()
    keyrail = new_keyrail(engine.url, workers=2)
    with keyrail.wire() as writer, keyrail.wire() as script:
        assert script.ask("CLIENT", "PAUSE", "300", "WRITE") == b"+OK\r\n"
        writer.send(pack("INCR", "n"))
        assert writer.silent(0.1)
        assert writer.frame() == b":1\r\n"


@pytest.mark.skipif(DIRECT, reason="a relay asks nothing")
@pytest.mark.parametrize("waits", [False, True], ids=["leaves at once", "hears the refusal"])
def test_who_may_not_pause_writes_holds_up_nobody(new_engine: NewEngine, new_keyrail: NewKeyrail, waits: bool) -> None:
    """Each time that Keyrail holds writes back, it asks PFCOUNT."""
    engine = new_engine(options={"user": "low on >pw ~* &* +@all -client|pause"})
    keyrail = new_keyrail(engine.url)
    with keyrail.wire() as writer:
        for number in range(30):
            with keyrail.wire() as low:
                low.send(pack("AUTH", "low", "pw") + pack("CLIENT", "PAUSE", "60000", "WRITE"))
                if waits:
                    assert [frame[:7] for frame in low.frames(2)] == [b"+OK\r\n", b"-NOPERM"]
            assert writer.ask("SET", "k", str(number)) == b"+OK\r\n"
        with paused(writer, writer):
            assert writer.ask("GET", "k") == b"$2\r\n29\r\n"
        eventually(lambda: keyrail.metric('keyrail_clients{route="default"}') == 1)
    told = engine.do("INFO", "commandstats")
    assert isinstance(told, bytes)
    calls = re.search(rb"cmdstat_pfcount:calls=(\d+)", told)
    assert calls is not None
    assert int(calls[1]) <= 8, "those of the one that may, and of one attempt"

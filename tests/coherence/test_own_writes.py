"""A connection reads its own writes, in whatever way a command changes a key that memory has.

Proves: this holds for commands without a reply, for streamed values, for blocked commands that write, for other
databases, in transactions and scripts that leave the database, and for scripts that name other keys than they write.
Fields of hashes that expire are missing when they have. A read that waits behind another command is answered as of when
its turn comes. WATCH, CLIENT TRACKING and logins take a client's reads to Redis. A client that leaves with a write on
its way takes nobody back in time.

Commands without a reply do not keep memory from answering; SWAPDB does until it has run, whether it is answered or not,
and whether its client is there or not. Who has been told of other keys than it has named never reads them as they were
before.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, eventually, pack

ENGINE = "valkey-9.1"
POLICY = """
keyrail: 1
rules:
  cached:
    local_cache: {keys: ["*"], when: always, max_age: 60s}
    mode: enforce
"""
pytestmark = pytest.mark.skipif(DIRECT, reason="a relay has no cache")


@pytest.fixture
def engine(fleet: Fleet) -> Engine:
    engine = fleet.engine(ENGINE)
    engine.do("FLUSHALL")
    return engine


@pytest.fixture
def keyrail(fleet: Fleet, engine: Engine, tmp_path: Path) -> Keyrail:
    """With one worker, so that all clients use the same memory."""
    file = tmp_path / "cached.yaml"
    file.write_text(POLICY)
    return fleet.keyrail(ENGINE, policy=file)


@pytest.fixture
def wire(keyrail: Keyrail) -> Iterator[Wire]:
    with keyrail.wire() as wire:
        yield wire


def runs(engine: Engine, *words: str | int, by: Wire) -> tuple[bytes, bool]:
    """The reply to a read, and whether Redis has run it for this client or for a fill."""
    before = engine.calls(str(words[0]))
    reply = by.ask(*words)
    return reply, engine.calls(str(words[0])) != before


def warm(engine: Engine, wire: Wire, *words: str | int) -> bytes:
    """The reply to a read that memory has."""
    found: list[bytes] = []

    def from_memory() -> bool:
        reply, ran = runs(engine, *words, by=wire)
        found.append(reply)
        return not ran

    eventually(from_memory)
    return found[-1]


BULK = b"$3\r\nnew\r\n"


@pytest.mark.parametrize(
    "write",
    [
        [("SET", "k", "new")],
        [("CLIENT", "REPLY", "SKIP"), ("SET", "k", "new")],
        [("CLIENT", "REPLY", "OFF"), ("SET", "k", "new"), ("CLIENT", "REPLY", "ON")],
        [("MULTI",), ("SET", "k", "new"), ("EXEC",)],
        [("SELECT", 1), ("MULTI",), ("SELECT", 0), ("SET", "k", "new"), ("EXEC",)],
        [("SELECT", 1), ("SET", "k", "new"), ("SWAPDB", 0, 1), ("SELECT", 0)],
        [("SET", "other", "new"), ("COPY", "other", "k", "REPLACE")],
        [("SELECT", 1), ("SET", "k", "new"), ("COPY", "k", "k", "DB", 0, "REPLACE"), ("SELECT", 0)],
        [("DEL", "k"), ("SELECT", 1), ("SET", "k", "new"), ("MOVE", "k", 0), ("SELECT", 0)],
        [("EVAL", "return redis.call('set', KEYS[1], 'new')", 1, "k")],
        [("EVAL", "return redis.call('set', 'k', 'new')", 0)],
        [("EVAL", "return redis.call('set', 'k', 'new')", 1, "other")],
        [("EVAL", "redis.call('set', 'k', 'new') return redis.error_reply('ERR no')", 1, "other")],
        [
            ("SELECT", 1),
            ("EVAL", "redis.call('select', 0) return redis.call('set', KEYS[1], 'new')", 1, "k"),
            ("SELECT", 0),
        ],
        [("BITOP", "OR", "k", "value")],
        [("FLUSHALL",), ("SET", "k", "new")],
        [("SET", "k", "x" * 300_000), ("SET", "k", "new")],
    ],
    ids=lambda write: " ".join(str(words[0]) for words in write)[:60],
)
@pytest.mark.parametrize("piped", [True, False], ids=["in one pipeline", "one by one"])
def test_behind_each_write(engine: Engine, wire: Wire, piped: bool, write: list[tuple[str | int, ...]]) -> None:
    for round_number in range(10):
        engine.do("SELECT", 0)
        engine.do("SET", "value", "new")
        assert wire.ask("SET", "k", "old") == b"+OK\r\n"
        if round_number == 0:
            assert warm(engine, wire, "GET", "k") == b"$3\r\nold\r\n"
            assert warm(engine, wire, "STRLEN", "k") == b":3\r\n"
        else:
            wire.ask("GET", "k")
            wire.ask("GET", "k")
        behind = [("STRLEN", "k"), ("GET", "k"), ("ECHO", "end")]
        if piped:
            wire.send(b"".join(pack(*words) for words in [*write, *behind]))
        else:
            for words in write:
                wire.say(*words)
                if "REPLY" not in words and not any("REPLY" in each for each in write):
                    wire.frame()
            wire.send(b"".join(pack(*words) for words in behind))
        replies = [wire.frame()]
        while replies[-1] != b"$3\r\nend\r\n":
            replies.append(wire.frame())
        assert replies[-3:-1] == [b":3\r\n", BULK]
        assert wire.ask("GET", "k") == BULK


def test_a_streamed_value(engine: Engine, wire: Wire) -> None:
    """It is longer than what Keyrail reads at once."""
    assert wire.ask("SET", "k", "old") == b"+OK\r\n"
    warm(engine, wire, "GET", "k")
    warm(engine, wire, "STRLEN", "k")
    wire.send(pack("SET", "k", "x" * 4_000_000) + pack("STRLEN", "k"))
    assert wire.frames(2) == [b"+OK\r\n", b":4000000\r\n"]


def test_a_blocked_command_writes_when_somebody_else_does(engine: Engine, keyrail: Keyrail, wire: Wire) -> None:
    for pusher in (wire, engine.wire()):
        engine.do("DEL", "from", "to")
        assert warm(engine, wire, "LRANGE", "to", 0, -1) == b"*0\r\n"
        assert warm(engine, wire, "LLEN", "from") == b":0\r\n"
        with keyrail.wire() as blocked:
            blocked.say("BLMOVE", "from", "to", "LEFT", "RIGHT", 0)
            eventually(lambda: engine.info("clients")["blocked_clients"] == "1")
            pusher.ask("RPUSH", "from", "moved")
            if pusher is not wire:
                assert blocked.frame() == b"$5\r\nmoved\r\n"
                pusher.ask("PING")
            wire.send(pack("LRANGE", "to", 0, -1) + pack("LLEN", "from"))
            assert wire.frames(2) == [b"*1\r\n$5\r\nmoved\r\n", b":0\r\n"]
            if pusher is wire:
                assert blocked.frame() == b"$5\r\nmoved\r\n"
            assert blocked.ask("LRANGE", "to", 0, -1) == b"*1\r\n$5\r\nmoved\r\n"
        if pusher is not wire:
            pusher.close()


def test_a_read_behind_a_blocked_command(engine: Engine, wire: Wire) -> None:
    """Its turn comes when the one in front of it has been answered, and somebody has written meanwhile."""
    engine.do("SET", "k", "old")
    warm(engine, wire, "GET", "k")
    wire.send(pack("GET", "k") + pack("BLPOP", "nothing", "0.5") + pack("GET", "k"))
    assert wire.frame() == b"$3\r\nold\r\n"
    eventually(lambda: engine.info("clients")["blocked_clients"] == "1")
    engine.do("SET", "k", "new")
    assert wire.frames(2) == [b"*-1\r\n", BULK]


def test_the_database_that_was_moved_to(engine: Engine, keyrail: Keyrail, wire: Wire) -> None:
    with keyrail.wire() as other:
        assert other.ask("SELECT", 1) == b"+OK\r\n"
        assert warm(engine, other, "GET", "k") == b"$-1\r\n"
        wire.ask("SET", "k", "new")
        assert wire.ask("MOVE", "k", 1) == b":1\r\n"
        assert other.ask("GET", "k") == BULK
        assert wire.ask("GET", "k") == b"$-1\r\n"


def test_fields_that_expire(engine: Engine, wire: Wire) -> None:
    """A field of a hash goes without an invalidation. Nobody removes it either."""
    engine.do("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    try:
        for setter in (wire, engine.wire()):
            engine.do("DEL", "h")
            engine.do("HSET", "h", "f", 1, "g", 2)
            assert warm(engine, wire, "HGET", "h", "f") == b"$1\r\n1\r\n"
            assert warm(engine, wire, "HMGET", "h", "g", "f") == b"*2\r\n$1\r\n2\r\n$1\r\n1\r\n"
            assert setter.ask("HPEXPIRE", "h", 150, "FIELDS", 1, "f") == b"*1\r\n:1\r\n"
            set_at = time.monotonic()
            engine.do("PING")
            while time.monotonic() < set_at + 0.16:
                wire.send(pack("HGET", "h", "f") + pack("HMGET", "h", "g", "f") + pack("HEXISTS", "h", "f"))
                wire.frames(3)
            wire.send(b"".join(pack(*words) for words in (("HGET", "h", "f"), ("HMGET", "h", "g", "f"), ("HLEN", "h"))))
            assert wire.frames(2) == [b"$-1\r\n", b"*2\r\n$1\r\n2\r\n$-1\r\n"]
            wire.frame()
            if setter is not wire:
                setter.close()
    finally:
        engine.do("DEBUG", "SET-ACTIVE-EXPIRE", 1)


def answers(wire: Wire, read: Sequence[str], reply: bytes) -> bool:
    return wire.ask(*read) == reply


def test_a_hash_whose_last_field_expires(engine: Engine, wire: Wire) -> None:
    """Redis tells that it is gone when it removes it, and answers that it is there before."""
    engine.do("HSET", "h", "f", 1)
    for read, gone in ((("EXISTS", "h"), b":0\r\n"), (("TYPE", "h"), b"+none\r\n")):
        engine.do("HSET", "h", "f", 1)
        assert warm(engine, wire, *read) != gone
        engine.do("HPEXPIRE", "h", 100, "FIELDS", 1, "f")
        warm(engine, wire, *read)
        eventually(lambda: engine.do("EXISTS", "h") == 0)
        eventually(partial(answers, wire, read, gone))


def test_a_key_that_expires(engine: Engine, wire: Wire) -> None:
    """Although nobody removes it."""
    engine.do("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    try:
        for _ in range(5):
            assert wire.ask("SET", "k", "old", "PX", 60) == b"+OK\r\n"
            set_at = time.monotonic()
            while time.monotonic() < set_at + 0.062:
                wire.ask("GET", "k")
            assert wire.ask("GET", "k") == b"$-1\r\n"
    finally:
        engine.do("DEBUG", "SET-ACTIVE-EXPIRE", 1)


@pytest.mark.parametrize(
    "before",
    [("WATCH", "k"), ("CLIENT", "TRACKING", "ON"), ("AUTH", "somebody", "secret")],
    ids=lambda words: words[0],
)
def test_who_is_never_answered_from_memory(
    engine: Engine, keyrail: Keyrail, wire: Wire, before: tuple[str, ...]
) -> None:
    engine.do("ACL", "SETUSER", "somebody", "on", ">secret", "~*", "&*", "+@all")
    try:
        engine.do("SET", "k", "old")
        warm(engine, wire, "GET", "k")
        with keyrail.wire(protocol=3) as other:
            assert other.ask(*before) == b"+OK\r\n"
            assert runs(engine, "GET", "k", by=other) == (b"$3\r\nold\r\n", True)
            assert other.ask("SET", "k", "new") == b"+OK\r\n"
            assert wire.ask("GET", "k") == BULK
    finally:
        engine.do("ACL", "DELUSER", "somebody")


@pytest.mark.parametrize("abruptly", [True, False], ids=["with a reset", "in order"])
def test_a_client_leaves_with_a_write_on_its_way(engine: Engine, keyrail: Keyrail, wire: Wire, abruptly: bool) -> None:
    """Whether it runs or not, the others see the key change at most once."""
    for number in range(20):
        engine.do("SET", "k", "old")
        warm(engine, wire, "GET", "k")
        with keyrail.wire() as leaver:
            leaver.send(pack("SET", "k", f"new{number}") * (1 + number % 3))
            if abruptly:
                leaver.reset()
            else:
                leaver.close()
        seen = [wire.ask("GET", "k") for _ in range(30)]
        changes = sum(before != after for before, after in pairwise(seen))
        assert changes <= 1, seen


@pytest.mark.parametrize(
    "write",
    [
        ("SET", "k", "new"),
        ("EVAL", "return redis.call('set', 'k', 'new')", 0),
        ("FLUSHDB",),
    ],
    ids=lambda write: str(write[0]),
)
def test_a_command_that_is_never_answered_keeps_memory_from_nobody(
    engine: Engine, keyrail: Keyrail, wire: Wire, write: tuple[str | int, ...]
) -> None:
    engine.do("SET", "k", "old")
    warm(engine, wire, "GET", "k")
    with keyrail.wire() as silent:
        assert silent.ask("CLIENT", "REPLY", "ON") == b"+OK\r\n"
        silent.send(pack("CLIENT", "REPLY", "OFF") + pack(*write))
        eventually(lambda: engine.do("GET", "k") != b"old")
        assert warm(engine, wire, "GET", "k") == (b"$-1\r\n" if write == ("FLUSHDB",) else BULK)


def test_a_client_that_begins_anew_reads_what_it_has_written_in_silence(
    engine: Engine, keyrail: Keyrail, wire: Wire
) -> None:
    for _ in range(30):
        engine.do("SET", "k", "old")
        warm(engine, wire, "GET", "k")
        with keyrail.wire() as silent:
            silent.send(pack("CLIENT", "REPLY", "OFF") + pack("SET", "k", "new") + pack("RESET") + pack("GET", "k"))
            assert silent.frames(2) == [b"+RESET\r\n", BULK]


def waits_in(engine: Engine) -> bool:
    """Whether a command waits for the end of the pause."""
    clients = engine.do("CLIENT", "LIST")
    assert isinstance(clients, bytes)
    return re.search(rb" flags=\w*b", clients) is not None


def test_what_was_written_in_silence_runs_before_what_stands_behind_a_silent_reset(
    engine: Engine, keyrail: Keyrail, wire: Wire
) -> None:
    engine.do("SET", "k", "old")
    warm(engine, wire, "GET", "k")
    skip = pack("CLIENT", "REPLY", "SKIP")
    with keyrail.wire() as silent:
        engine.do("CLIENT", "PAUSE", 60_000, "WRITE")
        try:
            silent.send(skip + pack("SET", "k", "new") + skip + pack("RESET") + pack("GET", "k"))
            with pytest.raises(TimeoutError):
                silent.frame(timeout=0.3)
        finally:
            engine.do("CLIENT", "UNPAUSE")
        assert silent.frame() == BULK


def looks_whether_memory_may_answer(engine: Engine) -> None:
    """Wait until Keyrail has asked once more on its connection for invalidations, and on those for health checks."""
    pings = engine.calls("ping")
    eventually(lambda: engine.calls("ping") >= pings + 3)


SWAPS: dict[str, tuple[bytes, bool]] = {
    "answered": (pack("SWAPDB", 0, 1), False),
    "skipped": (pack("CLIENT", "REPLY", "SKIP") + pack("SWAPDB", 0, 1), False),
    "silenced": (pack("CLIENT", "REPLY", "OFF") + pack("SWAPDB", 0, 1), False),
    "silenced, in a transaction": (
        pack("CLIENT", "REPLY", "OFF") + pack("MULTI") + pack("SWAPDB", 0, 1) + pack("EXEC"),
        False,
    ),
    "in a transaction": (pack("MULTI") + pack("SWAPDB", 0, 1) + pack("EXEC"), False),
    "of a client that leaves": (pack("SWAPDB", 0, 1), True),
    "of a client with its own connection that leaves": (pack("CLIENT", "ID") + pack("SWAPDB", 0, 1), True),
}


@pytest.mark.parametrize("name", SWAPS)
def test_nothing_is_answered_before_a_swap_has_run(engine: Engine, keyrail: Keyrail, wire: Wire, name: str) -> None:
    """Redis does not tell what it changes. While writes are paused, it waits, and everything else goes on."""
    sent, leaves = SWAPS[name]
    with engine.wire() as direct:
        direct.ask("SELECT", 1)
        direct.ask("SET", "k", "new")
    engine.do("SET", "k", "old")
    warm(engine, wire, "GET", "k")
    with keyrail.wire() as swapper:
        swapper.ask("PING")
        engine.do("CLIENT", "PAUSE", 60_000, "WRITE")
        try:
            swapper.send(sent)
            eventually(lambda: waits_in(engine))
            if leaves:
                swapper.reset()
            before = engine.calls("get")
            for _ in range(2):
                looks_whether_memory_may_answer(engine)
                with keyrail.wire() as passing:  # while it is there, its read holds the key
                    passing.send(pack("GET", "k"))
                    looks_whether_memory_may_answer(engine)
                    passing.reset()
            for _ in range(20):
                wire.say("GET", "k")  # Redis may answer it behind the swap
        finally:
            engine.do("CLIENT", "UNPAUSE")
        # Redis forgets what waits when its connection ends.
        there = b"$3\r\nold\r\n" if leaves and b"ID" in sent else BULK
        eventually(lambda: engine.wire().ask("GET", "k") == there and not waits_in(engine))
        assert set(wire.frames(20)) <= {b"$3\r\nold\r\n", there}
        assert wire.ask("GET", "k") == there
        if there == BULK:
            assert engine.calls("get") >= before + 22, "memory has answered"
        assert warm(engine, wire, "GET", "k") == there


@pytest.mark.parametrize(
    "swap",
    [
        ("EVAL", "return redis.call('swapdb', 0, 1)", 0),
        ("EVAL", "return redis.call(ARGV[1], 0, 1)", 0, "swapdb"),
    ],
    ids=["whose text says so", "told by an argument"],
)
def test_a_client_whose_script_swaps_databases_reads_what_is_there_now(
    engine: Engine, wire: Wire, swap: tuple[str | int, ...]
) -> None:
    engine.do("SET", "k", "old")
    with engine.wire() as direct:
        direct.ask("SELECT", 1)
        direct.ask("SET", "k", "new")
    for again in range(2):
        warm(engine, wire, "GET", "k")
        assert wire.ask(*swap) == b"+OK\r\n"
        warm(engine, wire, "GET", "k2")  # memory answers again
        assert wire.ask("GET", "k") == (b"$3\r\nold\r\n" if again else BULK)


def test_what_was_swapped_is_seen_by_clients_of_all_workers(
    new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail], tmp_path: Path
) -> None:
    engine = new_engine("valkey-9.1")
    (tmp_path / "cached.yaml").write_text(POLICY)
    keyrail = new_keyrail(engine.url, policy=tmp_path / "cached.yaml", workers=2)
    with engine.wire() as direct:
        direct.ask("SET", "k", "old")
        direct.ask("SELECT", 1)
        direct.ask("SET", "k", "new")
    with contextlib.ExitStack() as wires:
        clients = [wires.enter_context(keyrail.wire()) for _ in range(8)]
        for client in clients:
            warm(engine, client, "GET", "k")
        assert clients[0].ask("SWAPDB", 0, 1) == b"+OK\r\n"
        assert clients[0].ask("GET", "k") == BULK
        eventually(lambda: all(client.ask("GET", "k") == BULK for client in clients))


def test_rights_that_are_taken_away_reach_all_workers_before_the_administrator_is_answered(
    new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail], tmp_path: Path
) -> None:
    engine = new_engine(ENGINE)
    engine.do("SET", "k", "old")
    file = tmp_path / "cached.yaml"
    file.write_text(POLICY)
    keyrail = new_keyrail(engine.url, policy=file, workers=2)
    with contextlib.ExitStack() as wires:
        administrator = wires.enter_context(keyrail.wire())
        clients = [wires.enter_context(keyrail.wire()) for _ in range(8)]
        for _ in range(3):
            for client in clients:
                warm(engine, client, "GET", "k")
            try:
                assert administrator.ask("ACL", "SETUSER", "default", "-get") == b"+OK\r\n"
                assert {client.ask("GET", "k")[:7] for client in clients} == {b"-NOPERM"}
            finally:
                # Around Keyrail, it could remember for a minute that Redis has refused a read.
                assert administrator.ask("ACL", "SETUSER", "default", "+get") == b"+OK\r\n"

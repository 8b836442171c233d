"""Caps of schema entries for clients: single writes, pipelines, transactions, scripts, streamed arguments and audit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Wire, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")

POLICY = """
keyrail: 1
defaults: {mode: enforce}
schema:
  cart: {key: "cart:{id}", size: {members: 5, unknown: refuse}}
  jobs: {key: "jobs:{name}", size: {members: 5, lists: trim}}
rules:
  entries: {schema: size, mode: MODE}
  caps: {collections: {members: 100}}
  by-scripts: {scripts: {commands: follow_rules}}
"""
LARGE = b"x" * 1_200_000
"""It is forwarded while it arrives."""


@pytest.fixture(scope="module")
def engine(fleet: Fleet) -> Engine:
    return fleet.engine("valkey-9.1", "schema-caps")


def keyrail_with(fleet: Fleet, folder: Path, mode: str) -> Keyrail:
    file = folder / "policy.yaml"
    file.write_text(POLICY.replace("MODE", mode), encoding="utf-8")
    return fleet.keyrail("valkey-9.1", policy=file, role="schema-caps")


@pytest.fixture(scope="module")
def keyrail(fleet: Fleet, engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Keyrail:
    del engine  # it has to be there
    return keyrail_with(fleet, tmp_path_factory.mktemp("enforced"), "enforce")


def refused(reply: bytes) -> bool:
    return reply.startswith(b"-DENIED keyrail/entries: ")


def test_single_writes_count_together(keyrail: Keyrail, engine: Engine, protocol: int) -> None:
    engine.do("FLUSHALL")
    with keyrail.wire(protocol) as wire:
        key = f"cart:resp{protocol}"
        replies = [wire.ask("HSET", key, f"f{i}", "v") for i in range(8)]
        assert [refused(reply) for reply in replies] == [False] * 6 + [True] * 2
        assert wire.ask("HDEL", key, "f0", "f1", "f2") == b":3\r\n"
        assert [refused(wire.ask("HSET", "other:single", f"f{i}", "v")) for i in range(8)] == [False] * 8


def test_pipelines_stop_at_the_cap(keyrail: Keyrail, engine: Engine) -> None:
    engine.do("FLUSHALL")
    with keyrail.wire() as wire:
        wire.send(b"".join(pack("ZADD", "cart:pipeline", "1", f"m{i}") for i in range(50)))
        replies = wire.frames(50)
        passed = sum(reply == b":1\r\n" for reply in replies)
        # The first look-up has a connection of its own, and may overtake the writes before it.
        assert 6 <= passed <= 12
        assert all(refused(reply) for reply in replies[passed:])
        assert wire.ask("ZCARD", "cart:pipeline") == b":%d\r\n" % passed


def test_destinations(keyrail: Keyrail, engine: Engine) -> None:
    engine.do("FLUSHALL")
    engine.do("SADD", "big", *map(str, range(9)))
    engine.do("SADD", "small", "a", "b")
    with keyrail.wire() as wire:
        for words in (
            ("SUNIONSTORE", "cart:1", "big", "small"),
            ("COPY", "big", "cart:1"),
            ("RENAME", "big", "cart:1"),
        ):
            assert refused(wire.ask(*words)), words
        assert wire.ask("SUNIONSTORE", "sum", "big", "small") == b":11\r\n"
        assert wire.ask("COPY", "small", "cart:1") == b":1\r\n"
        for i in range(4):
            assert wire.ask("SMOVE", "big", "cart:1", str(i)) == b":1\r\n"
        assert refused(wire.ask("SMOVE", "big", "cart:1", "5"))
        dumped = wire.value("DUMP", "sum")
        assert isinstance(dumped, bytes)
        assert refused(wire.ask("RESTORE", "cart:2", "0", dumped))


def test_inside_a_transaction_the_entry_decides(keyrail: Keyrail, engine: Engine) -> None:
    engine.do("FLUSHALL")
    engine.do("SADD", "big", *map(str, range(9)))
    with keyrail.wire() as wire:
        for destination, reply in (("cart:1", b"-EXECABORT"), ("jobs:1", b"*1\r\n+OK")):
            wire.ask("MULTI")
            wire.ask("RENAME", "big", destination)
            assert wire.ask("EXEC").startswith(reply), destination
        wire.ask("MULTI")
        for i in range(8):
            wire.ask("HSET", "cart:in-multi", f"f{i}", "v")
        assert wire.ask("EXEC").startswith(b"*8\r\n"), "nobody can look up their size"
        assert refused(wire.ask("HSET", "cart:in-multi", "one", "more"))
        wire.ask("MULTI")
        assert refused(wire.ask("SADD", "cart:2", *"abcdef")), "more than the cap at once"
        assert wire.ask("EXEC").startswith(b"-EXECABORT")


def test_what_scripts_write_is_counted(keyrail: Keyrail, engine: Engine) -> None:
    engine.do("FLUSHALL")
    script = "return redis.call('SADD', KEYS[1], ARGV[1], ARGV[2], ARGV[3])"
    with keyrail.wire() as wire:
        for i in range(2):
            assert wire.ask("EVAL", script, "1", "cart:script", *(f"{i}:{j}" for j in range(3))) == b":3\r\n"
        assert refused(wire.ask("SADD", "cart:script", "x"))
        assert b"entries" in wire.ask("EVAL", script, "1", "cart:script", "x", "y", "z")
        push = "return redis.call('RPUSH', KEYS[1], ARGV[1])"
        for i in range(5):
            assert wire.ask("RPUSH", "jobs:script", "x") == b":%d\r\n" % (i + 1)
            assert wire.ask("LLEN", "jobs:script") == b":%d\r\n" % (i + 1)
        wire.ask("RPUSH", "jobs:script", "x")
        assert b"entries" in wire.ask("EVAL", push, "1", "jobs:script", "x"), "no LTRIM follows inside a script"


def test_pushes_trim_their_list(keyrail: Keyrail, engine: Engine) -> None:
    engine.do("FLUSHALL")
    with keyrail.wire() as wire:
        for i in range(12):
            assert not wire.ask("RPUSH", "jobs:a", f"{i}", "and").startswith(b"-")
        eventually(lambda: engine.do("LLEN", "jobs:a") == 5)
        assert wire.ask("LRANGE", "jobs:a", "-2", "-1") == b"*2\r\n$2\r\n11\r\n$3\r\nand\r\n"


def test_streamed_arguments_count(keyrail: Keyrail, engine: Engine) -> None:
    engine.do("FLUSHALL")
    with keyrail.wire() as wire:
        for i in range(7):
            # The seventh makes Keyrail look, which it cannot wait for.
            assert wire.ask("HSET", "cart:large", f"f{i}", LARGE) == b":1\r\n"
        eventually(lambda: refused(wire.ask("HSET", "cart:large", "f0", LARGE)))
        assert wire.ask("PING") == b"+PONG\r\n"
        assert wire.ask("HLEN", "cart:large") == b":7\r\n"


def test_audit_counts_what_enforce_would_refuse(fleet: Fleet, engine: Engine, tmp_path: Path) -> None:
    engine.do("FLUSHALL")
    audited = keyrail_with(fleet, tmp_path, "audit")

    def counted() -> float:
        return audited.metric("keyrail_verdicts_total", rule="entries", what="refused")

    with audited.wire() as wire:
        for i in range(8):
            assert _written(wire, i)
        eventually(lambda: counted() >= 1)
        before = counted()
        assert wire.ask("HSET", "cart:audited", *(word for i in range(9) for word in (f"g{i}", "v"))) == b":9\r\n"
        eventually(lambda: counted() == before + 1)


def _written(wire: Wire, number: int) -> bool:
    return wire.ask("HSET", "cart:audited", f"f{number}", "v") == b":1\r\n"

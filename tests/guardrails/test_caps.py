"""Caps for clients: a command that would exceed one is refused before it reaches Redis, streamed or not."""

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
rules:
  caps: {collections: {members: 5, streams: 5}}
  strict-caps: {collections: {members: 5, unknown: refuse}, mode: %s}
  heavy: {limits: {bytes: 3MB/m, keys: "heavy:*"}}
  small: {sizes: {value: 2MB}}
  by-scripts: {scripts: {commands: follow_rules}}
"""
LARGE = 1_200_000


@pytest.fixture(scope="module")
def engine(fleet: Fleet) -> Engine:
    return fleet.engine("valkey-9.1", "caps")


def keyrail_with(fleet: Fleet, folder: Path, mode: str) -> Keyrail:
    file = folder / "policy.yaml"
    file.write_text(POLICY % mode, encoding="utf-8")
    return fleet.keyrail("valkey-9.1", policy=file, role="caps")


@pytest.fixture(scope="module")
def keyrail(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Keyrail:
    return keyrail_with(fleet, tmp_path_factory.mktemp("caps"), "off")


@pytest.fixture(scope="module")
def strict(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Keyrail:
    return keyrail_with(fleet, tmp_path_factory.mktemp("caps"), "enforce")


@pytest.fixture(autouse=True)
def sets(engine: Engine) -> None:
    engine.do("FLUSHALL")
    engine.do("SADD", "a", "1", "2", "3", "4")
    engine.do("SADD", "b", "5", "6")
    engine.do("SADD", "big", *map(str, range(9)))


def refused(wire: Wire, *words: str | bytes) -> bool:
    return wire.ask(*words).startswith(b"-DENIED keyrail/caps: ")


def test_what_is_written_whole(keyrail: Keyrail) -> None:
    with keyrail.wire() as wire:
        assert refused(wire, "SUNIONSTORE", "d", "a", "b")
        assert refused(wire, "COPY", "big", "d")
        assert refused(wire, "RENAME", "big", "d")
        assert wire.ask("EXISTS", "d") == b":0\r\n"
        assert wire.ask("SUNIONSTORE", "d", "a", "a") == b":4\r\n"
        assert wire.ask("RENAME", "d", "e") == b"+OK\r\n"
        wire.send(pack("SINTERSTORE", "d", "a", "big") + pack("RENAME", "big", "d") + pack("SCARD", "d"))
        replies = wire.frames(3)
        assert (replies[0], replies[1][:20], replies[2]) == (b":4\r\n", b"-DENIED keyrail/caps", b":4\r\n")


def test_writes_in_one_pipeline_stop_at_the_cap(keyrail: Keyrail) -> None:
    with keyrail.wire() as wire:
        wire.send(b"".join(pack("SADD", "d", *(f"{i}:{j}" for j in range(3))) for i in range(100)))
        replies = wire.frames(100)
        # The look-up that the third one waits for has a connection of its own, and may overtake the two before it.
        passed = 4 if replies[2] == b":3\r\n" else 2
        assert replies[:passed] == [b":3\r\n"] * passed
        assert {reply[:22] for reply in replies[passed:]} == {b"-DENIED keyrail/caps: "}
        assert wire.ask("SCARD", "d") == b":%d\r\n" % (3 * passed)


def test_what_scripts_write_is_counted(keyrail: Keyrail) -> None:
    script = "return redis.call('SADD', KEYS[1], ARGV[1], ARGV[2], ARGV[3])"
    with keyrail.wire() as wire:
        for i in range(2):
            assert wire.ask("EVAL", script, "1", "by-script", *(f"{i}:{j}" for j in range(3))) == b":3\r\n"
        assert refused(wire, "SADD", "by-script", "x")
        assert b"caps" in wire.ask("EVAL", script, "1", "by-script", "x", "y", "z")


def test_inside_a_transaction_the_policy_decides(keyrail: Keyrail, strict: Keyrail) -> None:
    for keyrail_of, length in ((keyrail, b"*1\r\n+OK\r\n"), (strict, b"-EXECABORT")):
        with keyrail_of.wire() as wire:
            wire.ask("MULTI")
            wire.ask("RENAME", "big", "d")
            assert wire.ask("EXEC").startswith(length)
            wire.ask("RENAME", "d", "big")


def test_bytes_of_streamed_arguments_do_not_pass_the_limit(keyrail: Keyrail, engine: Engine) -> None:
    before = int(engine.info("stats")["total_net_input_bytes"])
    with keyrail.wire() as wire:
        assert wire.ask("SET", "heavy:0", b"x" * 2_000_000) == b"+OK\r\n"
        for i in range(4):
            reply = wire.ask("RPUSH", f"heavy:{i + 1}", *(b"x" * LARGE for _ in range(10)))
            assert reply.startswith(b"-DENIED keyrail/heavy: more than 3145728 bytes/m")
        assert wire.ask("PING") == b"+PONG\r\n"
    eventually(lambda: engine.do("EXISTS", "heavy:1") == 0)
    assert int(engine.info("stats")["total_net_input_bytes"]) - before < 4 * 10 * LARGE / 2, "unlike all of it"


def test_a_payload_that_unpacks_large(keyrail: Keyrail, engine: Engine) -> None:
    engine.do("SET", "large", b"x" * 4_000_000)
    with engine.wire() as direct, keyrail.wire() as wire:
        frame = direct.ask("DUMP", "large")
        payload = frame[frame.index(b"\r\n") + 2 : -2]
        assert len(payload) < 100_000
        assert b"unpacks to up to 4000000 bytes" in wire.ask("RESTORE", "d", "0", payload)
        frame = direct.ask("DUMP", "big")
        assert refused(wire, "RESTORE", "d", "0", frame[frame.index(b"\r\n") + 2 : -2])

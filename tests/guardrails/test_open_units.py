"""Keyrail sends nothing of its own between the commands of a client's transaction, behind its WATCH, or into a partial
command; a connection on which one of these may still be open never serves another client.

Rules that look sizes up for every write, and rules that refuse a large command after most of it has been sent, run on
real engines: with clients that have logged in, one and several for each user.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.conftest import Fleet
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail, packaged_policy
from tests.resp import Closed, commands, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")

ROLE = "open units"
LOOKS_UP = """
keyrail: 1
defaults: {mode: enforce}
rules:
  sizes: {collections: {members: 5000, streams: 5000, sample: 99%}}
  lifetimes: {lifetime: {default: 5m, types: all}}
"""
USERS = ("ann", "bob")
LARGE = "--" + "x" * 1_200_000


@pytest.fixture
def engine(fleet: Fleet, engine_name: str) -> Iterator[Engine]:
    engine = fleet.engine(engine_name, ROLE)
    for user in USERS:
        engine.do("ACL", "SETUSER", user, "on", ">" + user, "~*", "&*", "+@all")
    engine.do("FLUSHALL")
    yield engine
    for user in USERS:
        engine.do("ACL", "DELUSER", user)


@pytest.fixture
def keyrail(fleet: Fleet, engine: Engine, tmp_path: Path) -> Keyrail:
    policy = tmp_path / "policy.yaml"
    policy.write_text(LOOKS_UP, encoding="utf-8")
    return fleet.keyrail(engine.name, policy=policy, role=ROLE)


@pytest.mark.parametrize("clients", [1, 3])
def test_exec_has_its_clients_members_and_no_others(engine: Engine, keyrail: Keyrail, clients: int) -> None:
    """The size of the hash is looked up while its HSET stands in an open transaction on the user's only connection."""
    with ExitStack() as stack:
        wires = []
        for user in USERS:
            wires += [stack.enter_context(keyrail.wire()) for _ in range(clients)]
            assert [wire.ask("AUTH", user, user) for wire in wires[-clients:]] == [b"+OK\r\n"] * clients
        for turn in range(40):
            for number, wire in enumerate(wires):
                name = f"{turn}:{number}"
                block = ["MULTI", f"HSET h:{name} f v", f"SADD s:{name} m", f"SET k:{name} v", "EXEC", "ECHO next"]
                wire.send(commands(block))
            for wire in wires:
                assert wire.frames(6)[-2:] == [b"*3\r\n:1\r\n:1\r\n+OK\r\n", b"$4\r\nnext\r\n"]
    # In the first turn it is not known yet what these users may run, and the rule is counted as skipped.
    names = [f"{turn}:{number}" for turn in range(1, 40) for number in range(len(wires))]
    keys = [f"{kind}:{name}" for name in names for kind in ("h", "s")]
    eventually(lambda: all(engine.do("TTL", key) in range(1, 301) for key in keys))


@pytest.mark.parametrize("before", [[], ["CLIENT ID"], ["WATCH user:1"]], ids=["pooled", "pinned", "watching"])
@pytest.mark.parametrize("write", ["HSET user:1 name ada", "HGET session:1 name", "ECHO x"])
def test_a_refused_streamed_command_never_runs(fleet: Fleet, engine: Engine, before: list[str], write: str) -> None:
    """The bytes that would follow on its connection would complete it: no engine but the newest looks at a line end."""
    keyrail = fleet.keyrail(engine.name, policy=packaged_policy("strict.yaml"), role=ROLE)
    engine.do("SET", "user:kept", "x")
    engine.do("HSET", "session:1", "name", "ada")
    script = f"{LARGE}\nreturn redis.call('FLUSHALL')"
    for _ in range(3):
        with keyrail.wire() as wire:
            wire.send(commands([*before, write]) + pack("EVAL", script, 0))
            # With state or replies of the client's on it, its upstream is not closed alone.
            frames = []
            with suppress(Closed):
                frames = wire.frames(len(before) + 2)
            assert all(frame.startswith(b"-DENIED") for frame in frames[len(before) + 1 :])
        eventually(lambda: "eval" not in str(engine.do("CLIENT", "LIST")))
        assert engine.do("EXISTS", "user:kept") == 1


def test_no_watched_connection_is_given_to_another_client(engine: Engine, keyrail: Keyrail) -> None:
    """If a user may not run MULTI, EXEC ends no WATCH: the next client of that connection would see its EXEC fail."""
    for block in (["WATCH w", "MULTI", "ECHO x", "EXEC"], ["MULTI", "WATCH w", "EXEC"]):
        engine.do("ACL", "SETUSER", "ann", "-multi")
        with keyrail.wire() as wire, keyrail.wire() as other:
            assert wire.ask("AUTH", "ann", "ann") == b"+OK\r\n"
            wire.send(commands([*block, "ECHO x"]))
            assert wire.frames(len(block) + 1)[-1] == b"$1\r\nx\r\n"
            engine.do("ACL", "SETUSER", "ann", "+multi")
            engine.do("INCR", "w")
            assert other.ask("AUTH", "ann", "ann") == b"+OK\r\n"
            for _ in range(3):
                other.send(commands(["MULTI", "SET k v", "EXEC"]))
                assert other.frames(3)[-1] == b"*1\r\n+OK\r\n"

"""Whatever clients do to their connections, every key with a lifetime in the policy has a TTL in the end.

Several clients at once play random programs of writes and of commands that change the connection's state, logged in and
not, one and several for each user, while Keyrail looks sizes up for every write. Each program is also played to an
engine directly: unless a command is refused, its client receives the same bytes. Some clients leave in the middle.

If the policy wants proof (`without_proof: refuse`), no key may be left without a TTL. Otherwise no more keys than
Keyrail has counted as skipped.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Fleet
from tests.engines import Engine
from tests.guardrails.lifetimes import immortal
from tests.keyrail_process import DIRECT, Keyrail, packaged_policy
from tests.resp import PATIENCE_SECONDS, Address, Wire, eventually, pack, words

pytestmark = pytest.mark.skipif(DIRECT, reason="guardrails are Keyrail's own")

ROLE, EQUIVALENT = "follow-ups", "follow-ups played directly"
POLICY = """
keyrail: 1
defaults: {mode: enforce}
rules:
  given: {lifetime: {default: 5m, types: all, keys: "g:*"%s}}
  sliding: {lifetime: {default: 5m, types: all, sliding: true, keys: "s:*"%s}}
  sizes: {mode: audit, collections: {members: 5000, streams: 5000, sample: 99%%}}
"""
TTL_OPTIONS = {"refuse": ", without_proof: refuse", "pass": ""}
USERS = (None, None, "ann", "bob", "bob", "bob")
"""Whom each client logs in as."""

PROGRAMS = 25
"""Rounds, each of one program for each client."""

SCRIPT = "\"redis.call('SET', KEYS[1], 'v') return redis.call('NO.SUCH')\""
WRITES = (
    "HSET g:{n} f v",
    "LPUSH g:{n} a",
    "INCR g:{n}",
    "SADD g:{n} a",
    "SET g:{n} v",
    "XADD g:{n} 1-1 f v",
    "LPUSH g:same a",
    "HSET g:hash f{n} v",
    "HSET s:{n} f v",
    "LPUSH s:list a",
    "DEL g:same",
    "RENAME g:same g:{n}",
    f"EVAL {SCRIPT} 1 g:{{n}}",
    "RPUSH g:{n} {large}",
)
USES = ("HGET s:1 f", "GET s:2", "LRANGE s:list 0 -1", "ECHO {n}")
CHANGES = (
    "MULTI",
    "MULTI",
    "EXEC",
    "EXEC",
    "DISCARD",
    "WATCH s:1 s:list",
    "WATCH g:same g:hash",
    "UNWATCH",
    "SUBSCRIBE c",
    "UNSUBSCRIBE",
    "ASKING",
    "CLIENT TRACKING ON",
    "CLIENT TRACKING OFF",
    "CLIENT NO-EVICT OFF",
    "SELECT 1",
    "SELECT 0",
    "HELLO 2",
    "BLPOP s:2 0.02",
    "RESET",
)
LARGE = "v" * 1_100_000


@dataclass(frozen=True)
class Program:
    """The bytes that one client sends, in so many reads, and whether it leaves without having read the replies, in the
    middle of a value."""

    user: str | None
    reads: Sequence[Sequence[str]]
    leaves: bool

    def bytes_of(self, read: Sequence[str]) -> bytes:
        return b"".join(
            pack(*(LARGE.encode() if word == b"{large}" else word for word in words(line))) for line in read
        )


def programs(seed: str) -> list[Program]:
    """A program for each client, whose keys are its own. None subscribes inside a transaction, which is refused."""
    chance = random.Random(seed)
    found = []
    for client, user in enumerate(USERS):
        lines: list[str] = []
        queues = False
        for number in range(chance.randrange(3, 14)):
            line = chance.choice(chance.choices((WRITES, USES, CHANGES), (5, 2, 5))[0])
            if line == "RPUSH g:{n} {large}" and chance.random() < 0.7:
                continue
            if line == "RESET" and user is not None:
                continue  # the rest would be another user's
            queues = (queues or line == "MULTI") and line not in ("EXEC", "DISCARD", "RESET")
            if queues and line in ("SUBSCRIBE c", "UNSUBSCRIBE"):
                continue
            for prefix in ("g:", "s:"):
                line = line.replace(prefix, f"{prefix}{seed}:{client}:")
            lines.append(line.replace("{n}", f"k{number}"))
        reads = []
        while lines:
            size = chance.randrange(1, 6)
            reads.append(lines[:size])
            lines = lines[size:]
        found.append(Program(user, reads, chance.random() < 0.25))
    return found


def connect(address: Address, user: str | None) -> Wire:
    wire = Wire(address)
    if user is not None:
        assert wire.ask("AUTH", user, user) == b"+OK\r\n"
    return wire


def prepare(engine: Engine, seed: str) -> None:
    """A key for each client whose lifetime a use renews, and one of a type that no command for lists takes."""
    with engine.wire() as wire:
        for client in range(len(USERS)):
            hash_, string = f"s:{seed}:{client}:1", f"s:{seed}:{client}:2"
            wire.send(pack("HSET", hash_, "f", "v") + pack("EXPIRE", hash_, 200) + pack("SETEX", string, 200, "v"))
        wire.frames(3 * len(USERS))


def play(address: Address, played: Sequence[Program]) -> list[list[bytes]]:
    """The replies to each client, all of them at work at once; nothing for a client that leaves."""
    wires = [connect(address, program.user) for program in played]
    try:
        for turn in range(max(len(program.reads) for program in played)):
            for wire, program in zip(wires, played, strict=True):
                if turn < len(program.reads):
                    wire.send(program.bytes_of(program.reads[turn]))
        for wire, program in zip(wires, played, strict=True):
            if program.leaves:
                wire.send(pack("SET", "g:left", LARGE)[:-20_000])
                wire.close()
            else:
                wire.say("QUIT")
        return [
            [] if program.leaves else wire.remaining(PATIENCE_SECONDS)
            for wire, program in zip(wires, played, strict=True)
        ]
    finally:
        for wire in wires:
            wire.close()


@pytest.fixture
def engines(fleet: Fleet, engine_name: str) -> tuple[Engine, Engine]:
    pair = (fleet.engine(engine_name, ROLE), fleet.engine(engine_name, EQUIVALENT))
    for engine in pair:
        for user in {user for user in USERS if user is not None}:
            engine.do("ACL", "SETUSER", user, "on", ">" + user, "~*", "&*", "+@all")
        engine.do("FLUSHALL")
    return pair


def same(heard: Sequence[bytes], direct: Sequence[bytes]) -> bool:
    """Whether two clients heard the same; HELLO tells each its own number."""
    return [frame for frame in heard if b"proto" not in frame] == [frame for frame in direct if b"proto" not in frame]


@pytest.mark.parametrize("ttl_options", TTL_OPTIONS)
def test_every_key_has_its_lifetime(
    fleet: Fleet, engines: tuple[Engine, Engine], pooling: bool, ttl_options: str, tmp_path: Path
) -> None:
    engine, twin = engines
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY % (TTL_OPTIONS[ttl_options], TTL_OPTIONS[ttl_options]), encoding="utf-8")
    keyrail = fleet.keyrail(engine.name, policy=policy, pooling=pooling, role=ROLE)
    before = skipped(keyrail)
    for number in range(PROGRAMS):
        played = programs(str(number))
        prepare(engine, str(number))
        prepare(twin, str(number))
        heard = play(keyrail.address, played)
        direct = play(twin.address, played)
        for program, mine, theirs in zip(played, heard, direct, strict=True):
            if not any(b"DENIED" in frame for frame in mine):
                assert same(mine, theirs), (number, program)
    try:
        eventually(lambda: len(immortal(engine)) <= (skipped(keyrail) - before if ttl_options == "pass" else 0))
    except AssertionError:
        pytest.fail(f"without a TTL: {immortal(engine)}; skipped: {skipped(keyrail) - before}", pytrace=False)


def skipped(keyrail: Keyrail) -> int:
    """How many times a lifetime was not given, by Keyrail's own account."""
    rules = ("given", "sliding")
    return sum(int(keyrail.metric("keyrail_verdicts_total", rule=rule, what="skipped")) for rule in rules)


REFUSING = """
keyrail: 1
defaults: {mode: enforce}
rules:
  given: {lifetime: {default: 5m, types: all, without_proof: refuse}}
"""
HALF = "the first half of a large value"
ENDS = (
    *(["CLIENT ID", "HSET user:1 f v", "MULTI", line, "EXEC"] for line in ("CLIENT TRACKING ON", "ASKING", "SELECT 0")),
    *(
        ["WATCH user:w", "LPUSH user:1 a", line]
        for line in ("SUBSCRIBE c", "SSUBSCRIBE c", "ASKING", "CLIENT TRACKING ON", "HELLO 3", "AUTH default x")
    ),
    ["BLPOP user:string 0", "HSET user:1 f v"],
    ["CLIENT ID", "HSET user:1 f v", HALF],
    ["WATCH user:w", "LPUSH user:1 a", HALF],
    ["CLIENT ID", "HSET user:1 f v", "BLPOP user:nobody 0"],
    ["EVAL \"redis.call('SET', KEYS[1], 'v') return redis.call('INCR', KEYS[1])\" 1 user:1"],
)


@pytest.mark.parametrize("policy", ["strict", "cache", "refuse"])
def test_who_changes_the_connection_and_leaves_leaves_no_key_for_ever(
    fleet: Fleet, policy: str, tmp_path: Path
) -> None:
    engine = fleet.engine("valkey-9.1", ROLE)
    file = tmp_path / "policy.yaml"
    file.write_text(REFUSING if policy == "refuse" else packaged_policy(f"{policy}.yaml").read_text(), encoding="utf-8")
    keyrail = fleet.keyrail(engine.name, policy=file, role=ROLE)
    for lines in ENDS:
        engine.do("FLUSHALL")
        engine.do("SET", "user:string", "x", "EX", 100)
        with keyrail.wire() as wire:
            half = pack("SET", "user:large", LARGE)[:-600_000]
            wire.send(b"".join(half if line == HALF else pack(*words(line)) for line in lines))
        eventually(lambda: keyrail.metric("keyrail_clients") == 0)
        try:
            eventually(lambda: engine.do("TTL", "user:1") != -1)
        except AssertionError:
            pytest.fail(f"for ever: {lines}", pytrace=False)

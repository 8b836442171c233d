"""What a client sends costs steps in proportion to its bytes, whatever it is: no parser of client text goes over it
again and again.

Requests are made of any command, and of words that are long, many or different: patterns, cursors, numbers, options,
quotes and Lua, also behind KEYRAIL EXPLAIN, as inline commands, and as bytes without any form. Steps are counted, not
seconds. Policies are the packaged ones, and one in which all rules look at keys.
"""

from __future__ import annotations

from functools import cache, partial
from random import Random

import pytest

from proxy.commands.table import STANDARD
from proxy.policy.load import load_policy
from proxy.policy.model import Policy
from proxy.wire.request import RequestLimits
from tests.conftest import seeds
from tests.keyrail_process import packaged_policy
from tests.policy.given import policy
from tests.session.given import Client, FakeRoute, call
from tests.steps import steps

COMMANDS = [spec.name.encode().split(b"|") for spec in STANDARD.specs if spec.name]
TEXTUAL = [
    *((b"EVAL",), (b"EVAL_RO",), (b"SCRIPT", b"LOAD"), (b"FUNCTION", b"LOAD"), (b"FCALL",), (b"EVALSHA",)),
    *((b"SCAN", b"0", b"MATCH"), (b"HSCAN", b"k", b"0", b"MATCH"), (b"KEYS",), (b"SCAN",), (b"SORT", b"k", b"BY")),
    *((b"SORT", b"k", b"GET"), (b"XREAD", b"STREAMS"), (b"ZUNION",), (b"ACL", b"SETUSER", b"u"), (b"MIGRATE",)),
    *((b"PSUBSCRIBE",), (b"CONFIG", b"GET"), (b"CLIENT", b"SETNAME"), (b"CLIENT", b"KILL"), (b"HELLO", b"3")),
    *((b"AUTH",), (b"CLIENT", b"TRACKING", b"ON"), (b"KEYRAIL", b"HOTKEYS"), (b"COMMAND", b"GETKEYS"), (b"RESTORE",)),
]
FRAGMENTS = (
    *b"a * ? [a- \\ { } {a} : 0 9 - 1 .5 1e9 % # -> , = a:b: +@all ~* %R~ & > $ \" ' \\x4 \r \n \x00 \xff".split(b" "),
    *b"unpack(KEYS) |ipairs(KEYS) |redis.call('GET',KEYS[1]) |redis.call('MGET','{t}%d',unpack(KEYS)) |a:a:".split(
        b"|"
    ),
    *b"local a%d = KEYS[1] |redis.register_function('f', g) |#!lua name=l\nlocal function g(keys) |for |(|[[".split(
        b"|"
    ),
)
WORDS = (
    *b"1 0 2 -1 a {t}a * k KEYS STREAMS EX STORE BY GET COUNT MATCH ID AND LIMIT WITHSCORES SETNAME FILTERBY".split(),
    *b"NODE EXPLAIN AUTH AUTH2 TYPE NX LEFT AGGREGATE WEIGHTS BCAST PREFIX FIELDS".split(),
)
SMALL, TIMES = 1200, 4
AT_MOST_TIMES = 5.0
STEPS_OF_A_BYTE = 120
PACKAGED = ("strict", "default", "cache")
ALL_RULES = """
defaults: {mode: enforce}
rules:
  named: {names: {segments: 1..6, banned: [zzz, "a:b"], hash_tags: {banned: [ab]}}}
  followed: {scripts: {commands: follow_rules, dynamic_calls: allow, undeclared_keys: allow}}
  slot: {one_slot: true}
  hot: {limits: {keys: "*hot*", rate: 100000/s}}
  all: {limits: {per: app, rate: 1000000/s}}
  wide: {fan_out: {max: 100000}}
  ttl: {lifetime: {default: 5m}}
"""


class Collecting(FakeRoute):
    """It collects what is not very large, as routes do."""

    def limits(self, authenticated: bool, must_log_in: bool = False) -> RequestLimits:
        return RequestLimits(1 << 20, 1 << 29, 1 << 20, authenticated=True)


@cache
def policy_named(name: str) -> Policy:
    return policy(ALL_RULES) if name == "all" else load_policy(packaged_policy(f"{name}.yaml"))


def request(random: Random, size: int) -> bytes:
    """A request of about this size; the same for the same randomness but for its size."""
    name = random.choice((*TEXTUAL, random.choice(COMMANDS)))
    explained = (b"KEYRAIL", b"EXPLAIN") * (random.random() < 0.15)
    fixed = random.choices(WORDS, k=random.randint(0, 3))
    unit = b"".join(random.choices(FRAGMENTS, k=random.randint(1, 3)))
    cycle = random.choices((*WORDS, unit), k=random.randint(1, 3))
    kind = random.choice(("long", "long", "many", "different", "both", "inline", "bytes"))
    of = [unit.replace(b"%d", b"%d" % i) for i in range(size // max(4, len(unit)))]
    count = size // 9
    match kind:
        case "long":
            rest = [b"".join(of), *cycle]
        case "many":
            rest = [cycle[i % len(cycle)] for i in range(count)]
        case "different":
            rest = [b"{t}%d" % i for i in range(count)]
        case "both":
            rest = [b"".join(of), b"%d" % count, *(b"{t}%d" % i for i in range(count))]
        case "inline":
            return b" ".join((*explained, *name, *of)).replace(b"\n", b"") + b"\r\n"
        case _:
            return b"*%d\r\n" % count + unit * (size // len(unit)) + b"\r\n"
    return call(*explained, *name, *fixed, *rest)


def cost(of: Policy, sent: bytes) -> int:
    client = Client(Collecting(of))
    return steps(partial(client.intake.receive, sent)) + steps(client.arrived)


@pytest.mark.parametrize("seed", seeds(4, 60))
def test_a_request_costs_steps_in_proportion_to_its_bytes(seed: int) -> None:
    random = Random(seed)
    for number in range(30):
        name = (*PACKAGED, "all")[(seed + number) % 4]
        made = random.random()
        small, large = (request(Random(made), size) for size in (SMALL, SMALL * TIMES))
        few, many = (cost(policy_named(name), sent) for sent in (small, large))
        told = (name, seed, number, large[:200], few, many)
        assert many < max(AT_MOST_TIMES * few, STEPS_OF_A_BYTE * SMALL), told
        assert many < STEPS_OF_A_BYTE * max(len(large), SMALL), told

"""A word with a NUL behind it is that word: every command of the table gets the same keys, cost and verdict for it, or
is refused, with any number of bytes behind the NUL and in any argument."""

import random
from collections.abc import Iterator

import pytest

from proxy.commands.command import Command, KeysUnknownError
from proxy.commands.expiry import read_expiry, states_expiry
from proxy.commands.sort_patterns import beginnings_of
from proxy.commands.spans import SCANS, bytes_asked, elements_asked, scan_count, scan_pattern
from proxy.commands.table import STANDARD, Spec
from proxy.commands.values import members_of, values_of
from proxy.commands.words import LONGEST
from proxy.policy.compile import CompiledPolicy
from proxy.policy.load import load_policy
from proxy.policy_yaml.shipped import packaged
from proxy.rules.rule import takes
from proxy.rules.verdict import PASS, Answer, Refuse, Rewrite
from proxy.session.commands.pinned import error_for_name
from proxy.wire.request import Request
from tests.policy.given import compile_policy, compiled
from tests.rules.given import context

LARGE = 1_100_000
KEYWORDS = b"""
    ABSTTL AGGREGATE ALPHA ASC ASYNC AUTH BEFORE BLOCK BY BYBOX BYLEX BYRADIUS BYSCORE CH COPY COUNT DB DESC EX EXAT
    FIELDS FROMLONLAT FROMMEMBER FULL GET GROUP GT IDLE INCR INCRBY KEEPTTL KEYS LEFT LIMIT LT MATCH MAX MAXLEN MIN
    MINID MKSTREAM NOACK NOMKSTREAM NOSCORES NOVALUES NX OFF ON OVERFLOW PERSIST PX PXAT REPLACE REV RIGHT SET SETNAME
    STORE STOREDIST STREAMS SYNC TYPE WEIGHTS WITHSCORES XX ~ = $ + - u8 AND LCS
""".split()
OTHERS = (b"a:1", b"b:2", b"lock:x", b"*", b"lock:*", b"0", b"1", b"2", b"3", b"50000", b"5-1", b">", b"")
RULES = """
defaults: {mode: enforce}
schema:
  entry: {key: "a:{x}", type: string, ttl: {default: 5m, max: 1h}, size: {max: 1KB}}
rules:
  schema-ttl: {schema: ttl}
  schema-type: {schema: type}
  schema-size: {schema: size}
  refused: {refuse: [CONFIG, FLUSHALL, "SCRIPT FLUSH", "DEBUG"], allow: ["FLUSHALL ASYNC", "CONFIG GET"]}
  databases: {databases: [0]}
  names: {names: {segments: 2.., prefixes: {default: ["a", "b", "lock"]}}}
  sizes: {sizes: {value: 1KB, members: 2}}
  ranges: {ranges: {max: 10}}
  scans: {scan_counts: {max: 10}}
  fan-out: {fan_out: {max: 2}}
  slots: {one_slot: true}
  lifetimes: {lifetime: {default: 5m, max: 1h, persist: refuse, without_proof: refuse}}
  wholes: {whole_collections: {max: 10}}
exceptions:
  - {rule: names, keys: "lock:*", because: test}
"""


TEXTS = {"EVAL": 1, "EVAL_RO": 1, "SCRIPT|LOAD": 2, "RESTORE": 3, "RESTORE-ASKING": 3}
"""The positions of scripts and payloads: they are no words, and one that is too long to be read is judged as such."""


def facts(command: Command) -> dict[str, object]:
    """All that Keyrail reads from a command's arguments."""
    request = Request.from_argv(command.argv)
    found: dict[str, object] = {"blocks": STANDARD.keys.blocks(command.spec.id, request)}
    try:
        found["keys"] = command.key_places
    except KeysUnknownError:
        found["keys"] = None
    if not takes(command.spec, len(command.argv)):
        return found
    found["asked"] = (elements_asked(command), bytes_asked(command))
    if found["keys"] is not None:
        found["members"] = members_of(command)
        found["values"] = [(value.key, value.index) for value in values_of(command)]
    if states_expiry(command.spec):
        found["expiry"] = read_expiry(command)
    if command.spec.name in SCANS:
        found["scan"] = (scan_count(command), scan_pattern(command))
    found["patterns"] = [index for index, _ in beginnings_of(command)]
    return found


def requests(chosen: random.Random, spec: Spec) -> Iterator[list[bytes]]:
    name = [word.encode() for word in spec.name.split("|")]
    for _ in range(6):
        size = max(abs(spec.arity) - len(name), 0) + (chosen.randrange(7) if spec.arity < 0 else 0)
        yield [*name, *(chosen.choice(KEYWORDS if chosen.random() < 0.5 else OTHERS) for _ in range(size))]


def with_nul(argv: list[bytes], index: int, behind: bytes, length: int) -> Command:
    """The same command with a NUL and more behind one of its words; streamed where it is so long."""
    changed = [*argv]
    changed[index] += b"\0" + behind
    if length <= len(changed[index]):
        return Command(STANDARD, changed)
    changed[index] = changed[index][:LONGEST].ljust(LONGEST, b"x")
    return Command(STANDARD, changed, streamed=index, streamed_length=length)


def variants(seed: int) -> Iterator[tuple[Command, Command, int]]:
    """A plain command, the same one with a NUL behind a word, and which argument that is."""
    chosen = random.Random(seed)
    for spec in STANDARD.specs[1:]:
        for argv in requests(chosen, spec):
            for index, word in enumerate(argv):
                if TEXTS.get(spec.name) == index or spec.name == "FUNCTION|LOAD":
                    continue
                if word in KEYWORDS or index <= spec.name.count("|"):
                    length = chosen.choice((0, LARGE))
                    yield (
                        Command(STANDARD, argv),
                        with_nul(argv, index, chosen.choice((b"", b"x", b"GET")), length),
                        index,
                    )


def test_facts_are_those_of_the_plain_word() -> None:
    compared, hidden = 0, 0
    for plain, changed, index in variants(1):
        if not changed.spec.id and error_for_name(changed.argv, STANDARD):
            hidden += 1
            assert index <= 1 or not plain.spec.id
            continue
        assert changed.spec is plain.spec
        assert facts(changed) == facts(plain), changed.argv
        compared += 1
    assert compared > 4_000
    assert hidden > 1_000


POLICIES = ("RULES", "strict", "default", "cache")


def policy_of(name: str) -> CompiledPolicy:
    return compiled(RULES) if name == "RULES" else compile_policy(load_policy(packaged(name)), STANDARD, rehearsal=True)


@pytest.mark.parametrize("name", POLICIES)
def test_verdicts_are_those_of_the_plain_word_or_refusals(name: str) -> None:
    policy = policy_of(name)
    refused = 0
    for plain, changed, index in variants(2):
        if not changed.spec.id and error_for_name(changed.argv, STANDARD):
            continue
        expected, decision = policy.judge(plain, context()).verdict, policy.judge(changed, context())
        found = decision.verdict
        if isinstance(found, Refuse | Answer):
            refused += 1
            continue
        if found == PASS and isinstance(expected, Rewrite) and expected.argv[1:] == plain.argv[1:]:
            assert changed.streamed is not None, "what is streamed keeps its name where another one does the same"
            continue
        if decision.hidden and isinstance(expected, Rewrite):
            continue  # a lifetime that cannot be put into what is streamed follows it
        assert type(found) is type(expected), (changed.argv, expected, found)
        if isinstance(found, Rewrite) and isinstance(expected, Rewrite) and index < len(expected.argv):
            same = [i for i, (a, b) in enumerate(zip(expected.argv, found.argv, strict=True)) if a != b]
            assert len(same) <= 1, (changed.argv, expected, found)
    assert refused > 20

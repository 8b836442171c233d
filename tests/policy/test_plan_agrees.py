"""The plan never reaches another verdict than the rules: for every command that it passes, refuses or edits, `judge`
has the same result and counts the same hits. And the plan is useful: most commands that a policy is about need no
judging."""

import pickle
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proxy.commands.command import Command
from proxy.commands.slots import hashed_part
from proxy.commands.table import STANDARD, Table
from proxy.hotpath.counting.counters import Counters
from proxy.hotpath.plan.plan import EDIT, JUDGE, PASS, REFUSE
from proxy.hotpath.upstream.splice import Splice
from proxy.policy.compile import CompiledPolicy
from proxy.policy.decision import Decision
from proxy.policy.load import load_policy
from proxy.policy.lower_policy import LoweredPolicy
from proxy.policy.model import Mode, OnError, Policy, PolicyRule, Stage
from proxy.policy.scope import EVERYTHING, Scope
from proxy.policy_yaml.errors import Where
from proxy.policy_yaml.shipped import packaged
from proxy.rules.allow_only.rule import AllowOnlySettings
from proxy.rules.databases.rule import DatabasesSettings
from proxy.rules.fan_out.rule import FanOutSettings
from proxy.rules.lifetime.settings import LifetimeSettings, SchemaTtlSettings
from proxy.rules.lifetime.ttl_options import TtlOptions
from proxy.rules.limits.rule import LimitsSettings
from proxy.rules.memory import Memory
from proxy.rules.names.rule import CHARACTERS, NamesSettings
from proxy.rules.one_slot.rule import OneSlotSettings
from proxy.rules.ranges.rule import RangesSettings
from proxy.rules.rates import Rate
from proxy.rules.read_only.rule import ReadOnlySettings
from proxy.rules.refuse.rule import RefuseSettings
from proxy.rules.replace.rule import ReplaceSettings
from proxy.rules.replica_reads.rule import ReplicaReadsSettings
from proxy.rules.replies.rule import RepliesSettings
from proxy.rules.rule import RuleSettings, Wording
from proxy.rules.scan_counts.rule import ScanCountsSettings
from proxy.rules.schema.members import SchemaMembersSettings
from proxy.rules.schema.size import SchemaSizeSettings
from proxy.rules.schema.type import SchemaTypeSettings
from proxy.rules.sizes.rule import SizesSettings
from proxy.rules.transactions.rule import TransactionsSettings
from proxy.rules.unknown_commands.rule import UnknownCommandsSettings
from proxy.rules.values.formats import FORMATS
from proxy.rules.values.rule import ValuesSettings
from proxy.rules.verdict import PASS as PASSED
from proxy.rules.verdict import Refuse, Rewrite
from proxy.schema.bounds import Bounds
from proxy.schema.entries import KeyEntry, KeySize, Schema
from proxy.schema.patterns import parse_pattern
from proxy.wire.encode import encode_command
from proxy.wire.request import COMPLETE, Request, RequestLimits
from tests.policy.given import as_sent, compile_policy
from tests.rules.given import context

NAMES = (
    "SET",
    "GET",
    "DEL",
    "UNLINK",
    "SETNX",
    "GETSET",
    "MGET",
    "MSET",
    "EVAL",
    "CONFIG",
    "SORT",
    "KEYS",
    "COPY",
    "SUBSTR",
    "LPUSH",
    "SETRANGE",
    "SCAN",
    "LRANGE",
    "SETEX",
    "EXPIRE",
    "INCR",
    "GETEX",
    "HSET",
    "PSETEX",
)
WORDS = (
    *(pickle.dumps(1), b"\xac\xed\x00\x05t", b"a:0:{}"),
    *(b"EX", b"px", b"KEEPTTL", b"NX", b"get", b"IFEQ", b"FROB", b"1", b"2", b"GET", b"SET", b"STORE", b"BY", b""),
    *(b"COUNT", b"9", b"150", b"2000"),
)
KEYS = (b"a", b"a:b", b"a:b:c", b"a::b", b"a/b", b"a b:c", b":", b"{a}:b", b"\xff:b", b"a:b/c:d:e", b"it's:a")


def small_table() -> Table:
    """The commands that the generated requests are about: binding a policy to a few takes no time."""
    found = [STANDARD.find(name) for name in (*NAMES, "SLAVEOF", "REPLICAOF", "GETRANGE", "APPEND", "LMOVE", "PING")]
    specs = [spec for spec in (*found, *STANDARD.subcommands("CONFIG")) if spec is not None]
    return Table([replace(spec, id=i) for i, spec in enumerate((STANDARD.specs[0], *specs))])


SMALL = small_table()


def any_case(name: str) -> st.SearchStrategy[bytes]:
    return st.sampled_from((name, name.lower(), name.title())).map(str.encode)


COMMANDS = st.builds(
    lambda name, arguments: [name, *arguments],
    st.sampled_from(NAMES).flatmap(any_case) | st.sampled_from((b"NOSUCH", b"PING", b"slaveof")),
    st.lists(st.sampled_from(WORDS + KEYS) | st.binary(max_size=12), max_size=7),
)


NUMBERS = (b"0", b"1", b"99", b"100", b"150", b"007", b"+5", b"-1", b"150000", b"2000001", b"9" * 15, b"1" + b"0" * 15)
STATED = st.builds(
    lambda form, key, number: [key if word == b"KEY" else number if word == b"N" else word for word in form.split()],
    st.sampled_from(
        (
            *(b"SET KEY v EX N", b"set KEY v px N", b"SET KEY v EX N NX", b"SETEX KEY N v", b"PSETEX KEY N v"),
            *(b"EXPIRE KEY N", b"EXPIRE KEY N GT", b"GETEX KEY EX N", b"GETEX KEY PX N", b"SETEX KEY N"),
        )
    ),
    st.sampled_from((b"a", b"a:b", b"a/b", b"b", b"{a}:b", b"x:y:z")),
    st.sampled_from(NUMBERS),
)
"""The usual forms of commands that state a TTL, and some that look like them."""


VALUES = (
    *(pickle.dumps(each, protocol) for each in (None, ["a"]) for protocol in (2, 5)),
    *(b"\xac\xed\x00\x05", b"a:0:{}", b'O:1:"a":0:{}', b's:1:"a";'),
    *(
        b"\x80",
        b"\x80\x06K\x01.",
        b"\x80\x05",
        b"\xac",
        b"\xac\xee\x00\x05",
        b"\xed\xac",
        b"a",
        b"a:b",
        b"s:",
        b":a",
        b"v",
    ),
)
"""Of each refused format, and others that begin alike."""
WRITES = st.builds(
    lambda name, values: [name, b"a:b", *values],
    st.sampled_from(
        ("SET", "SETNX", "GETSET", "MSET", "LPUSH", "HSET", "APPEND", "SETEX", "PSETEX", "SETRANGE")
    ).flatmap(any_case),
    st.lists(st.sampled_from(VALUES) | st.sampled_from((b"150", b"EX", b"PX", b"150000")), min_size=1, max_size=5),
)


SCHEMA = Schema(
    tuple(
        KeyEntry(key, parse_pattern(key), key_type, lifetime, size, app=app)
        for key, key_type, lifetime, size, app in (
            ("a", "string", Bounds(default=500, jitter=0.1), KeySize(2), ""),
            ("a:{x}", "hash", Bounds(default=500, least=100, most=900, sliding=True), KeySize(9, 3, 2), ""),
            ("{x}:{y}:{z...}", None, Bounds(), None, "other"),
            ("{{a}}:{x:word}", "list", None, KeySize(members_per_write=1), ""),
            ("a/{x}", None, Bounds(required=True), None, ""),
            ("b", None, Bounds(jitter_stated=0.5), None, ""),
        )
    )
)


def policy_of(rules: Sequence[tuple[RuleSettings, Mode]]) -> Policy:
    return scoped_policy([(each, mode, EVERYTHING) for each, mode in rules])


def scoped_policy(rules: Sequence[tuple[RuleSettings, Mode, Scope]]) -> Policy:
    """A policy of these rules, each with what it takes of its scope."""
    here = Where("test")
    named = []
    for i, (each, mode, wanted) in enumerate(rules):
        scope = Scope(*(getattr(wanted, part) if key in each.takes else () for key, part in SCOPE_PARTS.items()))
        named.append(PolicyRule(f"rule-{i}", each, Stage(mode, here), Wording(), here, scope=scope))
    return Policy("test", tuple(named), schema=SCHEMA)


SCOPE_PARTS = {"keys": "keys", "except": "without", "apps": "apps"}
PATTERNS = st.lists(st.sampled_from(("a*", "*:b", "a:b", "{a}*", "*b*")), max_size=2, unique=True).map(tuple)
SCOPES = st.builds(Scope, PATTERNS, PATTERNS, st.sampled_from(((), (), (), ("other",))))
HELD: tuple[NamesSettings, ...] = (
    NamesSettings(),
    NamesSettings(segment_types=("word", "a|b"), banned=("A",)),
    NamesSettings(banned_segments=("b", "c"), hash_tags=False),
    NamesSettings(hash_tags=(2,), prefixes=(("default", ("a", "{a")),)),
    NamesSettings(prefixes=(("checkout", ("a:b",)),)),
)
"""The parts of names beyond their characters: few of them, since each becomes an automaton."""
NAMES_SETTINGS = st.builds(
    replace,
    st.sampled_from(HELD),
    characters=st.sampled_from(sorted(CHARACTERS)),
    min_length=st.integers(0, 4),
    max_length=st.none() | st.integers(4, 9),
    separator=st.sampled_from(":/"),
    min_segments=st.integers(1, 3),
    max_segments=st.none() | st.integers(3, 4),
    empty_segments=st.booleans(),
    reads=st.booleans(),
    writes=st.booleans(),
    in_schema=st.booleans(),
    owned=st.booleans(),
)
SCHEMA_SETTINGS: st.SearchStrategy[RuleSettings] = (
    st.builds(SchemaTypeSettings, st.booleans(), st.booleans())
    | st.just(SchemaSizeSettings(SchemaMembersSettings()))
    | st.builds(SchemaTtlSettings, st.builds(TtlOptions))
)
VALUES_SETTINGS: st.SearchStrategy[RuleSettings] = st.builds(
    ValuesSettings, st.lists(st.sampled_from(sorted(FORMATS)), min_size=1, max_size=3, unique=True).map(tuple)
)
BOUNDS = st.builds(
    Bounds,
    default=st.none() | st.integers(100, 1000),
    least=st.none() | st.integers(1, 200),
    most=st.none() | st.integers(800, 2000),
    jitter=st.sampled_from((0.0, 0.1, 0.9)),
    required=st.booleans(),
    sliding=st.booleans(),
    jitter_stated=st.sampled_from((0.0, 0.0, 0.2)),
)
TTL_SETTINGS: st.SearchStrategy[RuleSettings] = st.builds(SchemaTtlSettings, st.builds(TtlOptions)) | st.builds(
    LifetimeSettings, st.builds(replace, BOUNDS, jitter_stated=st.sampled_from((0.0, 0.2, 0.9))), st.builds(TtlOptions)
)
SETTINGS: st.SearchStrategy[RuleSettings] = (
    st.builds(
        RefuseSettings,
        st.lists(st.sampled_from(("KEYS", "CONFIG", "CONFIG SET", "GET", "KEYS A", "KEYS EX")), max_size=2).map(tuple),
        st.lists(st.sampled_from(("CONFIG GET", "KEYS A:B", "CONFIG SET A", "GET EX")), max_size=1).map(tuple),
    )
    | st.just(ReplaceSettings((("DEL", "UNLINK"), ("SUBSTR", "GETRANGE"))))
    | st.builds(LifetimeSettings, BOUNDS, st.builds(TtlOptions), st.sampled_from(((), ("a*", "*:c"))))
    | st.builds(
        ReplicaReadsSettings,
        st.sampled_from((("*",), ("a*",), ("a:b", "*:c"), ("", "it's*"))),
        st.integers(1, 3),
        st.booleans(),
    )
    | NAMES_SETTINGS
    | SCHEMA_SETTINGS
    | st.builds(SizesSettings, *[st.none() | st.integers(1, most) for most in (9, 4, 30)])
    | st.builds(FanOutSettings, st.integers(1, 3), st.sampled_from(((), ("DEL", "MGET"))))
    | VALUES_SETTINGS
    | st.builds(RangesSettings, st.integers(1, 5), st.none() | st.just(3), st.booleans())
    | st.builds(ScanCountsSettings, st.integers(1, 5), st.booleans())
    | st.builds(AllowOnlySettings, st.just(("GET", "SET", "CONFIG GET", "COPY a")), st.just(("hash", "write")))
    | st.builds(OneSlotSettings, st.booleans())
    | st.builds(RepliesSettings, st.none() | st.integers(1, 5), st.none() | st.just(9))
    | st.sampled_from((ReadOnlySettings(), UnknownCommandsSettings(), DatabasesSettings((1,)), TransactionsSettings()))
)
POLICIES = st.builds(
    lambda rules, on_error, count: replace(scoped_policy(rules), on_rule_error=on_error, count_keys=count),
    st.lists(st.tuples(SETTINGS, st.sampled_from(list(Mode)), st.just(EVERYTHING) | SCOPES), max_size=4),
    st.sampled_from(list(OnError)),
    st.booleans(),
)
SCOPED = st.lists(st.tuples(SETTINGS, st.sampled_from((Mode.AUDIT, Mode.ENFORCE)), SCOPES), min_size=1, max_size=3).map(
    scoped_policy
)
STANDARDS = st.lists(
    st.tuples(NAMES_SETTINGS | SCHEMA_SETTINGS, st.sampled_from((Mode.AUDIT, Mode.ENFORCE))), min_size=1, max_size=3
).map(policy_of)
WITH_VALUES = st.lists(
    st.tuples(VALUES_SETTINGS | SETTINGS, st.sampled_from(list(Mode)), st.just(EVERYTHING) | SCOPES), max_size=2
).flatmap(
    lambda others: VALUES_SETTINGS.map(lambda values: scoped_policy([(values, Mode.ENFORCE, EVERYTHING), *others]))
)
READS_AND_WRITES = st.builds(
    lambda name, keys: [name, *keys],
    st.sampled_from((b"GET", b"MGET", b"COPY", b"DEL", b"APPEND", b"LMOVE")),
    st.lists(st.text(("a", "b", ":", "/", " ", "é", "'", "@"), max_size=8).map(str.encode), min_size=1, max_size=2),
)
AVAILABLE = st.none() | st.sets(st.sampled_from(("UNLINK", "SET", "GETRANGE"))).map(frozenset)


LIMITS = RequestLimits(1 << 20, 1 << 29, 1 << 29)


def compiled(
    policy: Policy,
    table: Table,
    available: frozenset[str] | None = None,
    seed: int | None = None,
    memory: Memory | None = None,
) -> CompiledPolicy:
    """A policy as workers have it: with a plan that has been made elsewhere, and has come as tables."""
    compiled = compile_policy(policy, table, available, seed, memory=memory)
    compiled.run(as_sent(policy, LoweredPolicy(compiled.plan, compiled.lowered)))
    return compiled


def scanned(data: bytes) -> Request:
    request = Request()
    assert request.scan(data, 0, LIMITS) == COMPLETE
    assert request.end == len(data)
    return request


def planned(bound: CompiledPolicy, argv: Sequence[bytes]) -> int:
    data = encode_command(list(argv))
    request = scanned(data)
    outcome = bound.plan.decide(bound.table.lookup.find(request), request, data, bound.table.keys, Counters(1))
    if outcome == PASS:
        bound.plan.count_terms()
    return outcome


def passes(bound: CompiledPolicy, argv: Sequence[bytes]) -> bool:
    """Whether the plan lets a traced request go on."""
    data = encode_command(list(argv))
    request = scanned(data)
    return bound.plan.passes(bound.table.lookup.find(request), request, data, bound.table.keys)


def edited_by(bound: CompiledPolicy, argv: Sequence[bytes]) -> list[bytes]:
    """What the plan makes of the request that it has just decided to edit."""
    data, splice = encode_command(list(argv)), Splice()
    bound.plan.editor.write(splice, data, 0, scanned(data), STANDARD.keys, 0)
    return scanned(splice.take()).arguments()


def assert_agreement(bound: CompiledPolicy, argv: Sequence[bytes]) -> None:
    before = list(bound.plan.changed)
    outcome = planned(bound, argv)
    counted = [i for i, count in enumerate(bound.plan.changed) if count > before[i]]
    given_command = Command(bound.table, argv)
    decision = bound.judge(given_command, context())
    hits = tuple(hit for counter in counted for hit in bound.lowered[counter])
    moved = {hit.what for hit in hits} == {"moved"}
    assert not counted or outcome in (REFUSE, EDIT) or (moved and outcome == PASS)
    assert outcome == PASS or not passes(bound, argv)
    if outcome == PASS:
        reads, at = bound.plan.replica_reads, bound.plan.terms
        assert decision == Decision(PASSED, hits, replica=None if reads is None or at < 0 else reads.terms[at])
    elif outcome == REFUSE:
        assert decision == Decision(Refuse(bound.plan.error), hits)
    elif outcome != JUDGE:
        assert outcome == EDIT
        # What is drawn by chance is a number between those for the extremes of chance, at which it may stay as it is.
        extremes = [bound.judge(given_command, context(chance)) for chance in (0.0, 0.999999)]
        rewritten = [each for each in (decision, *extremes) if isinstance(each.verdict, Rewrite)]
        assert any(each.hits == hits for each in rewritten)
        assert all(isinstance(each.verdict, Rewrite) and each.verdict.edit is None for each in rewritten)
        least, most = (each.verdict.argv if isinstance(each.verdict, Rewrite) else argv for each in extremes)
        for argument, low, high in zip(edited_by(bound, argv), least, most, strict=True):
            assert argument == low or int(low) <= int(argument) <= int(high)


AUDITED: list[tuple[RuleSettings, Mode]] = [
    (SchemaTtlSettings(), Mode.AUDIT),
    (LifetimeSettings(Bounds(default=500, least=100)), Mode.AUDIT),
]
TTLS = [[b"SET", key, b"v", *words] for key in (b"a", b"a:b", b"b") for words in ((), (b"EX", b"150"), (b"EX", b"9"))]


@settings(max_examples=150, deadline=None)
@given(POLICIES, st.lists(COMMANDS, min_size=1, max_size=8), AVAILABLE)
@example(Policy("test"), [[b"GET", b"a"]], None)
@example(policy_of(AUDITED[:1]), TTLS, None)
@example(policy_of(AUDITED[1:]), TTLS, None)
@example(policy_of(AUDITED), TTLS, None)
@example(policy_of([(FanOutSettings(3), Mode.AUDIT)]), [[b"EVAL", b"EX", b"EX", b"EX"]], None)
def test_the_plan_and_the_rules_agree(
    policy: Policy, commands: list[list[bytes]], available: frozenset[str] | None
) -> None:
    bound = compiled(policy, SMALL, available, seed=1)
    for argv in commands:
        assert_agreement(bound, argv)


@settings(max_examples=200, deadline=None)
@given(SCOPED, st.lists(COMMANDS | READS_AND_WRITES, min_size=4, max_size=10))
@example(
    scoped_policy([(RefuseSettings(("DEL",)), Mode.ENFORCE, Scope(("a*",)))]), [[b"DEL", b"b"], [b"DEL", b"b", b"a"]]
)
@example(
    scoped_policy([(RefuseSettings(("KEYS",)), Mode.ENFORCE, Scope((), ("a*",)))]), [[b"KEYS", b"a*"], [b"KEYS", b"*"]]
)
def test_the_plan_and_rules_about_some_keys_agree(policy: Policy, commands: list[list[bytes]]) -> None:
    bound = compiled(policy, SMALL, seed=1)
    for argv in commands:
        assert_agreement(bound, argv)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(TTL_SETTINGS, st.sampled_from((Mode.ENFORCE, Mode.ENFORCE, Mode.AUDIT))), min_size=1, max_size=2
    ),
    st.lists(STATED, min_size=10, max_size=20),
)
@example([(SchemaTtlSettings(), Mode.ENFORCE)], [[b"SET", b"b", b"v", b"EX", b"9" * 15]])
def test_the_plan_and_rules_about_stated_ttls_agree(
    rules: list[tuple[RuleSettings, Mode]], commands: list[list[bytes]]
) -> None:
    bound = compiled(policy_of(rules), SMALL, seed=1)
    for argv in commands:
        assert_agreement(bound, argv)


@settings(max_examples=200, deadline=None)
@given(WITH_VALUES, st.lists(WRITES, min_size=4, max_size=10))
@example(policy_of([(ValuesSettings(("php", "java")), Mode.ENFORCE)]), [[b"SET", b"k", value] for value in VALUES])
@example(policy_of([(ValuesSettings(("pickle",)), Mode.ENFORCE)]), [[b"MSET", b"k", b"v", b"k", v] for v in VALUES])
def test_the_plan_and_rules_about_values_agree(policy: Policy, commands: list[list[bytes]]) -> None:
    bound = compiled(policy, SMALL, seed=1)
    for argv in commands:
        assert_agreement(bound, argv)


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        ([b"SET", b"k", b"text"], PASS),
        ([b"SET", b"k", b""], PASS),
        ([b"SET", b"k", b"\x80"], PASS),
        ([b"SET", b"k", b"a"], PASS),
        ([b"SET", b"a:1", b"v", b"EX", b"5"], PASS),
        ([b"SET", b"k", b"\x80\x05K\x01."], JUDGE),
        ([b"SET", b"k", b"\x80:"], PASS),
        ([b"SET", b"k", b"\xac\xed\x00\x04"], JUDGE),
        ([b"SET", b"k", b"a:b"], JUDGE),
        ([b"SET", b"k"], PASS),
        ([b"MSET", b"a", b"v", b"s:1", b"v"], PASS),
        ([b"MSET", b"a", b"v", b"b", b"s:1"], JUDGE),
        ([b"LPUSH", b"a", b"v", b"v", b"s:1"], JUDGE),
        ([b"HSET", b"a", b"s:1", b"v"], JUDGE),
        ([b"SETEX", b"a", b"150", b"v"], PASS),
        ([b"PFADD", b"a", b"s:1"], PASS),
        ([b"SETRANGE", b"k", b"0", b"v"], JUDGE),
        ([b"GET", b"s:1"], PASS),
    ],
)
def test_two_rules_about_values_are_one_look_at_each(words: list[bytes], outcome: int) -> None:
    rules = [ValuesSettings(("pickle",)), ValuesSettings(("java", "php"))]
    bound = compiled(policy_of([(each, Mode.ENFORCE) for each in rules]), STANDARD)
    assert planned(bound, words) == outcome
    assert_agreement(bound, words)


@pytest.mark.parametrize(
    ("value", "outcome"), [(b"v", EDIT), (b"v" * 50, JUDGE), (b"a:1", JUDGE), (pickle.dumps(1), JUDGE)]
)
def test_values_are_looked_at_before_an_edit(value: bytes, outcome: int) -> None:
    rules = [ValuesSettings(tuple(FORMATS)), SizesSettings(value=50), LifetimeSettings(Bounds(default=60))]
    bound = compiled(policy_of([(each, Mode.ENFORCE) for each in rules]), STANDARD, seed=1)
    assert planned(bound, [b"SET", b"k", value]) == outcome
    assert_agreement(bound, [b"SET", b"k", value])


def test_a_plan_passes_what_is_about_other_keys() -> None:
    rules: list[tuple[RuleSettings, Mode, Scope]] = [
        (RefuseSettings(("DEL",)), Mode.ENFORCE, Scope(("a:*",), ("a:b*",))),
        (SizesSettings(value=1), Mode.ENFORCE, Scope(("a:*",))),
        (NamesSettings(min_segments=2), Mode.ENFORCE, Scope(("b*",))),
    ]
    bound = compiled(scoped_policy(rules), STANDARD)
    for text, outcome, refused in (
        ("DEL c", PASS, False),
        ("DEL a:c", JUDGE, True),
        ("DEL a:b", JUDGE, False),
        ("DEL c a:c", JUDGE, True),
        ("SET c value", PASS, False),
        ("SET a:c value", JUDGE, True),
        ("MSET c value a:b v", JUDGE, True),
        ("GET b", JUDGE, True),
        ("GET c", PASS, False),
        ("PING", PASS, False),
    ):
        argv = text.encode().split()
        assert planned(bound, argv) == outcome, text
        assert isinstance(bound.judge(Command(STANDARD, argv), context()).verdict, Refuse) is refused, text


@settings(max_examples=150, deadline=None)
@given(STANDARDS, st.lists(READS_AND_WRITES, min_size=5, max_size=10))
def test_the_plan_and_several_standards_for_names_agree(policy: Policy, commands: list[list[bytes]]) -> None:
    bound = compiled(policy, SMALL)
    for argv in commands:
        assert_agreement(bound, argv)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(("a*", "*:b*", "a:b")), STANDARDS, st.lists(COMMANDS, min_size=3, max_size=8))
def test_what_the_plan_passes_costs_no_limit_on_keys(keys: str, names: Policy, commands: list[list[bytes]]) -> None:
    spent = PolicyRule(
        "spent",
        LimitsSettings(rate=Rate(1, 3600, 1), keys=(keys, "c:*")),
        Stage(Mode.ENFORCE, Where("")),
        Wording(),
        Where(""),
    )
    policy = replace(names, rules=(*names.rules, spent))
    bound = compiled(policy, SMALL, memory=Memory())
    for _ in range(2):
        bound.steps[-1].rule.judge(Command(SMALL, [b"GET", keys.replace("*", "").encode()]), context())
    for argv in commands:
        assert_agreement(bound, argv)


def each_field_differs() -> list[tuple[NamesSettings, NamesSettings, bytes]]:
    """Two standards that differ in one thing, and a key that only the second refuses."""
    free = NamesSettings(min_length=0)
    return [
        (free, replace(free, min_length=3), b"ab"),
        (free, replace(free, max_length=3), b"abcd"),
        (free, replace(free, characters="word-ascii"), b"a@b"),
        (free, replace(free, min_segments=2), b"ab"),
        (free, replace(free, max_segments=2), b"a:b:c"),
        (free, replace(free, empty_segments=False), b"a::b"),
        (replace(free, max_segments=9), replace(free, empty_segments=False), b"a::b"),
        (replace(free, min_segments=2, reads=False), replace(free, max_segments=2, writes=False), b"a:b:c"),
        (replace(free, min_segments=2, writes=False), replace(free, max_segments=2), b"a:b:c"),
    ]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("first", "second", "key"), each_field_differs())
def test_a_joint_check_is_as_strict_as_the_stricter(
    first: NamesSettings, second: NamesSettings, key: bytes, swapped: bool
) -> None:
    standards = (second, first) if swapped else (first, second)
    for found in (standards, (second,)):
        bound = compiled(policy_of([(each, Mode.ENFORCE) for each in found]), STANDARD)
        assert planned(bound, [b"GET", key]) == JUDGE
        assert_agreement(bound, [b"GET", key])


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("GET bench:key:000000000001", PASS),
        ("SET bench:key:000000000001 data", EDIT),
        ("SET bench:key:000000000001 data EX 5", PASS),
        ("SET bench:key:000000000001 data keepttl", JUDGE),
        ("SET bench:key:000000000001 data NX", JUDGE),
        ("DEL bench:key:000000000001 key:1", EDIT),
        ("DEL bench", JUDGE),
        ("DEL", PASS),
        ("MGET a:b c:d", PASS),
        ("MGET a:b c", JUDGE),
        ("PING", PASS),
        ("KEYS *", REFUSE),
        ("config Set maxmemory 1", REFUSE),
        ("CONFIG", PASS),
    ],
)
def test_what_a_policy_is_about_most_takes_no_judging(text: str, outcome: int) -> None:
    bound = compiled(load_policy(packaged("bench")), STANDARD, seed=1)
    assert planned(bound, text.encode().split()) == outcome
    assert_agreement(bound, text.encode().split())


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        ([b"GET", b"k" * 50], PASS),
        ([b"SET", b"k", b"v" * 50], PASS),
        ([b"SET", b"k", b"v" * 150], JUDGE),
        ([b"SETRANGE", b"k", b"0", b"v"], JUDGE),
        ([b"LPUSH", b"k", b"a", b"b", b"c"], PASS),
        ([b"LPUSH", b"k", b"a", b"b", b"c", b"d"], JUDGE),
        ([b"DEL", b"a", b"b"], PASS),
        ([b"DEL", b"a", b"b", b"c"], JUDGE),
        ([b"MSET", b"a", b"1", b"b", b"2"], PASS),
        ([b"SCAN", b"0"], PASS),
        ([b"SCAN", b"0", b"COUNT", b"1"], JUDGE),
    ],
)
def test_what_is_small_takes_no_judging(words: list[bytes], outcome: int) -> None:
    limits: list[RuleSettings] = [SizesSettings(value=100, members=3), FanOutSettings(2), ScanCountsSettings(5)]
    bound = compiled(policy_of([(each, Mode.ENFORCE) for each in limits]), STANDARD)
    assert planned(bound, words) == outcome
    assert_agreement(bound, words)


TAGGED = st.lists(
    st.sampled_from((b"a", b"b", b"{a}", b"{a}b", b"b{a}", b"{b}{a}", b"a{}", b"{}{a}", b"}{a}", b"{a", b""))
    | st.text("ab{}", max_size=6).map(str.encode),
    min_size=1,
    max_size=3,
)
PREFIXES = (b"", b"acme:")
"""Of a client of no tenant, and of a tenant's, whose keys have the prefix in Redis: one plan is for both."""


@settings(max_examples=300, deadline=None)
@given(TAGGED, st.sampled_from(("MGET", "DEL", "MSET", "EVAL")))
@example([b"{a}b", b"{a}", b"b{a}{b}"], "MGET")
@example([b"a{}{b}", b"b{}{b}"], "MGET")
@example([b"a", b"{a}"], "MGET")
def test_keys_with_one_hash_tag_take_no_judging(keys: list[bytes], name: str) -> None:
    words = {"MSET": [word for key in keys for word in (key, b"v")], "EVAL": [b"", b"%d" % len(keys), *keys]}
    argv = [name.encode(), *words.get(name, keys)]
    passes = all(len({hashed_part(prefix + key) for key in keys}) == 1 for prefix in PREFIXES)
    bound = compiled(policy_of([(OneSlotSettings(), Mode.ENFORCE)]), SMALL)
    assert planned(bound, argv) == (PASS if passes else JUDGE)
    if passes:
        for prefix in PREFIXES:
            assert bound.judge(Command(SMALL, argv), replace(context(), tenant=prefix)).verdict == PASSED


def test_a_swap_is_not_planned_where_arguments_may_be_missing() -> None:
    bound = compiled(policy_of([(ReplaceSettings((("SUBSTR", "GETRANGE"),)), Mode.ENFORCE)]), STANDARD)
    for argv in ([b"SUBSTR"], [b"SUBSTR", b"k"], [b"SUBSTR", b"k", b"0", b"1"]):
        assert_agreement(bound, argv)


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        (NamesSettings(min_segments=2), NamesSettings(max_length=9), PASS),
        (NamesSettings(min_segments=2), NamesSettings(separator="/", min_segments=1, max_segments=3), JUDGE),
    ],
)
def test_two_standards_for_names_share_a_pass_where_they_can(
    first: NamesSettings, second: NamesSettings, outcome: int
) -> None:
    bound = compiled(policy_of([(first, Mode.ENFORCE), (second, Mode.ENFORCE)]), STANDARD)
    assert planned(bound, [b"GET", b"a:b"]) == outcome
    assert_agreement(bound, [b"GET", b"a:b"])


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("SET a v", EDIT),
        ("SET a v EX 5", PASS),
        ("SET a:1 v px 150000", PASS),
        ("SET a:1 v EX 99", JUDGE),
        ("SET a:1 v EX 0150", JUDGE),
        ("SET a/1 v", JUDGE),
        ("SET a/1 v EX 1", PASS),
        ("SET x:y:z v", PASS),
        ("SET nobody v", PASS),
        ("SETEX a:1 150 v", PASS),
        ("EXPIRE a:1 150 NX", PASS),
        ("EXPIRE a:1 1", JUDGE),
        ("GETSET a v", EDIT),
        ("getset nobody v", PASS),
        ("GETSET a", JUDGE),
        ("GETSET a/1 v", JUDGE),
        ("INCR a", JUDGE),
        ("INCR nobody", PASS),
        ("GET a:1", JUDGE),
        ("GET a", PASS),
    ],
)
def test_lifetimes_by_the_schema_take_little_judging(text: str, outcome: int) -> None:
    bound = compiled(policy_of([(SchemaTtlSettings(), Mode.ENFORCE)]), SMALL, seed=1)
    assert planned(bound, text.encode().split()) == outcome
    assert_agreement(bound, text.encode().split())


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("SET a v", EDIT),
        ("SET a:1 v", EDIT),
        ("SET nobody v", EDIT),
        ("SET nobody v EX 5", PASS),
        ("SET a:1 v EX 150", PASS),
        ("SET a:1 v EX 99", JUDGE),
        ("SETEX a:1 150 v", PASS),
        ("EXPIRE a:1 1", JUDGE),
        ("GETSET a v", JUDGE),  # the second rule has its say about the SET that it becomes
    ],
)
def test_the_schema_s_lifetimes_and_another_for_the_rest_take_little_judging(text: str, outcome: int) -> None:
    rules: list[tuple[RuleSettings, Mode]] = [
        (SchemaTtlSettings(), Mode.ENFORCE),
        (LifetimeSettings(Bounds(default=60)), Mode.ENFORCE),
    ]
    bound = compiled(policy_of(rules), SMALL, seed=1)
    assert planned(bound, text.encode().split()) == outcome
    assert_agreement(bound, text.encode().split())

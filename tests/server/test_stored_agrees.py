"""Stored keys are judged as live traffic is: a key that its owner's app writes by a command, and the same key found in
Redis, are wrong by the same rules, in the same modes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.commands.command import Command
from proxy.commands.creation import TYPES
from proxy.commands.table import STANDARD
from proxy.policy.apps import App, Match
from proxy.policy.compile import PolicyCompiler
from proxy.policy.decision import Step
from proxy.policy.model import Mode, Policy, PolicyException, PolicyRule, Stage
from proxy.policy.scope import Scope
from proxy.policy_yaml.errors import Where
from proxy.rules.collections.rule import CollectionsSettings
from proxy.rules.context import Context
from proxy.rules.lifetime.rule import Lifetime
from proxy.rules.lifetime.settings import USUAL_TYPES, LifetimeSettings, SchemaTtlSettings
from proxy.rules.lifetime.ttl_options import Outside, TtlOptions
from proxy.rules.names.rule import NamesSettings
from proxy.rules.rule import RuleSettings, Wording
from proxy.rules.schema.members import SchemaMembersSettings
from proxy.rules.schema.size import SchemaSizeSettings
from proxy.rules.schema.type import SchemaTypeSettings
from proxy.rules.sizes.rule import SizesSettings
from proxy.rules.stored import Fault, StoredKey
from proxy.rules.verdict import Refuse, Rewrite, Surround
from proxy.schema.bounds import Bounds
from proxy.schema.entries import KeyEntry, KeySize, Schema
from proxy.schema.patterns import parse_pattern
from proxy.server.stored.judging import StoredJudge

HERE, NOW = Where("test"), 1_764_500_000.0
APPS = (
    App("shop", HERE, match=Match(user=("shop",))),
    App("web", HERE, match=Match(user=("web",))),
    App("jobs", HERE, match=Match(client_name=("job-*",))),
)
OWNERS = ("", "shop", "web", "jobs")
KEYS = (
    b"cart:1",
    b"cart:12:items",
    b"cart:w1",
    b"cart:temp",
    b"web:9",
    b"web:1:a:b",
    b"user:1",
    b"temp:1",
    b"x",
    b"a b",
)
LEAST = 60
PATTERNS = ("cart:{id:int}", "cart:{id:int}:items", "web:{x...}", "user:{id}", "temp:{id}")
BOUNDS = (
    Bounds(default=100),
    Bounds(default=100, most=200),
    Bounds(default=100, least=LEAST, most=300),
    Bounds(most=200, required=True),
    Bounds(default=90, required=True),
)
GLOBS = ((), ("cart:*",), ("cart:1*",), ("web:*",))
"""Of any two, one lies within the other, or they have no key in common."""


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    patterns = draw(st.sets(st.sampled_from(PATTERNS), min_size=1))
    lifetimes = st.sampled_from((None, Bounds(), *BOUNDS))
    sizes = st.sampled_from((None, KeySize(most_bytes=4), KeySize(most_members=3), KeySize(5, 2)))
    types = st.sampled_from(("string", "hash", "list", None))
    return Schema(
        tuple(
            KeyEntry(text, parse_pattern(text), draw(types), draw(lifetimes), draw(sizes), "", draw(owners))
            for text in sorted(patterns)
        )
    )


owners = st.sampled_from(OWNERS)
options = st.builds(TtlOptions, outside=st.sampled_from(Outside))
others = st.sampled_from(
    (
        NamesSettings(max_length=6),
        NamesSettings(min_segments=2, max_segments=3, characters="printable-ascii"),
        NamesSettings(banned_segments=("temp",), writes=False),
        NamesSettings(banned_segments=("temp",), reads=False),
        NamesSettings(prefixes=(("shop", ("cart:",)), ("web", ("web:", "cart:w")))),
        NamesSettings(prefixes=(("web", ("web:",)), ("default", ("cart:", "user:")))),
        NamesSettings(in_schema=True),
        NamesSettings(in_schema=True, owned=True),
        SchemaTypeSettings(),
        SchemaTypeSettings(reads=True, writes=False),
        SchemaSizeSettings(later=SchemaMembersSettings()),
        SizesSettings(value=3),
        CollectionsSettings(members=4),
        CollectionsSettings(streams=1),
    )
)


@st.composite
def lifetimes(draw: st.DrawFn) -> list[RuleSettings]:
    found: list[RuleSettings] = [SchemaTtlSettings(draw(options))] if draw(st.booleans()) else []
    types = st.sampled_from((USUAL_TYPES, frozenset(TYPES), frozenset({"hash"})))
    of_globs = st.builds(LifetimeSettings, st.sampled_from(BOUNDS), options, st.sampled_from(GLOBS), types)
    return [*found, *draw(st.lists(of_globs, max_size=3, unique_by=lambda each: each.keys))]


modes = st.sampled_from((Mode.ENFORCE, Mode.ENFORCE, Mode.WARN, Mode.AUDIT, Mode.OFF))
globs = st.sampled_from(("", "cart:*", "*:1", "web:9"))
days = st.sampled_from((None, date(2020, 1, 1), date(2099, 1, 1)))
exceptions = st.builds(
    PolicyException,
    st.sampled_from([f"r{i}" for i in range(8)]),
    st.one_of(st.just(""), owners),
    st.one_of(st.just(""), globs),
    st.just("b"),
    days,
    st.sampled_from((None, Mode.AUDIT, Mode.ENFORCE)),
    st.just(HERE),
)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    found = [*draw(st.lists(others, min_size=4, max_size=8, unique_by=repr)), *draw(lifetimes())]
    rules = []
    for i, each in enumerate(found):
        keys = draw(globs) if "keys" in each.takes else ""
        without, apps = draw(globs), draw(st.sets(st.sampled_from(OWNERS[1:]), max_size=2))
        scope = Scope((keys,) if keys else (), (without,) if without else (), tuple(apps))
        if draw(st.integers(0, 2)):
            scope = Scope()  # most rules are about all keys, or rarely any would say something
        mode = draw(modes)
        share = draw(st.sampled_from((1.0, 0.5))) if mode is Mode.ENFORCE else 1.0
        locked = draw(st.integers(0, 5)) == 0
        own = draw(owners) if draw(st.integers(0, 4)) == 0 else ""
        rules.append(PolicyRule(f"r{i}", each, Stage(mode, HERE, share), Wording(), HERE, locked, own, False, scope))
    excepted = tuple(draw(st.lists(exceptions, min_size=2, max_size=6)))
    return Policy("test", tuple(rules), apps=APPS, schema=draw(schemas()), exceptions=excepted)


kept_for = st.sampled_from((None, LEAST * 1000, 150_000, 250_000, 400_000))
"""No TTL that is shorter than a minimum: what is left of one proves nothing."""
keys = st.builds(
    StoredKey, st.sampled_from(KEYS), st.sampled_from(TYPES[:-1]), kept_for, st.just(10**6), st.integers(1, 6)
)


def written(key: StoredKey) -> Iterator[Command]:
    """The commands that write such a key: the one that creates it, and the one that gives it its TTL if need be."""
    assert key.members is not None
    members = [b"%d" % i for i in range(key.members)]
    pairs = [text for each in members for text in (each, each)]
    argv = {
        "string": [b"SET", key.name, b"v" * key.members],
        "hash": [b"HSET", key.name, *pairs],
        "list": [b"RPUSH", key.name, *members],
        "set": [b"SADD", key.name, *members],
        "zset": [b"ZADD", key.name, *pairs],
        "stream": [b"XADD", key.name, b"*", b"f", b"v"],
    }[key.type]
    if key.ttl is not None and key.type == "string":
        argv += [b"PX", b"%d" % key.ttl]
    yield Command(STANDARD, argv)
    if key.ttl is not None and key.type != "string":
        yield Command(STANDARD, [b"PEXPIRE", key.name, b"%d" % key.ttl])


def objects(step: Step, key: StoredKey, context: Context) -> bool:
    """Whether a rule refuses a command that writes the key, or gives the key another TTL."""
    rule, commands = step.rule, list(written(key))
    if isinstance(rule, Lifetime):
        settings = step.source.settings
        if isinstance(settings, LifetimeSettings) and key.type not in settings.types:
            return False  # EXPIRE does not tell the type, so it is judged for any
        commands = commands[-1:]
    told = [rule.judge(each, context) for each in commands if rule.touches(each.spec)]
    wrong = (Refuse, Rewrite, Surround) if isinstance(rule, Lifetime) else (Refuse,)
    return any(isinstance(verdict, wrong) for verdict in told)


def check(policy: Policy, found: list[StoredKey]) -> None:
    judge, compiler = StoredJudge(policy, NOW), PolicyCompiler(policy, STANDARD)
    bound = {name: compiler.bind(next((app for app in APPS if app.name == name), None)).steps for name in OWNERS}
    for key in found:
        judged = judge.judge(key)
        context = Context("default", "", 0, False, NOW, lambda: 0.5, judged.app)
        command = next(written(key))
        live: set[tuple[str, str]] = set()
        spared: set[str] = set()
        for step in bound[judged.app]:
            if objects(step, key, context):
                mode = step.mode_for(command, context)
                if mode is Mode.OFF:
                    spared.add(step.rule.name)
                else:
                    live.add((step.rule.name, mode.value))
        assert {(each.rule, each.mode) for each in judged.findings if not each.excepted} == live
        assert {each.rule for each in judged.findings if each.excepted} <= spared
        assert all(each.fault.sure for each in judged.findings)


@pytest.mark.parametrize("examples", [120, pytest.param(1000, marks=pytest.mark.long)])
def test_a_key_is_as_wrong_as_the_command_that_wrote_it(examples: int) -> None:
    @settings(max_examples=examples)
    @given(policies(), st.lists(keys, min_size=12, max_size=12))
    def agree(policy: Policy, found: list[StoredKey]) -> None:
        # One XADD adds one entry.
        check(policy, [replace(key, members=1) if key.type == "stream" else key for key in found])

    agree()


GROWN = (Fault.TOO_LARGE,)


@settings(max_examples=150)
@given(policies(), st.sampled_from(KEYS), st.integers(3, 6))
def test_a_string_that_small_writes_have_built_counts_as_one_write_does(policy: Policy, name: bytes, size: int) -> None:
    """APPEND and PFADD bring less than they make. What they make is judged as a SET of it, and by nothing else; a write
    at an offset is judged as what it makes, anyway."""
    judge, compiler = StoredJudge(policy, NOW), PolicyCompiler(policy, STANDARD)
    key = StoredKey(name, "string", None, 10**6, size)
    judged = judge.judge(key)
    context = Context("default", "", 0, False, NOW, lambda: 0.5, judged.app)
    steps = compiler.bind(next((app for app in APPS if app.name == judged.app), None)).steps
    found = {each.rule for each in judged.findings if each.fault.fault in GROWN}

    def refused(*argv: bytes) -> set[str]:
        command = Command(STANDARD, list(argv))
        sized = [step for step in steps if isinstance(step.source.settings, SizesSettings | SchemaSizeSettings)]
        wrong = [step for step in sized if isinstance(step.rule.judge(command, context), Refuse)]
        return {step.rule.name for step in wrong if step.mode_for(command, context) is not Mode.OFF}

    spared = {each.rule for each in judged.findings if each.excepted}
    whole = refused(b"SET", name, b"v" * size) | spared
    assert found <= whole
    assert refused(b"SET", name, b"v" * size) <= found
    assert refused(b"SETRANGE", name, b"%d" % (size - 1), b"v") == refused(b"SET", name, b"v" * size)
    assert refused(b"APPEND", name, b"v") <= found
    assert refused(b"PFADD", name, b"v") <= found


@settings(max_examples=60)
@given(policies(), keys, st.integers(0, 60))
def test_what_is_not_counted_may_be_wrong(policy: Policy, key: StoredKey, memory: int) -> None:
    """With the memory that its members need, a key that would be too large is asked about, and said to be unsure."""
    assert key.members is not None
    least = {"string": 1, "hash": 4, "list": 2, "set": 2, "zset": 4, "stream": 10}[key.type] * key.members
    judge = StoredJudge(policy, NOW)
    uncounted = StoredKey(key.name, key.type, key.ttl, len(key.name) + least + memory)
    known, unknown = judge.judge(key).findings, judge.judge(uncounted).findings
    assert {(each.rule, each.mode) for each in known} <= {(each.rule, each.mode) for each in unknown}
    assert judge.wants_members(uncounted) == any(not each.fault.sure for each in unknown)
    assert all(each.fault.text.startswith("may have over ") for each in unknown if not each.fault.sure)

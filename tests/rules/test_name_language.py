"""The automaton of the plan accepts exactly those names that the rule does not refuse."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.commands.table import STANDARD
from proxy.hotpath.plan.plan import JUDGE, PASS
from proxy.rules.name_language import automaton_of, joined
from proxy.rules.names.faults import Banned, HashTags, Prefixes, SegmentKinds
from proxy.rules.names.rule import DEFAULT_PREFIXES, NamesSettings, Naming
from proxy.rules.rule import Binding
from proxy.rules.verdict import Refuse
from tests.policy.given import compiled
from tests.policy.test_plan_agrees import planned
from tests.rules.given import BINDING, NO_WORDS, command, context

KINDS = ("any", "word", "int", "uuid", "date", "hex|slug", "prod|staging")
WORDS = ("data", "tmp", "prod", "1", "d")
UUID = "1b4e28ba-2fa1-11d2-883f-b9a761bde3fb"

MACHINES = st.one_of(
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=3).map(lambda kinds: SegmentKinds(tuple(kinds), ":")),
    st.sets(st.sampled_from(WORDS), min_size=1).flatmap(
        lambda words: st.sampled_from((Banned(words), Banned(words, ":")))
    ),
    st.builds(
        HashTags,
        st.booleans(),
        st.sampled_from(((), (1,), (2, 3))),
        st.sets(st.sampled_from(WORDS), max_size=2),
        st.just(":"),
    ),
    st.builds(
        lambda words, own: Prefixes(words if own else (), () if own else words),
        st.lists(st.sampled_from(("prod", "pro", "d", "data:", "{")), min_size=1).map(tuple),
        st.booleans(),
    ),
)
NAMES = st.lists(
    st.sampled_from(("prod", "data", "DATA", "tmp", "1", "42", ":", "{", "}", "{42}", "a", UUID, "2026-01-15", "")),
    max_size=9,
).map(lambda parts: "".join(parts).encode())


@settings(max_examples=300, deadline=None)
@given(st.lists(MACHINES, min_size=1, max_size=3), st.lists(NAMES, min_size=1, max_size=20))
def test_the_automaton_owns_what_has_no_fault(
    parts: list[SegmentKinds | Banned | HashTags | Prefixes], names: list[bytes]
) -> None:
    automaton = automaton_of(parts)
    assert automaton is not None
    for name in names:
        faults = [part.fault(name) for part in parts]
        if automaton.owner(name) >= 0:
            assert faults == [""] * len(parts)
        else:
            assert any(faults)


RULE = NamesSettings(
    segment_types=("word", "prod|staging", "int|uuid", "any"),
    banned=("data",),
    banned_segments=("tmp",),
    hash_tags=(3,),
    banned_hash_tags=("0",),
)


@pytest.mark.parametrize("name", ["cart:prod:42", f"cart:staging:{UUID}:x y", "cart:prod:{42}:items:9", "cart"])
def test_common_names_need_no_judging(name: str) -> None:
    rule = Naming("n", RULE, NO_WORDS, BINDING)
    assert rule._language is not None
    assert rule._language.owner(name.encode()) >= 0
    assert not isinstance(rule.judge(command("GET", name.encode()), context()), Refuse)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("c@rt:prod:42", 'must have letters, digits, "_", "-" and "." as segment 1'),
        ("cart:test:42", "must have prod or staging as segment 2"),
        ("cart:prod:x", "must have an integer or a UUID as segment 3"),
        ("Data", "is a banned name"),
        ("cart:prod:42:TMP", "has a banned word in segment 4"),
        ("cart:prod:42:{x}", "has a hash tag in segment 4, where the policy allows none"),
        ("cart:prod:{0}", "has a banned hash tag, which would put too many keys into one slot"),
    ],
)
def test_a_wrong_name_is_told_what_is_wrong(name: str, fault: str) -> None:
    verdict = Naming("n", RULE, NO_WORDS, BINDING).judge(command("MGET cart:prod:1", name.encode()), context())
    assert isinstance(verdict, Refuse)
    wanted = "name it with segments like word:prod|staging:int|uuid:any"
    start = f"-DENIED keyrail/n: the key '{name}' (argument 2 of MGET) {fault}; {wanted}"
    assert verdict.error.decode().startswith(start)


@pytest.mark.parametrize(
    ("app", "right", "wrong"),
    [
        ("checkout", ("cart:1", "cache:checkout:x"), ("cart", "jobs:1", "free:1")),
        ("jobs", ("jobs:1",), ("cart:1", "free:1")),
        ("", ("free:1",), ("cart:1", "jobs:1")),
        ("other", ("free:1",), ("cart:1",)),
    ],
)
def test_an_application_keeps_to_its_prefixes(app: str, right: tuple[str, ...], wrong: tuple[str, ...]) -> None:
    listed = (("checkout", ("cart:", "cache:checkout:")), ("jobs", ("jobs:",)))
    for prefixes in ((*listed, (DEFAULT_PREFIXES, ("free:",))), listed):
        rule = NamesSettings(prefixes=prefixes).bind("n", NO_WORDS, Binding(STANDARD, app=app))
        refused = [
            name
            for name in (*right, *wrong)
            if isinstance(rule.judge(command("GET", name.encode()), context()), Refuse)
        ]
        assert refused == list(wrong)


def test_two_rules_become_one_automaton() -> None:
    kinds, banned = automaton_of([SegmentKinds(("word", "int"), ":")]), automaton_of([Banned(["tmp"], ":")])
    assert kinds is not None
    assert banned is not None
    both = joined(kinds, banned)
    assert both is not None
    assert both is joined(kinds, banned)
    names = (b"cart:1", b"tmp:1", b"cart:x", b"cart", b"cart:1:TMP", b"cart:1:x")
    assert [name for name in names if both.owner(name) >= 0] == [b"cart:1", b"cart", b"cart:1:x"]


def test_two_rules_for_names_take_no_judging() -> None:
    rules = compiled("""
        defaults: {mode: enforce}
        rules: {a: {names: {segment_types: [word, int]}}, b: {names: {banned_segments: [tmp]}}}
    """)
    keys = (b"a:1", b"tmp:1", b"a:b")
    assert [planned(rules, [b"GET", key]) for key in keys] == [PASS, JUDGE, JUDGE]


def test_too_many_states_are_judged() -> None:
    machine = SegmentKinds(("uuid", "uuid"), ":")
    assert automaton_of([machine]) is not None
    assert automaton_of([machine], 40) is None

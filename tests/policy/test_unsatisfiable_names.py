"""Naming standards that no key can meet are an error that names the conflicting parts; standards that some key can meet
never are."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.policy.checks.unsatisfiable_names import some_key_meets
from proxy.rules.names.joint import for_app
from proxy.rules.names.rule import NamesSettings
from proxy.rules.verdict import PASS
from tests.policy.given import problems
from tests.rules.given import BINDING, NO_WORDS, command, context


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("max_length: 5", "min_length: 6", "found min_length"),
        ("segments: 3..", "segments: 1..2", "found segments"),
        ("segments: 9..", "max_length: 16", "found max_length"),
        ('prefixes: ["a:"]', 'prefixes: ["b:", "c:"]', "found prefixes"),
        ("segments: 2..", 'separator: "/", segment_types: [int], segments: 1', "found segments and segment_types"),
        ('prefixes: ["tmp:"]', "banned_segments: [TMP]", "found banned_segments"),
        ('prefixes: ["a b"]', "characters: printable-ascii, min_length: 2", "found characters"),
        ('prefixes: ["{x}:"]', "hash_tags: {segments: [2]}", "found hash_tags"),
        ("segment_types: [uuid]", "max_length: 35", "found max_length"),
    ],
)
def test_two_standards_that_no_key_can_meet(first: str, second: str, said: str) -> None:
    text = "rules:\n  a: {names: {%s}, %s}\n  b: {names: {%s}, mode: warn}\n"
    found = problems(text % (first, "mode: warn", second))
    assert len(found) == 1
    assert found[0].startswith(f"4: rules.b.names: {said}, expected something that a key can meet beside ")
    assert " of a (" in found[0]
    assert problems(text % (first, "mode: enforce", second)) == []  # an old standard and a new one


def test_standards_are_for_somebodys_reads_or_writes() -> None:
    text = """
    apps: {a: {match: {user: a}}, b: {match: {user: b}}}
    rules:
      short: {names: {max_length: 5}, applies_to: %s}
      owned: {names: {prefixes: {a: ["checkout:"], default: ["b:"]}}, applies_to: writes}
    rollout: {short: %s, owned: enforce}
    """
    found = problems(text % ("all", "enforce"))
    assert len(found) == 1
    assert "found prefixes, expected something that a key of a can meet beside max_length of short" in found[0]
    for meant in (("reads", "enforce"), ("all", "enforce 10%"), ("all", "audit"), ("all", "{a: off, default: warn}")):
        assert problems(text % meant) == [], meant


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("segment_types: [uuid], max_length: 35", "found max_length and segment_types"),
        ('segment_types: [a|b], prefixes: ["c:"]', "found segment_types and prefixes"),
        (
            "segment_types: [a|b], banned_segments: [a, B], hash_tags: refuse",
            "found segment_types and banned_segments and hash_tags",
        ),
        ('segments: 2, max_length: 5, prefixes: ["shop:"]', "found segments and max_length and prefixes"),
        ('empty_segments: refuse, max_length: 2, prefixes: ["a:"]', "found empty_segments and max_length and prefixes"),
    ],
)
def test_a_standard_that_no_key_can_meet(names: str, said: str) -> None:
    found = problems(f"rules: {{n: {{names: {{{names}}}}}, more: {{names: {{max_length: 64}}}}}}")
    assert len(found) == 1
    assert f"rules.n.names: {said}, expected something that a key can meet; none can" in found[0]
    assert problems(f"rules: {{n: {{names: {{{names}}}, mode: off}}}}") == []


STANDARDS = st.builds(
    NamesSettings,
    characters=st.sampled_from(("any", "word-ascii")),
    min_length=st.integers(0, 4),
    max_length=st.integers(1, 3),
    separator=st.sampled_from(":/"),
    min_segments=st.integers(1, 3),
    max_segments=st.sampled_from((None, 3)),
    empty_segments=st.booleans(),
    segment_types=st.sampled_from(((), ("int",), ("any", "aa|b"), ("word", "int"))),
    banned=st.sampled_from(((), ("a", "1"))),
    banned_segments=st.sampled_from(((), ("a", "1"))),
    hash_tags=st.sampled_from((True, False, (2,))),
    prefixes=st.sampled_from(((), (("default", ("a", "1:")),), (("default", ("{a",)),))),
)
NAMES = [bytes(name) for length in range(4) for name in product(b"ab12:/{}", repeat=length)]


@settings(max_examples=60, deadline=None)
@given(st.lists(STANDARDS, min_size=1, max_size=2))
def test_some_key_meets_them_if_and_only_if_one_is_found(standards: list[NamesSettings]) -> None:
    rules = [each.bind("n", NO_WORDS, BINDING) for each in standards]
    found = any(all(rule.judge(command("GET", name), context()) is PASS for rule in rules) for name in NAMES)
    assert some_key_meets([for_app(each, "") for each in standards]) is found

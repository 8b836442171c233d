"""The YAML of the parts of ``names`` about the content of a name."""

import pytest

from proxy.policy_yaml.errors import PolicyError
from proxy.rules.names.rule import NamesSettings
from tests.policy.given import policy

APPS = "apps: {checkout: {match: {user: c}}, spark: {match: {client_name: spark}}}\n"


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("segment_types: [word, prod|staging, any]", NamesSettings(segment_types=("word", "prod|staging", "any"))),
        ("banned: [Data], banned_segments: [x, y]", NamesSettings(banned=("Data",), banned_segments=("x", "y"))),
        ("hash_tags: refuse", NamesSettings(hash_tags=False)),
        ("hash_tags: {segments: [2, 3]}", NamesSettings(hash_tags=(2, 3))),
        ("hash_tags: {banned: [PENDING]}", NamesSettings(banned_hash_tags=("PENDING",))),
        ("prefixes: ['a:', 'b:']", NamesSettings(prefixes=(("default", ("a:", "b:")),))),
        (
            "prefixes: {checkout: ['a:'], default: ['b:']}",
            NamesSettings(prefixes=(("checkout", ("a:",)), ("default", ("b:",)))),
        ),
    ],
)
def test_they_are_read(text: str, settings: NamesSettings) -> None:
    assert policy(f"{APPS}rules: {{n: {{names: {{{text}}}}}}}").rules[0].settings == settings


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("segment_types: [wort]", "n.names.segment_types[0]: found 'wort', expected any, one of date, uuid, int"),
        ("segment_types: [int|x]", "n.names.segment_types[0]: found 'int|x', expected any, one of date, uuid, int"),
        ("segments: 2, segment_types: [int, int, int]", "n.names.segment_types: found 3 of them, expected at most as"),
        ("separator: '|', segment_types: [int]", "n.names.separator: found '|', expected another separator"),
        ("hash_tags: allow", "n.names.hash_tags: found 'allow', expected refuse, or segments, or banned"),
        ("separator: '/'", "n.names: found no standard, expected at least one, such as segments: 2..6"),
        ("hash_tags: {}", "n.names.hash_tags: found an empty mapping, expected refuse, or segments, or banned"),
        ("hash_tags: {segments: [0]}", "n.names.hash_tags.segments[0]: found '0', expected a whole number from 1"),
        ("prefixes: {}", "n.names.prefixes: found an empty mapping, expected lists such as"),
        ("prefixes: {chekout: ['a:']}", "n.names.prefixes: found 'chekout', expected an app that is matched by more"),
        ("prefixes: {spark: ['a:']}", "n.names.prefixes: found 'spark', expected an app that is matched by more than"),
    ],
)
def test_what_is_wrong_with_them_is_an_error(text: str, problem: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy(f"{APPS}rules: {{n: {{names: {{{text}}}}}}}")
    assert any(problem in line for line in str(caught.value).splitlines()), str(caught.value)

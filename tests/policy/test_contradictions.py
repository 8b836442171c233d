"""Rules of one policy that cannot both be meant are an error; a rule that is off contradicts nothing."""

import pytest

from proxy.policy.errors import PolicyError
from tests.policy.given import policy


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        (
            "refuse: [KEYS, FLUSHALL]",
            "refuse: [KEYS]",
            "rules.b.refuse: found KEYS, expected each command refused once; a",
        ),
        (
            "refuse: [CONFIG]",
            "refuse: [CONFIG SET]",
            "rules.b.refuse: found CONFIG SET, expected each command refused once",
        ),
        ("refuse: [REPLICAOF]", "refuse: [SLAVEOF]", "rules.b.refuse: found REPLICAOF"),
        ("refuse: [FLUSHALL SYNC]", "refuse: [flushall sync]", "rules.b.refuse: found FLUSHALL SYNC, expected each"),
        ("refuse: [MULTI]", "transactions: refuse", "rules.b.transactions: found MULTI, expected each command refused"),
        ("refuse: [KEYS]", "allow_only: [GET, KEYS]", "rules.b.allow_only: found KEYS, expected a command that is not"),
        ("refuse: [KEYS]", "keys_by_scan: {}", "rules.b.keys_by_scan: found an answer to KEYS, expected KEYS not ref"),
        (
            "refuse: [DEL]",
            "replace: {DEL: UNLINK}",
            "rules.b.replace: found DEL, expected a command that is not refused; a",
        ),
        (
            "replace: {DEL: UNLINK}",
            "refuse: [DEL]",
            "rules.a.replace: found DEL, expected a command that is not refused; b",
        ),
        (
            "refuse: [UNLINK]",
            "replace: {DEL: UNLINK}",
            "rules.b.replace: found UNLINK, expected a command that is not ref",
        ),
        (
            "replace: {DEL: UNLINK}",
            "replace: {DEL: UNLINK}",
            "rules.b.replace: found DEL, expected each command replaced",
        ),
        (
            "replace: {DEL: UNLINK}",
            "replace: {UNLINK: DEL}",
            "rules.a.replace: found UNLINK, expected a command that is ",
        ),
        (
            "lifetime: {default: 5m}",
            "lifetime: {default: 6m}",
            "rules.b.lifetime: found a second lifetime, expected one; a",
        ),
        ("read_only: true", "read_only: true", "rules.b: found the same as a, expected something that a (line 3) does"),
        (
            "names: {max_length: 9}",
            "names: {max_length: 9}, because: it is long",
            "rules.b: found the same as a, expected something",
        ),
    ],
)
def test_two_rules_that_cannot_both_be_meant(first: str, second: str, problem: str) -> None:
    text = "rules:\n  a: {%s, mode: %s}\n  b: {%s}\n"
    with pytest.raises(PolicyError) as caught:
        policy(text % (first, "audit", second))
    assert any(problem in line for line in str(caught.value).splitlines()), str(caught.value)
    assert len(policy(text % (first, "off", second)).rules) == 2


def test_standards_for_names_add_up() -> None:
    assert len(policy("rules: {a: {names: {segments: 2}}, b: {names: {max_length: 9}}}").rules) == 2


@pytest.mark.parametrize(("part", "said"), [("type", "type: hash"), ("ttl", "ttl: none"), ("size", "size: 1KB")])
def test_a_schema_that_says_nothing_of_what_a_rule_is_about(part: str, said: str) -> None:
    text = 'schema: {a: {key: "a", %s}, b: {key: "b", about: anything}}\nrules: {r: {schema: %s}}'
    assert len(policy(text % (said, part)).rules) == 1
    with pytest.raises(PolicyError, match=f"rules.r.schema: found '{part}', expected some entry of the schema to have"):
        policy(text % ("about: nothing", part))

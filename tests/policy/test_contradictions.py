"""Rules of one policy that contradict each other are an error; a rule that is off contradicts nothing."""

from pathlib import Path

import pytest

from proxy.policy_yaml.errors import PolicyError
from tests.policy.given import policy, policy_files, problems


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
        ("refuse: [KEYS]", "keys_by_scan: {}", "rules.b.keys_by_scan: found a conflict with a ("),
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
            "rules.b.lifetime: found a second lifetime, expected one lifetime for these keys; a",
        ),
        (
            "read_only: true",
            "read_only: true",
            "rules.b: found the same as a, expected a rule that differs from a (line 3)",
        ),
        (
            "names: {max_length: 9}",
            "names: {max_length: 9}, because: it is long",
            "rules.b: found the same as a, expected a rule that differs",
        ),
    ],
)
def test_two_rules_that_cannot_both_be_meant(first: str, second: str, problem: str) -> None:
    text = "rules:\n  a: {%s, mode: %s}\n  b: {%s}\n"
    with pytest.raises(PolicyError) as caught:
        policy(text % (first, "audit", second))
    assert any(problem in line for line in str(caught.value).splitlines()), str(caught.value)
    assert len(policy(text % (first, "off", second)).rules) == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{walk: enforce, no-keys: off}", ""),
        ("{walk: {default: off, ops: enforce}, no-keys: {default: enforce, ops: off}}", ""),
        (
            "{walk: enforce, no-keys: {default: off, ops: enforce}}",
            "",
        ),  # for ops it is refused, for all others answered
        (
            "{walk: {default: off, ops: enforce}, no-keys: warn}",
            "found a conflict with no-keys (line 3), expected only one",
        ),
    ],
)
def test_who_is_spoken_to_decides(text: str, problem: str) -> None:
    rules = "rules: {no-keys: {refuse: [KEYS]}, walk: {keys_by_scan: {}}}\n"
    found = problems("apps: {ops: {match: {user: ops}}}\n" + rules + f"rollout: {text}")
    assert [problem in each for each in found] == ([True] if problem else [])


PLATFORM = """
    keyrail: 1
    include: [apps/*.yaml]
    apps: {cart: {match: {user: cart}}, shop: {match: {user: shop}}}
    rules: {lazy: {replace: {DEL: UNLINK}}, no-keys: {refuse: [KEYS]}}
"""


def test_teams_may_say_what_would_contradict_each_other_in_one_file(tmp_path: Path) -> None:
    own = "app: %s\nrules: {%s-dels: {refuse: [DEL]}, %s-ttl: {lifetime: {default: 5m}}}"
    files = {f"apps/{app}.yaml": own % (app, app, app) for app in ("cart", "shop")}
    assert len(policy_files(tmp_path, {"redis.yaml": PLATFORM, **files}).rules) == 6


def test_a_rule_of_another_file_is_named_with_it(tmp_path: Path) -> None:
    files = {"redis.yaml": PLATFORM, "apps/cart.yaml": "app: cart\nrules: {mine: {refuse: [KEYS]}}"}
    with pytest.raises(PolicyError, match=rf"refused once; no-keys \({tmp_path}/redis.yaml:5\) refuses it already"):
        policy_files(tmp_path, files)


def test_standards_for_names_add_up() -> None:
    assert len(policy("rules: {a: {names: {segments: 2}}, b: {names: {max_length: 9}}}").rules) == 2


@pytest.mark.parametrize(("part", "said"), [("type", "type: hash"), ("ttl", "ttl: none"), ("size", "size: 1KB")])
def test_a_schema_that_says_nothing_of_what_a_rule_is_about(part: str, said: str) -> None:
    text = 'schema: {a: {key: "a", %s}, b: {key: "b", about: anything}}\nrules: {r: {schema: %s}}'
    assert len(policy(text % (said, part)).rules) == 1
    with pytest.raises(PolicyError, match=f"rules.r.schema: found '{part}', expected some entry of the schema to have"):
        policy(text % ("about: nothing", part))

"""Each key falls under one lifetime, each lifetime acts on some key, and no key lives for ever by mistake."""

from itertools import permutations
from pathlib import Path

import pytest

from proxy.commands.table import STANDARD
from proxy.policy.explain import explain
from proxy.policy_yaml.errors import PolicyError
from proxy.rules.verdict import Rewrite
from tests.policy.given import compile_policy, compiled, policy, policy_files, problems
from tests.rules.given import command, context

LOCK = 'schema: {lock: {key: "lock:{what...}", ttl: %s}}\n'


@pytest.mark.parametrize(
    ("schema", "rules", "problem"),
    [
        (
            "{max: 60s, required: true}",
            "all: {lifetime: {default: 5m}}",
            "expected a rule that acts on it, such as rules: {schema-ttl: {schema: ttl}}; add mode: off if it",
        ),
        ("{max: 60s}", "l: {schema: ttl}", "schema.lock.ttl.max: found max: 1m without a default, expected a default"),
        (
            "{required: true}",
            "l: {schema: ttl}",
            "schema.lock.ttl.required: found required without a default, expected",
        ),
        (
            "{min: 5s}",
            "l: {schema: ttl}, all: {lifetime: {default: 5m}}",
            "schema.lock.ttl.default: found nothing, expected a default, or required: true; all (",
        ),
        (
            "30s",
            'l: {schema: ttl}, locks: {lifetime: {default: 5m, keys: "lock:*"}}',
            "rules.locks.lifetime.keys: found 'lock:*', expected keys for this rule to act on; all that match belong",
        ),
        (
            "none",
            'locks: {lifetime: {default: 5m, keys: ["a:*", "lock:a*"]}}',
            "rules.locks.lifetime.keys: found 'lock:a*', expected keys for this rule to act on; all that match belong",
        ),
    ],
)
def test_a_ttl_of_the_schema_that_would_be_lost(schema: str, rules: str, problem: str) -> None:
    (found,) = problems(f"{LOCK % schema}rules: {{{rules}}}")
    assert problem in found


@pytest.mark.parametrize("part", ["type: hash", "size: 1KB"])
def test_a_type_or_a_size_that_no_rule_acts_on(part: str) -> None:
    entries = "\n".join(f"  {name}: {{key: {name}, {part}}}" for name in "abc")
    word = part.partition(":")[0]
    (found,) = problems(f"schema:\n{entries}\nrules: {{}}")
    assert found.startswith(f"3: schema.a.{word}: found a {word} that no rule acts on, here and in 2 more entries")
    assert problems(f"schema:\n{entries}\nrules: {{r: {{schema: {word}, mode: off}}}}") == []


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        ("keys: 'a:*'", "keys: '*:b'", "rules.b.lifetime.keys: found '*:b', expected a pattern that does not overlap "),
        ("keys: ['x', 'a:*']", "keys: ['y', 'a:*']", "both match a:, and neither is more specific"),
        ("keys: '*'", "types: [string]", "rules.b.lifetime.keys: found '*', expected a pattern that does not overlap"),
        (
            "types: all",
            "keys: 'a:*'",
            "rules.b.lifetime.types: found hash, other, set, string, zset, expected list, st",
        ),
        ("keys: 'a:*'", "keys: ['a*', 'a:b*']", ""),
        ("keys: 'a:*'", "keys: 'a'", ""),
        ("types: [string]", "keys: 'a:*'", ""),
    ],
)
def test_of_two_that_overlap_one_is_more_specific_or_it_is_an_error(first: str, second: str, problem: str) -> None:
    found = problems(
        f"rules: {{a: {{lifetime: {{default: 5m, {first}}}}}, b: {{lifetime: {{default: 5m, {second}}}}}}}"
    )
    assert len(found) == bool(problem)
    assert all(problem in each for each in found)


def test_the_more_specific_one_must_not_leave_out_the_default() -> None:
    (found,) = problems("rules: {a: {lifetime: {default: 5m}}, b: {lifetime: {min: 5s, keys: 'a:*'}}}")
    assert "rules.b.lifetime.default: found nothing, expected a default; it takes these keys from a (" in found


def test_globs_too_intricate_to_compare_are_told() -> None:
    globs = ", ".join(f"'{'*'.join(letters)}*'" for letters in permutations("abcde", 5))
    (found,) = problems(
        f"rules: {{a: {{lifetime: {{default: 5m}}}}, b: {{lifetime: {{default: 5m, keys: [{globs}]}}}}}}"
    )
    assert "lifetime.keys: found globs that are too complex together" in found


RULES = "rules: {all: {lifetime: {default: 5m, max: 1h}}, sessions: {lifetime: {default: 2h, keys: 'session:*'}}}\n"


@pytest.mark.parametrize(
    ("rollout", "seconds"),
    [
        ("{all: enforce, sessions: enforce}", 7200),
        ("{all: audit, sessions: enforce}", 7200),
        ("{all: enforce, sessions: audit}", 300),
        ("{all: enforce, sessions: off}", 300),
        ("{all: off, sessions: enforce}", 7200),
    ],
)
def test_what_is_in_a_weaker_mode_takes_nothing(rollout: str, seconds: int) -> None:
    decision = compiled(f"{RULES}rollout: {rollout}").judge(command("SET session:1 v"), context())
    assert isinstance(decision.verdict, Rewrite)
    assert decision.verdict.argv[-1] == b"%d" % seconds


def test_one_that_is_audited_sees_what_the_client_sent() -> None:
    loaded = policy(f"{RULES}rollout: {{all: enforce, sessions: audit}}")
    text = str(explain(compile_policy(loaded, STANDARD), [b"SET", b"session:1", b"v"], context()))
    assert "would rewrite it to SET session:1 v EX 7200" in text
    assert "to Redis: *5" in text


PLATFORM = """
    keyrail: 1
    include: [cart.yaml]
    apps: {cart: {match: {user: cart}}}
    defaults: {mode: enforce}
    rules: {all: {lifetime: {default: 5m, max: 1h}}}
"""


def test_an_apps_own_lifetime_loosens_nothing(tmp_path: Path) -> None:
    own = "app: cart\nrules: {carts: {lifetime: {default: %s, max: 1d, keys: 'cart:*'}}}"
    loaded = policy_files(tmp_path, {"redis.yaml": PLATFORM, "cart.yaml": own % "10m"})
    bound = compile_policy(loaded, STANDARD, seed=1, app=loaded.apps[0])
    for text, seconds in (("SET cart:1 v", 600), ("SET cart:1 v EX 80000", 3600), ("SET x v", 300)):
        verdict = bound.judge(command(text), context()).verdict
        assert isinstance(verdict, Rewrite)
        assert verdict.argv[-1] == b"%d" % seconds
    with pytest.raises(
        PolicyError, match=r"rules.carts.lifetime.default: found 2h, expected at most 1h, the max of all"
    ):
        policy_files(tmp_path, {"redis.yaml": PLATFORM, "cart.yaml": own % "2h"})

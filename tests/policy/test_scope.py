"""`keys`, `except` and `apps` of every rule: which commands of which clients it judges, and mistakes in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from proxy.policy.expectations import run_tests
from proxy.policy.explain import explain
from proxy.policy.precedence import audience
from proxy.policy_yaml.errors import PolicyError
from proxy.rules.guardrails import GUARDRAILS
from proxy.rules.order import ORDER
from proxy.rules.verdict import Pass, Refuse, Rewrite
from tests.policy.given import compiled, policy, policy_files, problems
from tests.rules.given import command, context

APPS = """
        apps: {shop: {match: {user: shop}}, web: {match: {user: web}}, spark: {match: {client_name: s}}}
"""


def refused(rule: str, text: str) -> bool:
    bound = compiled(f"defaults: {{mode: enforce}}\nrules: {{r: {rule}}}")
    return isinstance(bound.judge(command(text), context()).verdict, Refuse)


@pytest.mark.parametrize(
    ("scope", "text", "judged"),
    [
        ("keys: 'a:*'", "DEL a:1", True),
        ("keys: 'a:*'", "DEL b:1", False),
        ("keys: 'a:*'", "DEL b:1 a:1", True),
        ("keys: ['a:*', b]", "DEL b", True),
        ("except: 'a:*'", "DEL a:1", False),
        ("except: 'a:*'", "DEL a:1 b", True),
        ("except: 'a:*'", "DEL a:1 a:2", False),
        ("keys: 'a:*', except: 'a:x*'", "DEL a:x1", False),
        ("keys: 'a:*', except: 'a:x*'", "DEL a:x1 b", False),
        ("keys: 'a:*', except: 'a:x*'", "DEL a:x1 a:y1", True),
        ("keys: 'a:*'", "FLUSHALL", False),
        ("except: 'a:*'", "FLUSHALL", True),
        ("keys: 'a:*'", "KEYS *", True),
        ("keys: 'a:*'", "KEYS a:1*", True),
        ("keys: 'a:*'", "KEYS b:*", False),
        ("keys: 'a:*'", "KEYS [ab]:*", True),
        ("except: 'a:*'", "KEYS a:1*", False),
        ("except: 'a:*'", "KEYS *", True),
        ("keys: 'a:*', except: 'a:x*'", "KEYS a:x*", False),
        ("keys: 'a:*'", "SCAN 0", True),
        ("keys: 'a:*'", "SCAN 0 MATCH b*", False),
        ("keys: 'a:*'", "EVAL x y", True),
        ("except: 'a:*'", "EVAL x y", True),
        ("keys: 'a:*'", "EVAL x 0", False),
        ("keys: 'a:*'", "EVAL x 1 a:1", True),
    ],
)
def test_which_commands_a_rule_judges(scope: str, text: str, judged: bool) -> None:
    assert refused(f"{{refuse: [DEL, FLUSHALL, KEYS, SCAN, EVAL], {scope}}}", text) is judged


def test_a_rule_is_on_for_its_apps_only() -> None:
    loaded = policy(f"""{APPS}
        rules:
          r: {{refuse: [DEL], apps: [shop, spark], mode: enforce}}
          hard: {{refuse: [KEYS], apps: shop, locked: true}}
        tests:
          - {{send: DEL a, app: shop, refused_by: r}}
          - {{send: DEL a, app: spark, refused_by: r}}
          - {{send: DEL a, app: web, unchanged: true}}
          - {{send: DEL a, unchanged: true}}
          - {{send: "KEYS *", app: shop, refused_by: hard}}
          - {{send: "KEYS *", unchanged: true}}
    """)
    report = run_tests(loaded, 0.0)
    assert report.failed == 0
    assert report.unreached == ()
    assert [audience(loaded, rule) for rule in loaded.rules] == [{"shop", "spark"}, {"shop"}]


def test_explain_says_why_a_rule_is_off() -> None:
    text = "rules: {r: {refuse: [DEL], keys: 'a:*', mode: enforce}, s: {refuse: [GET], apps: [shop], mode: enforce}}"
    bound = compiled(f"{APPS}        {text}")
    assert "[off: the rule is about other keys, " in str(explain(bound, [b"DEL", b"b"], context()))
    assert "[enforce: rule, " in str(explain(bound, [b"DEL", b"a:1"], context()))
    assert "[off: only for shop, " in str(explain(bound, [b"GET", b"a:1"], context()))


FOLLOWED = """
defaults: {mode: enforce}
rules:
  mine: {refuse: [DEL, KEYS, FLUSHALL], keys: "a:*"}
  others: {sizes: {value: 3B}, except: "b:*"}
  scripts: {scripts: {commands: follow_rules, dynamic_calls: allow}}
"""


@pytest.mark.parametrize(
    ("script", "keys", "is_refused"),
    [
        ("redis.call('DEL', KEYS[1])", b"a:1", True),
        ("redis.call('DEL', KEYS[1])", b"b:1", False),
        ("redis.call('DEL', 'a:9')", b"b:1", True),
        ("redis.call('DEL', 'a:' .. KEYS[1])", b"b:1", True),  # nobody knows which key
        ("redis.call('KEYS', 'b*')", b"b:1", False),
        ("redis.call('KEYS', 'a*')", b"b:1", True),
        ("redis.call('FLUSHALL')", b"a:1", False),
        ("redis.call('SET', KEYS[1], 'value')", b"b:1", False),
        ("redis.call('SET', KEYS[1], 'value')", b"c:1", True),
    ],
)
def test_scripts_follow_a_rule_for_the_keys_that_it_is_about(script: str, keys: bytes, is_refused: bool) -> None:
    found = compiled(FOLLOWED).judge(command("EVAL", script.encode(), b"1", keys), context())
    assert isinstance(found.verdict, Refuse if is_refused else Pass)


def test_rules_about_different_keys_do_not_contradict_each_other() -> None:
    assert problems("""
    rules:
      a: {refuse: [DEL], keys: "a:*"}
      b: {refuse: [DEL], keys: "b:*"}
      c: {replace: {DEL: UNLINK}, except: "a:*"}
      d: {names: {segments: 2}, keys: "a:*"}
      e: {names: {segments: 3}, keys: "b:*"}
      f: {names: {max_length: 3}, keys: "c*"}
      g: {names: {min_length: 4}, except: "c*"}
    """) == []  # fmt: skip
    assert "the same as a" in str(problems('rules: {a: {refuse: [DEL], keys: "a"}, b: {refuse: [DEL], keys: "a"}}'))


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (
            "{refuse: [FLUSHALL], keys: 'a*'}",
            "rules.r.keys: found 'a*', expected a rule without keys: its commands have",
        ),
        (
            "{refuse: [FLUSHALL], except: 'a*'}",
            "rules.r.except: found 'a*', expected a rule without except: its comman",
        ),
        (
            "{lifetime: {default: 5m}, keys: 'a*'}",
            "rules.r.keys: found keys, expected only apps and except beside this",
        ),
        (
            "{local_cache: {keys: 'a*'}, except: 'a*'}",
            "r.except: found except, expected only apps beside this guardrail",
        ),
        ("{transactions: refuse, keys: 'a*'}", "rules.r.keys: found keys, expected only apps beside this guardrail"),
        ("{refuse: [DEL], apps: nosuch}", "rules.r.apps: found 'nosuch', expected an app: shop, web, spark"),
        (
            "{refuse: [DEL], apps: [shop, shop]}",
            "rules.r.apps[1]: found 'shop', expected a value that shop does not cov",
        ),
        (
            "{refuse: [DEL], keys: 'a:b*', except: 'a*'}",
            "r.keys: found 'a:b*', expected a pattern with keys that except",
        ),
        ("{refuse: [DEL], keys: ['a*', ab]}", "rules.r.keys[1]: found 'ab', expected a value that a* does not cover"),
        (
            "{refuse: [DEL], keys: 'a?'}",
            "rules.r.keys: found 'a?', expected a pattern of keys in which only * is special",
        ),
        ("{refuse: [DEL], keys: []}", "rules.r.keys: found an empty list, expected a list such as"),
        ("{refuse: [DEL], exept: a}", "rules.r.exept: found an unknown key"),
    ],
)
def test_mistakes_are_named_with_their_place(rule: str, problem: str) -> None:
    (found,) = problems(f"{APPS}        rules: {{r: {rule}}}")
    assert problem in found


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("rollout: {r: {web: enforce}}", "rollout.r.web: found web, expected one of shop: r ("),
        ("exceptions: [{rule: r, app: web, because: x}]", "exceptions[0].app: found web, expected one of shop: r ("),
        (
            "exceptions: [{rule: r, keys: 'b*', because: x}]",
            "exceptions[0].keys: found b*, expected some of the keys th",
        ),
        ("tests: [{send: DEL a, app: web, refused_by: r}]", ""),
    ],
)
def test_what_else_names_the_rule_fits_its_scope(more: str, problem: str) -> None:
    found = problems(f"{APPS}        rules: {{r: {{refuse: [DEL], apps: shop, keys: 'a*'}}}}\n        {more}")
    assert problem in str(found)
    assert len(found) == bool(problem)


def test_an_apps_own_file_names_no_apps(tmp_path: Path) -> None:
    files = {
        "first.yaml": "keyrail: 1\ninclude: [shop.yaml]\napps: {shop: {match: {user: shop}}}\nrules: {}\n",
        "shop.yaml": "app: shop\nrules: {r: {refuse: [DEL], keys: 'a*', apps: [shop]}}\n",
    }
    with pytest.raises(PolicyError, match=r"rules\.r\.apps: found apps, expected nothing, since this file's rules"):
        policy_files(tmp_path, files)


def test_every_guardrail_takes_apps() -> None:
    settings = {kind.__module__.split(".")[2]: kind for kind in ORDER}
    assert settings.keys() == GUARDRAILS.keys()
    named: dict[str, frozenset[str]] = {name: cast("Any", kind).takes.fget(None) for name, kind in settings.items()}
    assert all("apps" in takes for takes in named.values())
    assert {name for name, takes in named.items() if "except" not in takes} == {
        "compress",
        "databases",
        "local_cache",
        "quota",
        "transactions",
        "unknown_commands",
    }
    assert {name for name, takes in named.items() if "except" in takes and "keys" not in takes} == {
        "lifetime",
        "limits",
        "replica_reads",
    }


LIFETIMES = """
defaults: {mode: enforce}
schema: {cart: {key: "cart:{id}", ttl: 10m}, page: {key: "page:{id}", ttl: 20m}}
rules:
  by-schema: {schema: ttl, keys: "cart:*"}
  short: {lifetime: {default: 1m, keys: "tmp:*"}, except: "tmp:x*"}
  usual: {lifetime: {default: 5m}}
"""


@pytest.mark.parametrize(("key", "ttl"), [("cart:1", 600), ("page:1", 300), ("tmp:1", 60), ("tmp:x1", 300), ("a", 300)])
def test_no_key_loses_its_ttl_to_a_rule_that_is_off_for_it(key: str, ttl: int) -> None:
    verdict = compiled(LIFETIMES).judge(command(f"SET {key} v"), context()).verdict
    assert isinstance(verdict, Rewrite)
    assert verdict.argv[-2:] == [b"EX", b"%d" % ttl]

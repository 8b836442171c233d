"""The cost of loading and compiling a large policy: the number of function calls, which does not depend on the
machine's load.

Four times as many rules or patterns are four times the work, for all kinds of rules: no check compares each with each.
"""

import gc
from collections.abc import Callable
from cProfile import Profile
from functools import partial

import pytest

from proxy.commands.table import STANDARD
from proxy.policy.compile import PolicyCompiler, needs_of
from proxy.policy_yaml.errors import PolicyError
from proxy.rules.memory import Memory
from tests.policy.given import compile_policy, policy, with_plan

PARSER = "site-packages/yaml/"
APPS = "apps:\n" + "".join(f"  app{i}: {{match: {{user: app{i}}}}}\n" for i in range(2))


def _rules(rule: str) -> Callable[[int], str]:
    return lambda many: "rules:\n" + "".join(f"  r{i}: {rule}\n".replace("NUMBER", f"{i:04}") for i in range(many))


def _schema(many: int) -> str:
    rules = "  known: {names: {in_schema: true}}\n  ttl: {schema: ttl}\n  all: {lifetime: {default: 1h}}\n"
    entries = "".join(f'  e{i}: {{key: "team{i % 20}:thing{i:04}:{{id:int}}", ttl: 5m}}\n' for i in range(many))
    return f"rules:\n{rules}schema:\n{entries}"


INTRICATE = "limits that share nothing"
UNSATISFIABLE = "names that no key can meet"
KINDS: dict[str, Callable[[int], str]] = {
    "lifetimes": _rules('{lifetime: {default: 5m, keys: "team:NUMBER:*"}}'),
    "lifetimes under a wider one": lambda many: (
        KINDS["lifetimes"](many) + '  wide: {lifetime: {default: 1h, keys: "team:*"}}\n  all: {lifetime: {default: 2h}}'
    ),
    "limits": _rules('{limits: {keys: "team:NUMBER:*", rate: 5/s}}'),
    INTRICATE: _rules('{limits: {keys: "*NUMBER*", rate: 5/s}}'),
    "names": _rules("{names: {max_length: 64, banned_segments: [wordNUMBER]}}"),
    "prefixes": _rules('{names: {prefixes: {app0: ["a:"], app1: ["b:", "c:NUMBER"]}}}'),
    UNSATISFIABLE: lambda many: (
        _rules('{names: {prefixes: {default: ["team:NUMBER:"]}}}')(many) + "  x: {names: {max_length: 64}}"
    ),
    "schema": _schema,
}


def calls_of(act: Callable[[], object]) -> int:
    """How many functions are called, without those of the YAML parser, which has no part in what is compared."""
    profile = Profile()
    profile.enable()
    try:
        act()
    finally:
        profile.disable()
    ours = [
        each for each in profile.getstats() if not isinstance(each.code, str) and PARSER not in each.code.co_filename
    ]
    return sum(
        each.callcount + sum(builtin.callcount for builtin in each.calls or () if isinstance(builtin.code, str))
        for each in ours
    )


def load_and_compile(text: str) -> None:
    try:
        loaded = policy(text)
    except PolicyError:
        return
    needs_of(loaded, STANDARD)
    compile_policy(loaded, STANDARD, memory=Memory(1))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != UNSATISFIABLE])
def test_no_check_compares_each_with_each(kind: str) -> None:
    few, many = (calls_of(partial(policy, APPS + KINDS[kind](size))) for size in (20, 160))
    assert many < 9 * few, (few, many)


@pytest.mark.parametrize(
    "kind",
    [
        *(kind for kind in KINDS if kind != INTRICATE),
        pytest.param(INTRICATE, marks=pytest.mark.long),
    ],
)
def test_four_times_as_many_rules_are_four_times_the_work(kind: str) -> None:
    few, many = (calls_of(partial(load_and_compile, APPS + KINDS[kind](size))) for size in (20, 80))
    assert many < 4.5 * few, (few, many)


def test_an_app_more_makes_few_objects() -> None:
    """What all apps share is made once; many objects of each would hold up everybody while garbage is collected."""
    loaded = policy(APPS + _schema(100).replace("rules:\n", 'rules:\n  own: {names: {prefixes: {app0: ["team:"]}}}\n'))
    compiler = PolicyCompiler(loaded, STANDARD, memory=Memory(1))
    kept = [with_plan(compiler, None)]
    gc.collect()
    before = len(gc.get_objects())
    kept += [with_plan(compiler, app) for app in loaded.apps]
    gc.collect()
    assert len(gc.get_objects()) - before < 300 * len(loaded.apps)

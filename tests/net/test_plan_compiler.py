"""Apps that no rule tells apart have one plan: each gets what its own rules would have been lowered to, and no plan is
made twice."""

from __future__ import annotations

import asyncio
import random

import pytest

from proxy.commands.table import STANDARD
from proxy.net.policy.plan_compiler import PlanCompiler, WantedPlans
from proxy.policy.compile import CompiledPolicy, PolicyCompiler
from proxy.policy.lower_policy import LoweredPolicy
from proxy.policy.model import Policy
from proxy.policy.plan_tables import PlanReader
from tests.conftest import seeds
from tests.policy.given import policy
from tests.policy.test_plan_tables import told

APPS = [f"app{number}" for number in range(12)]


def some(chance: random.Random, most: int) -> list[str]:
    return chance.sample(APPS, chance.randint(0, most))


def generated(chance: random.Random) -> tuple[Policy, set[str]]:
    """A policy with all that can tell apps apart, and the apps that it treats by name."""
    claimed = set(some(chance, 4))
    proven = [app for app in APPS if app not in claimed]
    apps = [f"  {app}: {{match: {{{'client_name' if app in claimed else 'user'}: {app}}}}}" for app in APPS]
    owners, prefixed = some(chance, 3), proven[: chance.randint(1, 4)]
    entries = [f"  of-{app}: {{key: 'a:{app}:{{int}}', app: {app}}}" for app in owners]
    prefixes = [f"{app}: ['{chance.choice('ab')}:']" for app in prefixed]
    if chance.random() < 0.5:
        prefixes.append("default: ['free:', 'a:']")
    staged, excepted = proven[-chance.randint(1, 4) :], chance.sample(proven, chance.randint(0, 3))
    stages = [f"{app}: {chance.choice(['audit', 'enforce', 'enforce 10%'])}" for app in staged]
    exceptions = [
        f"  - {{rule: {chance.choice(['walks', 'named', 'lua'])}, app: {app}, because: it is old, until: 2099-01-01}}"
        for app in excepted
    ]
    lines = [
        "defaults: {mode: enforce}",
        *("apps:", *apps),
        *("schema:", "  free: {key: 'free:{any}'}", *entries),
        f"rollout: {{{chance.choice(['lua', 'known', 'named'])}: {{{', '.join(['default: enforce', *stages])}}}}}",
        "rules:",
        "  walks: {refuse: [KEYS, FLUSHALL, HGETALL], because: they block}",
        "  lazy: {replace: {DEL: UNLINK}}",
        "  lua: {scripts: {commands: follow_rules}}",
        "  rate: {limits: {per: user, rate: 10/s}}",
        f"  known: {{names: {{in_schema: {chance.choice(['true', 'owned'])}}}}}",
        f"  named: {{names: {{characters: printable-ascii, prefixes: {{{', '.join(prefixes)}}}}}}}",
        *(["exceptions:", *exceptions] if exceptions else []),
    ]
    return policy("\n".join(lines)), {*owners, *prefixed, *staged, *excepted}


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("seed", seeds(3, 40))
def test_each_app_gets_its_own_plan_and_equal_ones_are_made_once(
    seed: int, paused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, named = generated(random.Random(seed))
    own = [PolicyCompiler(of, STANDARD, frozenset()).bind(app, paused=paused).lower() for app in (None, *of.apps)]
    made: list[LoweredPolicy] = []
    lower = CompiledPolicy.lower

    def counted(self: CompiledPolicy) -> LoweredPolicy:
        made.append(lower(self))
        return made[-1]

    monkeypatch.setattr(CompiledPolicy, "lower", counted)
    wanted = WantedPlans((), frozenset(), paused, ("", *(app.name for app in of.apps)), 0)
    found = asyncio.run(PlanCompiler(of).find(wanted))
    reader = PlanReader(of.schema.automaton)
    reader.take(found)
    for number, lowered in zip(found.plans, own, strict=True):
        got = reader.plan(number)
        assert dict(got.hits) == dict(lowered.hits)
        assert told(got.plan) == told(lowered.plan)
    assert len(made) <= 1 + len(named)
    plan_of = dict(zip(("", *(app.name for app in of.apps)), found.plans, strict=True))
    assert {number for app, number in plan_of.items() if app not in named} == {plan_of[""]}

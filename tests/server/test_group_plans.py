"""The plans of the policies in force are made once for all workers, and no worker gets those of other policies."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from proxy.commands.table import STANDARD, Table
from proxy.net.policy.plan_compiler import PlanCompiler, WantedPlans, added_to_standard
from proxy.policy.compile import CompiledPolicy, PolicyCompiler
from proxy.policy.lower_policy import LoweredPolicy
from proxy.policy.model import Policy
from proxy.policy.plan_tables import NewParts, PlanReader
from proxy.server.control import FindPlans
from proxy.server.group_plans import GroupPlans
from tests.policy.given import policy

REFUSING = policy("defaults: {mode: enforce}\nrules: {walks: {refuse: [KEYS]}, lazy: {replace: {DEL: UNLINK}}}")
AUDITING = policy("rules: {walks: {refuse: [KEYS]}}")
NOBODY = WantedPlans((), frozenset(), False, ("",), 0)


def find(plans: GroupPlans, edition: int, wanted: WantedPlans = NOBODY) -> NewParts | None:
    packed = asyncio.run(plans.find(FindPlans(0, edition, wanted)))
    return None if packed is None else packed.unpack()


def prepared(plans: GroupPlans, of: Policy) -> int:
    """The edition of this policy."""
    return asyncio.run(plans.prepare((of,), 2)).edition


def refuses_keys(of: Policy, found: NewParts | None) -> bool:
    assert found is not None
    reader = PlanReader(of.schema.automaton)
    reader.take(found)
    keys = STANDARD.find("KEYS")
    assert keys is not None
    return reader.plan(found.plans[0]).plan.refuses(keys.id)


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The apps whose plans have been made."""
    made: list[str] = []
    lower = CompiledPolicy.lower

    def counted(self: CompiledPolicy) -> LoweredPolicy:
        made.append(self.app)
        return lower(self)

    monkeypatch.setattr(CompiledPolicy, "lower", counted)
    return made


STAGES = "rollout: {walks: {default: audit, a: enforce}}\nrules: {walks: {refuse: [KEYS]}}"
STAGED = policy("apps: {a: {match: {user: a}}, b: {match: {user: b}}, c: {match: {user: c}}}\n" + STAGES)
ALL = WantedPlans((), frozenset(), False, ("a", "b", "c"), 0)


def test_a_plan_is_made_once_whoever_asks_and_however_many_at_a_time(lowered: list[str]) -> None:
    async def main() -> list[NewParts]:
        compiler = PlanCompiler(STAGED)
        return await asyncio.gather(*(compiler.find(ALL) for _ in range(4)))

    first, *others = asyncio.run(main())
    assert others == [first] * 3
    assert lowered == ["a", "b"], "no rule tells b and c apart"


def test_policies_that_are_tried_again_have_the_plans_of_the_first_attempt(lowered: list[str]) -> None:
    plans = GroupPlans((AUDITING,))
    found = find(plans, prepared(plans, STAGED), ALL)
    plans.forget_others()
    assert find(plans, prepared(plans, STAGED), ALL) == found
    assert lowered == ["a", "b"]
    prepared(plans, REFUSING)
    plans.forget_others()
    assert find(plans, prepared(plans, STAGED), ALL) == found
    assert lowered == ["a", "b"] * 2, "those of one attempt are kept"


def test_each_edition_has_its_own_plans_until_another_one_is_in_force() -> None:
    plans = GroupPlans((REFUSING,))
    second = prepared(plans, AUDITING)
    assert refuses_keys(REFUSING, find(plans, plans.in_force))
    assert not refuses_keys(AUDITING, find(plans, second))
    plans.in_force = second
    plans.forget_others()
    assert find(plans, 1) is None
    assert not refuses_keys(AUDITING, find(plans, second))


def test_policies_that_never_come_into_force_leave_no_plan_for_those_that_do() -> None:
    """A worker that was told of them late would otherwise run a plan of other policies."""
    plans = GroupPlans((AUDITING,))
    refused = prepared(plans, REFUSING)
    plans.forget_others()
    accepted = prepared(plans, AUDITING)
    assert refused != accepted
    assert find(plans, refused) is None
    assert not refuses_keys(AUDITING, find(plans, accepted))


def test_commands_that_only_this_engine_has_are_in_its_plans() -> None:
    described = [[b"frob.it", 2, [b"write"], 1, 1, 1, [], [], [], []]]
    table = STANDARD.completed_by(described)
    added = added_to_standard(table)
    assert [spec.name for spec in added] == ["FROB.IT"]
    of = policy("defaults: {mode: enforce}\nrules: {few: {allow_only: [GET]}}")
    found = asyncio.run(PlanCompiler(of).find(WantedPlans(added, frozenset(), False, ("",), 0)))
    reader = PlanReader(of.schema.automaton)
    reader.take(found)
    plan = reader.plan(found.plans[0]).plan
    local = PolicyCompiler(of, Table(table.specs), frozenset()).bind(None).lower().plan
    assert list(plan.operations) == list(local.operations)
    assert plan.refuses(added[0].id) == local.refuses(added[0].id)


def test_a_policy_that_cannot_be_lowered_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> LoweredPolicy:
        raise ZeroDivisionError("a rule's own mistake")

    monkeypatch.setattr(CompiledPolicy, "lower", broken)
    with pytest.raises(ZeroDivisionError, match="own mistake"):
        find(GroupPlans((REFUSING,)), 1)


def test_whoever_waits_for_a_plan_that_cannot_be_made_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, broken = CompiledPolicy.lower, [True]

    def lower(self: CompiledPolicy) -> LoweredPolicy:
        if self.app == "a" and broken:
            raise ZeroDivisionError("a rule's own mistake")
        return whole(self)

    monkeypatch.setattr(CompiledPolicy, "lower", lower)

    async def main() -> None:
        compiler = PlanCompiler(STAGED)
        asked = [replace(ALL, apps=apps) for apps in (("b", "a"), ("c", "a"), ("a",))]
        told = await asyncio.gather(*map(compiler.find, asked), return_exceptions=True)
        assert [type(each) for each in told] == [ZeroDivisionError] * 3
        broken.clear()
        assert len((await compiler.find(ALL)).plans) == 3, "whoever asks again gets them"

    asyncio.run(main())

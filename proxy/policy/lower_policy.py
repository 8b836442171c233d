"""Bound rules -> a plan. This takes many times as long as binding them, and does not depend on the state of clients."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proxy.commands.table import Spec, Table
from proxy.hotpath.plan.plan import Plan
from proxy.policy.decision import Hit, Step
from proxy.policy.model import Mode
from proxy.policy.scope import walks
from proxy.rules.key_globs import KeyGlob
from proxy.rules.lowering import Lowering
from proxy.rules.plan_checks import Programs
from proxy.rules.request_edits import EditChains
from proxy.rules.rule import Rule


@dataclass(frozen=True, slots=True)
class LoweredPolicy:
    """A plan, and for each of its own counters the hits that one count stands for."""

    plan: Plan
    hits: Mapping[int, tuple[Hit, ...]]


class TouchingSteps:
    """The steps whose rules touch a command. They are found when the command is first judged or lowered."""

    def __init__(self, steps: tuple[Step, ...], table: Table) -> None:
        self._steps = steps
        self._found: list[tuple[Step, ...]] = [()]
        self._found_of = array("H", bytes(2 * len(table.specs)))  # 0: not looked for yet
        self._numbers: dict[tuple[int, ...], int] = {}

    def of(self, spec: Spec) -> tuple[Step, ...]:
        """The steps for this command, in their order."""
        return self._found[self._found_of[spec.id] or self._find(spec)]

    def _find(self, spec: Spec) -> int:
        found = tuple(step for step in self._steps if step.rule.touches(spec))
        number = self._numbers.setdefault(tuple(step.place for step in found), len(self._found))
        if number == len(self._found):
            self._found.append(found)
        self._found_of[spec.id] = number
        return number

    def behind(self, step: Step, spec: Spec) -> tuple[Step, ...]:
        """The later steps, for a command that has become this one."""
        return tuple(later for later in self.of(spec) if later.place > step.place)


def lower_policy(
    table: Table,
    steps: Sequence[Step],
    touching: TouchingSteps,
    limits: Sequence[Rule],
    count_keys: bool,
    chains: EditChains,
) -> LoweredPolicy:
    """The plan of these steps. `chains` are the edits that it shares with the plans of other apps."""
    plan = Plan(len(table.specs))
    programs: Programs = {}
    hits: dict[int, tuple[Hit, ...]] = {}
    token_sets = {id(limit): token_set for token_set, limit in enumerate(limits)}
    for spec in table.specs:
        if count_keys and spec.may_have_keys:
            plan.count_keys(spec.id)
        lowering = _lower_command(spec, touching, token_sets)
        for counter, (places, what) in lowering.apply(spec.id, plan, programs, chains).items():
            hits[counter] = tuple(Hit(steps[place].rule.name, steps[place].mode, what) for place in places)
    return LoweredPolicy(plan, hits)


def put_edits(plan: Plan, table: Table, steps: Sequence[Step]) -> None:
    """Give the plan, which another process may have made of these steps, their edits of replies."""
    if not plan.reply_programs:
        return
    for spec in table.specs:
        for program in plan.reply_editors(spec.id):
            program.edit = steps[program.place].rule.edit_of_replies(spec)


def _lower_command(spec: Spec, touching: TouchingSteps, token_sets: Mapping[int, int]) -> Lowering:
    lowering = Lowering(spec)
    steps, i = touching.of(spec), 0
    while i < len(steps) and not lowering.settled:
        step, seen = steps[i], lowering.spec
        i += 1
        lowering.enforced = step.enforced
        lowering.audited = not step.varies and step.mode is Mode.AUDIT
        lowering.place = step.place
        lowering.token_set = token_sets.get(id(step.rule), 0)
        _lower_step(step, seen, lowering)
        if any(touching.behind(step, target) for target in lowering.targets):
            lowering.judge()  # a later rule touches the command that only some requests become
        if lowering.spec is not seen:
            steps, i = touching.behind(step, lowering.spec), 0
    return lowering


def _lower_step(step: Step, spec: Spec, lowering: Lowering) -> None:
    """Lower one rule. A plan passes requests without a key of the rule's; it does not know which keys are excepted, so
    a plan that would pay for them leaves that to the rule."""
    scope = step.source.scope
    if scope.by_key and (walks(spec) or not spec.id or step.rule.needs.place):
        lowering.judge()
    elif not scope.keys:
        step.rule.lower(spec, lowering)
    elif spec.may_have_keys:
        for glob in scope.keys:
            lowering.judge_keys(KeyGlob.of(glob))

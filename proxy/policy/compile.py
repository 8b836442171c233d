"""Policy + command table -> what a session runs: a plan for the hot path, and the judgement behind it.

``judge`` holds a command against every rule that touches it, in the order of ``proxy.rules.order``. All modes
take this path: an enforced verdict is applied, any other is only counted. So what audit reports is what
enforce would do, but for one thing: a rewrite that is not applied is not seen by the rules after it.

A rule that raises has a bug. The command is refused or passed as the policy says, and it is counted in either
case.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from proxy.commands.command import Command
from proxy.commands.table import Spec, Table
from proxy.hotpath.plan import Plan
from proxy.policy.model import Mode, OnError, Policy
from proxy.rules.context import Context
from proxy.rules.lowering import Lowering, NameCheck
from proxy.rules.order import ORDER
from proxy.rules.rule import Binding, Rule
from proxy.rules.verdict import PASS, Pass, Refuse, ReplyEdit, Rewrite, Verdict, refusal

What: TypeAlias = Literal["refused", "rewritten", "skipped", "error"]


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule had something to say. `detail` is for people: why it was skipped, or where the rule failed."""

    rule: str
    mode: Mode
    what: What
    detail: str = ""


# Not frozen, as one is made for each judged command and frozen ones take three times as long to make.
@dataclass(slots=True)
class Decision:
    """What is to become of a command, and what each rule that had something to say wanted."""

    verdict: Verdict
    hits: tuple[Hit, ...] = ()


_NOTHING = Decision(PASS)


@dataclass(frozen=True, slots=True)
class _Step:
    """A rule at its place in the order."""

    place: int
    rule: Rule
    mode: Mode
    enforced: bool
    refused: tuple[Hit]
    rewritten: tuple[Hit]


class CompiledPolicy:
    """A policy bound to a command table.

    `plan` runs on the hot path. `needs` are the commands that rewrites send in place of the client's own.
    `lowered` maps each command id that the plan may change by itself to the hits that one such change stands
    for.
    """

    def __init__(self, policy: Policy, table: Table, rules: tuple[tuple[Rule, Mode], ...]) -> None:
        self.policy = policy
        self.table = table
        self.needs: frozenset[str] = frozenset().union(*(rule.needs for rule, _ in rules))
        steps = [_step(place, rule, mode) for place, (rule, mode) in enumerate(rules)]
        self._steps = [tuple(step for step in steps if step.rule.touches(spec)) for spec in table.specs]
        self.plan, self.lowered = self._lower(steps)

    def _lower(self, steps: list[_Step]) -> tuple[Plan, Mapping[int, tuple[Hit, ...]]]:
        plan = Plan(len(self.table.specs))
        programs: dict[NameCheck, int] = {}
        lowered: dict[int, tuple[Hit, ...]] = {}
        for spec in self.table.specs:
            if self.policy.count_keys and any(key_spec.names_keys for key_spec in spec.key_specs):
                plan.count_keys(spec.id)
            lowering = _lower_command(spec, steps)
            lowering.apply(spec.id, plan, programs)
            if lowering.changes:
                lowered[spec.id] = tuple(Hit(steps[i].rule.name, steps[i].mode, "rewritten") for i in lowering.acts)
        return plan, lowered

    def judge(self, command: Command, context: Context) -> Decision:
        """What is to become of a command. Never raises for a rule's sake."""
        steps = self._steps[command.spec.id]
        return self._walk(command, context, steps) if steps else _NOTHING

    def _walk(self, command: Command, context: Context, steps: tuple[_Step, ...]) -> Decision:
        hits: tuple[Hit, ...] = ()
        edit: ReplyEdit | None = None
        current = command
        i = 0
        while i < len(steps):
            step = steps[i]
            i += 1
            try:
                verdict = step.rule.judge(current, context)
            except Exception as error:  # noqa: BLE001 - a rule's bug must not take the session down
                hits += (Hit(step.rule.name, step.mode, "error", _locate(error)),)
                if step.enforced and self.policy.on_rule_error is OnError.REFUSE:
                    return Decision(_failed(step.rule.name), hits)
                continue
            if verdict is PASS:
                continue
            match verdict:
                case Pass(skipped=why):
                    if why:
                        hits += (Hit(step.rule.name, step.mode, "skipped", why),)
                case Refuse():
                    hits += step.refused
                    if step.enforced:
                        return Decision(verdict, hits)
                case Rewrite():
                    hits += step.rewritten
                    if step.enforced:
                        current = self._rewritten(current, verdict)
                        edit = _chain(verdict.edit, edit)
                        steps = tuple(later for later in self._steps[current.spec.id] if later.place > step.place)
                        i = 0
                case _:
                    assert_never(verdict)
        if current is not command:
            return Decision(Rewrite(current.argv, edit, current.spec), hits)
        return Decision(PASS, hits) if hits else _NOTHING

    def _rewritten(self, command: Command, by: Rewrite) -> Command:
        return Command(self.table, by.argv, by.spec, command.streamed, command.streamed_length)


def _step(place: int, rule: Rule, mode: Mode) -> _Step:
    refused, rewritten = Hit(rule.name, mode, "refused"), Hit(rule.name, mode, "rewritten")
    return _Step(place, rule, mode, mode is Mode.ENFORCE, (refused,), (rewritten,))


def compile_policy(
    policy: Policy, table: Table, available: frozenset[str] | None = None, seed: int | None = None
) -> CompiledPolicy:
    """Bind a policy to a command table.

    `available` are those commands of `needs` that the engine is known to run for its user; None stands for
    all. `seed` fixes the order in which the plan deals out jittered TTLs.
    """
    active = (rule for rule in policy.rules if rule.mode is not Mode.OFF)
    ordered = sorted(active, key=lambda rule: ORDER.index(type(rule.settings)))
    binding = Binding(table, available, seed)
    rules = ((rule.settings.bind(rule.name, rule.wording, binding), rule.mode) for rule in ordered)
    return CompiledPolicy(policy, table, tuple(rules))


def _lower_command(spec: Spec, steps: list[_Step]) -> Lowering:
    lowering = Lowering(spec)
    for step in steps:
        if not lowering.judged and step.rule.touches(lowering.spec):
            lowering.enforced = step.enforced
            changed = lowering.changes
            step.rule.lower(lowering.spec, lowering)
            if lowering.changes and not changed:
                lowering.acts.append(step.place)
    return lowering


def _chain(inner: ReplyEdit | None, outer: ReplyEdit | None) -> ReplyEdit | None:
    """The edit of a rewritten rewrite: the reply is to the last command, so the last edit comes first."""
    if inner is None or outer is None:
        return inner or outer
    return lambda frame: outer(inner(frame))


def _failed(rule: str) -> Refuse:
    return refusal(rule, "the rule itself failed on this command", "tell those who run this policy")


def _locate(error: Exception) -> str:
    """Where a rule failed, without the error's own text, which may quote a key."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" in {trace.tb_frame.f_code.co_name}, line {trace.tb_lineno}"
    return type(error).__name__ + place

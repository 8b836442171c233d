"""Scripts follow the rules: a script may not call a command that its client may not send, as far as its text tells.

If a rule is only audited for this client, an enforced rule about scripts lets scripts call its commands. An audited
rule about scripts counts what it would refuse if all rules were enforced, so that the audit shows the effect of
enforcing.

A text does not tell whether a call in it ever runs, so every call counts. A rule with ``in_scripts: audit`` only counts
the calls that it would refuse.

Rules that rewrite commands change nothing in a script.
"""

from collections.abc import Iterable, Sequence

from proxy.commands.command import Command
from proxy.commands.spec import Spec
from proxy.policy.decision import Step
from proxy.policy.model import Mode
from proxy.rules.context import Context
from proxy.rules.other_rules import Objection
from proxy.rules.rule import InScripts, Rule
from proxy.rules.verdict import Procedure, Refuse


def holds_scripts(rule: Rule) -> bool:
    """Whether scripts follow the rule. Rules about clients and rates count a script as one command."""
    return rule.needs.in_scripts is not InScripts.NOTHING


def introduce(steps: Sequence[Step]) -> None:
    """Give each rule that needs them the other rules in force."""
    for step in steps:
        if step.rule.needs.others:
            step.rule.follow(_Others(steps, Mode.ENFORCE if step.mode is Mode.ENFORCE else Mode.AUDIT))


class _Others:
    """The rules that scripts follow, in this mode or a stricter one."""

    def __init__(self, steps: Sequence[Step], least: Mode) -> None:
        self._least = least
        # Refusals come before calls that are only counted.
        ordered = sorted(steps, key=lambda step: step.source.audits_scripts)
        speaking = [step for step in ordered if step.varies or step.mode.strictness >= least.strictness]
        held_to = [(step, _judged_by(step)) for step in speaking if holds_scripts(step.rule)]
        self._about_commands = _ByCommand(step for step, by in held_to if by is InScripts.COMMANDS)
        self._about_slots = _ByCommand(step for step, by in held_to if by is InScripts.ALL_KEYS)
        self._about_calls = _ByCommand(step for step, by in held_to if by is InScripts.CALLS)
        self.about_keys = any(by is not InScripts.COMMANDS for _, by in held_to)

    def to_command(self, command: Command, complete: bool, context: Context) -> Objection | None:
        for step in self._about_commands.touching(command.spec):
            rule = step.rule
            if not self._speaks(step, command, context):
                continue
            refuses_it = not complete and rule.refuses_part(command)
            # A script cannot wait for a rule that asks Redis first.
            if refuses_it or isinstance(rule.judge(command, context), Refuse | Procedure):
                return Objection(rule.name, step.source.audits_scripts)
        return None

    def to_call(self, called: Command, context: Context) -> Objection | None:
        return self._first(self._about_calls, called, context)

    def to_keys(self, command: Command, context: Context) -> Objection | None:
        return self._first(self._about_slots, command, context)

    def _first(self, rules: "_ByCommand", command: Command, context: Context) -> Objection | None:
        for step in rules.touching(command.spec):
            objection = self._ask(step, command, context) if self._speaks(step, command, context) else None
            if objection is not None:
                return objection
        return None

    def _ask(self, step: Step, command: Command, context: Context) -> Objection | None:
        verdict = step.rule.judge_call(command, context)
        if isinstance(verdict, Procedure) and verdict.waits:
            verdict = verdict.otherwise("a script calls it")
        if not isinstance(verdict, Refuse):
            return None
        text = verdict.error.decode("utf-8", "replace").rstrip("\r\n").partition(f"{step.rule.name}: ")[2]
        why, _, instead = text.rpartition("; ")
        return Objection(step.rule.name, step.source.audits_scripts, why, instead)

    def _speaks(self, step: Step, command: Command, context: Context) -> bool:
        if not step.varies:
            return True
        # Of a call, keys that nobody knows are missing.
        unknown = step.source.scope.keys and command.spec.may_have_keys and not command.known_keys
        mode = step.mode if unknown else step.mode_for(command, context)
        return mode.strictness >= self._least.strictness


def _judged_by(step: Step) -> InScripts:
    """How scripts follow the rule: one that is on for some keys needs those of each call."""
    by = step.rule.needs.in_scripts
    return InScripts.CALLS if by is InScripts.COMMANDS and step.source.scope.by_key else by


class _ByCommand:
    """The rules by the commands that they touch."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._steps = tuple(steps)
        self._touching: dict[int, tuple[Step, ...]] = {}

    def touching(self, spec: Spec) -> tuple[Step, ...]:
        """The rules that touch the command."""
        found = self._touching.get(spec.id)
        if found is None:
            found = self._touching[spec.id] = tuple(step for step in self._steps if step.rule.touches(spec))
        return found

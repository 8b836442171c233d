"""Read-only mode: refuses every command that may change stored data.

These are all commands that engines flag as writes, scripts and functions without the read-only flag, the few admin
commands that replace or create data, and unknown commands. PUBLISH stores nothing and passes.
"""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.overlay import may_change_data
from proxy.commands.rows import ROWS
from proxy.commands.table import Spec
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.lowering import Lowering
from proxy.rules.refusals import Refusals
from proxy.rules.rule import Binding, InScripts, Needs, Rule, RuleSettings, Wording
from proxy.rules.verdict import Refuse, Verdict

_UNKNOWN = 0
_INSTEAD = "only read from here"
_READING = {row.name: f"use {row.read_with}" for row in ROWS.values() if row.read_with}


@dataclass(frozen=True, slots=True)
class ReadOnlySettings(RuleSettings):
    """There are no settings."""

    def bind(self, name: str, wording: Wording, binding: Binding) -> "ReadOnly":
        return ReadOnly(name, Refusals(name, wording, binding))


class ReadOnly(Rule):
    """Refuses writes."""

    needs = Needs(in_scripts=InScripts.COMMANDS)

    def __init__(self, name: str, refusals: Refusals) -> None:
        self.name = name
        self._refusals = refusals

    def touches(self, spec: Spec) -> bool:
        return spec.id == _UNKNOWN or may_change_data(spec.name, spec.flags)

    def judge(self, command: Command, _context: Context) -> Verdict:
        if command.spec.id != _UNKNOWN:
            return self._refuse(command.spec)
        why = f"Keyrail does not know whether {command.name} writes, and this policy allows only reads"
        return self._refusals.of_unknown(command, why, _INSTEAD)

    def _refuse(self, spec: Spec) -> Refuse:
        why = f"{spec.display} may write, and this policy allows only reads"
        return self._refusals.of(why, _READING.get(spec.name, _INSTEAD))

    def refuses_part(self, _command: Command) -> bool:
        """Whether a request that begins like this one may be refused."""
        return True

    def judged_by(self, _spec: Spec) -> JudgedBy:
        return JudgedBy.FORM

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """All requests of a known command get the same refusal."""
        if spec.id == _UNKNOWN:
            lowering.judge()
        else:
            lowering.refuse(self._refuse(spec).error)

"""Commands that are neither in Keyrail's table nor in the engine's own COMMAND.

Their keys are unknown, as is whether they write, so no other rule can judge them.
"""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.table import Spec
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.lowering import Lowering
from proxy.rules.refusals import Refusals
from proxy.rules.rule import BY_APP, Binding, InScripts, Needs, Rule, RuleSettings, Wording
from proxy.rules.verdict import Verdict

_UNKNOWN = 0


@dataclass(frozen=True, slots=True)
class UnknownCommandsSettings(RuleSettings):
    """There are no settings."""

    @property
    def takes(self) -> frozenset[str]:
        """Nobody knows the keys."""
        return BY_APP

    def bind(self, name: str, wording: Wording, binding: Binding) -> "UnknownCommands":
        return UnknownCommands(name, Refusals(name, wording, binding))


class UnknownCommands(Rule):
    """Refuses unknown commands."""

    needs = Needs(in_scripts=InScripts.COMMANDS)

    def __init__(self, name: str, refusals: Refusals) -> None:
        self.name = name
        self._refusals = refusals

    def touches(self, spec: Spec) -> bool:
        """The spec that stands for all unknown commands."""
        return spec.id == _UNKNOWN

    def judge(self, command: Command, _context: Context) -> Verdict:
        why = f"neither Keyrail nor the engine knows the command {command.name}"
        return self._refusals.of_unknown(command, why, "ask the operators of this Redis")

    def refuses_part(self, _command: Command) -> bool:
        """Whether a request that begins like this one may be refused."""
        return True

    def judged_by(self, _spec: Spec) -> JudgedBy:
        return JudgedBy.FORM

    def lower(self, _spec: Spec, lowering: Lowering) -> None:
        """Everything is judged."""
        lowering.judge()

"""Refused transactions: MULTI, and WATCH, which makes sense only before MULTI.

EXEC, DISCARD and UNWATCH pass: a client needs them to end a transaction that began before the rule was in force.
"""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.table import ConnectionState, Spec
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.lowering import Lowering
from proxy.rules.refusals import Refusals
from proxy.rules.rule import BY_APP, Binding, Rule, RuleSettings, Wording
from proxy.rules.verdict import Refuse, Verdict

BEGINNINGS = (ConnectionState.MULTI, ConnectionState.WATCH)
"""The commands that begin a transaction."""


@dataclass(frozen=True, slots=True)
class TransactionsSettings(RuleSettings):
    """There are no settings."""

    @property
    def takes(self) -> frozenset[str]:
        """MULTI has no keys."""
        return BY_APP

    def bind(self, name: str, wording: Wording, binding: Binding) -> "Transactions":
        return Transactions(name, Refusals(name, wording, binding))


class Transactions(Rule):
    """Refuses MULTI and WATCH."""

    def __init__(self, name: str, refusals: Refusals) -> None:
        self.name = name
        self._refusals = refusals

    def touches(self, spec: Spec) -> bool:
        """MULTI and WATCH."""
        return spec.state in BEGINNINGS

    def judge(self, command: Command, _context: Context) -> Verdict:
        return self._refuse(command.spec)

    def _refuse(self, spec: Spec) -> Refuse:
        because = self._refusals.wording.because
        why = f"{spec.display} is refused because {because}" if because else f"{spec.display} begins a transaction"
        instead = "use one command that does it all, such as MSET, or a plain pipeline"
        return self._refusals.of(why, instead, reason=False)

    def judged_by(self, _spec: Spec) -> JudgedBy:
        return JudgedBy.FORM

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """All requests of a command get the same refusal."""
        lowering.refuse(self._refuse(spec).error)

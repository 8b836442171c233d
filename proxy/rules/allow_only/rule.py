"""An allow list: all other commands are refused.

Commands are named as in ``listing``, or by an ACL category of Redis: ``@read``, ``@string``. Commands that a client
needs to connect, to answer health checks and to leave its state always pass. An unknown command is refused, unless it
or its container is listed by name.
"""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.rows import ROWS
from proxy.commands.table import Spec
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.listing import Listing
from proxy.rules.lowering import Lowering
from proxy.rules.refusals import Refusals
from proxy.rules.rule import Binding, InScripts, Needs, Rule, RuleSettings, Wording
from proxy.rules.verdict import PASS, Refuse, Verdict

ALWAYS_ALLOWED = tuple(sorted(row.display for row in ROWS.values() if row.needed or row.always_allowed))
_INSTEAD = "ask the operators of this Redis"


@dataclass(frozen=True, slots=True)
class AllowOnlySettings(RuleSettings):
    """The allowed commands in capitals, and the allowed ACL categories without their ``@``."""

    commands: tuple[str, ...]
    categories: tuple[str, ...] = ()

    def bind(self, name: str, wording: Wording, binding: Binding) -> "AllowOnly":
        return AllowOnly(name, self, wording, binding)


class AllowOnly(Rule):
    """Refuses every command that is not listed."""

    needs = Needs(in_scripts=InScripts.COMMANDS)

    def __init__(self, name: str, settings: AllowOnlySettings, wording: Wording, binding: Binding) -> None:
        self.name = name
        self._refusals = Refusals(name, wording, binding)
        self._listed = Listing((*settings.commands, *ALWAYS_ALLOWED), binding.table)
        self._categories = frozenset(settings.categories)

    def _allows(self, spec: Spec) -> bool:
        return self._listed.holds(spec) or not self._categories.isdisjoint(spec.categories)

    def touches(self, spec: Spec) -> bool:
        """The commands that are not allowed with all arguments."""
        return not self._allows(spec)

    def judge(self, command: Command, _context: Context) -> Verdict:
        """PASS listed commands, refuse all others."""
        if self._listed.find(command) is not None:
            return PASS
        if command.spec.id:
            return self._refuse(command.spec)
        return self._refusals.of_unknown(command, _why(command.name), _INSTEAD)

    def _refuse(self, spec: Spec) -> Refuse:
        return self._refusals.of_any(spec, _why(spec.display), _INSTEAD)

    def refuses_part(self, command: Command) -> bool:
        """Whether a request that begins like this one may be refused."""
        return self._listed.find(command) is None

    def judged_by(self, spec: Spec) -> JudgedBy:
        """The name alone, unless words behind it are listed."""
        return JudgedBy.DATA if self._listed.reads_words(spec) else JudgedBy.FORM

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """Refuse in the plan if the refusal depends on no argument."""
        if not spec.id or self._listed.touches(spec):
            lowering.judge()
        else:
            lowering.refuse(self._refuse(spec).error)


def _why(shown: str) -> str:
    return f"{shown} is not among the commands that this policy allows"

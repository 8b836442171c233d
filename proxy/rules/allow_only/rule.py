"""A list of commands outside of which nothing is allowed.

Commands are named as ``listing`` tells, or by a group: ``@read``, ``@string``, Redis's own ACL categories. What a
client needs to connect, to be found alive, and to leave a state that it is in always passes; a command that the table
does not know is refused, unless its container or itself is listed by name.
"""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.rows import ROWS
from proxy.commands.table import Spec
from proxy.rules.context import Context
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
    """Everything that is not listed does not reach Redis."""

    needs = Needs(in_scripts=InScripts.COMMANDS)

    def __init__(self, name: str, settings: AllowOnlySettings, wording: Wording, binding: Binding) -> None:
        self.name = name
        self._refusals = Refusals(name, wording, binding)
        self._listed = Listing((*settings.commands, *ALWAYS_ALLOWED), binding.table)
        self._categories = frozenset(settings.categories)

    def _allows(self, spec: Spec) -> bool:
        return self._listed.holds(spec) or not self._categories.isdisjoint(spec.categories)

    def touches(self, spec: Spec) -> bool:
        """Whatever is not allowed with all its arguments."""
        return not self._allows(spec)

    def judge(self, command: Command, _context: Context) -> Verdict:
        """PASS what is listed, refuse the rest."""
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

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """A refusal is known beforehand where it depends on no argument."""
        if not spec.id or self._listed.touches(spec):
            lowering.judge()
        else:
            lowering.refuse(self._refuse(spec).error)


def _why(shown: str) -> str:
    return f"{shown} is not among the commands that this policy allows"

"""Refuses values in formats that only one language reads, and that may run code when they are read.

The rule looks at the first bytes of each value that a command writes, and of a streamed value at those that have
arrived. A write at an offset has no beginning of a value, unless the offset is 0. Payloads of RESTORE pass.

A plan looks at two bytes of each value: commands are judged only if one of their values may be of a refused format, and
those whose places do not tell which arguments are values (SETRANGE, MSETEX, RESTORE) always.
"""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.spec import Spec
from proxy.commands.values import brings_values, plain_values, values_of
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.lowering import Lowering
from proxy.rules.plan_checks import ValueCheck
from proxy.rules.refusals import Refusals
from proxy.rules.rule import Binding, Rule, RuleSettings, Wording
from proxy.rules.values.formats import FORMATS
from proxy.rules.verdict import PASS, Verdict

_INSTEAD = "write JSON, MessagePack or another format of data only"


@dataclass(frozen=True, slots=True)
class ValuesSettings(RuleSettings):
    """The formats that are refused, names of FORMATS."""

    refuse: tuple[str, ...]

    @property
    def hinders_queues(self) -> bool:
        """Some job queues store their jobs as pickles."""
        return "pickle" in self.refuse

    @property
    def beyond_acl(self) -> str:
        return "an ACL does not look at values"

    def bind(self, name: str, wording: Wording, binding: Binding) -> "Values":
        return Values(name, self, Refusals(name, wording, binding))


class Values(Rule):
    """One standard for the formats of values."""

    def __init__(self, name: str, settings: ValuesSettings, refusals: Refusals) -> None:
        self.name = name
        self._formats = tuple(FORMATS[each] for each in settings.refuse)
        self._openings = frozenset(each.opening for each in self._formats)
        self._refusals = refusals

    def touches(self, spec: Spec) -> bool:
        """Commands that bring values."""
        return brings_values(spec.name)

    def judge(self, command: Command, _context: Context) -> Verdict:
        """Refuse for the first value in a refused format, else PASS."""
        for value in values_of(command):
            beginning, length = command.argv[value.index], command.length(value.index)
            if value.length != length:
                continue  # a write at an offset, or a payload: the argument is not the beginning of the value
            for words, fits, _ in self._formats:
                if fits(beginning, len(beginning) == length):
                    key = self._refusals.key(command, value.key)
                    why = f"the value in argument {value.index}, for {key}, is {words}"
                    return self._refusals.of(why, _INSTEAD, command)
        return PASS

    def judged_by(self, _spec: Spec) -> JudgedBy:
        return JudgedBy.DATA

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """Commands whose values all begin in another way pass."""
        values = plain_values(spec.name)
        if values is None:
            lowering.judge()
        elif values[0]:
            lowering.check_values(ValueCheck(*values, self._openings))

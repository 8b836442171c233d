"""Refused commands, and the narrower forms of them that pass.

``refuse: [FLUSHALL]`` with ``allow: [FLUSHALL ASYNC]`` beside it refuses every FLUSHALL but the one that does not
block. ``listing`` describes how commands are named.
"""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.rows import ROWS
from proxy.commands.table import Spec
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.known_libraries import names_queue
from proxy.rules.listing import ListedCommand, Listing
from proxy.rules.lowering import Lowering
from proxy.rules.refusals import Refusals
from proxy.rules.rule import Binding, InScripts, Needs, Rule, RuleSettings, Wording
from proxy.rules.verdict import PASS, Refuse, Verdict

_INSTEAD = {row.display: row.instead for row in ROWS.values() if row.instead}
_INSTEAD_OF_OTHERS = "ask the operators of this Redis"


@dataclass(frozen=True, slots=True)
class RefuseSettings(RuleSettings):
    """The refused commands, and the forms of them that pass: in capitals, subcommands and words after a space."""

    commands: tuple[str, ...]
    allow: tuple[str, ...] = ()

    @property
    def hinders_queues(self) -> bool:
        # The script of Dramatiq names KEYS.
        return "KEYS" in self.commands or any(map(names_queue, self.commands))

    def bind(self, name: str, wording: Wording, binding: Binding) -> "Refusal":
        return Refusal(name, self, wording, binding)


class Refusal(Rule):
    """Refuses the commands of a list."""

    needs = Needs(in_scripts=InScripts.COMMANDS)

    def __init__(self, name: str, settings: RefuseSettings, wording: Wording, binding: Binding) -> None:
        self.name = name
        self._refusals = Refusals(name, wording, binding)
        self._refused = Listing(settings.commands, binding.table)
        self._allowed = Listing(settings.allow, binding.table)

    def touches(self, spec: Spec) -> bool:
        """The listed commands; if the list has containers or modules, also unknown commands."""
        return self._refused.touches(spec) and not self._allowed.holds(spec)

    def judge(self, command: Command, _context: Context) -> Verdict:
        entry = self._refused.find(command)
        if entry is None or self._allowed.find(command) is not None:
            return PASS
        if command.spec.id:
            return self._refuse(command.spec, entry)
        why, instead = self._words(entry.text, entry)
        return self._refusals.of_unknown(command, why, instead, reason=False)

    def _refuse(self, spec: Spec, entry: ListedCommand) -> Refuse:
        why, instead = self._words(entry.text if entry.words else spec.display, entry)
        return self._refusals.of_any(spec, why, instead, reason=False)

    def _words(self, shown: str, entry: ListedCommand) -> tuple[str, str]:
        because = self._refusals.wording.because
        why = f"{shown} is refused because {because}" if because else f"{shown} is refused by this policy"
        return why, _INSTEAD.get(entry.text, _INSTEAD_OF_OTHERS)

    def refuses_part(self, command: Command) -> bool:
        """Whether a request that begins like this one may be refused."""
        return self._refused.find_any(command) is not None and self._allowed.find(command) is None

    def judged_by(self, spec: Spec) -> JudgedBy:
        """The name alone, unless words behind it are listed."""
        reads_words = self._refused.reads_words(spec) or self._allowed.reads_words(spec)
        return JudgedBy.DATA if reads_words else JudgedBy.FORM

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """Refuse in the plan if the refusal depends on no argument."""
        entry = self._refused.always(spec)
        if entry is None or self._allowed.touches(spec):
            lowering.judge()
        else:
            lowering.refuse(self._refuse(spec, entry).error)

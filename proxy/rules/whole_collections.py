"""Reads of whole collections: HGETALL, SMEMBERS, SUNION, ``LRANGE k 0 -1`` …

What they cost, only the collections know, and one of them with a million members stops every client for a second. A
span that has an end (``LRANGE k 0 99``) is none of them: that is what ``ranges`` is for.
"""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.spec import Spec
from proxy.commands.wholes import READS, WHOLES, measured_keys
from proxy.rules.context import Context
from proxy.rules.lowering import Lowering
from proxy.rules.rule import Binding, Wording
from proxy.rules.verdict import PASS, Verdict, refusal


@dataclass(frozen=True, slots=True)
class WholeCollectionsSettings:
    """The commands, in capitals, among those of ``proxy.commands.wholes``."""

    commands: tuple[str, ...] = READS

    def bind(self, name: str, wording: Wording, _binding: Binding) -> "WholeCollections":
        """The rule itself."""
        return WholeCollections(name, self, wording)


class WholeCollections:
    """A list of commands that must not work on whole collections."""

    needs: frozenset[str] = frozenset()

    def __init__(self, name: str, settings: WholeCollectionsSettings, wording: Wording) -> None:
        self.name = name
        self._settings = settings
        self._wording = wording

    def touches(self, spec: Spec) -> bool:
        """The listed commands."""
        return spec.name in self._settings.commands

    def judge(self, command: Command, _context: Context) -> Verdict:
        """Refuse what works on a whole collection, else PASS."""
        if not measured_keys(command):
            return PASS
        because = f", and {self._wording.because}" if self._wording.because else ""
        why = f"{command.name} works on all that is there, however much that is{because}"
        return refusal(self.name, why, self._wording.instead or WHOLES[command.spec.name].instead)

    def lower(self, _spec: Spec, lowering: Lowering) -> None:
        """What a span asks for is read from its arguments: judged."""
        lowering.judge()

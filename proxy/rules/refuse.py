"""Refused commands.

A command is named as people write it: ``FLUSHALL``, ``CONFIG SET``. Naming a container (``CONFIG``) refuses
all its subcommands, those of engines to come included: what the command table does not know is matched by the
bytes of its first argument. Naming a command refuses its twin too (SLAVEOF with REPLICAOF), or the refusal
could be walked around.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.table import Spec, Table
from proxy.commands.twins import twins
from proxy.rules.context import Context
from proxy.rules.lowering import Lowering
from proxy.rules.rule import Binding, Wording
from proxy.rules.verdict import PASS, Refuse, Verdict, refusal

_UNKNOWN = 0
_INSTEAD = {
    "FLUSHALL": "delete your own keys with SCAN and UNLINK",
    "FLUSHDB": "delete your own keys with SCAN and UNLINK",
    "KEYS": "use SCAN with MATCH and COUNT",
    "SAVE": "use BGSAVE",
}
_INSTEAD_OF_OTHERS = "ask those who run this Redis"


@dataclass(frozen=True, slots=True)
class RefuseSettings:
    """The commands to refuse, in capitals, a subcommand after a space."""

    commands: tuple[str, ...]

    def bind(self, name: str, wording: Wording, binding: Binding) -> "Refusal":
        """The rule itself."""
        return Refusal(name, self, wording, binding)


class Refusal:
    """A list of commands that do not reach Redis."""

    needs: frozenset[str] = frozenset()

    def __init__(self, name: str, settings: RefuseSettings, wording: Wording, binding: Binding) -> None:
        self.name = name
        self._wording = wording
        table = binding.table
        self._by_id: dict[int, Refuse] = {}
        self._by_first_word: dict[bytes, Refuse] = {}
        for command in settings.commands:
            spec = table.find(command)
            if spec is None or spec.container:
                self._by_first_word[command.encode()] = self._refusal(command, command)
            for each in covered(spec, table):
                self._by_id[each.id] = self._refusal(command, each.display)

    def _refusal(self, listed: str, display: str) -> Refuse:
        because = self._wording.because
        why = f"{display} is refused because {because}" if because else f"{display} is refused by this policy"
        return refusal(self.name, why, self._wording.instead or _INSTEAD.get(listed, _INSTEAD_OF_OTHERS))

    def touches(self, spec: Spec) -> bool:
        """The listed commands; for containers and modules also whatever the table does not know."""
        return spec.id in self._by_id or (spec.id == _UNKNOWN and bool(self._by_first_word))

    def judge(self, command: Command, _context: Context) -> Verdict:
        """Refuse or PASS."""
        if command.spec.id != _UNKNOWN:
            return self._by_id.get(command.spec.id, PASS)
        return self._by_first_word.get(command.argv[0].upper(), PASS)

    def lower(self, _spec: Spec, lowering: Lowering) -> None:
        """Refusals and their counting are judged."""
        lowering.judge()


def covered(spec: Spec | None, table: Table) -> Iterable[Spec]:
    """The commands that naming `spec` refuses: itself, its subcommands, and the twins of each."""
    if spec is None:
        return ()
    family: Sequence[Spec] = (spec, *table.subcommands(spec.name)) if spec.container else (spec,)
    found = (table.find(twin) for each in family for twin in twins(each.display))
    return {each.id: each for each in (*family, *(twin for twin in found if twin is not None))}.values()

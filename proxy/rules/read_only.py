"""Read-only mode: no command that may change what is stored.

Those are all that the engines flag as writes, scripts and functions that are not the read-only kind, the few
administrative commands that replace or invent data, and commands that nobody knows. PUBLISH stores nothing and passes.
"""

from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.overlay import may_change_data
from proxy.commands.table import Spec
from proxy.rules.context import Context
from proxy.rules.handshake import refusal_of_unknown
from proxy.rules.lowering import Lowering
from proxy.rules.rule import Binding, Wording
from proxy.rules.verdict import Verdict, refusal

_UNKNOWN = 0
_READING = {
    "EVAL": "use EVAL_RO",
    "EVALSHA": "use EVALSHA_RO",
    "FCALL": "use FCALL_RO",
    "GEORADIUS": "use GEOSEARCH",
    "GEORADIUSBYMEMBER": "use GEOSEARCH",
    "GETEX": "use GET",
    "SORT": "use SORT_RO",
}


@dataclass(frozen=True, slots=True)
class ReadOnlySettings:
    """Nothing to set: writes are refused."""

    def bind(self, name: str, wording: Wording, _binding: Binding) -> "ReadOnly":
        """The rule itself."""
        return ReadOnly(name, wording)


class ReadOnly:
    """Refuses writes."""

    needs: frozenset[str] = frozenset()

    def __init__(self, name: str, wording: Wording) -> None:
        self.name = name
        self._wording = wording

    def touches(self, spec: Spec) -> bool:
        """Whatever may change data."""
        return spec.id == _UNKNOWN or may_change_data(spec.name, spec.flags)

    def judge(self, command: Command, _context: Context) -> Verdict:
        """Refuse."""
        because = f", and {self._wording.because}" if self._wording.because else ""
        instead = self._wording.instead or _READING.get(command.spec.name, "only read from here")
        if command.spec.id == _UNKNOWN:
            why = f"nobody knows whether {command.name} writes, and only reading is allowed{because}"
            return refusal_of_unknown(command, self.name, why, instead)
        return refusal(self.name, f"{command.name} may write, and only reading is allowed{because}", instead)

    def refuses_part(self, _command: Command) -> bool:
        """Whether a request that begins like this one may be refused."""
        return True

    def lower(self, _spec: Spec, lowering: Lowering) -> None:
        """Refusals and their counting are judged."""
        lowering.judge()

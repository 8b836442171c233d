"""KEYS answered through SCAN, which does not block other clients.

Redis blocks all clients until a KEYS ends; SCAN visits a few keys at a time (``key_walk``). If the walk exceeds its
budget, the client gets an error, never a part of the keys. If SCAN returns a key twice, the reply has it once.

KEYS is a snapshot. SCAN only guarantees the keys that exist during the whole walk: keys that are created or deleted
meanwhile may be missing. Inside MULTI Keyrail cannot ask Redis, so KEYS is refused there. KEYS itself never runs.
"""

from dataclasses import dataclass
from functools import partial

from proxy.commands.command import Command
from proxy.commands.spec import Spec
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.key_walk import Stopped, WalkBudget, find_keys
from proxy.rules.lowering import Lowering
from proxy.rules.refusals import Refusals
from proxy.rules.rule import Binding, InScripts, Needs, Rule, RuleSettings, Wording, takes
from proxy.rules.verdict import PASS, Answer, Procedure, Refuse, Steps, Verdict
from proxy.wire.encode import encode_array


@dataclass(frozen=True, slots=True)
class KeysByScanSettings(WalkBudget, RuleSettings):
    """The budget."""

    @property
    def beyond_acl(self) -> str:
        return "an ACL changes no commands"

    def bind(self, name: str, wording: Wording, binding: Binding) -> "KeysByScan":
        return KeysByScan(name, self, Refusals(name, wording, binding))


class KeysByScan(Rule):
    """KEYS within a budget."""

    needs = Needs(asks=frozenset({"EXISTS", "SCAN"}), in_scripts=InScripts.COMMANDS)

    def __init__(self, name: str, settings: KeysByScanSettings, refusals: Refusals) -> None:
        self.name = name
        self._settings = settings
        self._refusals = refusals

    def touches(self, spec: Spec) -> bool:
        return spec.name == "KEYS"

    def judge(self, command: Command, _context: Context) -> Verdict:
        """Walk the keyspace; PASS a command with arguments that Redis refuses."""
        if not takes(command.spec, len(command.argv)):
            return PASS
        return Procedure(partial(self._steps, command.argv[1]), self._settings.time, self._refuse)

    def refuses_part(self, _command: Command) -> bool:
        """A script cannot walk, and may not run KEYS itself."""
        return True

    def _steps(self, pattern: bytes) -> Steps:
        found = yield from find_keys(pattern, self._settings)
        return found.end(self._refuse) if isinstance(found, Stopped) else Answer(encode_array(found))

    def _refuse(self, reason: str) -> Refuse:
        return self._refusals.of(f"KEYS is not answered: {reason}", "use SCAN with MATCH and COUNT")

    def judged_by(self, _spec: Spec) -> JudgedBy:
        """That it walks; whether the walk ends within its budget is Redis's to say."""
        return JudgedBy.FORM

    def lower(self, _spec: Spec, lowering: Lowering) -> None:
        """Everything is judged: a plan cannot ask Redis."""
        lowering.judge()

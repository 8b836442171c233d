"""KEYS answered through SCAN, which does not block other clients.

Redis blocks all clients until a KEYS ends; SCAN visits a few keys at a time. The walk has budgets, since all found keys
are kept in memory until the end. If it exceeds a budget, the client gets an error, never a part of the keys. If SCAN
returns a key twice, the reply has it once. A pattern that can match only one name is looked up with EXISTS.

KEYS is a snapshot. SCAN only guarantees the keys that exist during the whole walk: keys that are created or deleted
meanwhile may be missing. Inside MULTI Keyrail cannot ask Redis, so KEYS is refused there. KEYS itself never runs.
"""

from dataclasses import dataclass
from functools import partial

import hiredis

from proxy.commands.command import Command
from proxy.commands.error_texts import PROBE_FORBIDDEN
from proxy.commands.spec import Spec
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.lowering import Lowering
from proxy.rules.refusals import Refusals
from proxy.rules.rule import Binding, InScripts, Needs, Rule, RuleSettings, Wording, takes
from proxy.rules.verdict import PASS, Answer, Procedure, Refuse, Steps, Verdict
from proxy.wire.decode import read_reply
from proxy.wire.encode import encode_array

_GLOB = b"*?[\\"


@dataclass(frozen=True, slots=True)
class KeysByScanSettings(RuleSettings):
    """The budgets: the most keys, their bytes, and seconds; `count` is the COUNT of each step."""

    keys: int = 10_000
    bytes: int = 1 << 20
    time: int = 2
    count: int = 500

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
        if not any(byte in pattern for byte in _GLOB):
            (frame,) = yield [(b"EXISTS", pattern)]
            there = read_reply(frame)
            if isinstance(there, hiredis.ReplyError):
                return self._fail(frame, "EXISTS for it")
            return Answer(encode_array([pattern] * there))
        return (yield from self._walk(pattern))

    def _walk(self, pattern: bytes) -> Steps:
        settings = self._settings
        count = b"%d" % settings.count
        found: dict[bytes, None] = {}
        size, cursor = 0, b"0"
        while True:
            (frame,) = yield [(b"SCAN", cursor, b"MATCH", pattern, b"COUNT", count)]
            reply = read_reply(frame)
            if isinstance(reply, hiredis.ReplyError):
                return self._fail(frame, "SCAN")
            cursor, names = reply
            for name in names:
                if name not in found:
                    found[name] = None
                    size += len(name)
            if len(found) > settings.keys:
                return self._refuse(f"more than {settings.keys} keys match")
            if size > settings.bytes:
                return self._refuse(f"the names that match have more than {settings.bytes} bytes")
            if cursor == b"0":
                return Answer(encode_array(list(found)))

    def _fail(self, error: bytes, asked: str) -> Answer | Refuse:
        # Errors of Redis's state (LOADING, BUSY …) are forwarded. An error about a forbidden command that the client
        # has not sent would mislead.
        return self._refuse(f"this user may not run {asked}") if PROBE_FORBIDDEN.begin(error) else Answer(error)

    def _refuse(self, reason: str) -> Refuse:
        return self._refusals.of(f"KEYS is not answered: {reason}", "use SCAN with MATCH and COUNT")

    def judged_by(self, _spec: Spec) -> JudgedBy:
        """That it walks; whether the walk ends within its budget is Redis's to say."""
        return JudgedBy.FORM

    def lower(self, _spec: Spec, lowering: Lowering) -> None:
        """Everything is judged: a plan cannot ask Redis."""
        lowering.judge()

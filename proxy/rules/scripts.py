"""What scripts and functions may call.

A command that a rule refuses must not come in by a script. With ``commands: follow_rules`` the text of EVAL, SCRIPT
LOAD and FUNCTION LOAD is read (``script_text``), and a script with a call that the policy's rules about commands refuse
for this client is refused itself. A call of which only the first arguments can be read is held against what those
leave open: nothing that could be refused goes through.

What cannot be told from the text is *dynamic*, and ``dynamic_calls`` says what becomes of it: only where that is
``refuse`` can scripts be no way around the rules.

EVALSHA names a script by the SHA1 of its text. One that nobody here has seen gets Redis's own NOSCRIPT, upon which
client libraries send the text; where dynamic calls are allowed it goes on, as it can call nothing worse than they.
FCALL names a function; one whose library was not loaded through here is dynamic, as is FUNCTION RESTORE, whose payload
is not text.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from proxy.commands.command import Command
from proxy.commands.table import Spec, Table
from proxy.rules.context import Context
from proxy.rules.lowering import Lowering
from proxy.rules.rule import Binding, Wording, takes
from proxy.rules.script_memory import ScriptKey, ScriptMemory, function_key, script_key
from proxy.rules.script_text import ScriptCalls
from proxy.rules.verdict import PASS, Answer, Pass, Refuse, Verdict, refusal
from proxy.wire.encode import encode_error

_REMEMBERED = "scripts"
"""Nothing about the settings changes what a text calls, so a rule remembers beyond their changes."""

NOSCRIPT = encode_error("NOSCRIPT No matching script. Please use EVAL.")

_TEXTS = {"EVAL": 1, "EVAL_RO": 1, "SCRIPT|LOAD": 2}
_LIBRARY = "FUNCTION|LOAD"
_PAYLOAD = "FUNCTION|RESTORE"
_SHAS = frozenset({"EVALSHA", "EVALSHA_RO"})
_NAMES = frozenset({"FCALL", "FCALL_RO"})
_EXISTS = "SCRIPT|EXISTS"
"""Let through, but not unseen: the session has its reply agree with what EVALSHA would be told."""
_TOUCHED = frozenset({*_TEXTS, _LIBRARY, _PAYLOAD, *_SHAS, *_NAMES, _EXISTS})


class Dynamic(StrEnum):
    """What becomes of calls that the text does not tell."""

    REFUSE = "refuse"
    WARN = "warn"
    """They are let through, and counted."""
    ALLOW = "allow"


class Objection(NamedTuple):
    """A rule refuses what a script calls. If it is `audited`, the script is not refused for it."""

    rule: str
    audited: bool


Refusing = Callable[[Command, bool, Context], Objection | None]
"""The rule that refuses a command; of several, one that is not audited. None if no rule does. The command may be the
beginning of one, which the second argument says by being False."""


@dataclass(frozen=True, slots=True)
class ScriptsSettings:
    """With `follow_rules`, scripts call only what a client may send itself."""

    follow_rules: bool = True
    dynamic: Dynamic = Dynamic.WARN

    def bind(self, name: str, wording: Wording, binding: Binding) -> "Scripts":
        """The rule itself."""
        return Scripts(name, self, wording, binding.table, binding.memory.of(name, _REMEMBERED, ScriptMemory))


class Scripts:
    """Holds what scripts call against the other rules. `refusing` is given by the policy that it belongs to."""

    needs: frozenset[str] = frozenset()

    def __init__(
        self, name: str, settings: ScriptsSettings, wording: Wording, table: Table, memory: ScriptMemory
    ) -> None:
        self.name = name
        self.memory = memory
        self.refusing: Refusing = lambda _command, _complete, _context: None
        self._settings = settings
        self._wording = wording
        self._table = table

    @property
    def wants_texts(self) -> bool:
        """Whether a script must have been seen before it can be run by its SHA."""
        dynamic = self._settings.dynamic
        return dynamic is Dynamic.REFUSE or (self._settings.follow_rules and dynamic is not Dynamic.ALLOW)

    def must_know(self, command: Command) -> bool:
        """Whether the verdict on this command is another one where what it names has been seen."""
        return self._settings.dynamic is Dynamic.REFUSE if command.spec.name in _NAMES else self.wants_texts

    def touches(self, spec: Spec) -> bool:
        """Whatever brings or runs a script or a function."""
        return spec.name in _TOUCHED

    def judge(self, command: Command, context: Context) -> Verdict:
        """Refuse, answer NOSCRIPT, or PASS."""
        name = command.spec.name
        if name == _EXISTS or not takes(command.spec, len(command.argv)):
            return PASS
        if name == _PAYLOAD:
            return self._judge_dynamic("it brings functions that cannot be read", "load them with FUNCTION LOAD")
        if name in _TEXTS or name == _LIBRARY:
            return self._judge_text(command, context)
        known = self.memory.recall(keys_of(command)[0])
        if known is not None:
            return self._judge_calls(known, context)
        if name in _NAMES:
            why = "it runs a function whose library was not seen here"
            return self._judge_dynamic(why, "load the library with FUNCTION LOAD REPLACE")
        if self.wants_texts:
            # What is in a transaction must abort it; elsewhere nothing is wrong, and the client sends the text.
            return Refuse(NOSCRIPT) if context.in_transaction else Answer(NOSCRIPT)
        return self._judge_dynamic("it runs a script that was not seen here", "use EVAL")

    def _judge_text(self, command: Command, context: Context) -> Verdict:
        index = _TEXTS.get(command.spec.name, len(command.argv) - 1)
        if command.length(index) != len(command.argv[index]):
            return self._judge_dynamic("its text is too long to be read", "use a shorter script")
        return self._judge_calls(self.memory.read(command.argv[index]), context)

    def _judge_calls(self, found: ScriptCalls, context: Context) -> Verdict:
        dynamic = found.dynamic
        audited: Refuse | None = None
        if self._settings.follow_rules:
            for call in found.calls:
                command = Command(self._table, call.words)
                if command.spec.container and len(call.words) == 1 and not call.complete:
                    dynamic = dynamic or f"chooses a subcommand of {command.name} at run time"
                    continue
                objection = self.refusing(command, call.complete, context)
                if objection is None:
                    continue
                why = f"the script calls {command.name}, which {objection.rule} refuses"
                refused = self._refuse(why, "leave that call out")
                if not objection.audited:
                    return refused
                audited = audited or refused
        said: Verdict = PASS
        if dynamic:
            said = self._judge_dynamic(f"the script {dynamic}", "name each command as redis.call('GET', …) does")
        return replace(said, would_refuse=audited) if audited is not None and isinstance(said, Pass) else said

    def _judge_dynamic(self, why: str, instead: str) -> Verdict:
        match self._settings.dynamic:
            case Dynamic.REFUSE:
                return self._refuse(f"what it calls cannot be told, for {why}", instead)
            case Dynamic.WARN:
                return Pass(skipped=f"what it calls cannot be told, for {why}")
            case Dynamic.ALLOW:
                return PASS

    def _refuse(self, why: str, instead: str) -> Refuse:
        because = f", and {self._wording.because}" if self._wording.because else ""
        return refusal(self.name, why + because, self._wording.instead or instead)

    def lower(self, _spec: Spec, lowering: Lowering) -> None:
        """All of it is judged."""
        lowering.judge()


def keys_of(command: Command) -> tuple[ScriptKey, ...]:
    """What must have been seen for this command to be judged; nothing where its text comes with it."""
    argv = command.argv
    if command.spec.name in _SHAS and len(argv) > 1:
        return (script_key(argv[1]),)
    if command.spec.name in _NAMES and len(argv) > 1:
        return (function_key(argv[1]),)
    if command.spec.name == _EXISTS:
        return tuple(script_key(sha) for sha in argv[2:])
    return ()

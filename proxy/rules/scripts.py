"""What scripts and functions may call.

A command that a rule refuses must not come in by a script. With ``commands: follow_rules`` the text of EVAL, SCRIPT
LOAD and FUNCTION LOAD is read (``script_text``), and each call is held to the policy's other rules: as the command that
it is, and, as far as the text and the keys and arguments of an EVAL tell, with its keys and arguments
(``script_calls``). A call of which only the first arguments can be read is held against what those leave open.

What cannot be told from the text is *dynamic*, and ``dynamic_calls`` says what becomes of it. A key that is neither
declared for the script nor a literal is *undeclared*, and ``undeclared_keys`` says whether that is allowed: only where
both are refused, scripts are no way around the rules.

EVALSHA names a script by the SHA1 of its text. One that nobody here has seen gets Redis's own NOSCRIPT, upon which
client libraries send the text; where dynamic calls are allowed it goes on, as it can call nothing worse than they.
FCALL names a function; one whose library was not loaded through here is dynamic, as is FUNCTION RESTORE, whose payload
is not text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, Protocol

from proxy.commands.command import Command
from proxy.commands.table import Spec, Table
from proxy.commands.words import word_of
from proxy.rules.context import Context
from proxy.rules.lowering import Lowering
from proxy.rules.rule import Binding, Wording, takes
from proxy.rules.script_calls import CalledCommand, inputs_of, known_beginning, undeclared_keys, with_named_keys
from proxy.rules.script_memory import ScriptKey, ScriptMemory, function_key, script_key
from proxy.rules.script_text import Call, ScriptCalls
from proxy.rules.verdict import PASS, Answer, Pass, Refuse, Verdict, refusal
from proxy.wire.encode import encode_error

_DECLARE = "pass the key to the script, and name it there as KEYS[1]"
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
    """A rule refuses what a script calls: why, and what to do instead. If it is `audited`, the script runs."""

    rule: str
    audited: bool
    why: str = ""
    instead: str = ""


class OtherRules(Protocol):
    """The policy's other rules, as scripts are held to them. Of several that refuse something, one that is not audited
    is named."""

    @property
    def about_keys(self) -> bool:
        """Whether any of them is about keys or arguments."""

    def to_command(self, command: Command, complete: bool, context: Context) -> Objection | None:
        """Who refuses a command as such. It may be the beginning of one, which `complete` says by being False."""

    def to_call(self, called: CalledCommand, context: Context) -> Objection | None:
        """Who refuses a command for its keys or arguments."""

    def to_keys(self, command: Command, context: Context) -> Objection | None:
        """Who refuses that one script touches all these keys."""


@dataclass(frozen=True, slots=True)
class ScriptsSettings:
    """With `follow_rules`, scripts call only what a client may send itself; with `declared_keys`, only with keys that
    are declared for them, or that are literals in their text."""

    follow_rules: bool = True
    dynamic: Dynamic = Dynamic.WARN
    declared_keys: bool = False

    def bind(self, name: str, wording: Wording, binding: Binding) -> "Scripts":
        """The rule itself."""
        return Scripts(name, self, wording, binding.table, binding.memory.of(name, _REMEMBERED, ScriptMemory))


class Scripts:
    """Holds what scripts call against the other rules, which the policy gives to it; None for no others."""

    needs: frozenset[str] = frozenset()

    def __init__(
        self, name: str, settings: ScriptsSettings, wording: Wording, table: Table, memory: ScriptMemory
    ) -> None:
        self.name = name
        self.memory = memory
        self.others: OtherRules | None = None
        self._settings = settings
        self._wording = wording
        self._table = table

    @property
    def wants_texts(self) -> bool:
        """Whether a script must have been seen before it can be run by its SHA."""
        settings = self._settings
        follows = settings.follow_rules and settings.dynamic is not Dynamic.ALLOW
        return settings.dynamic is Dynamic.REFUSE or settings.declared_keys or follows

    def must_know(self, command: Command) -> bool:
        """Whether the verdict on this command is another one where what it names has been seen."""
        if command.spec.name in _NAMES:
            return self._settings.dynamic is Dynamic.REFUSE or self._settings.declared_keys
        return self.wants_texts

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
            return self._judge_calls(known, command, context)
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
        return self._judge_calls(self.memory.read(command.argv[index]), command, context)

    def _judge_calls(self, found: ScriptCalls, command: Command, context: Context) -> Verdict:
        audited: Refuse | None = None
        for why, instead, only_counted in self._faults(found, command, context):
            refused = self._refuse(why, instead)
            if not only_counted:
                return refused
            audited = audited or refused
        dynamic = found.dynamic
        if self._settings.follow_rules:
            dynamic = dynamic or next(filter(None, map(self._chosen_subcommand, found.calls)), "")
        said: Verdict = PASS
        if dynamic:
            said = self._judge_dynamic(f"the script {dynamic}", "name each command as redis.call('GET', …) does")
        return replace(said, would_refuse=audited) if audited is not None and isinstance(said, Pass) else said

    def _faults(self, found: ScriptCalls, command: Command, context: Context) -> Iterator[tuple[str, str, bool]]:
        """What is wrong with the calls: why, what to do instead, and whether it is only counted."""
        others = self.others if self._settings.follow_rules else None
        if others is not None:
            for call in found.calls:
                begun = Command(self._table, known_beginning(call))
                complete = call.complete and len(begun.argv) == len(call.words)
                objection = None if self._chosen_subcommand(call) else others.to_command(begun, complete, context)
                if objection is not None:
                    why = f"the script calls {begun.name}, which {objection.rule} refuses"
                    yield why, "leave that call out", objection.audited
        follows_keys = others is not None and others.about_keys
        if not (follows_keys or self._settings.declared_keys):
            return
        inputs = inputs_of(command)
        called = [CalledCommand(self._table, call, inputs) for call in found.calls]
        for each in called if self._settings.declared_keys else ():
            if each.undeclared:
                yield f"the script calls {each.name} with a key that is not declared", _DECLARE, False
        if others is not None and follows_keys:
            yield from self._faults_of_keys(others, called, command, context)

    def _faults_of_keys(
        self, others: OtherRules, called: Sequence[CalledCommand], command: Command, context: Context
    ) -> Iterator[tuple[str, str, bool]]:
        for each in called:
            objection = others.to_call(each, context)
            if objection is not None:
                why = f"the script calls {each.name}, which {objection.rule} refuses: {objection.why}"
                yield why, objection.instead, objection.audited
        command.named = undeclared_keys(called)
        objection = others.to_keys(with_named_keys(self._table, command), context)
        if objection is not None:
            why = f"the script names keys of several hash slots, which {objection.rule} refuses"
            yield why, objection.instead, objection.audited

    def _chosen_subcommand(self, call: Call) -> str:
        """Why nobody can tell which command a call is, if its subcommand is not known."""
        begun = Command(self._table, known_beginning(call))
        if not begun.spec.container or len(begun.argv) > 1 or (call.complete and len(call.words) == 1):
            return ""
        return f"chooses a subcommand of {begun.name} at run time"

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
        return (function_key(word_of(argv[1])),)
    if command.spec.name == _EXISTS:
        return tuple(script_key(sha) for sha in argv[2:])
    return ()

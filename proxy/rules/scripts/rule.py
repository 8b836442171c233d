"""Calls that scripts and functions may make.

A script must not call a command that a rule refuses. With ``commands: follow_rules`` Keyrail reads the text of EVAL,
SCRIPT LOAD and FUNCTION LOAD (``text``) and checks each call against the policy's other rules: the command, and its
keys and arguments as far as the text and the arguments of an EVAL tell them (``calls``). If only the first arguments of
a call are known, it is refused if a request that begins with them may be refused.

A call that the text does not tell is *dynamic*; ``dynamic_calls`` allows or refuses it. A key that is neither declared
for the script nor a literal is *undeclared*; ``undeclared_keys`` allows or refuses it. Only if both are refused,
scripts cannot bypass the rules.

EVALSHA names a script by the SHA1 of its text. For an unknown script Keyrail answers Redis's own NOSCRIPT, and client
libraries then send the text. If dynamic calls are allowed, an unknown script is forwarded. FCALL names a function.
Keyrail asks Redis which library has it, with which code (FUNCTION LIST), since a text only tells which functions it may
register. If Keyrail cannot ask, the function is dynamic. FUNCTION RESTORE is dynamic, too, since its payload is no
text.

With ``only``, no scripts and libraries run but those registered by the SHA1 of their text.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from proxy.commands.command import Command
from proxy.commands.table import Spec, Table
from proxy.commands.words import word_of
from proxy.rules.context import Context
from proxy.rules.lowering import Lowering
from proxy.rules.other_rules import Objection, OtherRules
from proxy.rules.refusals import Refusals
from proxy.rules.rule import Binding, InScripts, Needs, Rule, RuleSettings, Wording, takes
from proxy.rules.scripts.calls import (
    SCRIPT_USES,
    CalledCommand,
    Inputs,
    PreparedCall,
    inputs_of,
    named_by,
    undeclared_keys,
    with_named_keys,
)
from proxy.rules.scripts.libraries import read_libraries
from proxy.rules.scripts.memory import Owner, ScriptKey, ScriptMemory, function_key, sha_of
from proxy.rules.scripts.seen import hiding, keys_of, not_known, text_of
from proxy.rules.scripts.text import ScriptCalls
from proxy.rules.verdict import PASS, Answer, Pass, Procedure, Refuse, ReplyEdit, Steps, Verdict
from proxy.wire.encode import encode_error

_DECLARE = "pass the key to the script, and name it there as KEYS[1]"

NO_FUNCTION = encode_error("ERR Function not found")
_PATIENCE = 1.0
"""Seconds that a client may wait for Redis's answer which library has a function."""
_TRUSTED_SECONDS = 1.0
"""Seconds for which that answer is used: other workers and other clients of Redis may load libraries."""
_MOST_PREPARED = 5_000
"""The most prepared calls of scripts that are kept, about 1 KB each."""
_SHA = re.compile(rb"[0-9a-f]{40}")

_BRINGING = ("text", "load", "library")


class Dynamic(StrEnum):
    """How a rule treats calls that the text does not tell."""

    REFUSE = "refuse"
    WARN = "warn"
    """They pass and are counted."""
    ALLOW = "allow"


@dataclass(frozen=True, slots=True)
class ScriptsSettings(RuleSettings):
    """With `follow_rules`, scripts may only call commands that their client may send itself; with `declared_keys`, only
    with keys that are declared for them, or that are literals in their text.

    `only` are the SHA1s, in lower-case hexadecimal, of the scripts and libraries that may run; None for all. `files`
    are the files of scripts that `only` names, so that changes of them are noticed.
    """

    follow_rules: bool = True
    dynamic: Dynamic = Dynamic.WARN
    declared_keys: bool = False
    only: frozenset[bytes] | None = None
    files: tuple[str, ...] = ()

    @property
    def by_app(self) -> bool:
        return True  # each needs the rules that are in force for its app

    @property
    def hinders_queues(self) -> bool:
        return self.dynamic is Dynamic.REFUSE or self.declared_keys

    @property
    def beyond_acl(self) -> str:
        return "an ACL does not read scripts"

    def bind(self, name: str, wording: Wording, binding: Binding) -> "Scripts":
        memory = binding.memory.shared(ScriptMemory)
        return Scripts(name, self, Refusals(name, wording, binding), binding.table, memory)


class Scripts(Rule):
    """Checks the calls of scripts against the other rules."""

    needs = Needs(asks=frozenset({"FUNCTION LIST"}), others=True, facts=True, in_scripts=InScripts.NOTHING)

    def __init__(
        self, name: str, settings: ScriptsSettings, refusals: Refusals, table: Table, memory: ScriptMemory
    ) -> None:
        self.name = name
        self.memory = memory
        self._others: OtherRules | None = None
        self._settings = settings
        self._refusals = refusals
        self._table = table
        self._prepared: dict[int, tuple[ScriptCalls, tuple[PreparedCall, ...]]] = {}

    def follow(self, others: OtherRules) -> None:
        self._others = others

    def lacks(self, command: Command) -> frozenset[ScriptKey]:
        if not self._wants_texts:
            return frozenset()
        return frozenset(key for key in keys_of(command) if self.memory.recall(key) is None)

    def edit_of_reply(self, command: Command, enforced: Callable[[], bool]) -> ReplyEdit | None:
        """The edit notes libraries that Redis has accepted. In replies to SCRIPT EXISTS, it reports a script as missing
        if EVALSHA would get NOSCRIPT."""
        match SCRIPT_USES.get(command.spec.name):
            case "library":
                return _upon_success(partial(self.memory.loaded, command.argv[-1]))
            case "payload":
                return _upon_success(self.memory.forget_functions)
            case "exists":
                lacking = self.lacks(command)
                return hiding([key in lacking for key in keys_of(command)]) if lacking and enforced() else None
        return None

    @property
    def _wants_texts(self) -> bool:
        """Whether a script must be known before EVALSHA can run it."""
        settings = self._settings
        follows = settings.follow_rules and settings.dynamic is not Dynamic.ALLOW
        return settings.dynamic is Dynamic.REFUSE or settings.declared_keys or follows

    @property
    def _asks_redis(self) -> bool:
        settings = self._settings
        return settings.dynamic is not Dynamic.ALLOW or settings.declared_keys or settings.only is not None

    def touches(self, spec: Spec) -> bool:
        """Commands that bring or run a script or a function."""
        return spec.name in SCRIPT_USES

    def judge(self, command: Command, context: Context) -> Verdict:
        """Refuse, answer NOSCRIPT, or PASS."""
        use = SCRIPT_USES[command.spec.name]
        # SCRIPT EXISTS passes: the session edits its reply to agree with the answers to EVALSHA.
        if use == "exists" or not takes(command.spec, len(command.argv)):
            return PASS
        if use == "function":
            return self._judge_function(command, context)
        unregistered = self._unregistered(command)
        if unregistered is not None:
            return unregistered
        if use == "payload":
            return self._judge_dynamic("it brings functions that Keyrail cannot read", "load them with FUNCTION LOAD")
        if use in _BRINGING:
            return self._judge_text(command, context)
        known = self.memory.recall(keys_of(command)[0])
        if known is not None:
            return self._judge_calls(known, command, context)
        if self._wants_texts:
            return not_known(in_transaction=context.in_transaction)
        return self._judge_dynamic("it runs a script that Keyrail does not know", "use EVAL")

    def _judge_text(self, command: Command, context: Context) -> Verdict:
        text = text_of(command)
        if text is None:
            return self._judge_dynamic("its text is too long to be read", "use a shorter script")
        return self._judge_calls(self.memory.read(text), command, context)

    def _unregistered(self, command: Command) -> Refuse | None:
        """The refusal of a script or library that is not registered."""
        only, use = self._settings.only, SCRIPT_USES[command.spec.name]
        if only is None:
            return None
        if use == "payload":
            return self._refuse("it brings libraries that are not registered", "load them with FUNCTION LOAD")
        text = text_of(command)
        sha = command.argv[1].lower() if use == "sha" else b"" if text is None else sha_of(text)
        if sha in only:
            return None
        what = "library" if use == "library" else "script"
        shown = sha.decode() if _SHA.fullmatch(sha) else "of that SHA1"
        return self._refuse(f"the {what} {shown} is not registered", self._register(what))

    def _register(self, what: str) -> str:
        return f"have the SHA1 of the {what}, or its file, added to scripts.only of the rule {self.name}"

    # Functions: only Redis knows which library has one

    def _judge_function(self, command: Command, context: Context) -> Verdict:
        name = word_of(command.argv[1])
        owner = self.memory.owner(name)
        if owner is not None and 0 <= context.now - owner.told_at <= _TRUSTED_SECONDS:
            return self._judge_owner(owner, command, context)
        if self._asks_redis:
            return Procedure(
                partial(self._ask_owner, command, context), _PATIENCE, partial(self._without_asking, command, context)
            )
        known = self.memory.recall(function_key(name)) if owner is None else owner.calls
        return self._judge_unseen() if known is None else self._judge_calls(known, command, context)

    def _ask_owner(self, command: Command, context: Context) -> Steps:
        name = word_of(command.argv[1])
        (told,) = yield [(b"FUNCTION", b"LIST")]
        libraries = read_libraries(told)
        if libraries is None:
            return self._judge_unseen("Redis does not tell this user which library has the function")
        library = next((each for each in libraries if each.has(name)), None)
        if library is None:
            return Answer(NO_FUNCTION)
        (told,) = yield [(b"FUNCTION", b"LIST", b"LIBRARYNAME", library.name, b"WITHCODE")]
        owner = next((each for each in read_libraries(told) or () if each.has(name) and each.code), None)
        if owner is None:
            return self._judge_unseen()
        return self._judge_owner(self.memory.confirm(name, owner.code, context.now), command, context)

    def _without_asking(self, command: Command, context: Context, reason: str) -> Pass | Refuse:
        owner = self.memory.owner(word_of(command.argv[1]))
        if owner is None:
            return self._judge_unseen(f"Keyrail cannot ask Redis which library has the function: {reason}")
        return self._judge_owner(owner, command, context)

    def _judge_owner(self, owner: Owner, command: Command, context: Context) -> Pass | Refuse:
        only = self._settings.only
        if only is not None and owner.sha not in only:
            why = f"the function's library, {owner.sha.decode()}, is not registered"
            return self._refuse(why, self._register("library"))
        return self._judge_calls(owner.calls, command, context)

    def _judge_unseen(self, why: str = "it runs a function of a library that Keyrail does not know") -> Pass | Refuse:
        if self._settings.only is not None:
            return self._refuse(f"{why}, so Keyrail cannot tell whether it is registered", self._register("library"))
        return self._judge_dynamic(why, "load the library with FUNCTION LOAD REPLACE")

    def _judge_calls(self, found: ScriptCalls, command: Command, context: Context) -> Pass | Refuse:
        audited: Refuse | None = None
        inputs = inputs_of(command)
        calls, unknown = self._calls_of(found, inputs)
        command.judged_calls += len(calls)
        for why, instead, objection in self._faults(calls, inputs, command, context):
            refused = self._refuse(why, instead, command, "" if objection is None else objection.rule)
            if objection is None or not objection.audited:
                return refused
            audited = audited or refused
        dynamic = found.dynamic if unknown else found.still_dynamic
        dynamic = dynamic or (_chosen_subcommand(calls) if self._settings.follow_rules else "")
        said: Pass | Refuse = PASS
        if dynamic:
            instead = "name each command as redis.call('GET', …) does"
            said = self._judge_dynamic(f"the script {dynamic}", instead, command)
        return replace(said, would_refuse=audited) if audited is not None and isinstance(said, Pass) else said

    def _calls_of(self, found: ScriptCalls, inputs: Inputs) -> tuple[Sequence[PreparedCall], bool]:
        """All calls of a script, and whether there are others, whose names its arguments do not tell. A script that is
        only loaded has none of those yet."""
        calls = self._prepare(found)
        if not found.chosen or (inputs.later and not found.still_dynamic):
            return calls, False
        named = [named_by(call, inputs) for call in found.chosen]
        known = [PreparedCall(self._table, call) for call in named if call is not None]
        return [*calls, *known], len(known) < len(named)

    def _faults(
        self, calls: Sequence[PreparedCall], inputs: Inputs, command: Command, context: Context
    ) -> Iterator[tuple[str, str, Objection | None]]:
        """The faults of the calls: why, what to do instead, and the objection of another rule, if it is one."""
        others = self._others if self._settings.follow_rules else None
        for call in calls:
            if others is None or call.chooses_subcommand:
                continue
            objection = others.to_command(call.beginning, call.complete, context)
            if objection is not None:
                why = f"the script calls {call.beginning.name}, which {objection.rule} refuses"
                yield why, "leave that call out", objection
        follows_keys = others is not None and others.about_keys
        if not (follows_keys or self._settings.declared_keys):
            return
        called = [call.called(inputs) for call in calls]
        for each in called if self._settings.declared_keys else ():
            if each.undeclared:
                yield f"the script calls {each.name} with a key that is not declared", _DECLARE, None
        if others is not None and follows_keys:
            yield from self._faults_of_keys(others, called, command, context)

    def _prepare(self, found: ScriptCalls) -> Sequence[PreparedCall]:
        """The calls of a script, bound to the table; kept, since most scripts run often."""
        kept = self._prepared.get(id(found))
        if kept is None or kept[0] is not found:
            if sum(len(calls) for _, calls in self._prepared.values()) > _MOST_PREPARED:
                self._prepared.clear()
            kept = found, tuple(PreparedCall(self._table, call) for call in found.calls)
            self._prepared[id(found)] = kept
        return kept[1]

    def _faults_of_keys(
        self, others: OtherRules, called: Sequence[CalledCommand], command: Command, context: Context
    ) -> Iterator[tuple[str, str, Objection | None]]:
        command.named = undeclared_keys(called)
        for each in called:
            objection = others.to_call(each, context)
            if objection is not None:
                why = f"the script calls {each.name}, which {objection.rule} refuses: {objection.why}"
                yield why, objection.instead, objection
        objection = others.to_keys(with_named_keys(self._table, command), context)
        if objection is not None:
            why = f"the script names keys of several hash slots, which {objection.rule} refuses"
            yield why, objection.instead, objection

    def _judge_dynamic(self, why: str, instead: str, command: Command | None = None) -> Pass | Refuse:
        match self._settings.dynamic:
            case Dynamic.REFUSE:
                return self._refuse(f"Keyrail cannot tell what it calls: {why}", instead, command)
            case Dynamic.WARN:
                return Pass(skipped=f"Keyrail cannot tell what it calls: {why}")
            case Dynamic.ALLOW:
                return PASS

    def _refuse(self, why: str, instead: str, command: Command | None = None, cause: str = "") -> Refuse:
        return self._refusals.of(why, instead, command, cause=cause)

    @property
    def plan_inputs(self) -> Hashable:
        """Nothing of an app."""
        return Scripts

    def lower(self, _spec: Spec, lowering: Lowering) -> None:
        """Everything is judged."""
        lowering.judge()


def _chosen_subcommand(calls: Sequence[PreparedCall]) -> str:
    """Why the calls of a script are unknown: it chooses a subcommand when it runs."""
    chosen = next((call for call in calls if call.chooses_subcommand), None)
    return "" if chosen is None else f"chooses a subcommand of {chosen.beginning.name} at run time"


def _upon_success(learn: Callable[[], None]) -> ReplyEdit:
    def edit(frame: bytes) -> bytes:
        if not frame.startswith(b"-"):
            learn()
        return frame

    return edit

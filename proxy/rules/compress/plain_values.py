"""The part of ``compress`` that is on for every client, whatever mode, app, share or exception the rule has: values are
stored in one form for all.

Replies are decompressed in every mode, so a rule can go back from ``enforce`` to ``audit`` and nobody notices. What
would damage or show compressed values is refused while the rule is enforced for some client; else it is only counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from proxy.commands.command import Command, KeysUnknownError
from proxy.commands.compressed_values import (
    OPTIONS,
    READ_INSTEAD,
    TAKING,
    UNDECIDED,
    About,
    ReplyValues,
    Special,
    Touches,
    decision_of,
    values_in_every_reply,
    values_in_reply,
)
from proxy.commands.key_types import key_types_of
from proxy.commands.table import Spec
from proxy.compression.budget import CountedBudget, PlainBudget
from proxy.compression.frames import FIELD, STRING
from proxy.compression.replies import OfPlain, PlainReply
from proxy.rules.compress.answers import answer_of
from proxy.rules.compress.sort_lookups import lookups_of
from proxy.rules.compress.terms import Terms
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.lowering import Lowering
from proxy.rules.plan_checks import ValueCheck
from proxy.rules.refusals import Refusals
from proxy.rules.rule import BY_APP, Binding, InScripts, Needs, Rule, RuleSettings, Wording, takes
from proxy.rules.shared_state import CompressedValues
from proxy.rules.verdict import PASS, EditReply, Pass, ReplyEdit, Rewrite, Verdict

_INSTEAD = "read the whole value, change it and write it back, or take this key out of the rule"
_ABOUT = "decompresses the values in its reply"


@dataclass(frozen=True, slots=True)
class PlainValuesSettings(RuleSettings):
    """The part for every client. It refuses commands if the rule is `enforced` for some client."""

    terms: Terms
    enforced: bool = True

    @property
    def takes(self) -> frozenset[str]:
        return BY_APP

    @property
    def beyond_acl(self) -> str:
        return "an ACL does not know what is compressed"

    def bind(self, name: str, wording: Wording, binding: Binding) -> "PlainValues":
        return PlainValues(name, self, wording, binding)


class PlainValues(Rule):
    """Every client reads plain values."""

    needs = Needs(commands=READ_INSTEAD, in_scripts=InScripts.NOTHING)

    def __init__(self, name: str, settings: PlainValuesSettings, wording: Wording, binding: Binding) -> None:
        self.name = name
        self._terms = settings.terms
        self._globs = settings.terms.globs
        self._enforced = settings.enforced
        self._refusals = Refusals(name, wording, binding)
        self._binding = binding
        budget, counts = binding.memory.shared(PlainBudget), binding.memory.shared(CompressedValues)
        self._budget = CountedBudget(budget, partial(counts.note_decompressed, name), counts.cpu)
        self._dictionaries = settings.terms.dictionaries

    def touches(self, spec: Spec) -> bool:
        """Commands about values of strings and hashes, and those that nobody knows."""
        decision = decision_of(spec)
        return not (isinstance(decision, Touches) and decision.reply is ReplyValues.NONE)

    def judge(self, command: Command, _context: Context) -> Verdict:
        """Have the reply decompressed, answer the command from the plain value, or refuse it."""
        decision = decision_of(command.spec)
        if decision is Special.RUNS:
            return self._script(command)
        if command.spec.id and not takes(command.spec, len(command.argv)):
            return PASS  # Redis refuses it
        if decision is Special.SORTS:
            return self._sort(command)
        try:
            mine = self._mine(command)
        except KeysUnknownError as unknown:
            return self._refuse(command, str(unknown))
        if not any(mine):
            return PASS
        match decision:
            case Touches():
                return self._read(command, decision, mine)
            case About():
                return self._answer(command, decision)
            case Special():
                why = "it would give a compressed value to a key, or take it from a key, whose values are not"
                return PASS if all(mine) else self._refuse(command, why)
            case _:
                return self._refuse(command, UNDECIDED if decision is None else decision)

    def _mine(self, command: Command) -> list[bool]:
        # Which of its keys are the rule's, in their order.
        if not command.spec.id:
            # A subcommand that nobody knows is taken to be about the server, as almost all known ones are.
            subcommand = self._binding.table.container_of(command.argv) is not None
            return [] if subcommand else [self._fits(word) for word in command.argv[1:]]
        return [self._fits(key.name) for key in command.keys]

    def _fits(self, key: bytes) -> bool:
        return any(glob.fits(key) for glob in self._globs)

    def _read(self, command: Command, touches: Touches, mine: Sequence[bool]) -> Verdict:
        values = values_in_reply(command, touches)
        if isinstance(values, str):
            return self._refuse(command, values)
        if values is ReplyValues.NONE:
            return PASS
        mask = mine if values is ReplyValues.ALL and len(mine) > 1 else (True,)
        return EditReply(self._edit(command.spec, values, mask), _ABOUT)

    def edit_of_replies(self, spec: Spec) -> ReplyEdit:
        """Decompress the values where all replies to the command have them."""
        return self._edit(spec, values_in_every_reply(spec), (True,))

    def _edit(self, spec: Spec, values: ReplyValues, mask: Sequence[bool]) -> PlainReply:
        takes, version, known = spec.name in TAKING, _version(spec), self._dictionaries
        return PlainReply(values, version, mask, self._budget, takes=takes, dictionaries=known)

    def _answer(self, command: Command, about: About) -> Verdict:
        answer = answer_of(command, about)
        if answer is None:
            return PASS
        if not self._binding.can_send(about.reads):
            return self._refuse(command, f"it is answered from the plain value, which needs {about.reads}")
        argv = [about.reads.encode(), *command.argv[1 : about.arguments]]
        return Rewrite(argv, OfPlain(_version(command.spec), answer, self._budget, self._dictionaries))

    def _sort(self, command: Command) -> Verdict:
        found = lookups_of(command, self._globs, self._budget, self._dictionaries)
        if found.refused:
            return self._refuse(command, found.refused)
        return PASS if found.edit is None else EditReply(found.edit, _ABOUT)

    def _script(self, command: Command) -> Verdict:
        if self._terms.trusts_scripts:
            return PASS
        try:
            names = [key.name for key in (*command.keys, *command.named)]
        except KeysUnknownError as unknown:
            return self._refuse(command, str(unknown), scripts=True)
        if not names:
            return self._refuse(command, "it declares no keys, so nobody can tell which it uses", scripts=True)
        if any(map(self._fits, names)):
            return self._refuse(command, "it may use values as they are stored, compressed", scripts=True)
        return PASS

    def _refuse(self, command: Command, why: str, *, scripts: bool = False) -> Verdict:
        instead = "declare the keys that it uses, or say scripts: trusted in the rule" if scripts else _INSTEAD
        patterns = ", ".join(self._terms.keys)
        why = f"values of {patterns} are stored compressed, and {command.name} is refused for these keys: {why}"
        refusal = self._refusals.of(why, instead, command)
        return refusal if self._enforced else Pass(would_refuse=refusal)

    def judged_by(self, _spec: Spec) -> JudgedBy:
        """By keys, and bytes that no evidence keeps."""
        return JudgedBy.DATA

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """Commands with one of its keys are judged, and all that may use other keys than they name; but not those whose
        replies all have values at the same places, nor without the options that matter."""
        if not spec.id or isinstance(decision_of(spec), Special):
            lowering.judge()
            return
        if values_in_every_reply(spec) is not ReplyValues.NONE:
            lowering.edit_replies(self._globs)
            return
        if spec.name in OPTIONS:
            first, openings = OPTIONS[spec.name]
            lowering.judge_some(self._globs, [ValueCheck(first, 1, openings)])
            return
        for glob in self._globs:
            lowering.judge_keys(glob)


def _version(spec: Spec) -> int:
    return FIELD if "hash" in key_types_of(spec).read else STRING

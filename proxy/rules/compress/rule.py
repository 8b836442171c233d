"""Values are compressed on their way to Redis.

    compress: {keys: ["doc:*"], above: 4KB, codec: zstd}

This is one of two parts. It has the mode that the rule has for the client, and only adds compressed values; audited, it
compresses as well, to count what that would save, and sends the plain value. The other part (``plain_values``) is on
for every client, since values are stored in the same form for all.

Some values stay plain, which is right for every reader: those that arrive in pieces, numbers, which Redis counts with,
and all behind the first megabyte of one command, so that a command keeps other clients waiting for some milliseconds at
most.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from proxy.commands.command import Command, KeysUnknownError
from proxy.commands.compressed_values import Touches, decision_of
from proxy.commands.table import Spec
from proxy.commands.values import FIELD_WRITES, fields_of, plain_values, values_of
from proxy.compression.frames import FIELD, HEAD, MAGIC, STRING, pack, read_head
from proxy.rules.compress.plain_values import PlainValuesSettings
from proxy.rules.compress.terms import Terms
from proxy.rules.context import Context
from proxy.rules.judged_by import JudgedBy
from proxy.rules.lowering import Lowering
from proxy.rules.plan_checks import ValueCheck
from proxy.rules.refusals import Refusals
from proxy.rules.rule import BY_APP, Binding, DictionaryUse, InScripts, Needs, Rule, RuleSettings, Wording
from proxy.rules.shared_state import CompressedValues
from proxy.rules.verdict import PASS, Pass, Refuse, Rewrite, Verdict

_MOST = 1 << 20
"""The most bytes that are compressed of one command, by all rules; no value that has arrived whole is larger."""
_FAST = 3
_COSTS = ((_FAST, 1), (6, 4))
_COST_OF_OTHERS = 16
"""How many times as long as the first levels the others take, at most, by the last level. A level that would use up all
of ``_MOST`` is replaced by a fast one."""
_LONGEST_NUMBER = 5 * 1024
"""INCRBYFLOAT reads no longer text as a number (MAX_LONG_DOUBLE_CHARS, ``util.h``)."""
_NUMBER = re.compile(
    rb"[+-]?(?:0[xX][0-9a-fA-F.]+(?:[pP][+-]?[0-9]+)?|[0-9.]+(?:[eE][+-]?[0-9]+)?|[nN][aA][nN]\([0-9a-zA-Z_]*\))"
)
_OPENING = frozenset({(MAGIC[:1], MAGIC[1:2])})
_STREAMED = "a value of it arrives in pieces, and is stored as it is"


@dataclass(frozen=True, slots=True)
class CompressSettings(RuleSettings):
    """One rule's `terms`."""

    terms: Terms

    @property
    def takes(self) -> frozenset[str]:
        """Its keys are its own: values of the others are read as they are."""
        return BY_APP

    @property
    def files(self) -> tuple[str, ...]:
        """Those of its dictionaries."""
        return self.terms.files

    @property
    def dictionaries(self) -> frozenset[DictionaryUse]:
        """Those that it reads with."""
        terms = self.terms
        return frozenset(DictionaryUse(keys, name.hex()) for keys in terms.keys for name in terms.dictionaries)

    def for_everybody(self, *, enforced: bool) -> PlainValuesSettings:
        return PlainValuesSettings(self.terms, enforced)

    @property
    def beyond_acl(self) -> str:
        return "an ACL compresses nothing"

    def bind(self, name: str, wording: Wording, binding: Binding) -> "Compress":
        return Compress(name, self.terms, wording, binding)


class _Value(NamedTuple):
    """The arguments that are a value and its key."""

    key: int
    value: int


class Compress(Rule):
    """Compresses the values in requests."""

    needs = Needs(in_scripts=InScripts.NOTHING)

    def __init__(self, name: str, terms: Terms, wording: Wording, binding: Binding) -> None:
        self.name = name
        self._terms = terms
        self._globs = terms.globs
        self._refusals = Refusals(name, wording, binding)
        self._cost = next((cost for level, cost in _COSTS if terms.level <= level), _COST_OF_OTHERS)
        self._counts = binding.memory.shared(CompressedValues)

    def touches(self, spec: Spec) -> bool:
        """Commands that bring values."""
        decision = decision_of(spec)
        return isinstance(decision, Touches) and decision.writes

    def judge(self, command: Command, _context: Context) -> Verdict:
        """Compress the values of its keys."""
        mine = list(self._mine(command))
        if command.streamed is not None:
            return self._streamed(command, mine)
        terms, argv = self._terms, list(command.argv)
        version = FIELD if command.spec.name in FIELD_WRITES else STRING
        left = _MOST - _compressed_by_others(argv, version, mine) if mine else 0
        for _, index in mine:
            value = argv[index]
            wraps = value.startswith(MAGIC)
            if wraps and len(value) > left:
                return self._too_large(command, index)
            if wraps or (terms.above < len(value) <= left and not is_number(value)):
                fits = len(value) * self._cost <= left
                level = terms.level if fits else _FAST
                began = self._counts.cpu()
                argv[index] = stored = pack(value, version, terms.codec, level, terms.above, terms.dictionary)
                self._counts.note(self.name, len(value), len(stored), self._counts.cpu() - began)
                left -= len(value) * (self._cost if fits else 1)
        return PASS if argv == command.argv else Rewrite(argv)

    def _mine(self, command: Command) -> Iterator[_Value]:
        try:
            for value in _values(command):
                if any(glob.fits(command.argv[value.key]) for glob in self._globs):
                    yield value
        except KeysUnknownError:
            return  # so it is not known which values are whose

    def _streamed(self, command: Command, mine: list[_Value]) -> Verdict:
        for _, index in mine:
            if command.argv[index].startswith(MAGIC):
                return self._too_large(command, index)
        above = any(command.length(index) > self._terms.above for _, index in mine)
        return Pass(skipped=_STREAMED) if above else PASS

    def _too_large(self, command: Command, index: int) -> Refuse:
        why = (
            f"argument {index} of {command.name} begins as a compressed value does (00 01 02), and the command is too "
            "large to be changed"
        )
        return self._refusals.of(why, "send less than 1 MB in one command", command)

    def judged_by(self, _spec: Spec) -> JudgedBy:
        """By keys, and bytes that no evidence keeps."""
        return JudgedBy.DATA

    def lower(self, spec: Spec, lowering: Lowering) -> None:
        """Commands with one of its keys are judged, but for small ones: no value is larger than the command."""
        values = plain_values(spec.name)
        if values is not None and values[0]:
            lowering.judge_some(self._globs, [ValueCheck(*values, _OPENING)], self._terms.above)
        else:
            for glob in self._globs:
                lowering.judge_keys(glob)


def _values(command: Command) -> Iterator[_Value]:
    if command.spec.name in FIELD_WRITES:
        key = command.key_places[0][0] if command.key_places else 1
        yield from (_Value(key, field + 1) for field in fields_of(command))
    else:
        yield from (_Value(value.key, value.index) for value in values_of(command))


def _compressed_by_others(argv: Sequence[bytes], version: int, mine: Sequence[_Value]) -> int:
    # The plain bytes of what other rules have compressed of the same command.
    own = {index for _, index in mine}
    others = (word for index, word in enumerate(argv) if word.startswith(MAGIC) and index not in own)
    heads = (read_head(word[:HEAD], len(word), version) for word in others)
    return sum(head.plain or 0 for head in heads if head is not None)


def is_number(value: bytes) -> bool:
    """Whether INCRBYFLOAT may read it as a number. More than strtold takes is no harm."""
    return len(value) < _LONGEST_NUMBER and _NUMBER.fullmatch(value) is not None

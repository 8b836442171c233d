"""SORT with BY and GET: it reads values of other keys, of whose names the command tells a pattern.

GET of keys that surely have compressed values is answered with plain ones. Redis cannot sort by compressed values, and
must not store them in a list. Whether a pattern's keys are among those of the rule may depend on the elements: such a
command is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.compressed_values import ReplyValues
from proxy.commands.sort_patterns import beginnings_of, columns_of
from proxy.commands.words import word_of
from proxy.compression.budget import PlainBudget
from proxy.compression.dictionaries import Dictionaries
from proxy.compression.frames import FIELD, STRING
from proxy.compression.replies import PlainReply
from proxy.rules.key_globs import KeyGlob
from proxy.rules.verdict import ReplyEdit, chained
from proxy.schema.globs import Glob

_ANY = b"\xff"
"""Stands for an element; UTF-8 text has no such byte, so that only a star of the rule's patterns matches it."""


@dataclass(frozen=True, slots=True)
class Lookups:
    """What a SORT looks up: why it is refused, if it is, and the edit of its reply."""

    refused: str = ""
    edit: ReplyEdit | None = None


def lookups_of(command: Command, globs: Sequence[KeyGlob], budget: PlainBudget, dictionaries: Dictionaries) -> Lookups:
    """The values of these keys that the command looks up."""
    argv = command.argv
    near = [(index, begins) for index, begins in beginnings_of(command) if _may_fit(begins, globs)]
    if not near:
        return Lookups()
    stores = any(word_of(word) == b"STORE" for word in argv[2:])
    for index, _ in near:
        if word_of(argv[index - 1]) == b"BY":
            return Lookups("it sorts by values that are stored compressed")
        if stores:
            return Lookups("it stores values in another key as they are stored, compressed")
        if command.length(index) != len(argv[index]) or not _fits(argv[index], globs):
            return Lookups(f"its pattern in argument {index} may be about keys with compressed values")
    columns = [index for index in range(3, len(argv)) if word_of(argv[index - 1]) == b"GET"]
    if len(columns) != columns_of(command):
        return Lookups("its patterns cannot be told from its other arguments")
    mine = {index for index, _ in near}
    edit: ReplyEdit | None = None
    for version in (STRING, FIELD):
        mask = [index in mine and _is_field(argv[index]) is (version == FIELD) for index in columns]
        if any(mask):
            edit = chained(edit, PlainReply(ReplyValues.ALL, version, mask, budget, dictionaries=dictionaries))
    return Lookups(edit=edit)


def _may_fit(begins: bytes, globs: Sequence[KeyGlob]) -> bool:
    firsts = [glob.parts[0] for glob in globs]
    return any(begins.startswith(first) or first.startswith(begins) for first in firsts)


def _fits(pattern: bytes, globs: Sequence[KeyGlob]) -> bool:
    name = _key_of(pattern).replace(b"*", _ANY, 1)
    return any(Glob(glob.parts).fits(name) for glob in globs)


def _key_of(pattern: bytes) -> bytes:
    # ``key->field``, if the star stands before the arrow and a field behind it. Both are looked for up to a NUL, and
    # the field begins with another byte (sort.c, lookupKeyByPattern).
    text = pattern.partition(b"\0")[0]
    arrow = text.find(b"->", text.find(b"*") + 1)
    return pattern[:arrow] if b"*" in text and 0 <= arrow < len(text) - 2 else pattern


def _is_field(pattern: bytes) -> bool:
    return _key_of(pattern) != pattern

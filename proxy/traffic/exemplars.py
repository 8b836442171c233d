"""Commands made again from their exemplars (``command_form``), as far as these tell.

Where a value was, there are as many bytes, which are no word and no number. What was left out of a long command is
filled with what stands before it. A command is judged only if its form is the recorded one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.table import Table
from proxy.traffic.command_form import form_of
from proxy.traffic.key_text import named
from proxy.traffic.redaction import LONGEST

MOST_BYTES = 16 << 20
"""The most bytes of one command; those of larger ones are not made."""
_FILL = b"_"
_VALUE = re.compile(r"<([0-9]{1,18}) bytes>")
_MORE = re.compile(r"<([0-9]{1,6}) more>")
_ID = re.compile(r"\{(?:bytes|uuid|email|ip|date|hex|opaque|int)\}")
_HASH = re.compile(r"#[0-9a-f]{8}")
_HASH_LENGTH = 9
_LONGEST_PERIOD = 3


class ExemplarError(ValueError):
    """A command cannot be made from these words; the text says why."""


@dataclass(frozen=True, slots=True)
class Remade:
    """A command made from its exemplar, and what of it is only a stand-in.

    `filled`: values; `hidden`: keys, of which at most the shape is known; `cut`: arguments.
    """

    command: Command
    filled: bool
    hidden: bool
    cut: bool


def expanded(words: Sequence[str]) -> list[bytes]:
    """The arguments of an exemplar: ``<59 bytes>`` becomes as many bytes. Raises ExemplarError."""
    sizes = [_size_of(word) for word in words]
    if sum(size or 0 for size in sizes) > MOST_BYTES:
        raise ExemplarError(f"its values have more than {MOST_BYTES:,} bytes, the most that can be judged here")
    for word in words:
        if more := _MORE.fullmatch(word):
            raise ExemplarError(f"{more[1]} arguments of the command are left out ({word}): give all of them")
    return [
        word.encode("utf-8", "surrogateescape") if size is None else _FILL * size
        for word, size in zip(words, sizes, strict=True)
    ]


def _size_of(word: str) -> int | None:
    found = _VALUE.fullmatch(word)
    return None if found is None else int(found[1])


def remade(words: Sequence[str], name: str, shape: str, form: str, table: Table) -> Remade | None:
    """The command of an exemplar with this name, form and shape of its first key; None if it cannot be made again."""
    left_out = _MORE.fullmatch(words[-1]) if words else None
    kept = tuple(words[:-1] if left_out else words)
    candidates = [kept] if left_out is None else _filled(kept, int(left_out[1]))
    for each in candidates:
        try:
            command = Command(table, expanded(each))
        except ExemplarError:
            return None
        keys = [key.index for key in command.known_keys]
        first = each[keys[0]] if keys else ""
        hashed = first.startswith(shape) and _HASH.fullmatch(first.removeprefix(shape)) is not None
        texts = {index: each[index][: -_HASH_LENGTH if hashed else None] for index in keys}
        command = Command(table, [named(texts[i]) if i in texts else word for i, word in enumerate(command.argv)])
        if command.name == name and form_of(command) == form:
            hidden = any(_size_of(each[index]) is not None or _is_hidden(text) for index, text in texts.items())
            filled = any(_size_of(word) is not None for word in each)
            return Remade(command, filled, hidden, left_out is not None)
    return None


def _is_hidden(key: str) -> bool:
    # A shape without ids is the key itself.
    return _ID.search(key) is not None or (key.endswith("...") and len(key) > LONGEST)


def _filled(words: tuple[str, ...], left_out: int) -> list[tuple[str, ...]]:
    """The words with what was left out: the last one, two or three again and again."""
    ends = (words[-period:] for period in range(1, min(_LONGEST_PERIOD, len(words) - 1) + 1))
    return [words + (end * (left_out // len(end) + 1))[:left_out] for end in ends]

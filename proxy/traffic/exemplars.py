"""Commands made again from their exemplars (``command_form``), as far as these tell.

Where a value was, there are as many bytes, which are no word and no number. What was left out of a long command is
filled with what stands before it. A command has the recorded form (``remade``), or is the nearest to it (``nearest``).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from proxy.commands.command import Command
from proxy.commands.table import Table
from proxy.traffic.command_form import form_of
from proxy.traffic.key_text import named
from proxy.traffic.redaction import LONGEST
from proxy.traffic.shapes import shape as shape_of

MOST_BYTES = 16 << 20
"""The most bytes of one command; those of larger ones are not made."""
FILL = b"_"
PLACEHOLDER = re.compile(r"\{(bytes|uuid|email|ip|date|hex|opaque|int)\}")
CUT = "..."
"""The end of a long key that is shown, and of the shape of a long key."""
_VALUE = re.compile(r"<([0-9]{1,18}) bytes>")
_MORE = re.compile(r"<([0-9]{1,6}) more>")
_HASH = re.compile(r"#[0-9a-f]{8}")
_HASH_LENGTH = 9
_PERIODS = (2, 1, 3)
_LONGEST_VALUE, _MOST_LEFT_OUT = 1 << 20, 10_000
"""What the nearest command has at most."""


class ExemplarError(ValueError):
    """A command cannot be made from these words; the text says why."""


@dataclass(frozen=True, slots=True)
class Remade:
    """A command made from its exemplar, and what of it is only a stand-in.

    `filled`: values; `hidden_keys`: keys, by index, of which at most the shape is known; `cut`: arguments. `shapes` are
    those of all keys.
    """

    command: Command
    filled: bool
    hidden_keys: frozenset[int]
    shapes: tuple[str, ...]
    cut: bool

    @property
    def hidden(self) -> bool:
        """Whether some key is only a stand-in."""
        return bool(self.hidden_keys)


def expanded(words: Sequence[str]) -> list[bytes]:
    """The arguments of an exemplar: ``<59 bytes>`` becomes as many bytes. Raises ExemplarError."""
    sizes = [_size_of(word) for word in words]
    if sum(size or 0 for size in sizes) > MOST_BYTES:
        raise ExemplarError(f"its values have more than {MOST_BYTES:,} bytes, the most that can be judged here")
    for word in words:
        if more := _MORE.fullmatch(word):
            raise ExemplarError(f"{more[1]} arguments of the command are left out ({word}): give all of them")
    return _arguments(words, MOST_BYTES)


def _arguments(words: Sequence[str], longest: int) -> list[bytes]:
    sizes = [_size_of(word) for word in words]
    fills = {size: FILL * min(size, longest) for size in sizes if size is not None}  # equal ones are one object
    return [
        word.encode("utf-8", "surrogateescape") if size is None else fills[size]
        for word, size in zip(words, sizes, strict=True)
    ]


def _size_of(word: str) -> int | None:
    found = _VALUE.fullmatch(word)
    return None if found is None else int(found[1])


def remade(words: Sequence[str], name: str, shape: str, form: str, table: Table) -> Remade | None:
    """The command of an exemplar with this name, form and shape of its first key; None if it cannot be made again."""
    for each in _filled(words):
        try:
            made = _made(each, expanded(each), shape, table, each is not words)
        except ExemplarError:
            return None
        if made.command.name == name and form_of(made.command) == form:
            return made
    return None


def nearest(words: Sequence[str], shape: str, form: str, table: Table, *, plain: bool = False) -> Remade | None:
    """A command of an exemplar, with this form if there is one; None if there are no words.

    Its values and what was left out are made shorter than they were, if they are long. `plain`: keys are known to be
    shown, so that ``{int}`` is text of a key.
    """
    words = [word.encode("utf-8", "replace").decode() for word in words]  # JSON may have surrogates
    made = [
        _made(each, _arguments(each, _LONGEST_VALUE), shape, table, each is not words, plain)
        for each in _filled(words, _MOST_LEFT_OUT)
    ]
    return next((each for each in made if form_of(each.command) == form), made[0] if made else None)


def _made(
    words: Sequence[str], argv: Sequence[bytes], shape: str, table: Table, cut: bool, plain: bool = False
) -> Remade:
    keys = [key.index for key in Command(table, argv).known_keys]
    first = words[keys[0]] if keys else ""
    hashed = first.startswith(shape) and _HASH.fullmatch(first.removeprefix(shape)) is not None
    texts = {index: words[index][: -_HASH_LENGTH if hashed else None] for index in keys}
    command = Command(table, [named(texts[i]) if i in texts else word for i, word in enumerate(argv)])
    hidden = frozenset(index for index, text in texts.items() if _is_cut(text) or (not plain and _is_stand_in(text)))
    shapes = tuple(_shape_shown(texts[index], index in hidden) for index in keys)
    return Remade(command, any(_size_of(word) is not None for word in words), hidden, shapes, cut)


def _is_cut(key: str) -> bool:
    return key.endswith(CUT) and len(key) > LONGEST


def _is_stand_in(key: str) -> bool:
    # A shape without ids is the key itself.
    return _size_of(key) is not None or PLACEHOLDER.search(key) is not None


def _shape_shown(key: str, hidden: bool) -> str:
    if _is_cut(key):
        return f"{shape_of(named(key.removesuffix(CUT)))}{CUT}"
    return key if hidden else shape_of(named(key))


def _filled(words: Sequence[str], most: int = 10**6) -> list[Sequence[str]]:
    """The words with what was left out, at most so many: the last one, two or three again and again."""
    left_out = _MORE.fullmatch(words[-1]) if words else None
    if left_out is None:
        return [words] if words else []
    kept, more = (*words[:-1],), min(int(left_out[1]), most)
    ends = (kept[-period:] for period in _PERIODS if period < len(kept))
    return [kept + (end * (more // len(end) + 1))[:more] for end in ends]

"""Exemplars as commands again, which rules can judge: each value has its length, and keys are as far known as shown.

A hidden key (``traffic.redact``) is replaced by one of the same shape. `exact` says whether the key is the real one.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from proxy.commands.command import Command, KeysUnknownError
from proxy.commands.table import STANDARD
from proxy.traffic.key_text import named
from proxy.traffic.shapes import shape

_VALUE = re.compile(r"<([0-9]{1,19}) bytes>")
_MORE = re.compile(r"<([0-9]{1,9}) more>")
_HASHED = re.compile(r"(.*)#[0-9a-f]{8}", re.DOTALL)
_LONGEST_SHOWN = 128
_LONGEST_VALUE = 1 << 20
_MOST_WORDS = 10_000
_BEFORE_MORE = 2
PLACEHOLDER = re.compile(r"\{(int|uuid|hex|date|ip|email|opaque|bytes)\}")
CUT = "..."
"""The end of the shape of a long key, and of a long key that is shown."""

_SAMPLES = {
    "int": (b"7", b"12345678", b"0", b"1000000007"),
    "uuid": (b"3f2c9a7e-0d1b-4c55-9c7e-1f2a3b4c5d6e", b"3F2C9A7E-0D1B-4C55-9C7E-1F2A3B4C5D6E"),
    "hex": (b"9f86d081884c7d65", b"A0000001", b"deadbeef01", b"c0000001", b"1234567f"),
    "date": (b"2026-01-15", b"20260115"),
    "ip": (b"10.0.0.1", b"192.168.100.200"),
    "email": (b"ada@example.org", b"a.b+c%d@mail.example.co.uk"),
    "opaque": (b"a1b2c3", b"0x9zK", b"abcdefghijklmnopqrstuvwxyzabc", b"1a"),
    "bytes": (b"\xc3\xa9", b" ", b"\x00\n"),
}
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Replayed:
    """A command of an exemplar. `shown`: all its keys are the real ones; `whole`: none of its words were left out.

    `shapes` are the shapes of its keys.
    """

    command: Command
    shapes: tuple[str, ...]
    shown: bool
    whole: bool


def replay(words: Sequence[str], its_shape: str, plain: bool = False) -> Replayed | None:
    """The command of an exemplar in a row of this shape; None if there is none.

    `plain`: keys are known to be shown, so that ``{int}`` is text of a key.
    """
    words, more = _cut_of([word.encode("utf-8", "replace").decode() for word in words])  # JSON may have surrogates
    argv = [_argument(word) for word in words]
    if not argv:
        return None
    if more:
        argv += islice(cycle(argv[-2:]), min(more, _MOST_WORDS))
    command = Command(STANDARD, argv)
    try:
        places = [index for index, _ in command.key_places]
    except KeysUnknownError:
        return Replayed(command, (), True, not more)
    shapes, shown, hashed = [], True, _is_hashed(words, places, its_shape)
    for index in places:
        word = words[index] if index < len(words) else words[len(words) - 2 + (index - len(words)) % 2]
        key, key_shape, exact = _key_of(word, hashed, plain)
        argv[index] = key
        shapes.append(key_shape)
        shown = shown and exact
    return Replayed(Command(STANDARD, argv), tuple(shapes), shown, not more)


def _cut_of(words: Sequence[str]) -> tuple[Sequence[str], int]:
    found = _MORE.fullmatch(words[-1]) if len(words) > _BEFORE_MORE else None
    return (words, 0) if found is None else (words[:-1], int(found[1]))


def _argument(word: str) -> bytes:
    found = _VALUE.fullmatch(word)
    if found is not None:
        return b"x" * min(int(found[1]), _LONGEST_VALUE)
    return word.encode()


def _is_hashed(words: Sequence[str], places: Sequence[int], its_shape: str) -> bool:
    # Whether this exemplar has its keys hashed, by the first of them: a row's shape is that of the first key.
    found = _HASHED.fullmatch(words[places[0]]) if places and places[0] < len(words) else None
    return found is not None and found[1] == its_shape


def _key_of(word: str, hashed: bool, plain: bool) -> tuple[bytes, str, bool]:
    """The key, its shape, and whether it is the real one."""
    found = _HASHED.fullmatch(word) if hashed else None
    its_shape = word if found is None else found[1]
    key = named(word)
    if found is None and (plain or shape(key) != word):
        cut = len(word) > _LONGEST_SHOWN and word.endswith(CUT)
        return (key, f"{shape(key.removesuffix(CUT.encode()))}{CUT}", False) if cut else (key, shape(key), True)
    exact = PLACEHOLDER.search(its_shape) is None and not its_shape.endswith(CUT)
    return next(keys_of(its_shape)), its_shape, exact


def keys_of(its_shape: str) -> Iterator[bytes]:
    """Keys of this shape; at least one."""
    parts = PLACEHOLDER.split(its_shape)
    seen = set()
    for number in range(_ROUNDS):
        key = b"".join(
            part.encode("utf-8", "replace") if at % 2 == 0 else _sample(part, number) for at, part in enumerate(parts)
        )
        if number == 0 or (key not in seen and shape(key) == its_shape):
            seen.add(key)
            yield key


def _sample(kind: str, number: int) -> bytes:
    samples = _SAMPLES[kind]
    return samples[number % len(samples)]

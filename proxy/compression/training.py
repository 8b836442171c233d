"""Trains a dictionary on some values, and tries it on others."""

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.compression.dictionaries import Dictionary, DictionaryError, trained
from proxy.compression.frames import STRING, Codec, pack

LEAST = 100
"""Of fewer values nobody can tell what they have in common."""
_TRIED = 5
"""Each of so many values is left out of the training."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A dictionary, and what it would save. It was `trained_on` so many values, and `tried_on` others: these have
    `plain` bytes; stored, they have fewer `without` it, and `stored` ones with it."""

    dictionary: Dictionary
    trained_on: int
    tried_on: int
    plain: int
    without: int
    stored: int

    @property
    def saves_without(self) -> float:
        """The share that zstd saves without it."""
        return 1 - self.without / self.plain

    @property
    def saves(self) -> float:
        """The share that zstd saves with it."""
        return 1 - self.stored / self.plain


def try_dictionary(values: Sequence[bytes], level: int) -> Trial:
    """Train one and try it, at this level of zstd. Raises DictionaryError."""
    if len(values) < LEAST:
        raise DictionaryError(f"found {len(values)} values, expected {LEAST} or more, better thousands")
    others = values[::_TRIED]
    dictionary = trained([value for at, value in enumerate(values) if at % _TRIED])

    def stored(by: Dictionary | None) -> int:
        return sum(len(pack(value, STRING, Codec.ZSTD, level, 0, by)) for value in others)

    plain = sum(map(len, others))
    return Trial(dictionary, len(values) - len(others), len(others), plain, stored(None), stored(dictionary))

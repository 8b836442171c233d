"""Misspelt words: the known word that is most like an unknown one."""

import difflib
from collections.abc import Iterable

_ALIKE = 0.75
"""The likeness, from 0 to 1, from which a word counts as a misspelling of a known one."""


def meant_by(word: str, known: Iterable[str], alike: float = _ALIKE) -> str | None:
    """The known word that is most like this one; None if no word is alike."""
    close = difflib.get_close_matches(word, [*known], 1, alike)
    return close[0] if close else None


def did_you_mean(word: str, known: Iterable[str], alike: float = _ALIKE) -> str:
    """The end of an error about an unknown word: a suggestion, or empty."""
    meant = meant_by(word, known, alike)
    return "" if meant is None else f"; did you mean {meant}?"

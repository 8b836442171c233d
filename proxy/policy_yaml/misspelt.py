"""Near misses: a word that is not known, and the known one that it may have been meant as."""

import difflib
from collections.abc import Iterable

_ALIKE = 0.75
"""How much a word must have in common with a known one, of 1, to be taken for a misspelling of it."""


def meant_by(word: str, known: Iterable[str], alike: float = _ALIKE) -> str | None:
    """The known word that is most like this one, if any is."""
    close = difflib.get_close_matches(word, [*known], 1, alike)
    return close[0] if close else None


def did_you_mean(word: str, known: Iterable[str], alike: float = _ALIKE) -> str:
    """The end of an error about an unknown word: the near miss, or nothing."""
    meant = meant_by(word, known, alike)
    return "" if meant is None else f"; did you mean {meant}?"

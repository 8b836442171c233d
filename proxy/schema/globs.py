"""Patterns in which ``*`` stands for any characters, and every other character for itself.

This is the only matcher for the patterns of a policy: keys of limits, lifetimes and exceptions, and an app's ``match``
of users, client names, listeners and certificates. Clients choose the names, so the worst case matters. Matching never
goes back: each part between two stars is matched at its first place behind the part before it. If a later place leads
to a match, the first place does, too. So each character of a name is compared with one part only, and the cost is at
most the name's length times the pattern's.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import AnyStr, Generic

from proxy.schema.expressions import ANY_BYTE, Chain, Expression, OneOf, Repeated, text

LONGEST = 512
"""The most characters that a policy may give a pattern."""


class Glob(Generic[AnyStr]):
    """A pattern: ``parts`` with any text between them. One part alone matches only itself."""

    __slots__ = ("_first", "_last", "_least", "_middle", "fits", "parts")

    def __init__(self, parts: Sequence[AnyStr]) -> None:
        self.parts: tuple[AnyStr, ...] = tuple(parts)
        self._first: AnyStr = self.parts[0]
        self._last: AnyStr = self.parts[-1]
        self._middle: tuple[AnyStr, ...] = tuple(part for part in self.parts[1:-1] if part)
        self._least = sum(map(len, self.parts))
        self.fits: Callable[[AnyStr], bool] = self._simple() or self._fits
        """Whether a whole name matches."""

    def _simple(self) -> Callable[[AnyStr], bool] | None:
        # Most patterns have one star: one step.
        first, last = self._first, self._last
        if len(self.parts) == 1:
            return lambda name: name == first
        if not self._middle and not last:
            return lambda name: name.startswith(first)
        if len(self._middle) == 1 and not first and not last:
            part = self._middle[0]
            return lambda name: part in name
        return None

    def _fits(self, name: AnyStr) -> bool:
        if len(name) < self._least or not name.startswith(self._first) or not name.endswith(self._last):
            return False
        place, end = len(self._first), len(name) - len(self._last)
        for part in self._middle:
            place = name.find(part, place, end)
            if place < 0:
                return False
            place += len(part)
        return True


_REMEMBERED = 4096
"""More patterns than the policies in force have."""
_STAR = b"\xff"


@lru_cache(_REMEMBERED)
def glob_of(pattern: str) -> Glob[str]:
    """The pattern, for text."""
    return Glob(pattern.split("*"))


@lru_cache(_REMEMBERED)
def key_glob_of(pattern: str) -> Glob[bytes]:
    """The pattern, for keys: they are bytes, and policies are written in UTF-8."""
    return Glob(pattern.encode().split(b"*"))


def lies_within(inner: str, outer: str) -> bool:
    """Whether every key that fits the inner pattern fits the outer one."""
    # Each star of the inner pattern becomes a byte that UTF-8 text cannot have, so only a star matches it.
    return key_glob_of(outer).fits(_STAR.join(key_glob_of(inner).parts))


def is_narrower(one: str, other: str) -> bool:
    """Whether one pattern matches some keys of the other, but not all, and no other keys."""
    return lies_within(one, other) and not lies_within(other, one)


def overlap(one: str, other: str) -> bool:
    """Whether some key fits both patterns."""
    mine, theirs = key_glob_of(one).parts, key_glob_of(other).parts
    if len(mine) == 1 or len(theirs) == 1:
        return lies_within(one, other) or lies_within(other, one)
    # Between beginning and end there is room for the middle parts of both, one behind the other.
    (first, *_, last), (other_first, *_, other_last) = mine, theirs
    begin = first.startswith(other_first) or other_first.startswith(first)
    return begin and (last.endswith(other_last) or other_last.endswith(last))


class GlobIndex:
    """Finds the patterns that may overlap with another one by their beginnings, without comparing all of them."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._by_beginning: dict[bytes, list[str]] = {}
        for pattern in dict.fromkeys(patterns):
            self._by_beginning.setdefault(_beginning(pattern), []).append(pattern)
        self._beginnings = sorted(self._by_beginning)
        self._lengths = sorted({len(each) for each in self._beginnings})
        self.compared = 0
        """How many patterns were compared, over all calls."""

    def overlapping(self, pattern: str) -> list[str]:
        """The patterns that overlap with it; itself, too, if it is one of them."""
        beginning = _beginning(pattern)
        found = [beginning[:length] for length in self._lengths if length < len(beginning)]
        place = bisect_left(self._beginnings, beginning)
        while place < len(self._beginnings) and self._beginnings[place].startswith(beginning):
            found.append(self._beginnings[place])
            place += 1
        near = [other for each in found for other in self._by_beginning.get(each, ())]
        self.compared += len(near)
        return [other for other in near if overlap(pattern, other)]


def _beginning(pattern: str) -> bytes:
    return key_glob_of(pattern).parts[0]


def glob_expression(pattern: str) -> Expression:
    """The keys that match, as an expression, to be compared with those of other patterns."""
    return parts_expression(key_glob_of(pattern).parts)


def parts_expression(parts: Sequence[bytes]) -> Expression:
    """The same for parts with any bytes between them."""
    first, *others = map(text, parts)
    anything = Repeated(OneOf(ANY_BYTE), or_not=True)
    return Chain((first, *(part for other in others for part in (anything, other))))

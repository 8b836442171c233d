"""The patterns of KEYS and SCAN, as Redis matches them (``stringmatchlen`` in util.c): ``*``, ``?``, ``[a-z]``, ``\\``.

Redis tries each length of a star again for each star behind it, which takes exponential time. Here each part between
two stars is matched at its first place behind the part before it, and never again: no later place can do better. Parts
of plain bytes take linear time, others at most their length times the key's: ``work`` tells how much.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

LONGEST = 4096
"""The most bytes of a pattern that is matched here."""
_CALL = 100
"""Steps that looking for one part takes at least."""


class _Token(NamedTuple):
    """What matches one byte; a star, which matches any number of them, has no ``bytes``."""

    bytes: frozenset[int]
    star: bool = False


_STAR = _Token(frozenset(), star=True)
_ANY = _Token(frozenset(range(256)))


_ONE_BYTE = [_Token(frozenset({byte})) for byte in range(256)]


class KeyPattern:
    """A pattern of at most ``LONGEST`` bytes, to match many keys with."""

    def __init__(self, pattern: bytes) -> None:
        parts: list[list[_Token]] = [[]]
        for token in _tokens(pattern):
            if token.star:
                parts.append([])
            else:
                parts[-1].append(token)
        # Redis compares nothing with an empty key: one star alone stands for all keys.
        self._fits_empty = pattern in (b"", b"*")
        self._starred = len(parts) > 1
        first, last = parts[0], parts[-1] if self._starred else []
        self._first, self._last = _expression(first), _expression(last)
        self._first_size, self._last_size = len(first), len(last)
        middle = [part for part in parts[1:-1] if part]
        self._middle = [_finder(part) for part in middle]
        self._steps = 1 + sum(len(part) for part in middle if not _is_plain(part))

    def work(self, key: bytes) -> int:
        """The most steps that this key can take, of about a nanosecond each."""
        return self._steps * len(key) + _CALL * (1 + min(len(self._middle), len(key)))

    def fits(self, key: bytes) -> bool:
        """Whether the whole key matches."""
        if not key:
            return self._fits_empty
        place, end = self._first_size, len(key) - self._last_size
        if place > end or not self._first.match(key) or not self._last.match(key, end):
            return False
        if not self._starred:
            return place == end
        for find in self._middle:
            place = find(key, place, end)
            if place < 0:
                return False
        return True


def may_begin(pattern: bytes, beginning: bytes) -> bool:
    """Whether a key that begins so may match. However long the pattern is, no more of it is read than that takes."""
    tokens = _tokens(pattern)
    for byte in beginning:
        token = next(tokens, None)
        if token is None or token.star:
            return token is not None
        if byte not in token.bytes:
            return False
    return True


_Finder = Callable[[bytes, int, int], int]
"""The place behind the first match between two places of a key; negative if there is none."""


def _finder(part: Sequence[_Token]) -> _Finder:
    if not _is_plain(part):
        return _searching(_expression(part))
    text = bytes(byte for token in part for byte in token.bytes)
    size = len(text)

    def find(key: bytes, place: int, end: int) -> int:
        found = key.find(text, place, end)
        return -1 if found < 0 else found + size

    return find


def _searching(expression: re.Pattern[bytes]) -> _Finder:
    def find(key: bytes, place: int, end: int) -> int:
        found = expression.search(key, place, end)
        return -1 if found is None else found.end()

    return find


def _is_plain(part: Sequence[_Token]) -> bool:
    return all(len(token.bytes) == 1 for token in part)


def _expression(part: Sequence[_Token]) -> re.Pattern[bytes]:
    # Nothing in it repeats or chooses, so there is nothing to go back to.
    return re.compile(b"".join(map(_one_of, part)), re.DOTALL)


def _one_of(token: _Token) -> bytes:
    if len(token.bytes) == 1:
        return re.escape(bytes(token.bytes))
    if len(token.bytes) == 256:
        return b"."
    if not token.bytes:
        return b"(?!)"
    ranges, bytes_left = [], sorted(token.bytes)
    first = last = bytes_left[0]
    for byte in [*bytes_left[1:], 1 << 10]:
        if byte != last + 1:
            ranges.append(b"\\x%02x-\\x%02x" % (first, last))
            first = byte
        last = byte
    return b"[%b]" % b"".join(ranges)


def _tokens(pattern: bytes) -> Iterator[_Token]:
    i, size = 0, len(pattern)
    while i < size:
        byte = pattern[i]
        if byte == ord("*"):
            yield _STAR
        elif byte == ord("?"):
            yield _ANY
        elif byte == ord("["):
            token, i = _class(pattern, i + 1)
            yield token
        else:
            if byte == ord("\\") and i + 1 < size:
                i += 1
            yield _ONE_BYTE[pattern[i]]
        i += 1


def _class(pattern: bytes, i: int) -> tuple[_Token, int]:
    # The offset of its last byte, too: a class that nothing closes ends with the pattern.
    size = len(pattern)
    negated = i < size and pattern[i] == ord("^")
    i += negated
    found: set[int] = set()
    while i < size and pattern[i] != ord("]"):
        if pattern[i] == ord("\\") and i + 1 < size:
            i += 1
            found.add(pattern[i])
        elif i + 2 < size and pattern[i + 1] == ord("-"):
            first, last = sorted((pattern[i], pattern[i + 2]))
            found.update(range(first, last + 1))
            i += 2
        else:
            found.add(pattern[i])
        i += 1
    return _Token(frozenset(range(256)) - found if negated else frozenset(found)), i

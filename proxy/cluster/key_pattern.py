"""The patterns of KEYS and SCAN, as Redis matches them (``stringmatchlen`` in util.c): ``*``, ``?``, ``[a-z]``, ``\\``.

Redis tries each length of a star again for each star behind it, which takes exponential time. Here a star that is
followed by another one keeps its length: no later choice can do better. So the work is at most the pattern's length
times the key's.
"""

from collections.abc import Iterator
from typing import NamedTuple


class _Token(NamedTuple):
    """What matches one byte; a star, which matches any number of them, has no ``bytes``."""

    bytes: frozenset[int]
    star: bool = False


_STAR = _Token(frozenset(), star=True)
_ANY = _Token(frozenset(range(256)))


_ONE_BYTE = [_Token(frozenset({byte})) for byte in range(256)]


class KeyPattern:
    """A pattern that is read once, and no further than keys can match it: a client may send a very long one.

    ``read`` has its tokens, as far as it was read; of stars in a row, one.
    """

    def __init__(self, pattern: bytes) -> None:
        self.read: list[_Token] = []
        self._unread = _tokens(pattern)
        # Redis compares nothing with an empty key: one star alone stands for all keys.
        self._fits_empty = pattern in (b"", b"*")

    def _token(self, index: int) -> _Token | None:
        while len(self.read) <= index:
            token = next(self._unread, None)
            if token is None:
                return None
            if not (token.star and self.read and self.read[-1].star):
                self.read.append(token)
        return self.read[index]

    def fits(self, key: bytes) -> bool:
        """Whether the whole key matches."""
        if not key:
            return self._fits_empty
        t, k = 0, 0
        star, taken = -1, 0
        while k < len(key):
            token = self._token(t)
            if token is not None and token.star:
                star, taken = t, k
                t += 1
            elif token is not None and key[k] in token.bytes:
                t += 1
                k += 1
            elif star >= 0:
                # The last star takes one byte more.
                taken += 1
                t, k = star + 1, taken
            else:
                return False
        token = self._token(t)
        return token is None or (token.star and self._token(t + 1) is None)

    def fits_some(self, beginning: bytes) -> bool:
        """Whether a key that begins so may match."""
        for index, byte in enumerate(beginning):
            token = self._token(index)
            if token is None or token.star:
                return token is not None
            if byte not in token.bytes:
                return False
        return True


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

"""Which keys a scan has counted, in bounded memory, so that each counts once.

SCAN repeats keys where a server shrinks its table, a walk that starts over repeats all, and a key whose slot moves is
shown by two nodes. So 64 bits of a hash of each key are kept: exactly up to ``EXACT`` keys (two of so many are taken
for one with a probability below one in a million), and in a Bloom filter beyond that. The filter takes a few keys for
repeated that are not: ``expected_missed`` says how many, from how full it was when each key came.
"""

from array import array
from collections.abc import Callable, Sequence
from hashlib import blake2b
from mmap import mmap

EXACT = 3_000_000
_FIRST_BITS = 12
_FULL = 0.75
_HASHES = 8
_BITS_PER_KEY = 24
_LEAST_FILTER_BITS, _UNKNOWN_FILTER_BITS, _MOST_FILTER_BITS = 20, 28, 29


def mark_of(database: int, key: bytes) -> int:
    """The 64 bits that stand for this key; never 0."""
    digest = blake2b(key, digest_size=8, salt=b"%d" % database).digest()
    return int.from_bytes(digest, "little") or 1


class SeenKeys:
    """The marks of all keys that were counted. ``expected`` says how many keys there are, as far as is known when the
    filter is made."""

    def __init__(self, expected: Callable[[], int], exact: int = EXACT) -> None:
        self.expected_missed = 0.0
        self._exact = exact
        self._expected = expected
        self._mask = (1 << _FIRST_BITS) - 1
        self._table = array("Q", bytes(8 << _FIRST_BITS))
        self._kept = 0
        self._filter: _Filter | None = None

    @property
    def is_exact(self) -> bool:
        """Whether no key can be taken for another one."""
        return self._filter is None

    def has(self, mark: int) -> bool:
        """Whether the key has been counted."""
        return bool(self._table[self._place(mark)]) or (self._filter is not None and self._filter.has(mark))

    def add(self, mark: int) -> bool:
        """Note it; whether it has not been there before."""
        place = self._place(mark)
        if self._table[place]:
            return False
        if self._kept < self._exact:
            self._table[place] = mark
            self._kept += 1
            if self._kept > _FULL * self._mask and self._kept < self._exact:
                self._grow()
            return True
        if self._filter is None:
            self._filter = _Filter(self._expected() - self._exact)
        if self._filter.has(mark):
            return False
        error = self._filter.error()
        self.expected_missed += error / (1 - error)  # of those that are new, only these come so far
        self._filter.add(mark)
        return True

    def pieces(self) -> list[bytes]:
        """What there is to keep, so that another process knows the same keys."""
        marks = array("Q", filter(None, self._table)).tobytes()
        return [marks] if self._filter is None else [marks, self._filter.bits()]

    def take(self, pieces: Sequence[bytes], expected_missed: float) -> None:
        """Know the keys of these ``pieces``, while nothing else was added. Raises ValueError."""
        marks, known = array("Q"), None if len(pieces) < 2 else _Filter.of(pieces[1])
        marks.frombytes(pieces[0])
        for mark in marks:
            self.add(mark)
        self._filter = known
        self.expected_missed = expected_missed

    def _place(self, mark: int) -> int:
        table, mask = self._table, self._mask
        place = mark & mask
        while (found := table[place]) and found != mark:
            place = (place + 1) & mask
        return place

    def _grow(self) -> None:
        before, self._mask = self._table, 2 * self._mask + 1
        self._table = array("Q", bytes(8 * (self._mask + 1)))
        for mark in before:
            if mark:
                self._table[self._place(mark)] = mark


class _Filter:
    """A Bloom filter. Its places are made of the two halves of a mark."""

    def __init__(self, expected: int) -> None:
        wanted = (_BITS_PER_KEY * expected).bit_length() if expected > 0 else _UNKNOWN_FILTER_BITS
        bits = 1 << min(max(wanted, _LEAST_FILTER_BITS), _MOST_FILTER_BITS)
        self._mask = bits - 1
        self._bits = mmap(-1, bits >> 3)
        self._set = 0

    @classmethod
    def of(cls, bits: bytes) -> "_Filter":
        """A filter with these bits. Raises ValueError."""
        if len(bits).bit_count() != 1:
            raise ValueError(f"{len(bits)} bytes")
        found = cls(0)
        found._mask, found._bits = 8 * len(bits) - 1, mmap(-1, len(bits))
        found._bits[:] = bits
        found._set = int.from_bytes(bits, "little").bit_count()
        return found

    def bits(self) -> bytes:
        """What ``of`` takes."""
        return self._bits[:]

    def _places(self, mark: int) -> range:
        first, step = mark & 0xFFFFFFFF, (mark >> 32) | 1
        return range(first, first + _HASHES * step, step)

    def has(self, mark: int) -> bool:
        bits, mask = self._bits, self._mask
        for place in self._places(mark):
            at = place & mask
            if not bits[at >> 3] & (1 << (at & 7)):
                return False
        return True

    def add(self, mark: int) -> None:
        bits, mask = self._bits, self._mask
        for place in self._places(mark):
            at = place & mask
            bit = 1 << (at & 7)
            if not bits[at >> 3] & bit:
                bits[at >> 3] |= bit
                self._set += 1

    def error(self) -> float:
        """The probability that a key that never came is taken for one that did."""
        return float((self._set / (self._mask + 1)) ** _HASHES)

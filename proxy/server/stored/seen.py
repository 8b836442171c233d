"""Which keys a scan has counted, in bounded memory, so that each counts once.

SCAN repeats keys where a server shrinks its table, a walk that starts over repeats all, and a key whose slot moves is
shown by two nodes. So 64 bits of a hash of each key are kept: exactly up to ``EXACT`` keys (two of so many are taken
for one with a probability below one in a million), and in a Bloom filter beyond that. The filter takes a few keys for
repeated that are not: ``expected_missed`` says how many, from how full it was when each key came.

One filter serves all servers. What a walk that starts over shows again is in it, and makes it no fuller. It gets too
full where more keys come than were expected, as while somebody loads data, or where a node is met late: then a larger
one gets the keys from there on.
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
_LEAST_FILTER_BITS, _UNKNOWN_FILTER_BITS, _MOST_FILTER_BITS = 20, 28, 30
_MOST_ERROR = 5e-5
"""Above this, a filter is too full. One with all keys that were expected stays below."""


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
        self._full: list[_Filter] = []

    @property
    def is_exact(self) -> bool:
        """Whether no key can be taken for another one."""
        return self._filter is None

    @property
    def has_room(self) -> bool:
        """Whether one more key is kept exactly."""
        return self._kept < self._exact

    def has(self, mark: int) -> bool:
        """Whether the key has been counted."""
        return bool(self._table[self._place(mark)]) or self._may_have(mark)

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
        if self._may_have(mark):
            return False
        found = self._filter_with_room()
        error = sum((each.error() for each in self._full), found.error())
        self.expected_missed += error / (1 - error)  # of those that are new, only these come so far
        found.add(mark)
        return True

    def pieces(self) -> list[bytes]:
        """What there is to keep, so that another process knows the same keys."""
        filters = [*self._full, *([] if self._filter is None else [self._filter])]
        return [array("Q", filter(None, self._table)).tobytes(), *(each.kept() for each in filters)]

    def take(self, pieces: Sequence[bytes], expected_missed: float) -> None:
        """Know the keys of these ``pieces``, while nothing else was added. Raises ValueError."""
        marks, filters = array("Q"), [_Filter.of(each) for each in pieces[1:]]
        marks.frombytes(pieces[0])
        for mark in marks:
            self.add(mark)
        self._filter = filters.pop() if filters else None
        self._full = filters
        self.expected_missed = expected_missed

    def _may_have(self, mark: int) -> bool:
        found = self._filter
        return found is not None and (found.has(mark) or any(each.has(mark) for each in self._full))

    def _filter_with_room(self) -> "_Filter":
        if self._filter is None:
            self._filter = _Filter.for_keys(self._expected() - self._exact)
        elif self._filter.error() > _MOST_ERROR and self._filter.bits < _MOST_FILTER_BITS:
            self._full.append(self._filter)
            self._filter = _Filter(max(self._filter.bits + 1, _UNKNOWN_FILTER_BITS))
        return self._filter

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
    """A Bloom filter with 2 to the power of ``bits`` places. Those of a key are made of the two halves of its mark."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self._mask = (1 << bits) - 1
        self._bits = mmap(-1, 1 << (bits - 3))
        self._set = 0

    @classmethod
    def of(cls, kept: bytes) -> "_Filter":
        """The filter that was ``kept``. Raises ValueError."""
        if len(kept).bit_count() != 1:
            raise ValueError(f"{len(kept)} bytes")
        found = cls(len(kept).bit_length() + 2)
        found._bits[:] = kept
        found._set = int.from_bytes(kept, "little").bit_count()
        return found

    def kept(self) -> bytes:
        """What ``of`` takes."""
        return self._bits[:]

    @classmethod
    def for_keys(cls, expected: int) -> "_Filter":
        """One with room for so many keys; 0: nobody knows how many."""
        wanted = (_BITS_PER_KEY * expected).bit_length() if expected > 0 else _UNKNOWN_FILTER_BITS
        return cls(min(max(wanted, _LEAST_FILTER_BITS), _MOST_FILTER_BITS))

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

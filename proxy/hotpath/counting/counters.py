# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, annotation_typing=False, initializedcheck=False
"""How often each key is used, in fixed memory and with a guarantee.

Space-Saving (Metwally and others, 2005): a table of counters; a key that has none takes over the smallest
one, and remembers that one's count as its own possible error. So a key's count is never too low, and too
high by at most its error: the truth is in [count - error, count]. A key that is not in the table was used
at most as often as the smallest counter says.

Here the table is cut into sets of eight, as a processor's cache is, and a key's hash chooses its set. Each
set is a Space-Saving summary of its own part of the keys, so every bound holds as it does for one big
table, while "find the key or the smallest counter" is a walk over two cache lines, without a heap or a
dict: a set has its marks in one line, then its counts, writes and errors, and the reads of replicas. Measured
over 2,048 counters and keys of 22 bytes: 23 ns for a key that is known and 56 ns for one that is not; with a
dict of counters 63 and 125 ns, since it needs an object for every key that goes by.
HeavyKeeper and the count-min sketch bound the error on one side only and cost several hashes for each use;
sampling sees a key late.

A slice lasts about a second and a busy key turns up at its start, before the table is full, so its error is
0 in practice. A key that takes over a counter only gets its name at its second use: under uniform traffic
most counters change hands before that, and no object is made for them.

Keys are told apart by their first 256 bytes, as a polynomial over the field of 2^61 - 1 at a secret random
point. Two keys look alike with a chance below 2^-55, and a client that does not know the point can neither
bring that about nor aim keys at one set. Interpreted, Python's own seeded hash of bytes does the same in a
tenth of the time.
"""

from array import array
from secrets import randbelow

from proxy.hotpath.counting.counter_snapshot import CounterSnapshot, KeyCount

_PRIME = (1 << 61) - 1
_MIXER = 0x9E3779B97F4A7C15
_WAYS = 8
_WAY_BITS = 3
_LAST_WAY = 7
# Where a set's counts, writes and errors begin, behind its marks, and how much there is of all.
_COUNTS = 8
_WRITES = 16
_ERRORS = 24
_MOVED = 32
_SET = 40
_NO_WAY = (1 << 63) - 1
# A count's lowest bit says whether the counter has a name: to look at the names would cost another cache line.
_NAMED = 1
_USE = 2
_NAME_BITS = 1
_LONGEST_NAME = 256
_INTERPRETED = __file__.endswith((".py", ".pyc"))


def fingerprint(p: bytes | bytearray, start: int, end: int, point: int) -> int:
    """The value at ``point`` of the polynomial with seven bytes of ``p[start:end]`` in each coefficient."""
    value = end - start
    i = start
    while i < end:
        if end - i > 7:
            # Eight bytes, of which seven are taken: a compiler makes one load of eight, and many of seven.
            word = p[i]
            word = (word << 8) | p[i + 1]
            word = (word << 8) | p[i + 2]
            word = (word << 8) | p[i + 3]
            word = (word << 8) | p[i + 4]
            word = (word << 8) | p[i + 5]
            word = (word << 8) | p[i + 6]
            word = ((word << 8) | p[i + 7]) >> 8
            i += 7
        else:
            word = 0
            while i < end:
                word = (word << 8) | p[i]
                i += 1
        # The sum comes before the product, so that the last bytes too are multiplied by what nobody knows.
        product = value + word
        product *= point
        value = (product & _PRIME) + (product >> 61)
        if value >= _PRIME:
            value -= _PRIME
    return value


class Counters:
    """The uses of keys since the last harvest.

    There are ``sets`` (a power of two) sets of eight counters. ``point`` seeds the hash; by default it is
    drawn at random.
    """

    def __init__(self, sets: int = 256, point: int | None = None) -> None:
        if not 1 <= sets <= 1 << 20 or sets & (sets - 1):
            raise ValueError(f"sets must be a power of two up to 1,048,576, not {sets}")
        self._last_set = sets - 1
        self._point = point if point is not None else 1 + randbelow(_PRIME - 1)
        self.total = 0
        self._last = 0
        self._moves = False
        self._table = array("Q", bytes(8 * _SET * sets))
        self._names: list[bytes | None] = [None] * (_WAYS * sets)

    def add(self, p: bytes | bytearray, start: int, end: int, write: bool) -> bool:
        """Count one use of the key ``p[start:end]``; true if the key had a counter already."""
        if end - start > _LONGEST_NAME:
            end = start + _LONGEST_NAME
        mark = self._mark(p, start, end)
        self.total += 1
        # Marks of keys in a row are in arithmetic progression, so their low bits alone would share few sets.
        spread = (mark ^ (mark >> 32)) * _MIXER
        chosen = (spread >> 40) & self._last_set
        marks = chosen * _SET
        counts = marks + _COUNTS
        names = chosen * _WAYS
        # The smallest is found on the way, as its count with its place behind it: that needs no jump to foresee.
        smallest = _NO_WAY
        way = 0
        while way < _WAYS:
            count = self._table[counts + way]
            if self._table[marks + way] == mark and count > 0:
                self._last = marks + way
                self._table[counts + way] = (count + _USE) | _NAMED
                if write:
                    self._table[marks + _WRITES + way] += 1
                if not count & _NAMED:
                    self._names[names + way] = bytes(p[start:end])
                return True
            ranked = (count << _WAY_BITS) | way
            smallest = min(smallest, ranked)
            way += 1
        way = smallest & _LAST_WAY
        count = smallest >> _WAY_BITS
        least = count >> _NAME_BITS
        self._table[marks + way] = mark
        self._table[counts + way] = (least << _NAME_BITS) + _USE
        self._table[marks + _WRITES + way] = write
        self._table[marks + _ERRORS + way] = least
        self._last = marks + way
        if self._moves:
            self._table[marks + _MOVED + way] = 0
        if least == 0:
            self._table[counts + way] |= _NAMED
            self._names[names + way] = bytes(p[start:end])
        elif count & _NAMED:
            self._names[names + way] = None
        return False

    def repeat(self, times: int) -> None:
        """The key that was counted last is used so many times more in the same way, and read only."""
        self.total += times
        self._table[self._last + _COUNTS] += times * _USE

    def _mark(self, p: bytes | bytearray, start: int, end: int) -> int:
        if _INTERPRETED:
            return hash(bytes(p[start:end])) & 0xFFFF_FFFF_FFFF_FFFF
        return fingerprint(p, start, end, self._point)

    def move_last(self) -> None:
        """The use that was counted last is a read that a replica answers in the primary's place."""
        self._moves = True
        self._table[self._last + _MOVED] += 1

    def move(self, p: bytes, start: int, end: int) -> None:
        """The same of the key ``p[start:end]``, which has been counted, while it has a counter."""
        if end - start > _LONGEST_NAME:
            end = start + _LONGEST_NAME
        mark = self._mark(p, start, end)
        spread = (mark ^ (mark >> 32)) * _MIXER
        marks = ((spread >> 40) & self._last_set) * _SET
        way = 0
        while way < _WAYS:
            if self._table[marks + way] == mark and self._table[marks + _COUNTS + way] > 0:
                self._last = marks + way
                self.move_last()
                return
            way += 1

    def harvest(self, limit: int) -> CounterSnapshot:
        """What was counted, with the ``limit`` surely busiest keys; counting starts again at nothing."""
        size = len(self._names)
        ranked = []
        floor = 0
        least = 0
        i = 0
        while i < size:
            count = self._count(i)
            least = count if i % _WAYS == 0 else min(least, count)
            if self._names[i] is not None:
                ranked.append((count - self._at(i, _ERRORS)) * size + i)
            else:
                floor = max(floor, count)
            i += 1
            if i % _WAYS == 0:
                floor = max(floor, least)
        ranked.sort(reverse=True)
        for code in ranked[limit:]:
            floor = max(floor, self._count(code % size))
        key_counts = [self._key_count(code % size) for code in ranked[:limit]]
        harvested = CounterSnapshot(self.total, floor, tuple(key_counts))
        self._reset()
        return harvested

    def _at(self, i: int, field: int) -> int:
        return self._table[i // _WAYS * _SET + field + i % _WAYS]

    def _count(self, i: int) -> int:
        return self._at(i, _COUNTS) >> _NAME_BITS

    def _key_count(self, i: int) -> KeyCount:
        name = self._names[i]
        if name is None:
            raise AssertionError("only counters with a name are ranked")
        count = self._count(i)
        error = self._at(i, _ERRORS)
        writes = self._at(i, _WRITES)
        moved = self._at(i, _MOVED) if self._moves else 0
        return KeyCount(name, count, error, count - error - writes, writes, moved=moved)

    def _reset(self) -> None:
        self.total = 0
        i = 0
        while i < len(self._names):
            self._table[i // _WAYS * _SET + _COUNTS + i % _WAYS] = 0
            self._names[i] = None
            i += 1

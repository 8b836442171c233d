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
dict. Measured over 2,048 counters and keys of 22 bytes: 23 ns for a key that is known and 56 ns for one
that is not; with a dict of counters 63 and 125 ns, since it needs an object for every key that goes by.
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

from proxy.hotpath.slices import Slice, Tally

_PRIME = (1 << 61) - 1
_MIXER = 0x9E3779B97F4A7C15
_WAYS = 8
_LONGEST_NAME = 256
_INTERPRETED = __file__.endswith((".py", ".pyc"))


def fingerprint(p: bytes, start: int, end: int, point: int) -> int:
    """The value at ``point`` of the polynomial with seven bytes of ``p[start:end]`` in each coefficient."""
    value = end - start
    i = start
    while i < end:
        if end - i >= 7:
            word = p[i]
            word = (word << 8) | p[i + 1]
            word = (word << 8) | p[i + 2]
            word = (word << 8) | p[i + 3]
            word = (word << 8) | p[i + 4]
            word = (word << 8) | p[i + 5]
            word = (word << 8) | p[i + 6]
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
        self._size = sets * _WAYS
        self._point = point if point is not None else 1 + randbelow(_PRIME - 1)
        self.total = 0
        self._marks = array("Q", bytes(8 * self._size))
        self._counts = array("q", bytes(8 * self._size))
        self._errors = array("q", bytes(8 * self._size))
        self._writes = array("q", bytes(8 * self._size))
        self._names: list[bytes | None] = [None] * self._size

    def add(self, p: bytes, start: int, end: int, write: bool) -> bool:
        """Count one use of the key ``p[start:end]``; true if the key had a counter already."""
        if end - start > _LONGEST_NAME:
            end = start + _LONGEST_NAME
        if _INTERPRETED:
            mark = hash(bytes(p[start:end])) & 0xFFFF_FFFF_FFFF_FFFF
        else:
            mark = fingerprint(p, start, end, self._point)
        self.total += 1
        # Marks of keys in a row are in arithmetic progression, so their low bits alone would share few sets.
        spread = (mark ^ (mark >> 32)) * _MIXER
        first = ((spread >> 40) & self._last_set) * _WAYS
        stop = first + _WAYS
        i = first
        while i < stop:
            if self._marks[i] == mark and self._counts[i] > 0:
                self._counts[i] += 1
                self._writes[i] += write
                if self._names[i] is None:
                    self._names[i] = bytes(p[start:end])
                return True
            i += 1
        smallest = first
        least = self._counts[first]
        i = first + 1
        while i < stop:
            count = self._counts[i]
            if count < least:
                least = count
                smallest = i
            i += 1
        self._marks[smallest] = mark
        self._counts[smallest] = least + 1
        self._errors[smallest] = least
        self._writes[smallest] = write
        self._names[smallest] = None if least else bytes(p[start:end])
        return False

    def harvest(self, limit: int) -> Slice:
        """What was counted, with the ``limit`` surely busiest keys; counting starts again at nothing."""
        ranked = []
        floor = 0
        base = 0
        while base < self._size:
            least = self._counts[base]
            i = base
            base += _WAYS
            while i < base:
                count = self._counts[i]
                least = min(least, count)
                if self._names[i] is not None:
                    ranked.append((count - self._errors[i]) * self._size + i)
                else:
                    floor = max(floor, count)
                i += 1
            floor = max(floor, least)
        ranked.sort(reverse=True)
        for code in ranked[limit:]:
            i = code % self._size
            floor = max(floor, self._counts[i])
        tallies = [self._tally(code % self._size) for code in ranked[:limit]]
        harvested = Slice(self.total, floor, tuple(tallies))
        self._reset()
        return harvested

    def _tally(self, i: int) -> Tally:
        name = self._names[i]
        if name is None:
            raise AssertionError("only counters with a name are ranked")
        count = self._counts[i]
        error = self._errors[i]
        writes = self._writes[i]
        return Tally(name, count, error, count - error - writes, writes)

    def _reset(self) -> None:
        self.total = 0
        i = 0
        while i < self._size:
            self._counts[i] = 0
            self._names[i] = None
            i += 1

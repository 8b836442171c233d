"""Which keys are hot for the local cache: read often enough, and changed seldom enough.

After each change of a cached key, memory lacks it until the change is answered and the new value has been fetched:
reads wait, one more command goes to Redis, and Redis tells of the change. That costs as much as ``WORTH`` answers from
memory save. A hot key that changes more often than once in so many reads leaves, and comes back after a rest, which
doubles each time: changes that clients make elsewhere are seen only while the key is cached. Many keys that change too
often have, by chance, a second without: so one that has rested must first be read ``QUIET`` times without changing more
often.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from proxy.hotpath.counting.counter_snapshot import KeyCount

HOT = 100
"""Reads of a key per second in this worker, from which on it is hot, until there are less than half as many."""
WORTH = 100
"""Reads for each change, from which on a key is worth its place."""
QUIET = 4 * WORTH
"""Reads in seconds that are worth it, from which on a key that has rested is hot again."""
_SHORTEST_REST = 4.0
_LONGEST_REST = 256.0
_RESTED_WELL = 2.0
"""Rests that a key is hot for, and then it begins with the shortest one again."""


@dataclass(slots=True)
class _Rest:
    length: float
    until: float
    quiet_reads: int = 0


class OftenRead:
    """The hot keys of a worker, ``names``."""

    def __init__(self) -> None:
        self.names: set[bytes] = set()
        self._rests: dict[bytes, _Rest] = {}

    @property
    def changing(self) -> int:
        """How many keys would be hot, but change too often."""
        return sum(name not in self.names for name in self._rests)

    def another_second(self, counts: Iterable[KeyCount], changes: Mapping[bytes, int], now: float) -> set[bytes]:
        """The keys that are hot after a second in which keys were used so often, and Redis told of so many changes."""
        names = set()
        for count in counts:
            key = count.key
            if count.reads < (HOT / 2 if key in self.names else HOT):
                continue
            if count.reads < WORTH * max(count.writes, changes.get(key, 0)):
                self._rest(key, now)
            elif self._has_rested(key, count.reads, now):
                names.add(key)
        self.names = names
        self._forget(now)
        return names

    def clear(self) -> None:
        """No key is hot any more, nor rests."""
        self.names = set()
        self._rests.clear()

    def _has_rested(self, key: bytes, reads: int, now: float) -> bool:
        rest = self._rests.get(key)
        if rest is None:
            return True
        rest.quiet_reads += reads
        return now >= rest.until and rest.quiet_reads >= QUIET

    def _rest(self, key: bytes, now: float) -> None:
        before = self._rests.get(key)
        if before is None:
            length = _SHORTEST_REST
        elif now < before.until:
            length = before.length
        else:
            length = min(2 * before.length, _LONGEST_REST)
        self._rests[key] = _Rest(length, now + length)

    def _forget(self, now: float) -> None:
        self._rests = {key: rest for key, rest in self._rests.items() if now < rest.until + _RESTED_WELL * rest.length}

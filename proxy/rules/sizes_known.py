"""The last known sizes of collections, while the policy trusts them, and the members written since."""

from collections import OrderedDict
from collections.abc import Hashable
from math import inf

_MOST = 10_000
MOST_BYTES = 4 << 20
"""The most bytes of all keys together: one key may have a megabyte."""


class _Known:
    """One collection: its last size and its time, the members counted before that, and all counted members."""

    __slots__ = ("at", "before", "size", "written")

    def __init__(self) -> None:
        self.size = 0
        self.at = -inf
        self.before = 0
        self.written = 0


class KnownSizes:
    """The last sizes, by keyspace, measure (``HLEN``) and key; the oldest are forgotten first.

    At most 10,000 are kept, with at most ``MOST_BYTES`` of keys; ``bytes`` is their present sum.

    A size is trusted for `seconds`: the collection may have grown since. Sizes of different measures are separate: HLEN
    tells nothing about a set.

    ``grow`` counts the members that writes may add; ``at_most`` is the last size plus these. The count continues until
    the collection is forgotten, also after the size is no longer trusted.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.bytes = 0
        self._sizes: OrderedDict[tuple[Hashable, str, bytes], _Known] = OrderedDict()

    def find(
        self, keyspace: Hashable, measure: str, key: bytes, now: float, seconds: float | None = None
    ) -> int | None:
        """The trusted size of a collection; None if there is none. `seconds`, if not None, are those of this caller."""
        known = self._sizes.get((keyspace, measure, key))
        # A clock that was set back must not keep a size alive.
        if known is None or not known.at <= now < known.at + (self._seconds if seconds is None else seconds):
            return None
        return known.size

    def at_most(self, keyspace: Hashable, measure: str, key: bytes) -> int:
        """The last size, if any, plus the members counted since."""
        known = self._sizes.get((keyspace, measure, key))
        return 0 if known is None else known.size + known.written - known.before

    def written(self, keyspace: Hashable, measure: str, key: bytes) -> int:
        """The members counted so far, for the `before` of ``learn``."""
        known = self._sizes.get((keyspace, measure, key))
        return 0 if known is None else known.written

    def grow(self, keyspace: Hashable, measure: str, key: bytes, members: int) -> None:
        """Count the members that a passed write may add."""
        self._at_the_end(keyspace, measure, key).written += members

    def learn(
        self, keyspace: Hashable, measure: str, key: bytes, size: int, now: float, before: int | None = None
    ) -> None:
        """Note a size from Redis; it includes the first `before` counted members (None: all)."""
        known = self._at_the_end(keyspace, measure, key)
        known.size, known.at = size, now
        # After a collection was forgotten, `before` may include members that are no longer counted.
        known.before = known.written if before is None else min(before, known.written)

    def _at_the_end(self, keyspace: Hashable, measure: str, key: bytes) -> _Known:
        # Move the collection to the end: it is forgotten last.
        known = self._sizes.get((keyspace, measure, key))
        if known is not None:
            self._sizes.move_to_end((keyspace, measure, key))
            return known
        known = self._sizes[keyspace, measure, key] = _Known()
        self.bytes += len(key)
        while len(self._sizes) > _MOST or self.bytes > MOST_BYTES:
            (_, _, oldest), _ = self._sizes.popitem(last=False)
            self.bytes -= len(oldest)
        return known

    def forget(self, keyspace: Hashable, measure: str, key: bytes) -> None:
        """Forget the size of a collection."""
        if self._sizes.pop((keyspace, measure, key), None) is not None:
            self.bytes -= len(key)

"""Sizes of collections that Redis has told a short while ago, for as long as a policy trusts them, and what has been
written to them since."""

from collections import OrderedDict
from math import inf

_MOST = 10_000
MOST_BYTES = 4 << 20
"""Of all keys together: one key alone may have a megabyte."""


class _Known:
    """One collection: its last size, when that was told, and the members written before it was and in all."""

    __slots__ = ("at", "before", "size", "written")

    def __init__(self) -> None:
        self.size = 0
        self.at = -inf
        self.before = 0
        self.written = 0


class KnownSizes:
    """The last sizes asked for, by database, measure (``HLEN``) and key; the oldest are forgotten first.

    At most 10,000 are kept, and no more than ``MOST_BYTES`` of keys; ``bytes`` is what they have now.

    `seconds` is how long one is trusted: a collection may have grown since. What one measure says is nothing to
    another: to HLEN a large set has no size at all.

    Whoever counts the members that writes may add (``grow``) learns from ``at_most`` how large a collection can be by
    now, however long ago its size was told: the count goes on until the collection is forgotten.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.bytes = 0
        self._sizes: OrderedDict[tuple[int, str, bytes], _Known] = OrderedDict()

    def find(self, database: int, measure: str, key: bytes, now: float) -> int | None:
        """The size that was told of a collection; None where it is not known well enough."""
        known = self._sizes.get((database, measure, key))
        # A clock that was set back must not keep a size alive.
        if known is None or not known.at <= now < known.at + self._seconds:
            return None
        return known.size

    def at_most(self, database: int, measure: str, key: bytes) -> int:
        """The last size that was told, if any, and the members counted since."""
        known = self._sizes.get((database, measure, key))
        return 0 if known is None else known.size + known.written - known.before

    def written(self, database: int, measure: str, key: bytes) -> int:
        """The members counted so far: with them ``learn`` tells what a size includes from what came later."""
        known = self._sizes.get((database, measure, key))
        return 0 if known is None else known.written

    def grow(self, database: int, measure: str, key: bytes, members: int) -> None:
        """A write goes on that may add so many members."""
        self._at_the_end(database, measure, key).written += members

    def learn(self, database: int, measure: str, key: bytes, size: int, now: float, before: int | None = None) -> None:
        """Redis has told a size, which includes the first `before` of the members counted (all, where it is None)."""
        known = self._at_the_end(database, measure, key)
        known.size, known.at = size, now
        # Members that were counted before the collection was forgotten are not counted here.
        known.before = known.written if before is None else min(before, known.written)

    def _at_the_end(self, database: int, measure: str, key: bytes) -> _Known:
        # The collection as the last to be forgotten.
        known = self._sizes.get((database, measure, key))
        if known is not None:
            self._sizes.move_to_end((database, measure, key))
            return known
        known = self._sizes[database, measure, key] = _Known()
        self.bytes += len(key)
        while len(self._sizes) > _MOST or self.bytes > MOST_BYTES:
            (_, _, oldest), _ = self._sizes.popitem(last=False)
            self.bytes -= len(oldest)
        return known

    def forget(self, database: int, measure: str, key: bytes) -> None:
        """Forget the size of this one."""
        if self._sizes.pop((database, measure, key), None) is not None:
            self.bytes -= len(key)

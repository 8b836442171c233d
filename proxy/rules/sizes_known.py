"""Sizes of collections that Redis has told a short while ago, for as long as a policy trusts them."""

from collections import OrderedDict

_MOST = 10_000
MOST_BYTES = 4 << 20
"""Of all keys together: one key alone may have a megabyte."""


class KnownSizes:
    """The last sizes asked for, by database, measure (``HLEN``) and key; the oldest are forgotten first.

    At most 10,000 are kept, and no more than ``MOST_BYTES`` of keys; ``bytes`` is what they have now.

    `seconds` is how long one is trusted: a collection may have grown since. What one measure says is nothing to
    another: to HLEN a large set has no size at all.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.bytes = 0
        self._sizes: OrderedDict[tuple[int, str, bytes], tuple[int, float]] = OrderedDict()

    def find(self, database: int, measure: str, key: bytes, now: float) -> int | None:
        """The size of a collection; None where it is not known well enough."""
        known = self._sizes.get((database, measure, key))
        # A clock that was set back must not keep a size alive.
        if known is None or not known[1] <= now < known[1] + self._seconds:
            return None
        return known[0]

    def learn(self, database: int, measure: str, key: bytes, size: int, now: float) -> None:
        """Redis has told a size."""
        self.forget(database, measure, key)
        self._sizes[database, measure, key] = size, now
        self.bytes += len(key)
        while len(self._sizes) > _MOST or self.bytes > MOST_BYTES:
            (_, _, oldest), _ = self._sizes.popitem(last=False)
            self.bytes -= len(oldest)

    def forget(self, database: int, measure: str, key: bytes) -> None:
        """What is known of this one no longer holds."""
        if self._sizes.pop((database, measure, key), None) is not None:
            self.bytes -= len(key)

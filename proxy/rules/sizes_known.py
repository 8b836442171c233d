"""Sizes of collections that Redis has told a short while ago, for as long as a policy trusts them."""

from collections import OrderedDict

_MOST = 10_000


class KnownSizes:
    """The last sizes asked for, by database, measure (``HLEN``) and key; the oldest are forgotten first.

    `seconds` is how long one is trusted: a collection may have grown since. What one measure says is nothing to
    another: to HLEN a large set has no size at all.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
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
        self._sizes.pop((database, measure, key), None)
        self._sizes[database, measure, key] = size, now
        if len(self._sizes) > _MOST:
            self._sizes.popitem(last=False)

    def forget(self, database: int, measure: str, key: bytes) -> None:
        """What is known of this one no longer holds."""
        self._sizes.pop((database, measure, key), None)

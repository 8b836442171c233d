"""The busiest keys of a window: only this module computes them.

``/hotkeys``, the page, ``keyrail top``, ``KEYRAIL HOTKEYS``, metrics and incidents read ``TimeSeries.hot_keys``. They
show the same figures for the same window and snapshot, and each names its snapshot by the time at which it was taken.
"""

from dataclasses import dataclass

from proxy.hotpath.counting.counter_snapshot import CounterSnapshot, KeyCount
from proxy.traffic.alerts import INCIDENT_WINDOW, Hot

_DIGITS_OF_RATE, _DIGITS_OF_SHARE = 3, 6
"""Decimal places. Figures are rounded here, so that every view shows the same."""


@dataclass(frozen=True, slots=True)
class HotKey:
    """One key. It was used ``count - error`` times for certain, and at most ``count`` times.

    ``rate`` (uses per second) and ``share`` (of all uses of keys, 0 to 1) are of the certain uses alone. ``cached`` of
    the reads were answered from memory, and ``moved`` went to replicas.
    """

    key: bytes
    count: int
    error: int
    reads: int
    writes: int
    rate: float
    share: float
    cached: int = 0
    moved: int = 0

    @property
    def certain(self) -> int:
        """Uses that are certain."""
        return self.count - self.error

    @property
    def cached_share(self) -> float:
        """The share of its reads that were answered from memory."""
        return self._share_of_reads(self.cached)

    @property
    def replica_share(self) -> float:
        """The share of its reads that went to replicas."""
        return self._share_of_reads(self.moved)

    def _share_of_reads(self, part: int) -> float:
        return round(min(1.0, part / self.reads), _DIGITS_OF_SHARE) if self.reads else 0.0


@dataclass(frozen=True, slots=True)
class HotKeys:
    """The busiest keys of the last ``window`` seconds before ``until``, the busiest first, over all workers.

    ``seconds`` of the window are known: fewer after a start, and a few more in long windows, which move in steps.
    ``total`` counts all uses of all keys. ``taken``, ``until`` and ``reported``, the end of the newest report, are in
    seconds since the epoch.
    """

    window: int
    seconds: float
    taken: float
    until: float
    reported: float
    total: int
    keys: tuple[HotKey, ...]

    @classmethod
    def of(
        cls, counts: CounterSnapshot, *, window: int, seconds: float, taken: float, until: float, reported: float
    ) -> "HotKeys":
        """Compute the figures of a window from its counts."""
        empty = cls(window, seconds, taken, until, reported, counts.total, ())
        keys = tuple(empty._figures(key_count) for key_count in counts.key_counts)
        return cls(window, seconds, taken, until, reported, counts.total, keys)

    def _figures(self, key_count: KeyCount) -> HotKey:
        rate, share = self.rate_of(key_count.certain), self.share_of(key_count.certain)
        used = key_count.count, key_count.error, key_count.reads, key_count.writes
        return HotKey(key_count.key, *used, rate, share, key_count.cached, key_count.moved)

    @property
    def rate(self) -> float:
        """Uses of all keys per second."""
        return self.rate_of(self.total)

    def rate_of(self, uses: int) -> float:
        """A number of uses, per second."""
        return round(uses / self.seconds, _DIGITS_OF_RATE)

    def share_of(self, uses: int) -> float:
        """A number of uses, as a part of all."""
        return round(uses / self.total, _DIGITS_OF_SHARE) if self.total else 0.0

    def named(self, key: bytes) -> HotKey:
        """The figures of a key that is listed."""
        return next(each for each in self.keys if each.key == key)

    def reached(self, key: HotKey, hot: Hot) -> bool:
        """Whether a key is certain to have reached these thresholds."""
        return hot.reached(key.certain, self.total, self.judged_seconds)

    @property
    def judged_seconds(self) -> float:
        """The seconds over which a rate is computed: soon after a start, a moment of much traffic makes no key hot."""
        return max(self.seconds, min(self.window, INCIDENT_WINDOW))

    def age(self, now: float) -> float:
        """Seconds since the newest report."""
        return max(0.0, now - self.reported)

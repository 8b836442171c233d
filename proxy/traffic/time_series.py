"""The recent traffic of a route: seconds for a minute, tens of seconds for ten minutes, minutes for an hour.

Workers send their figures for each second; the figures of all workers for one second are added up. A window is the sum
of the intervals that overlap with it, so it moves by whole intervals. Memory is bounded (``--traffic-memory``).

Adding up a window takes a tenth of a second, and each viewer requests several views of it every second. So intervals
that no longer change are added up once (seconds to tens of seconds, and those to minutes), and the last windows are
cached. Callers must not change a window.

A window ends where the newest report of a worker ends. If no worker reports for a while, it moves on with the clock.

The busiest keys are read from snapshots: the first request for a window in a second of the clock takes one, and all
others in that second get the same.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import TypeVar

from proxy.traffic.alerts import INCIDENT_WINDOW
from proxy.traffic.hot_keys import HotKeys
from proxy.traffic.interval_stats import IntervalStats, SlowCommand
from proxy.traffic.merge import combined

WINDOWS = (INCIDENT_WINDOW, 10, 60, 600, 3600)
"""The windows, in seconds."""

_LATE = 3.0
"""Seconds that workers may take to report a second; after that, it counts as empty."""
_SUMS_KEPT = 4

K = TypeVar("K")


MEMORY = 64 << 20
"""The default memory in bytes for a route's figures of the last hour."""
LEAST_MEMORY = 32 << 20
"""The least memory in bytes: the counts of slots alone take as much."""
_SHARES = {1: 0.2, 10: 0.28, 60: 0.44}
"""The parts of the memory for the intervals of each length; the rest is for sums of them."""


@dataclass(slots=True)
class _Ring:
    """Intervals of `seconds` each, for as long as `reach`, none larger than `most` bytes; the newest is still
    growing."""

    seconds: int
    reach: int
    most: int
    intervals: deque[IntervalStats] = field(default_factory=deque)

    def add(self, interval: IntervalStats) -> bool:
        """Add figures; return whether they belong to the newest interval, and not to an earlier one."""
        began = interval.began // self.seconds * self.seconds
        newest = self.intervals[-1].began if self.intervals else began - 1
        if began > newest:
            self.intervals.append(IntervalStats(began, self.seconds))
            while self.intervals[0].began < began - self.reach:
                self.intervals.popleft()
        same = (known for known in reversed(self.intervals) if known.began == began)
        # Figures that arrive too late for their interval are added to the newest one.
        found = next(same, self.intervals[-1])
        found.add(interval)
        found.shrink(self.most)
        return found is self.intervals[-1]


class TimeSeries:
    """One route's traffic in about `memory` bytes: the lightest names that do not fit are folded into `other`."""

    def __init__(self, memory: int = MEMORY) -> None:
        # A ring has one interval more than its reach needs.
        self._rings = tuple(
            _Ring(seconds, reach, int(memory * _SHARES[seconds] / (reach // seconds + 1)))
            for seconds, reach in ((1, 60), (10, 600), (60, 3600))
        )
        self._most_of_sum = int(memory * (1 - sum(_SHARES.values())) / (2 * _SUMS_KEPT))
        self.newest = 0.0
        """When the newest second ended, in seconds since the epoch."""
        self._first: float | None = None
        self._sums: dict[tuple[int, float, float], IntervalStats] = {}
        self._asked: dict[tuple[int, float], IntervalStats] = {}
        self._snapshots: dict[int, HotKeys] = {}
        self._second_of_snapshots = 0

    def add(self, interval: IntervalStats) -> None:
        """Take a worker's figures of about a second."""
        self.newest = max(self.newest, interval.began + interval.seconds)
        if self._first is None:
            self._first = interval.began // 1
        self._asked.clear()
        if not all([ring.add(interval) for ring in self._rings][1:]):
            self._sums.clear()

    def hot_keys(self, window: int, now: float) -> HotKeys:
        """The busiest keys of the last `window` seconds, at most 3,600, in the snapshot of this second."""
        if int(now) != self._second_of_snapshots:
            self._second_of_snapshots = int(now)
            self._snapshots.clear()
        if window not in self._snapshots:
            self._snapshots[window] = self._take_snapshot(window, now)
        return self._snapshots[window]

    def _take_snapshot(self, window: int, now: float) -> HotKeys:
        until = self._end(now)
        if window > INCIDENT_WINDOW:
            interval = self.window(window, now)
            counts, seconds = interval.counts(), interval.seconds
        else:  # Incidents read this window every second, and only its counts.
            level, begin = self._reach(window, until)
            parts = self._parts(level, begin)
            counts, seconds = combined(part.counts() for part in parts), self._known(begin) if parts else window
        return HotKeys.of(
            counts, window=window, seconds=seconds, taken=round(now, 3), until=until, reported=self.newest
        )

    def window(self, seconds: int, now: float) -> IntervalStats:
        """The sum of the last `seconds`, at most 3,600; the `seconds` of the sum are those that are known."""
        asked = (seconds, self._end(now))
        if asked not in self._asked:
            self._keep(self._asked, asked, self._window(*asked))
        return self._asked[asked]

    def _window(self, seconds: int, until: float) -> IntervalStats:
        level, begin = self._reach(seconds, until)
        parts = self._parts(level, begin)
        summed = IntervalStats(until - seconds, seconds)
        if parts:
            summed.seconds = self._known(begin)
            over, end = self._add_what_is_over(summed, level, parts[0].began, parts[-1].began)
            for interval in parts:
                if not over <= interval.began < end:
                    summed.add(interval)
        return summed

    def last(self, seconds: int, now: float) -> list[IntervalStats]:
        """The last `seconds`, at most 60, second by second, the oldest first."""
        return self._parts(0, self._reach(seconds, self._end(now))[1])

    def _end(self, now: float) -> float:
        """When windows end."""
        return max(self.newest, now - _LATE)

    def _reach(self, seconds: int, until: float) -> tuple[int, float]:
        """The finest ring that reaches back `seconds`, and when its first interval in the window began."""
        level = next((i for i, ring in enumerate(self._rings) if seconds <= ring.reach), len(self._rings) - 1)
        step = self._rings[level].seconds
        return level, (until - seconds) // step * step

    def _parts(self, level: int, begin: float) -> list[IntervalStats]:
        return [interval for interval in self._rings[level].intervals if interval.began >= begin]

    def _known(self, begin: float) -> float:
        """How many seconds since `begin` have been reported."""
        return self._rings[0].intervals[-1].began + 1 - max(begin, self._first or 0.0)

    def _add_what_is_over(self, summed: IntervalStats, level: int, first: float, newest: float) -> tuple[float, float]:
        """Add the intervals between two moments that no longer change, from a coarser ring; return their time span."""
        ring = self._rings[min(level + 1, len(self._rings) - 1)]
        over = [each for each in ring.intervals if first <= each.began and each.began + ring.seconds <= newest]
        if not over:
            return first, first
        key = (level, over[0].began, over[-1].began)
        if key not in self._sums:
            whole = IntervalStats(over[0].began)
            for interval in over:
                whole.add(interval)
            self._keep(self._sums, key, whole)
        summed.add(self._sums[key])
        return over[0].began, over[-1].began + ring.seconds

    def parts(self, seconds: int, now: float) -> list[IntervalStats]:
        """The intervals of a window, the oldest first."""
        return self._parts(*self._reach(seconds, self._end(now)))

    def slow(self) -> list[SlowCommand]:
        """The slowest of the commands traced in the last hour, a few of each minute."""
        return [command for interval in self._rings[-1].intervals for command in interval.slow]

    def seconds(self) -> list[IntervalStats]:
        """The last minute, second by second, the oldest first."""
        return list(self._rings[0].intervals)

    def tens(self) -> list[IntervalStats]:
        """The last ten minutes in tens of seconds, the oldest first."""
        return list(self._rings[1].intervals)

    def _keep(self, kept: dict[K, IntervalStats], key: K, interval: IntervalStats) -> None:
        while len(kept) >= _SUMS_KEPT:
            del kept[next(iter(kept))]
        interval.shrink(self._most_of_sum)
        kept[key] = interval

"""Latency histograms: time in the proxy, and time at Redis with the network in between.

The bounds of the buckets grow by about the square root of ten, from 50 µs to 5 s: enough to tell "fast", "slow" and
"stuck" apart, and few enough for one time series each.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any

from proxy.traffic.trace import Trace

BOUNDS = (0.00005, 0.00015, 0.0005, 0.0015, 0.005, 0.015, 0.05, 0.15, 0.5, 1.5, 5.0)
"""Upper bounds in seconds; slower commands go to one more bucket."""


@dataclass(slots=True)
class Histogram:
    """Commands by their duration; ``seconds`` is the sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float, weight: int) -> None:
        """Count ``weight`` commands that took ``seconds``."""
        self.counts[bisect_left(BOUNDS, seconds)] += weight
        self.seconds += seconds * weight

    def merge(self, more: "Histogram") -> None:
        """Add another's counts."""
        self.counts = [own + other for own, other in zip(self.counts, more.counts, strict=True)]
        self.seconds += more.seconds

    def clone(self) -> "Histogram":
        """A copy of the counts."""
        return Histogram(list(self.counts), self.seconds)

    def quantile(self, share: float) -> float | None:
        """The time in seconds that this share of the commands did not exceed; None without commands.

        Commands are assumed to be spread evenly within a bucket, as in Prometheus.
        """
        total = sum(self.counts)
        if total == 0:
            return None
        left = share * total
        for i, count in enumerate(self.counts):
            if left <= count and count > 0:
                lower = BOUNDS[i - 1] if i > 0 else 0.0
                upper = BOUNDS[i] if i < len(BOUNDS) else lower
                return lower + (upper - lower) * left / count
            left -= count
        return BOUNDS[-1]


MOST_APPS = 100
OTHER_APPS = "other"


class _Times:
    """The times of one app's commands."""

    __slots__ = ("proxy", "redis")

    def __init__(self) -> None:
        self.proxy = Histogram()
        self.redis = Histogram()


class Latencies:
    """Both histograms for each app, and the bytes of traced commands and replies.

    A policy names its apps, so there are few. Many reloads may bring many names: after the first hundred, new names are
    counted as ``other``.
    """

    def __init__(self) -> None:
        self._by_app: dict[str, _Times] = {}
        self.bytes_in = 0
        self.bytes_out = 0
        self.traces = 0

    def add(self, trace: Trace) -> None:
        """Count a traced command."""
        self.traces += 1
        self.bytes_in += trace.weight * trace.bytes_in
        if trace.measured:
            self.bytes_out += trace.weight * trace.bytes_out
            times = self._times_of(trace.app)
            times.proxy.add(trace.in_proxy, trace.weight)
            times.redis.add(trace.at_redis, trace.weight)

    def _times_of(self, app: str) -> _Times:
        if app not in self._by_app:
            if len(self._by_app) >= MOST_APPS:
                app = OTHER_APPS
            self._by_app.setdefault(app, _Times())
        return self._by_app[app]

    def figures(self) -> dict[str, dict[str, Any]]:
        """Counters that can be added up over workers: of times by app, of bytes and traces all together."""
        return {
            "proxy": {app: _figures(times.proxy) for app, times in self._by_app.items()},
            "redis": {app: _figures(times.redis) for app, times in self._by_app.items()},
            "bytes": {"in": self.bytes_in, "out": self.bytes_out},
            "traces": {"taken": self.traces},
        }


def _figures(histogram: Histogram) -> dict[str, float]:
    bounds = [*map(str, BOUNDS), "+Inf"]
    return {**dict(zip(bounds, histogram.counts, strict=True)), "sum": round(histogram.seconds, 6)}

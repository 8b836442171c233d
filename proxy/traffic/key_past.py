"""How busy a key was before, and since when it has been as busy as now.

``/hotkeys``, the page, ``keyrail top`` and incidents read it here. The last minute is known second by second, the nine
minutes before it in sums of ten seconds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from proxy.traffic.interval_stats import IntervalStats
from proxy.traffic.labels import Client
from proxy.traffic.time_series import TimeSeries

_SAME_RATE = 0.5
"""A key has been as busy as now while its rate was at least this part of it."""
_PAUSE = 3
"""The number of stretches that are read together, so that a second without traffic does not end a busy period."""
_SLOW = 10.0
"""Uses per second. For a slower key one second tells too little, so only sums of ten seconds are read."""
_UNREPORTED = 2.5
"""Seconds that some workers may not have reported yet."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """`seconds` of an interval are known. If it is not `over`, it can show that a key is busy, but not that it is
    quiet."""

    interval: IntervalStats
    seconds: float
    uses: dict[bytes, int]
    over: bool


@dataclass(frozen=True, slots=True)
class KeyPast:
    """A key's rate `before`, `since` when it has been as busy as now, and the intervals before that, the newest first.

    The rate counts certain uses: 0 if the key was not among the busiest. Both are None if the key has been as busy in
    all known figures.
    """

    before: float | None = None
    since: float | None = None
    earlier: tuple[IntervalStats, ...] = ()


class KeyHistory:
    """The last ten minutes of some keys."""

    def __init__(self, time_series: TimeSeries, until: float, keys: Iterable[bytes]) -> None:
        wanted = frozenset(keys)
        seconds, tens = time_series.seconds(), time_series.tens()
        oldest = seconds[0].began if seconds else until
        self._tens = _stretches(tens, until, until, wanted)
        older = (ten for ten in tens if ten.began + ten.seconds <= oldest)
        self._seconds = [
            *_stretches(seconds, until, until - _UNREPORTED, wanted),
            *_stretches(older, until, until, wanted),
        ]
        self._clients: dict[int, frozenset[Client]] = {}

    def of(self, key: bytes, rate: float) -> KeyPast:
        """The past of a key with `rate` uses per second now."""
        stretches = self._tens if rate < _SLOW else self._seconds
        since: float | None = None
        for index, stretch in enumerate(stretches):
            if _is_busy(stretches[index : index + _PAUSE], key, rate):
                since = stretch.interval.began
            elif stretch.over:
                earlier = stretches[index + 1 :]  # The busy period may have begun in this one.
                break
        else:
            return KeyPast()
        if not earlier or since is None:
            return KeyPast()
        used = sum(stretch.uses.get(key, 0) for stretch in earlier) / sum(stretch.seconds for stretch in earlier)
        return KeyPast(used, since, tuple(stretch.interval for stretch in earlier))

    def clients_before(self, past: KeyPast) -> frozenset[Client]:
        """The key's clients before that."""
        began = len(past.earlier)
        if began not in self._clients:
            self._clients[began] = clients_of(past.earlier)
        return self._clients[began]


def clients_of(intervals: Iterable[IntervalStats]) -> frozenset[Client]:
    """The clients of some intervals."""
    return frozenset(client for interval in intervals for client in interval.clients.found)


def _stretches(
    intervals: Iterable[IntervalStats], until: float, reported: float, keys: frozenset[bytes]
) -> list[_Stretch]:
    """The stretches, the newest first; all workers have reported the time until `reported`."""
    found = [
        _Stretch(
            interval,
            max(1.0, min(interval.seconds, until - interval.began)),
            {each.key: each.certain for each in interval.counts().key_counts if each.key in keys},
            interval.began + interval.seconds <= reported,
        )
        for interval in intervals
    ]
    return found[::-1]


def _is_busy(stretches: Sequence[_Stretch], key: bytes, rate: float) -> bool:
    """Whether the key was as busy as now in the first of some stretches, or paused in it."""
    first = stretches[0]
    enough = _SAME_RATE * rate
    if first.uses.get(key, 0) >= enough * first.seconds:
        return True
    used = sum(stretch.uses.get(key, 0) for stretch in stretches)
    return used >= enough * sum(stretch.seconds for stretch in stretches)

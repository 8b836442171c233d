"""The busiest keys of the last so many seconds, from slices of about one second each.

``rotate`` is called about once a second and closes a slice: it empties the counters into the ring. A window is the
sum of the slices that end in it (``traffic.merge`` says why the bounds hold), so it moves by whole slices. A question
closes the running slice too, unless that is very young, so that what has just happened is in the answer.

Time is seconds on any clock that never goes back.
"""

from collections import deque
from dataclasses import dataclass

from proxy.hotpath.counters import Counters
from proxy.hotpath.slices import Slice
from proxy.traffic.merge import LISTED, Answer, Busiest, Sum, present
from proxy.traffic.names import shown

LONGEST_WINDOW = 60
"""Seconds that the ring reaches back."""

_YOUNGEST_SLICE = 0.25
"""Seconds; with the longest window it bounds the number of slices, however often somebody asks."""

_LISTED = 64
"""Keys that a slice lists: the busiest of a whole window are among the busiest of its parts."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    began: float
    ended: float
    slice: Slice


class Windows:
    """The ring of slices behind one set of counters; the first slice begins at ``now``."""

    def __init__(self, counters: Counters, now: float) -> None:
        self._counters = counters
        self._began = now
        self._stretches: deque[_Stretch] = deque()
        self._fresh: list[Slice] = []

    def rotate(self, now: float) -> None:
        """Close the running slice and forget those that no window reaches any more."""
        harvested = self._counters.harvest(_LISTED)
        self._fresh.append(harvested)
        self._stretches.append(_Stretch(self._began, now, harvested))
        self._began = now
        while self._stretches[0].ended <= now - LONGEST_WINDOW:
            self._stretches.popleft()

    def fresh(self) -> list[Slice]:
        """The slices that have been closed since the last call."""
        slices, self._fresh = self._fresh, []
        return slices

    def answer(self, window: int, now: float) -> Answer:
        """The last ``window`` seconds (at most LONGEST_WINDOW) in a form that ``traffic.merge`` adds up."""
        if now - self._began >= _YOUNGEST_SLICE:
            self.rotate(now)
        summed = Sum[bytes]()
        stretches = [stretch for stretch in self._stretches if stretch.ended > now - window]
        for stretch in stretches:
            part = stretch.slice
            summed.add(
                part.total,
                part.floor,
                ((t.key, t.count, t.error, t.reads, t.writes) for t in part.tallies),
            )
        floor, entries = summed.part(LISTED)
        return Answer(
            window=window,
            seconds=self._began - stretches[0].began if stretches else 0.0,
            age=now - self._began,
            total=summed.total,
            floor=floor,
            keys=[(shown(key), count, error, reads, writes) for key, count, error, reads, writes in entries],
        )

    def busiest(self, count: int, window: int, now: float) -> Busiest:
        """The ``count`` busiest keys of the last ``window`` seconds."""
        return present(self.answer(window, now), count)

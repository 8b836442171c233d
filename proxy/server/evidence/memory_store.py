"""Evidence in memory: without a state folder, or where Python has no SQLite."""

from collections import Counter

from proxy.server.evidence.bounds import (
    DROPPED_FOR_ROOM,
    FOLDED,
    FOLDED_FOR_ROOM,
    MOST_SPANS,
    NO_ROWS,
    WATCHED_HOURS,
    WATCHED_SECONDS,
    Bounds,
    fold,
    kept_of,
    size_of,
)
from proxy.server.evidence.model import HOUR, Batch, Evidence, RuleVersion, cut, hour_of, in_order, united
from proxy.traffic.evidence_rows import EvidenceRows

_SPAN_BYTES = 300
"""About what Python's objects need at most."""


class MemoryStore:
    """Evidence until the process ends, within the same bounds as in a file."""

    def __init__(self, most_bytes: int, days: int) -> None:
        self._most_bytes = most_bytes
        self._age = days * 24 * HOUR
        self._bounds = Bounds.of(most_bytes)
        self._hours: dict[tuple[int, str], EvidenceRows] = {}
        self._sizes: Counter[tuple[int, str]] = Counter()
        self._spans: dict[float, tuple[float, float]] = {}
        self._watched: set[int] = set()
        self._rules: list[RuleVersion] = []
        self._lost: dict[int, Counter[str]] = {}

    def add(self, batch: Batch) -> None:
        """Add a batch."""
        now = hour_of(batch.now)
        for hour, route, rows in batch.rows:
            kept, lost = kept_of(rows, self._bounds)
            known = self._hours.setdefault((hour, route), EvidenceRows())
            known.add(kept)
            self._lose(hour, lost)
            self._fold((hour, route), self._bounds, FOLDED)
        for reason, count in batch.lost.items():
            self._lose(now, {cut(reason): count})
        self._rules = in_order([*self._rules, *batch.rules])
        since = self._spans.get(batch.began, (batch.began, 0.0))[0]
        self._spans[batch.began] = since, max(since, batch.now)
        self._watched = {hour for hour in self._watched if now - WATCHED_SECONDS < hour < now} | {now}
        if len(self._watched) >= WATCHED_HOURS:
            self._drop_before(now - self._age)
        self._make_room(now)
        if len(self._spans) > MOST_SPANS:
            del self._spans[min(self._spans.keys() - {batch.began}, key=self._length)]

    def read(self, since: float) -> Evidence:
        """What is known of the hour of this time and of those after it."""
        first = hour_of(since)
        found = Evidence(rules=list(self._rules))
        found.spans = united([(max(first, began), ended) for began, ended in self._spans.values()])
        for at, rows in self._hours.items():
            if at[0] >= first:
                found.hours[at] = EvidenceRows()
                found.hours[at].add(rows)
        lost = sum((counts for hour, counts in self._lost.items() if hour >= first), Counter[str]())
        found.lost = dict(lost)
        return found

    def close(self) -> None:
        """Nothing is to be let go."""

    def _lose(self, hour: int, lost: dict[str, int]) -> None:
        if any(lost.values()):
            self._lost.setdefault(hour, Counter()).update(lost)

    def _fold(self, at: tuple[int, str], bounds: Bounds, reason: str) -> None:
        rows = self._hours[at]
        self._lose(at[0], {reason: fold(rows, bounds)})
        self._sizes[at] = size_of(rows)

    def _drop_before(self, horizon: int) -> None:
        for at in [at for at in self._hours if at[0] < horizon]:
            del self._hours[at], self._sizes[at]
        self._lost = {hour: lost for hour, lost in self._lost.items() if hour >= horizon}
        self._trim(horizon)

    def _trim(self, horizon: int) -> None:
        """Before this, nobody has watched any more, since the rows are gone."""
        self._spans = {
            began: (max(since, horizon), ended) for began, (since, ended) in self._spans.items() if ended > horizon
        }

    def _make_room(self, now: int) -> None:
        """Let the oldest go; first of all what is in the future, which a clock that had jumped has told."""
        if self._fits():
            return
        order = sorted(self._hours, key=lambda at: (at[0] <= now, at))
        for at in order:
            for bounds in (self._bounds.quarter, NO_ROWS):
                self._fold(at, bounds, FOLDED_FOR_ROOM)
                if self._fits():
                    return
        for at in order:
            self._lose(at[0], {DROPPED_FOR_ROOM: sum(self._hours.pop(at).commands.values())})
            del self._sizes[at]
            if at[0] <= now:
                self._trim(at[0] + HOUR)
            else:
                self._spans = {began: span for began, span in self._spans.items() if span[0] < at[0]}
            if self._fits():
                return

    def _length(self, began: float) -> float:
        since, ended = self._spans[began]
        return ended - since

    def _fits(self) -> bool:
        return sum(self._sizes.values()) + _SPAN_BYTES * len(self._spans) <= self._most_bytes

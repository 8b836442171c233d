"""The evidence of all workers: since each rule came into force, for ``/rules``, and what is still to be kept.

A worker hands on what is new each second, and before it ends, so one that is killed loses a second at most.
"""

from collections import Counter
from collections.abc import Collection, Sequence

from proxy.server.evidence.bounds import FOLDED_FOR_ROOM, NO_ROWS, NOT_KEPT, Bounds, fold, size_of
from proxy.traffic.evidence_rows import EvidenceRows, VerdictKey, VerdictRow, fold_verdicts

_HOUR = 3600
_MOST_HOURS, MOST_BYTES = 48, 16 << 20
"""What waits to be kept, while it cannot be."""
_MOST_ROWS = 200
"""Rows for each rule since it came into force."""

Pending = dict[tuple[int, str], EvidenceRows]
"""Evidence by hour (its first second since the epoch) and name of the route."""


class GroupEvidence:
    """The evidence of these routes."""

    def __init__(self, routes: Sequence[str]) -> None:
        self._routes = routes
        self._in_force: list[dict[VerdictKey, VerdictRow]] = [{} for _ in routes]
        self._pending: Pending = {}
        self._bytes = 0
        """About the most bytes of what waits."""
        self.lost = Counter[str]()
        """Rows that lost their names, or were given up, because they could not be kept, by reason."""

    def add(self, route: int, rows: EvidenceRows, now: float) -> None:
        """Add what a worker has seen lately; `now` is in seconds since the epoch."""
        in_force = self._in_force[route]
        for key, row in rows.verdicts.items():
            in_force.setdefault(key, VerdictRow()).add(row)
        fold_verdicts(in_force, _MOST_ROWS)
        if rows:
            self._hold((int(now) // _HOUR * _HOUR, self._routes[route]), rows)

    def keep(self, route: int, rules: Collection[str]) -> None:
        """Forget what rules found that are no longer in force."""
        self._in_force[route] = {key: row for key, row in self._in_force[route].items() if key.rule in rules}

    def verdicts(self, route: int) -> dict[VerdictKey, VerdictRow]:
        """The verdicts of a route's rules since they came into force."""
        return self._in_force[route]

    def take(self) -> Pending:
        """What is to be kept, and has not been taken yet."""
        pending, self._pending, self._bytes = self._pending, {}, 0
        return pending

    def give_back(self, pending: Pending) -> None:
        """What was taken could not be kept."""
        newer, self._pending = self._pending, pending
        self._bytes = sum(map(size_of, pending.values()))
        for place, rows in newer.items():
            self._hold(place, rows)

    @property
    def waiting(self) -> int:
        """Rows that were not taken yet."""
        return sum(map(len, self._pending.values()))

    def _hold(self, place: tuple[int, str], rows: EvidenceRows) -> None:
        known = self._pending.setdefault(place, EvidenceRows())
        known.add(rows)
        known.fold()
        while len({hour for hour, _ in self._pending}) > _MOST_HOURS:
            self._drop_oldest()
        self._bytes += size_of(rows)
        if self._bytes > MOST_BYTES:
            self._make_room()

    def _make_room(self) -> None:
        """Fold the lightest rows of the oldest hours, then drop the oldest, until half of the bytes are free."""
        sizes = {place: size_of(rows) for place, rows in self._pending.items()}
        for bounds in (Bounds.of(MOST_BYTES), NO_ROWS):
            for place in sorted(sizes):
                if sum(sizes.values()) > MOST_BYTES // 2:
                    self.lost[FOLDED_FOR_ROOM] += fold(self._pending[place], bounds)
                    sizes[place] = size_of(self._pending[place])
        while sum(sizes.values()) > MOST_BYTES // 2:
            del sizes[self._drop_oldest()]
        self._bytes = sum(sizes.values())

    def _drop_oldest(self) -> tuple[int, str]:
        oldest = min(self._pending)
        self.lost[NOT_KEPT] += len(self._pending.pop(oldest))
        return oldest

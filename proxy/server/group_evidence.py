"""The evidence of all workers: since each rule came into force, for ``/rules``, and what is still to be kept.

A worker hands on what is new each second, and before it ends, so one that is killed loses a second at most.
"""

from collections.abc import Collection, Sequence

from proxy.traffic.evidence_rows import EvidenceRows, VerdictKey, VerdictRow, fold_verdicts

_HOUR = 3600
_MOST_HOURS = 48
"""Hours that wait to be kept, while they cannot be."""
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
        self.lost = 0
        """Rows that were given up because they could not be kept."""

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
        pending, self._pending = self._pending, {}
        return pending

    def give_back(self, pending: Pending) -> None:
        """What was taken could not be kept."""
        newer, self._pending = self._pending, pending
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
            oldest = min(self._pending)
            self.lost += len(self._pending.pop(oldest))

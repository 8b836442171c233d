"""Counts commands by name.

The hot path counts by the command's id, in one array for each table of commands (``HotPathConfig.calls``). When the
engine becomes known or changes, there is another table with other ids.
"""

from array import array
from collections import Counter
from collections.abc import Mapping

from proxy.commands.replica_reads import served_by_replicas
from proxy.commands.table import Table
from proxy.traffic.rule_totals import MOVABLE

UNKNOWN = "unknown"
"""The name for all commands that the table does not have, because clients can send any number of names."""
_TABLES_KEPT = 8
"""Several, because a transaction ends under the table that it began with."""


class CommandCounts:
    """The commands of one route, in one worker."""

    def __init__(self) -> None:
        self._by_table: dict[Table, array[int]] = {}
        self._former: Counter[str] = Counter()
        self._movable: dict[Table, tuple[int, ...]] = {}
        self._movable_before = 0

    def of(self, table: Table) -> "array[int]":
        """The counters of a table, by id."""
        if table not in self._by_table:
            self._by_table[table] = array("Q", bytes(8 * len(table.specs)))
            self._movable[table] = tuple(spec.id for spec in table.specs if served_by_replicas(spec))
            while len(self._by_table) > _TABLES_KEPT:
                oldest = next(iter(self._by_table))
                self._movable_before += self._movable_of(oldest)
                del self._movable[oldest]
                self._former.update(_named(oldest, self._by_table.pop(oldest)))
        return self._by_table[table]

    def totals(self, by_app: Mapping[str, int]) -> dict[str, int]:
        """The commands of each application, and in the place MOVABLE all reads by commands that replicas can answer."""
        return {**by_app, MOVABLE: self._movable_before + sum(map(self._movable_of, self._by_table))}

    def _movable_of(self, table: Table) -> int:
        numbers = self._by_table[table]
        return sum(numbers[i] for i in self._movable[table])

    def figures(self) -> dict[str, int]:
        """Commands since the start, by name."""
        total = Counter(self._former)
        for table, numbers in self._by_table.items():
            total.update(_named(table, numbers))
        return dict(total)


def _named(table: Table, numbers: "array[int]") -> dict[str, int]:
    # An id is a position, and few commands of the table are used.
    return {table.specs[i].name.replace("|", " ") or UNKNOWN: number for i, number in enumerate(numbers) if number}

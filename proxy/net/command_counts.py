"""Counts commands by name.

The hot path counts by the command's id, in one array for each table of commands (``HotPathConfig.calls``). When the
engine becomes known or changes, there is another table with other ids.
"""

from array import array
from collections import Counter

from proxy.commands.table import Table

UNKNOWN = "unknown"
"""The name for all commands that the table does not have, because clients can send any number of names."""
_TABLES_KEPT = 8
"""Several, because a transaction ends under the table that it began with."""


class CommandCounts:
    """The commands of one route, in one worker."""

    def __init__(self) -> None:
        self._by_table: dict[Table, array[int]] = {}
        self._former: Counter[str] = Counter()

    def of(self, table: Table) -> "array[int]":
        """The counters of a table, by id."""
        if table not in self._by_table:
            self._by_table[table] = array("Q", bytes(8 * len(table.specs)))
            while len(self._by_table) > _TABLES_KEPT:
                oldest = next(iter(self._by_table))
                self._former.update(_named(oldest, self._by_table.pop(oldest)))
        return self._by_table[table]

    def figures(self) -> dict[str, int]:
        """Commands since the start, by name."""
        total = Counter(self._former)
        for table, numbers in self._by_table.items():
            total.update(_named(table, numbers))
        return dict(total)


def _named(table: Table, numbers: "array[int]") -> dict[str, int]:
    # An id is a position, and few commands of the table are used.
    return {table.specs[i].name.replace("|", " ") or UNKNOWN: number for i, number in enumerate(numbers) if number}

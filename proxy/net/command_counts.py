"""How many commands there were of each name.

The hot path counts by the command's id, in one array for each table of commands (``HotPathConfig.calls``). A table
follows another one when the engine is known or has become another one; ids of the former mean nothing in the new one.
"""

from array import array
from collections import Counter

from proxy.commands.table import Table

UNKNOWN = "unknown"
"""Stands for all commands that the table does not know: clients can send any number of names."""
_TABLES_KEPT = 8
"""Transactions end under the table that they began with."""


class CommandCounts:
    """One route's, in one worker."""

    def __init__(self) -> None:
        self._by_table: dict[Table, array[int]] = {}
        self._former: Counter[str] = Counter()

    def of(self, table: Table) -> "array[int]":
        """The numbers by id, to count in."""
        if table not in self._by_table:
            self._by_table[table] = array("Q", bytes(8 * len(table.specs)))
            while len(self._by_table) > _TABLES_KEPT:
                oldest = next(iter(self._by_table))
                self._former.update(_named(oldest, self._by_table.pop(oldest)))
        return self._by_table[table]

    def figures(self) -> dict[str, int]:
        """The number of each command that there was, since the start."""
        total = Counter(self._former)
        for table, numbers in self._by_table.items():
            total.update(_named(table, numbers))
        return dict(total)


def _named(table: Table, numbers: "array[int]") -> dict[str, int]:
    # An id is a position, and few commands of the table are used.
    return {table.specs[i].name.replace("|", " ") or UNKNOWN: number for i, number in enumerate(numbers) if number}

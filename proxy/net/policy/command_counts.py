"""Counts commands by name, and by who has sent them.

The hot path counts by the command's id, in one ``CallCounts`` for each table of commands and each identity of clients.
When the engine becomes known or changes, there is another table with other ids.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from proxy.commands.replica_reads import served_by_replicas
from proxy.commands.table import Table
from proxy.hotpath.counting.call_counts import CallCounts
from proxy.net.downstream.client_label import Identities
from proxy.session.ports.client import ServedClient
from proxy.traffic.evidence_rows import CommandKey, Identity
from proxy.traffic.rule_totals import MOVABLE

UNKNOWN = "unknown"
"""The name for all commands that the table does not have, because clients can send any number of names."""
MOST_IDENTITIES = 256
"""The most identities with counters of their own. Others share those of their app."""
_TABLES_KEPT = 8
"""Several, because a transaction ends under the table that it began with."""


class CommandCounts:
    """The commands of one route, in one worker."""

    def __init__(self) -> None:
        self._by_table: dict[Table, dict[Identity, CallCounts]] = {}
        self._identities = Identities()
        self._totals: Counter[str] = Counter()
        self._news: Counter[CommandKey] = Counter()
        self._movable: dict[Table, frozenset[int]] = {}
        self._moved = 0

    def of(self, table: Table, client: ServedClient) -> CallCounts:
        """The counters for a client, by the ids of a table."""
        by_identity = self._by_table.get(table)
        if by_identity is None:
            by_identity = self._begin(table)
        who = self._identities.of(client)
        found = by_identity.get(who)
        if found is None:
            if len(by_identity) >= MOST_IDENTITIES:
                who = Identity(who.app)
            found = by_identity.setdefault(who, CallCounts(len(table.specs)))
        return found

    def _begin(self, table: Table) -> dict[Identity, CallCounts]:
        self._movable[table] = frozenset(spec.id for spec in table.specs if served_by_replicas(spec))
        while len(self._by_table) >= _TABLES_KEPT:
            oldest = next(iter(self._by_table))
            self._harvest(oldest)
            del self._by_table[oldest], self._movable[oldest]
        return self._by_table.setdefault(table, {})

    def release(self, clients: Iterable[ServedClient]) -> None:
        """Make room for other identities, if there is none: those of none of these clients, the connected ones, go."""
        if all(len(by_identity) < MOST_IDENTITIES for by_identity in self._by_table.values()):
            return
        used = {id(client.intake.calls) for client in clients}
        for table, by_identity in self._by_table.items():
            self._harvest(table)
            self._by_table[table] = {who: calls for who, calls in by_identity.items() if id(calls) in used}

    def _harvest(self, table: Table) -> None:
        movable = self._movable[table]
        for who, calls in self._by_table[table].items():
            for command_id, number in calls.take():
                # An id is a position, and few commands of the table are used.
                name = table.specs[command_id].name.replace("|", " ") or UNKNOWN
                self._totals[name] += number
                self._news[CommandKey(who, name)] += number
                self._moved += number if command_id in movable else 0

    def _harvest_all(self) -> None:
        for table in self._by_table:
            self._harvest(table)

    def news(self) -> dict[CommandKey, int]:
        """The commands since the last call, by who has sent them."""
        self._harvest_all()
        news, self._news = self._news, Counter()
        return dict(news)

    def totals(self, by_app: Mapping[str, int]) -> dict[str, int]:
        """The commands of each application, and in the place MOVABLE all reads by commands that replicas can answer."""
        self._harvest_all()
        return {**by_app, MOVABLE: self._moved}

    def figures(self) -> dict[str, int]:
        """Commands since the start, by name."""
        self._harvest_all()
        return dict(self._totals)

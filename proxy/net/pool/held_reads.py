"""Moves the reads that wait on a shared connection, behind a write that Redis holds back, to another connection of the
pool: see ``session/replicas/moved_reads.py``. Where Keyrail can open no other one, they wait until the pause ends.

The clients move a portion in each turn of the event loop: thousands may wait there.
"""

import asyncio

from proxy.hotpath.upstream.in_flight import InFlightEntry
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.downstream.rounds import PORTION
from proxy.net.pool.connections import Connections
from proxy.session.replicas import moved_reads
from proxy.session.session import Session

_SOON = 0.01
"""Seconds from one look for another connection to the next."""


class HeldReads:
    """Those on the connection ``source``, which takes no more commands until it is drained."""

    def __init__(self, connections: Connections, source: UpstreamConnection) -> None:
        self._connections = connections
        self._source = source
        self._seen: set[Session] = set()

    async def move(self) -> None:
        """Move what can move, as soon as there is another connection."""
        while self._waits():
            target = self._target()
            if target is None:
                await asyncio.sleep(_SOON)
            elif self.move_some(target):
                await asyncio.sleep(0)
            else:
                return

    def _waits(self) -> bool:
        source = self._source
        ends = source.closed or source.retiring or source.key.node not in self._connections.topology.nodes
        return source.head_blocked and source.pipeline.head is not None and not ends

    def _target(self) -> UpstreamConnection | None:
        pool, lane = self._connections.pools.of(self._source.key), self._source.lane
        found = pool.shared(lane)
        if found is None:
            self._connections.supply.ensure(pool, lane)
            found = pool.shared(lane)
        return found

    def move_some(self, target: UpstreamConnection) -> bool:
        """Move a portion of the clients there; whether there are more."""
        found: dict[Session, list[InFlightEntry]] = {}
        for entry in self._source.pipeline.entries():
            client = entry.sink.client()
            if not isinstance(client, Session) or client in self._seen:
                continue
            if client in found:
                found[client].append(entry)
            elif len(found) < PORTION:
                found[client] = [entry]
        self._seen.update(found)
        for client, entries in found.items():
            moved_reads.move(client, self._source.pipeline, entries, target.pipeline)
        return len(found) == PORTION

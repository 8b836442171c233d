"""The connections on which clients read from replicas: one to each for each database and protocol, shared by all.

They are opened when the first client wants one, as the user that the route is configured with; before a cluster, with
READONLY. When one is lost, or its replica says that it cannot answer, what it owes is sent again to the primary: see
``session/replica_reads.py``.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proxy.commands.table import Lane
from proxy.hotpath.client_reads import Replica, ReplicaGroup
from proxy.hotpath.error_counts import ErrorCounts
from proxy.hotpath.in_flight import InFlightEntry
from proxy.hotpath.upstream_pipeline import UpstreamPipeline
from proxy.net.cluster import Cluster
from proxy.net.connect import UpstreamRefusedError, open_upstream, set_to
from proxy.net.connections import Connections
from proxy.net.policies import Policies
from proxy.net.replica_watch import ReplicaWatch, WatchedPrimary, WatchedReplica
from proxy.net.upstream import UpstreamConnection
from proxy.session.pool_key import Node, PoolKey, Role
from proxy.session.ports import ReplicaPort
from proxy.session.replica_reads import LostReads
from proxy.session.session import Session

_PAUSE = 1.0
_LONG_PAUSE = 30.0
"""Seconds before a replica is connected to again: after a failure, and after it has refused a command or the login."""
_LASTING = (b"-NOPERM", b"-NOAUTH")

_log = logging.getLogger("keyrail.route")


@dataclass(slots=True, eq=False)
class _Slot:
    """The connection of one pool to one replica, if there is one; none is opened before ``pause_until``."""

    upstream: UpstreamConnection | None = None
    opening: bool = False
    pause_until: float = 0.0


class ReplicaConnections(ReplicaPort):
    """The connections to the replicas of the primaries that ``watch`` looks at."""

    clock = staticmethod(time.monotonic)

    def __init__(self, watch: ReplicaWatch, connections: Connections, policies: Policies) -> None:
        self.output_limit = connections.output_limit
        self.resent: Counter[Node] = Counter()
        self.failed: Counter[Node] = Counter()
        self._watch = watch
        self._connections = connections
        self._policies = policies
        self._slots: dict[tuple[Node, int, int], _Slot] = {}
        self.unknown = ReplicaGroup()
        watch.report_to(self.leave, self.unknown.changed)

    # For sessions

    def begin(self) -> None:
        """Clients read from replicas from now on: follow closely how they do."""
        self._watch.hurry()
        self._watch.begin(self._connections.supply.tls)

    def group(self, number: int) -> ReplicaGroup:
        """The replicas of this primary."""
        found = self._primary(number)
        return self.unknown if found is None else found.group

    def _primary(self, number: int) -> WatchedPrimary | None:
        topology = self._connections.topology
        if isinstance(topology, Cluster):
            node = topology.node(number)
            return None if node is None else self._watch.primaries.get(node)
        return next(iter(self._watch.primaries.values()), None)

    def reader(
        self, key: PoolKey, number: int, current: UpstreamPipeline | None, *, same_zone: bool
    ) -> tuple[Replica, UpstreamPipeline] | None:
        """A replica of this primary, and the connection to it."""
        primary = self._primary(number)
        found: list[tuple[WatchedReplica, UpstreamPipeline]] = []
        for replica in () if primary is None else primary.replicas.values():
            upstream = self._connection(replica, key) if replica.readable.covered >= 0 else None
            if upstream is not None:
                found.append((replica, upstream.pipeline))
        if same_zone:
            found = [each for each in found if self._in_zone(each[0].endpoint.host)] or found
        if not found:
            return None
        stays = [each for each in found if each[1] is current]
        replica, pipeline = stays[0] if stays else random.choice(found)
        return replica.readable, pipeline

    def _in_zone(self, host: str) -> bool:
        zone = self._connections.settings.zone
        return bool(zone) and self._policies.zones.of(host) == zone

    # Opening

    def _connection(self, replica: WatchedReplica, key: PoolKey) -> UpstreamConnection | None:
        slot = self._slots.setdefault((replica.node, key.database, key.protocol), _Slot())
        if slot.upstream is None and not slot.opening and self.clock() >= slot.pause_until:
            slot.opening = True
            place = PoolKey(None, key.database, key.protocol, replica.node, Role.REPLICA)
            self._connections.all.start(self._open(slot, replica, place))
        return slot.upstream

    async def _open(self, slot: _Slot, replica: WatchedReplica, key: PoolKey) -> None:
        seconds, loop, supply = (
            self._connections.settings.connect_timeout,
            self._connections.loop,
            self._connections.supply,
        )
        address = self._connections.topology.login.at(replica.endpoint)
        upstream: UpstreamConnection | None = None
        try:
            async with asyncio.timeout(seconds):
                upstream = (await open_upstream(address, supply.tls, self, key, loop)).upstream
            await set_to(upstream, key, seconds, supply.busy)
            if isinstance(self._connections.topology, Cluster):
                await self._let_read(upstream, seconds)
            upstream.check()
        except (OSError, UpstreamRefusedError) as error:
            slot.pause_until = self.clock() + (_PAUSE if isinstance(error, OSError) else _LONG_PAUSE)
            _log.warning(
                "%s: replica %s cannot be read from: %s", self._connections.topology.login, replica.endpoint, error
            )
            if upstream is not None:
                upstream.abort()
            loop.call_later(slot.pause_until - self.clock(), self._changed)
            return
        finally:
            slot.opening = False
        upstream.pipeline.reads_only = True
        upstream.pipeline.number = replica.node.number
        self._connections.all.add(upstream)
        upstream.open_to_all(Lane.FAST)
        slot.upstream = upstream
        self._changed()

    @staticmethod
    async def _let_read(upstream: UpstreamConnection, seconds: float) -> None:
        # Else a replica of a cluster sends all commands on to its primary.
        async with asyncio.timeout(seconds):
            reply = await upstream.ask(["READONLY"])
        if reply.startswith(b"-"):
            raise UpstreamRefusedError(f"READONLY: {reply[1:].decode('utf-8', 'replace').strip()}")

    def _changed(self) -> None:
        # Clients look for a replica anew.
        for primary in self._watch.primaries.values():
            primary.group.changed()

    # What its connections report, and what becomes of what they owe

    @property
    def errors(self) -> ErrorCounts:
        """Counts the error replies that clients get."""
        return self._connections.errors

    def redirects(self, upstream: UpstreamPipeline, _entry: InFlightEntry, error: bytes) -> bytes | None:
        """The replica says that it cannot answer: it loads its data, has lost its primary, allows less than that, or
        knows another owner of the slot."""
        connection = self._connections.all.members.get(upstream)
        if connection is None:
            return error
        _log.warning(
            "%s: a replica cannot be read from: %s",
            self._connections.topology.login,
            error[1:].decode("utf-8", "replace").strip(),
        )
        slot = self._slot_of(connection)
        if slot is not None:
            slot.pause_until = self.clock() + (_LONG_PAUSE if error.startswith(_LASTING) else _PAUSE)
            self._connections.loop.call_later(slot.pause_until - self.clock(), self._changed)
        if isinstance(self._connections.topology, Cluster):
            self._connections.topology.doubt()
        connection.abort()
        return None

    def leave(self, node: Node) -> None:
        """A replica does not answer, or has other data: what it owes is sent again."""
        for (of, _, _), slot in self._slots.items():
            if of is node and slot.upstream is not None:
                slot.upstream.drop()

    def lost(self, upstream: UpstreamConnection) -> None:
        """Send what it owes again. Clients of which that cannot be done are closed."""
        slot, pipeline = self._slot_of(upstream), upstream.pipeline
        if slot is not None:
            slot.upstream = None
            slot.pause_until = max(slot.pause_until, self.clock() + _PAUSE / 10)
        self.failed[upstream.key.node] += 1
        self._connections.all.remove(upstream)
        self._changed()
        begun = pipeline.head.sink.client() if pipeline.head is not None and not pipeline.whole_frames() else None
        clients = {each.sink.client(): None for each in pipeline.entries()}
        again: list[LostReads] = []
        for client in clients:
            if isinstance(client, Session) and client is not begun and not client.gone and not upstream.mixed_up:
                lost = LostReads(client, pipeline)
                if lost.take():
                    again.append(lost)
        taken = {each.client for each in again}
        unanswered = {sink.client() for sink in pipeline.abandon()}
        for loser in unanswered - taken:
            if loser is not None:
                loser.close("upstream_lost")
        for each in again:
            self.resent[upstream.key.node] += each.count
            each.send()

    def figures(self, ids: Mapping[Node, str], commands: Mapping[str, int]) -> dict[str, Any]:
        """The reads by node, and where those went that the policy moves. ``commands`` are what each node got."""
        read = {
            name: {"reads": commands.get(name, 0), "resent": self.resent[node], "errors": self.failed[node]}
            for node, name in ids.items()
            if self._watch.replica(node) is not None
        }
        totals = self._watch.reads()
        return {"node_reads": read, "replica_reads": totals} if any(totals.values()) else {}

    def serves(self, replica: WatchedReplica) -> bool:
        """Whether clients may read from it now: it is connected, and known well enough."""
        reached = any(of is replica.node and slot.upstream is not None for (of, _, _), slot in self._slots.items())
        near = replica.readable.lag <= self._policies.replica_lag
        return reached and near and replica.readable.covered >= 0 and self.clock() <= replica.readable.until

    def pending(self, node: Node) -> int:
        """How many replies are pending."""
        entries = (
            entry
            for (of, _, _), slot in self._slots.items()
            if of is node and slot.upstream is not None
            for entry in slot.upstream.pipeline.entries()
        )
        return sum(entry.due for entry in entries)

    def _slot_of(self, upstream: UpstreamConnection) -> _Slot | None:
        return next((slot for slot in self._slots.values() if slot.upstream is upstream), None)

    def on_resume(self, upstream: UpstreamConnection) -> None:
        """Nobody waits for it."""

    def doubted(self, upstream: UpstreamConnection) -> None:
        """It is known to lead to a replica."""

    def command_refused(self, upstream: UpstreamConnection, line: bytes) -> None:
        """The client is told."""

    def retired(self, upstream: UpstreamConnection) -> None:
        """None of them is retired."""

    def count(self, event: str) -> None:
        """Count an event for the metrics."""
        self._connections.count(event)

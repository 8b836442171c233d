"""The connections on which clients read from replicas: one to each for each database and protocol, shared by all.

They are opened when the first client wants one, as the user that the route is configured with; with a cluster upstream,
with READONLY. Each must lead to the server that has told ``ReplicaWatch`` how far it is. When one is lost, or its
replica says that it cannot answer, what it owes is sent again to the primary: see ``session/replicas/read_retries.py``.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from proxy.commands.error_texts import (
    REPLICA_LACKS_SCRIPT,
    REPLICA_REFUSES,
    REPLICA_UNABLE,
    REPLICA_WANTS_LOGIN,
)
from proxy.commands.table import Lane
from proxy.hotpath.counting.error_counts import ErrorCounts
from proxy.hotpath.plan.replica_reads import ReplicaTerms
from proxy.hotpath.replicas.reader_place import ReaderPlace, Replica, ReplicaGroup
from proxy.hotpath.upstream.in_flight import InFlightEntry, ReplySink
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.net.connection.connect import UpstreamRefusedError, open_upstream, set_to
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.policy.policies import Policies
from proxy.net.pool.connections import Connections
from proxy.net.replicas.replica_choice import Candidate, chosen
from proxy.net.replicas.replica_slot import ReplicaSlot
from proxy.net.replicas.replica_watch import ReplicaFollower, ReplicaWatch, ask_process
from proxy.net.replicas.watched_replicas import WatchedPrimary, WatchedReplica
from proxy.net.topology.cluster import Cluster
from proxy.net.topology.known_scripts import KnownScripts
from proxy.session.ports.node_port import ReplicaPort
from proxy.session.ports.pool_key import Node, PoolKey, Role
from proxy.session.replicas.read_retries import ReadRetries
from proxy.session.session import Session

_PAUSE = 1.0
_SHORT_PAUSE = 0.1
_LONG_PAUSE = 30.0
"""Seconds before a replica is connected to again: after a failure, after the loss of a connection that was in use, and
after it has refused the login."""

_NOT_SHARED = "reads from replicas are off, as with --pooling off each client has a connection of its own"

_log = logging.getLogger("keyrail.route")


class ReplicaConnections(ReplicaPort, ReplicaFollower):
    """The connections to the replicas of the primaries that ``watch`` looks at. ``resent`` and ``failed`` count, for
    each replica, reads that were sent again and connections that were lost."""

    clock = staticmethod(time.monotonic)

    def __init__(self, watch: ReplicaWatch, connections: Connections, policies: Policies) -> None:
        self.output_limit = connections.output_limit
        self.resent: Counter[Node] = Counter()
        self.failed: Counter[Node] = Counter()
        self.clock = watch.clock
        self._watch = watch
        self._connections = connections
        self._policies = policies
        self._slots: dict[tuple[Node, int, int], ReplicaSlot] = {}
        self._open_slots: dict[UpstreamConnection, ReplicaSlot] = {}
        self.unknown = ReplicaGroup(watched=False)
        self._scripts = connections.known_scripts or KnownScripts()
        watch.report_to(self)

    @property
    def off(self) -> list[str]:
        """The text for ``features_off`` where rules would move reads, and no client can share these connections."""
        return [_NOT_SHARED] if self._policies.moves_reads and not self._connections.settings.pooling else []

    # For sessions

    def begin(self) -> None:
        """Clients read from replicas from now on: follow closely how they do."""
        self._watch.hurry()
        self._watch.begin(self._connections.opening.tls)

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
        self, key: PoolKey, place: ReaderPlace, terms: Sequence[ReplicaTerms]
    ) -> tuple[Replica, UpstreamPipeline] | None:
        """A replica of the primary of this place for reads on these terms, and the connection to it."""
        primary = self._primary(place.number)
        prefers_zone = place.same_zone and any(each.same_zone for each in terms)
        found = []
        for replica in () if primary is None else primary.replicas.values():
            slot = self._slot(replica, key) if replica.readable.covered >= 0 else None
            if slot is not None and slot.upstream is not None:
                nearby = prefers_zone and self._in_zone(slot.upstream)
                since = max(slot.since, replica.since)
                found.append(Candidate(replica.readable, slot.upstream.pipeline, since, nearby))
        got = chosen(found, place, sorted({each.max_lag for each in terms}), self.clock())
        return None if got is None else (got.replica, got.upstream)

    def _in_zone(self, upstream: UpstreamConnection) -> bool:
        # By the address that a host name has led to.
        zone, transport = self._connections.settings.zone, upstream.transport
        peer = None if transport is None or not zone else transport.get_extra_info("peername")
        return isinstance(peer, tuple) and self._policies.zones.of(str(peer[0])) == zone

    @property
    def scripts(self) -> KnownScripts:
        """The scripts that primaries have accepted from clients of this worker."""
        return self._scripts

    def load(self, upstream: UpstreamPipeline, text: bytes) -> bool:
        """Load the script on this connection, unless that was done: whether its replica takes scripts."""
        connection = self._connections.all.members.get(upstream)
        slot = None if connection is None else self._open_slots.get(connection)
        return slot is not None and slot.load(text)

    # Opening

    def _slot(self, replica: WatchedReplica, key: PoolKey) -> ReplicaSlot:
        slot = self._slots.setdefault((replica.node, key.database, key.protocol), ReplicaSlot(replica))
        if slot.upstream is not None and not slot.leads_there(slot.upstream):
            slot.upstream.drop()
        elif slot.upstream is None and not slot.opening and self.clock() >= slot.pause_until:
            slot.opening = True
            place = PoolKey(None, key.database, key.protocol, replica.node, Role.REPLICA)
            self._connections.all.start(self._open(slot, place))
        return slot

    async def _open(self, slot: ReplicaSlot, key: PoolKey) -> None:
        replica, connections = slot.replica, self._connections
        seconds, loop, opening = connections.settings.connect_timeout, connections.loop, connections.opening
        address = connections.topology.login.at(replica.endpoint)
        upstream: UpstreamConnection | None = None
        try:
            async with asyncio.timeout(seconds):
                upstream = (await open_upstream(address, opening.tls, self, key, loop)).upstream
            await set_to(upstream, key, seconds, opening.busy)
            async with asyncio.timeout(seconds):
                await self._check(slot, upstream)
            upstream.check()
        except (OSError, UpstreamRefusedError) as error:
            self._explain(slot, str(error))
            if upstream is not None:
                upstream.abort()
            self._pause(slot, _PAUSE if isinstance(error, OSError) else _LONG_PAUSE)
            return
        finally:
            slot.opening = False
        if self._slots.get((replica.node, key.database, key.protocol)) is not slot:
            upstream.abort()  # the replica has gone meanwhile
            return
        upstream.pipeline.reads_only = True
        upstream.pipeline.number = replica.node.number
        upstream.pipeline.doubts = self._doubts(upstream, replica)
        connections.all.add(upstream)
        upstream.open_to_all(Lane.FAST)
        slot.fill(upstream)
        self._open_slots[upstream] = slot
        slot.since = self._changed(replica)

    async def _check(self, slot: ReplicaSlot, upstream: UpstreamConnection) -> None:
        await ask_process(upstream)
        if not slot.leads_there(upstream):
            raise ConnectionRefusedError(
                "the connection leads to another server than the one that has told its lag: "
                "name the replicas by addresses that lead to one server each"
            )
        if isinstance(self._connections.topology, Cluster):
            # Else a replica of a cluster sends all commands on to its primary.
            reply = await upstream.ask(["READONLY"])
            if reply.startswith(b"-"):
                raise UpstreamRefusedError(f"READONLY: {_text(reply)}")

    def _explain(self, slot: ReplicaSlot, problem: str, what: str = "cannot be read from") -> None:
        # Once for each reason: it is tried again each second.
        if problem != slot.problem:
            slot.problem = problem
            login, endpoint = self._connections.topology.login, slot.replica.endpoint
            _log.warning("%s: replica %s %s: %s", login, endpoint, what, problem)

    def _pause(self, slot: ReplicaSlot, seconds: float) -> None:
        # Whoever would read there looks again at the end of each pause.
        slot.pause_until = max(slot.pause_until, self.clock() + seconds)
        self._connections.loop.call_later(seconds, self._changed, slot.replica)

    def _changed(self, replica: WatchedReplica) -> int:
        # Clients look for a replica of its primary anew. Returns since which version of the group.
        group = next((each.group for each in self._watch.primaries.values() if replica in each.replicas.values()), None)
        if group is None:
            return -1
        group.changed()
        return group.version

    # What the watch tells

    def bounds(self) -> Sequence[float]:
        """The seconds by which replicas may be behind, one for each kind of reads."""
        return self._policies.replica_lags

    def left(self, node: Node) -> None:
        """A replica does not answer, or has other data: what it owes is sent again."""
        for slot in self._of(node):
            if slot.upstream is not None:
                slot.upstream.drop()

    def gone(self, node: Node) -> None:
        """It is no replica of these primaries any more: nothing refers to it."""
        self.left(node)
        for name in [name for name in self._slots if name[0] is node]:
            del self._slots[name]
        for counts in (self.resent, self.failed):
            counts.pop(node, None)

    def moved(self) -> None:
        """The primaries are others."""
        self.unknown.changed()
        if self._connections.known_scripts is None:
            self._scripts.forget()

    def looked(self) -> None:
        """The replicas have been asked once more: a connection that answers nothing meanwhile is dead."""
        for upstream, slot in self._open_slots.items():
            upstream.pipeline.doubts = self._doubts(upstream, slot.replica)
        for slot in [slot for slot in self._slots.values() if slot.is_silent()]:
            self._explain(slot, "a connection does not answer, and others do")
            if slot.upstream is not None:
                slot.upstream.drop()

    def _doubts(self, upstream: UpstreamConnection, replica: WatchedReplica) -> bool:
        # Whether it may say of a key that exists at another node that it does not.
        primary = next((each for each in self._watch.primaries.values() if replica in each.replicas.values()), None)
        knows = primary is not None and primary.replicates_slots and upstream.replicates_slots
        return isinstance(self._connections.topology, Cluster) and not knows

    def _of(self, node: Node) -> "list[ReplicaSlot]":
        return [slot for (of, _, _), slot in self._slots.items() if of is node]

    # What its connections report, and what becomes of what they owe

    @property
    def errors(self) -> ErrorCounts:
        """Counts the error replies that clients get."""
        return self._connections.errors

    def redirects(self, upstream: UpstreamPipeline, entry: InFlightEntry, frame: bytes) -> bytes | None:
        """The replica says that it cannot answer anything, or not this command; or that a key does not exist which may
        be on its way to another node."""
        connection, client = self._connections.all.members.get(upstream), entry.sink.client()
        slot = None if connection is None else self._open_slots.get(connection)
        if connection is None or slot is None:
            return frame
        again = ReadRetries(client, upstream) if isinstance(client, Session) else None
        if client is not None and client.gone:
            return frame
        if REPLICA_UNABLE.begin(frame, own_errors=again is not None and again.has_own_errors()):
            self._explain(slot, _text(frame))
            self._pause(slot, _LONG_PAUSE if REPLICA_WANTS_LOGIN.hinted(frame) else _PAUSE)
            if isinstance(self._connections.topology, Cluster):
                self._connections.topology.doubt()
            connection.abort()
            return None
        if again is None:
            return frame
        if REPLICA_REFUSES.hinted(frame) or again.asks_owner:
            taken = self._take_refused(slot, again, frame)
        else:
            self.count("misses_asked_again")
            taken = again.take_doubtful(frame)
        if taken:
            again.send()
        else:
            connection.abort()
        return None

    def _take_refused(self, slot: ReplicaSlot, again: ReadRetries, frame: bytes) -> bool:
        if REPLICA_LACKS_SCRIPT.hinted(frame):
            slot.loaded = None
        if frame.startswith(b"-"):
            self._explain(slot, _text(frame), "leaves a command to its primary")
            if isinstance(self._connections.topology, Cluster):
                self._connections.topology.doubt()
        taken = again.take()
        self.resent[slot.replica.node] += again.count
        return taken

    def lost(self, upstream: UpstreamConnection) -> None:
        """Send what it owes again. Clients of which that cannot be done are closed."""
        slot, pipeline = self._open_slots.pop(upstream, None), upstream.pipeline
        if slot is not None:
            slot.upstream = None
            self._pause(slot, _SHORT_PAUSE)
            self._count(self.failed, upstream, 1)
            self._changed(slot.replica)
        self._connections.all.remove(upstream)
        begun = pipeline.head.sink.client() if pipeline.head is not None and not pipeline.whole_frames() else None
        clients = {each.sink.client(): None for each in pipeline.entries()}
        again: list[ReadRetries] = []
        for client in clients:
            if isinstance(client, Session) and client is not begun and not client.gone and not upstream.mixed_up:
                lost = ReadRetries(client, pipeline)
                if lost.take():
                    again.append(lost)
        taken = {each.client for each in again}

        def close_others(unanswered: Sequence[ReplySink]) -> None:
            for loser in {sink.client() for sink in unanswered} - taken:
                if loser is not None:
                    loser.close("upstream_lost")

        pipeline.abandon(close_others)
        for each in again:
            self._count(self.resent, upstream, each.count)
            each.send()

    def _count(self, counts: "Counter[Node]", upstream: UpstreamConnection, number: int) -> None:
        # A replica that has gone has no figures.
        if self._of(upstream.key.node):
            counts[upstream.key.node] += number

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
        reached = any(slot.upstream is not None for slot in self._of(replica.node))
        near = replica.readable.lag <= max(self.bounds(), default=0.0)
        return reached and near and replica.readable.covered >= 0 and self.clock() <= replica.readable.until

    def pending(self, node: Node) -> int:
        """How many replies are pending."""
        entries = (
            entry for slot in self._of(node) if slot.upstream is not None for entry in slot.upstream.pipeline.entries()
        )
        return sum(entry.due for entry in entries)

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


def _text(error: bytes) -> str:
    return error[1:].decode("utf-8", "replace").strip()

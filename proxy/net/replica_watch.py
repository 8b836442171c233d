"""How replicas do: a look asks a primary for its replication offset, and then its replicas for what they have applied.

Each server is asked for INFO replication, on a connection of its own. What a third one says of a replica is old, and
offsets can only be compared within one replication stream (``master_replid``). The replicas are those that the primary
names, those in the URL, or those of the cluster's map.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Protocol, runtime_checkable

from proxy.hotpath.client_reads import Replica, ReplicaGroup
from proxy.hotpath.in_flight import ReplySink
from proxy.net.address import UpstreamAddress
from proxy.net.cluster import Cluster
from proxy.net.links import Links
from proxy.net.replica_history import PrimaryHistory, Told, read_replication
from proxy.net.slot_map import Endpoint, OwnSlots, read_own_slots
from proxy.net.tls import FollowedContext
from proxy.net.topology import Topology
from proxy.net.upstream import UpstreamConnection
from proxy.session.pool_key import Node, PoolKey
from proxy.wire.decode import read_reply

_SECONDS = 1.0
"""From the begin of a look to that of the next one."""
_READ_SECONDS = 0.5
"""The same while clients read from replicas."""
_ANSWER_SECONDS = 0.4
_HELD_SECONDS = 0.05
_LOOKS_FOR_REPLIES = 20
"""How long the commands of clients wait at most that could read from their replica again, and how often it is seen
whether their replies have come, in the first half of that."""
_GOOD_SECONDS = 0.9
"""How long what a replica has answered counts for reads."""
_MOVING_SECONDS = 2.0
"""How long a primary of a cluster that gives slots away answers all reads by itself, after the last sign of that."""

_log = logging.getLogger("keyrail.route")


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """What is known of a replica. ``reached``: it answers. ``linked``: it is connected to its primary. ``syncing``: it
    gets a copy of all data. ``foreign``: it has another primary's data. ``lag`` is in bytes and ``lag_seconds`` at most
    so long, None if unknown."""

    reached: bool
    linked: bool = True
    syncing: bool = False
    foreign: bool = False
    lag: int | None = None
    lag_seconds: float | None = None


@runtime_checkable
class ReadHolder(Protocol):
    """A client whose commands can wait for a look."""

    @property
    def sender(self) -> ReplySink:
        """What awaits its replies."""

    def hold_reads(self) -> bool:
        """Send nothing more until ``release_reads``, if it waits for nothing else."""

    def release_reads(self) -> None:
        """Go on, unless it waits for something else."""


LOST = ReplicaState(reached=False)


@dataclass(slots=True, eq=False)
class WatchedReplica:
    """A replica. Its ``readable`` is another one once its data may be older than it was."""

    node: Node
    endpoint: Endpoint
    readable: Replica
    state: ReplicaState | None = None
    applied: int = -1


@dataclass(slots=True, eq=False)
class WatchedPrimary:
    """A primary: its replicas in the replication ``stream``, by their addresses. Before a cluster, ``slots`` are its
    own; up to ``moving_until``, its replicas may not know where their keys are."""

    node: Node
    group: ReplicaGroup = field(default_factory=ReplicaGroup)
    stream: str = ""
    history: PrimaryHistory = field(default_factory=PrimaryHistory)
    slots: OwnSlots | None = None
    moving_until: float = 0.0
    replicas: dict[Endpoint, WatchedReplica] = field(default_factory=dict)

    def told(self, look: int, at: float, told: Told) -> None:
        """The primary has answered at this look."""
        if told.stream != self.stream:
            self.leave()
            self.stream = told.stream
        self.history.add(look, at, told.offset)

    def owns(self, slots: OwnSlots, now: float) -> None:
        """Before a cluster: it has these slots now."""
        if slots.gives or (self.slots is not None and slots.lack(self.slots)):
            self.migrates(now)
        self.slots = slots

    def migrates(self, now: float) -> None:
        """Keys leave for other nodes. A replica says of them that they do not exist, until it knows another owner of
        their slots: for a while, the primary answers everything."""
        self.moving_until = now + _MOVING_SECONDS
        for replica in self.replicas.values():
            replica.readable.until = 0.0

    def leave(self) -> None:
        """The stream has ended: nothing that is known of it counts any more."""
        before, self.group = self.group, ReplicaGroup()
        self.group.looks = before.looks
        self.group.moved, self.group.behind, self.group.unfit = before.moved, before.behind, before.unfit
        before.changed()
        self.history = PrimaryHistory()
        for replica in self.replicas.values():
            replica.readable.leave()
            replica.readable, replica.applied = Replica(), -1

    def measured(self, replica: WatchedReplica, told: Told | None, now: float) -> None:
        """A replica has answered, or has not (None)."""
        before = replica.readable.covered
        replica.state = self._state(replica, told, now)
        if (replica.readable.covered < 0) != (before < 0):
            self.group.changed()

    def _state(self, replica: WatchedReplica, told: Told | None, now: float) -> ReplicaState:
        newest = self.history.last
        linked, syncing = told is not None and told.is_replica and told.linked, told is not None and told.syncing
        if told is None or newest is None or not linked or syncing or told.stream != self.stream:
            replica.readable.leave()
            foreign = told is not None and (not told.is_replica or (linked and told.stream != self.stream))
            return ReplicaState(told is not None, linked or told is None, syncing, foreign and newest is not None)
        if told.offset < replica.applied:
            # It has begun anew, and may be older than what clients have read there.
            replica.readable.leave()
            replica.readable = Replica()
        replica.applied = told.offset
        covered = self.history.covered_by(told.offset)
        if covered is None:
            replica.readable.leave()
            return ReplicaState(reached=True, lag=newest.offset - told.offset)
        until = now + _GOOD_SECONDS if now >= self.moving_until else 0.0
        replica.readable.measured(covered.look, now - covered.at, until)
        seconds = 0.0 if covered is newest else round(now - covered.at, 3)
        return ReplicaState(reached=True, lag=max(0, newest.offset - told.offset), lag_seconds=seconds)


class ReplicaWatch:
    """Looks at the replicas of one topology. ``primaries`` has what came of it."""

    def __init__(
        self,
        topology: Topology,
        loop: asyncio.AbstractEventLoop,
        connect_seconds: float,
        count_event: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.primaries: Mapping[Node, WatchedPrimary] = {}
        self._left: Callable[[Node], None] = lambda _: None
        self._moved: Callable[[], None] = lambda: None
        self._reading = False
        self._counted: Sequence[int] = (0, 0, 0)
        self._topology = topology
        self._loop = loop
        self._clock = clock
        self._count = count_event
        self._numbers = count(1)
        self._addresses: dict[Endpoint, UpstreamAddress] = {}
        key = PoolKey(None, 0, 2, topology.home)
        self._links = Links(self._address, key, loop, connect_seconds, lambda: None, count_event)
        self._task: asyncio.Task[None] | None = None

    def begin(self, tls: FollowedContext | None) -> None:
        """Begin to look, unless that is done already."""
        if self._task is None:
            self._links.tls = tls
            self.follow()
            self._task = self._loop.create_task(self._run())

    def report_to(self, left: Callable[[Node], None], moved: Callable[[], None]) -> None:
        """``left`` hears of replicas that do not answer or have other data than before; ``moved``: of primaries."""
        self._left, self._moved = left, moved

    def hurry(self) -> None:
        """Clients read from replicas: look more often."""
        self._reading = True

    def migrates(self, node: Node) -> None:
        """Before a cluster: this node has sent a client to another one, as a slot is on its way there."""
        if node in self.primaries:
            self.primaries[node].migrates(self._clock())

    def close(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
        self._links.close()

    def reads(self) -> dict[str, int]:
        """How many reads that the policy moves went where, and why not to a replica."""
        totals = self._counted
        for primary in self.primaries.values():
            totals = _added(totals, primary.group)
        return dict(zip(("moved", "own_writes", "no_replica"), totals, strict=True))

    def replica(self, node: Node) -> WatchedReplica | None:
        """The replica that is this node."""
        known = (replica for primary in self.primaries.values() for replica in primary.replicas.values())
        return next((replica for replica in known if replica.node is node), None)

    async def _run(self) -> None:
        while True:
            begun = self._clock()
            try:
                await self.look()
            except Exception:  # noqa: BLE001 - whatever it is, the next look may go well
                self._count("periodic_failures")
                _log.exception("%s: asking replicas for their lag failed", self._topology.login)
            seconds = _READ_SECONDS if self._reading else _SECONDS
            await asyncio.sleep(max(0.0, begun + seconds - self._clock()))

    async def look(self) -> None:
        """Ask all primaries and their replicas once."""
        self.follow()
        at = {node: self._topology.address(node) for node in self.primaries}
        asked = {node: _endpoint(address) for node, address in at.items()}
        self._addresses = {asked[node]: address for node, address in at.items()}
        await asyncio.gather(*(self._look_at(primary, asked[node]) for node, primary in self.primaries.items()))
        replicas = {endpoint for primary in self.primaries.values() for endpoint in primary.replicas}
        self._links.forget_all_but(replicas.union(asked.values()))

    def follow(self) -> None:
        """Another server may be the primary now."""
        before = self.primaries
        self.primaries = {node: before.get(node) or WatchedPrimary(node) for node in self._topology.nodes}
        for node, primary in before.items():
            if node not in self.primaries:
                primary.leave()
                self._counted = _added(self._counted, primary.group)
                for replica in primary.replicas.values():
                    self._left(replica.node)
        if before.keys() != self.primaries.keys():
            self._moved()

    async def _look_at(self, primary: WatchedPrimary, endpoint: Endpoint) -> None:
        held = await self._hold(primary.group)
        try:
            await self._ask_all(primary, endpoint)
        finally:
            _release(held)

    async def _hold(self, group: ReplicaGroup) -> list[ReadHolder]:
        holders = [_holder(place.sender.client()) for place in group.returning()]
        held = [each for each in holders if each is not None and each.hold_reads()]
        if held:
            self._loop.call_later(_HELD_SECONDS, _release, held)
        for _ in range(_LOOKS_FOR_REPLIES):
            if not any(each.sender.pending_replies for each in held):
                break
            await asyncio.sleep(_HELD_SECONDS / (2 * _LOOKS_FOR_REPLIES))
        return held

    async def _ask_all(self, primary: WatchedPrimary, endpoint: Endpoint) -> None:
        at, look = self._clock(), primary.group.begin_look()
        ask = _ask_owner if self._reading and isinstance(self._topology, Cluster) else _ask_single
        told, slots = (await self._links.ask_all([endpoint], ask, _ANSWER_SECONDS)).get(endpoint, (None, None))
        if told is None or told.is_replica or primary.node not in self.primaries:
            return
        primary.told(look, at, told)
        if slots is not None:
            primary.owns(slots, self._clock())
        self._list(primary, self._replicas_of(primary.node, told))
        answered = await self._links.ask_all(primary.replicas, partial(self._measure, primary), _ANSWER_SECONDS)
        for each, replica in primary.replicas.items():
            if each not in answered:
                self._measured(primary, replica, None)

    async def _measure(self, primary: WatchedPrimary, link: UpstreamConnection, endpoint: Endpoint) -> None:
        told = await _ask(link, endpoint)
        replica = primary.replicas.get(endpoint)
        if replica is not None:
            self._measured(primary, replica, told)

    def _measured(self, primary: WatchedPrimary, replica: WatchedReplica, told: Told | None) -> None:
        before = replica.readable
        primary.measured(replica, told, self._clock())
        state = replica.state
        if state is None or not state.reached or state.foreign or replica.readable is not before:
            self._left(replica.node)

    def _list(self, primary: WatchedPrimary, found: Mapping[Endpoint, Node | None]) -> None:
        for gone in primary.replicas.keys() - found.keys():
            replica = primary.replicas.pop(gone)
            replica.readable.leave()
            primary.group.changed()
            self._left(replica.node)
        for endpoint, node in found.items():
            known = primary.replicas.get(endpoint)
            if known is None or node not in (None, known.node):
                primary.replicas[endpoint] = WatchedReplica(node or Node(next(self._numbers)), endpoint, Replica())

    def _replicas_of(self, primary: Node, told: Told) -> Mapping[Endpoint, Node | None]:
        topology = self._topology
        if isinstance(topology, Cluster):
            return topology.replicas_of(primary)
        login = topology.login
        announced: Sequence[Endpoint] = [login.reach(Endpoint(*each)) for each in told.replicas]
        return dict.fromkeys(login.replicas or announced)

    def _address(self, endpoint: Endpoint) -> UpstreamAddress:
        return self._addresses.get(endpoint) or self._topology.login.at(endpoint)


def _added(totals: Sequence[int], group: ReplicaGroup) -> Sequence[int]:
    return [before + now for before, now in zip(totals, (group.moved, group.behind, group.unfit), strict=True)]


def _holder(client: object) -> ReadHolder | None:
    return client if isinstance(client, ReadHolder) else None


def _release(held: Sequence[ReadHolder]) -> None:
    for each in held:
        each.release_reads()


def _endpoint(address: UpstreamAddress) -> Endpoint:
    # Links know servers by host and port; a socket has neither.
    return Endpoint(address.host if address.path is None else str(address.path), address.port)


async def _ask_owner(link: UpstreamConnection, endpoint: Endpoint) -> tuple[Told | None, OwnSlots | None]:
    told, nodes = await asyncio.gather(_ask(link, endpoint), link.ask(["CLUSTER", "NODES"]))
    return told, read_own_slots(read_reply(nodes))


async def _ask_single(link: UpstreamConnection, endpoint: Endpoint) -> tuple[Told | None, OwnSlots | None]:
    return await _ask(link, endpoint), None


async def _ask(link: UpstreamConnection, _: Endpoint) -> Told | None:
    reply = read_reply(await link.ask(["INFO", "replication"]))
    return read_replication(reply) if isinstance(reply, bytes) else None

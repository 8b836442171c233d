"""How replicas do: a look asks a primary for its replication offset, and then its replicas for what they have applied.

Each server is asked for INFO replication, on a connection of its own. What a third one says of a replica is old, and
offsets can only be compared within one replication stream (``master_replid``). The replicas are those in the URL, those
that most Sentinels list (also those that are down, and none that wants to be unknown: ``replica-announced no``), those
of the cluster's map, or those that the primary names. It names none that is down: such a one is kept for a while.

A name, or a balancer, can lead each connection to another server. So each also tells its run_id: a primary counts only
while it is the server that clients write to, and clients read from a replica only on connections to the server that has
told how far it is.

A primary that does not answer keeps nobody from asking its replicas. Looks follow each other faster while a client's
reads stay with the primary only until the next one.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Protocol, TypeAlias, runtime_checkable

from proxy.hotpath.replicas.reader_place import Replica, ReplicaGroup
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.net.config.address import UpstreamAddress
from proxy.net.config.endpoint import Endpoint
from proxy.net.connection.engine import replicates_slot_states, run_id_in
from proxy.net.connection.tls import FollowedContext
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.replicas.replica_history import Told, read_replication
from proxy.net.replicas.watched_replicas import WatchedPrimary, WatchedReplica
from proxy.net.topology.cluster import Cluster
from proxy.net.topology.links import Links
from proxy.net.topology.primary import Primary
from proxy.net.topology.slot_map import OwnSlots, read_own_slots
from proxy.net.topology.topology import Topology
from proxy.session.ports.pool_key import Node, PoolKey
from proxy.wire.decode import read_reply

_SECONDS = 1.0
"""From the begin of a look to that of the next one."""
_READ_SECONDS = 0.5
"""The same while clients read from replicas."""
_SOONEST_SECONDS = 0.05
"""The same at least, where a client waits for one."""
_ANSWER_SECONDS = 0.4
_PRIMARY_FIRST_SECONDS = 0.2
"""How long the question to replicas waits for the answer of their primary, by which they are measured."""
_PRIMARY_SECONDS = 2.0
"""How long a primary may take for that: one that is slow needs its replicas most."""
_HELD_SECONDS = 0.05
_REMEMBERED_SECONDS = 60.0
"""So long a replica that its primary does not name any more is told as one that cannot be reached, if that is so."""
_LOOKS_FOR_REPLIES = 20
"""How long the commands of clients wait at most that could read from their replica again, and how often it is seen
whether their replies have come, in the first half of that."""

_log = logging.getLogger("keyrail.route")

_AskPrimary: TypeAlias = Callable[[UpstreamConnection, Endpoint], Awaitable[tuple[Told | None, OwnSlots | None]]]


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


class ReplicaFollower:
    """Who has to know how replicas do."""

    def bounds(self) -> Sequence[float]:
        """The seconds by which replicas may be behind, one for each kind of reads."""
        return ()

    def left(self, node: Node) -> None:
        """This replica does not answer, or has other data than before."""

    def gone(self, node: Node) -> None:
        """It is no replica of these primaries any more."""

    def moved(self) -> None:
        """The primaries are others, or have begun anew."""

    def looked(self) -> None:
        """The replicas have been asked once more."""


class ReplicaWatch:
    """Looks at the replicas of one topology. ``primaries`` has what came of it.

    ``processes`` are the run_ids of the servers on which clients can write to a primary, as far as they are known.
    """

    def __init__(
        self,
        topology: Topology,
        loop: asyncio.AbstractEventLoop,
        connect_seconds: float,
        count_event: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        processes: Callable[[Node], Collection[str]] = lambda _: (),
    ) -> None:
        self.primaries: Mapping[Node, WatchedPrimary] = {}
        self._follower = ReplicaFollower()
        self._processes = processes
        self._reading = False
        self._counted: Sequence[int] = (0, 0, 0)
        self._topology = topology
        self._loop = loop
        self.clock = clock
        self._count = count_event
        self._addresses: dict[Endpoint, UpstreamAddress] = {}
        key = PoolKey(None, 0, 2, topology.home)
        self._links = Links(self._address, key, loop, connect_seconds, lambda: None, count_event)
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._asking: dict[Node, asyncio.Task[None]] = {}

    def begin(self, tls: FollowedContext | None) -> None:
        """Begin to look, unless that is done already."""
        if self._task is None:
            self._links.tls = tls
            self.follow()
            self._task = self._loop.create_task(self._run())

    def report_to(self, follower: ReplicaFollower) -> None:
        """Tell this one from now on."""
        self._follower = follower

    def hurry(self) -> None:
        """Clients read from replicas: look more often, as long as a rule lets them."""
        self._reading = True

    def migrates(self, node: Node) -> None:
        """With a cluster upstream: this node has sent a client to another one, as a slot is on its way there."""
        if node in self.primaries:
            self.primaries[node].migrates(self.clock())

    def close(self) -> None:
        """End it."""
        for task in (*self._asking.values(), *([] if self._task is None else [self._task])):
            task.cancel()
        self._links.close()

    def reads(self) -> dict[str, int]:
        """How many reads that the policy moves went where, and why not to a replica."""
        totals = self._counted
        for primary in self.primaries.values():
            totals = _added(totals, primary.group)
        return dict(zip(("moved", "own_writes", "no_replica"), totals, strict=True))

    def replica(self, node: Node) -> WatchedReplica | None:
        """The replica that is this node."""
        return next((replica for replica in self._all() if replica.node is node), None)

    def _all(self) -> "list[WatchedReplica]":
        return [replica for primary in self.primaries.values() for replica in primary.replicas.values()]

    # When

    async def _run(self) -> None:
        due = self.clock()
        while True:
            begun = self.clock()
            regular = begun >= due
            if regular:
                often = self._reading and self._follower.bounds()
                due = begun + (_READ_SECONDS if often else _SECONDS)
            self._wanted.clear()
            try:
                await (self.look() if regular else self._look_again())
            except Exception as error:  # noqa: BLE001 - told, and no reason to look no more
                self._failed(error)
            await self._rest(begun + _SOONEST_SECONDS, due)

    def _failed(self, error: BaseException) -> None:
        self._count("periodic_failures")
        _log.error("%s: asking replicas for their lag failed", self._topology.login, exc_info=error)

    async def _rest(self, soonest: float, due: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, due - self.clock())):
                await self._wanted.wait()
                await asyncio.sleep(soonest - self.clock())

    async def look(self) -> None:
        """Ask all primaries and their replicas once."""
        self.follow()
        at = {node: self._topology.address(node) for node in self.primaries}
        asked = {node: _endpoint(address) for node, address in at.items()}
        self._addresses = {asked[node]: address for node, address in at.items()}
        await asyncio.gather(*(self._look_at(primary, asked[node]) for node, primary in self.primaries.items()))
        replicas = {endpoint for primary in self.primaries.values() for endpoint in primary.replicas}
        self._links.forget_all_but(replicas.union(asked.values()))
        self._follower.looked()

    async def _look_again(self) -> None:
        # At those for which a client waits. Which slots they have, and who their replicas are, is known as of before.
        self.follow()  # the address of a node that is no primary any more would be that of another server
        asked = {node: _endpoint(self._topology.address(node)) for node in self.primaries}
        wanted = [(node, primary) for node, primary in self.primaries.items() if primary.group.wanted]
        await asyncio.gather(*(self._ask_all(primary, asked[node], _ask_single) for node, primary in wanted))

    def follow(self) -> None:
        """Another server may be the primary now."""
        before = self.primaries
        nodes = self._topology.nodes
        self.primaries = {node: before.get(node) or WatchedPrimary(node, self._wanted.set) for node in nodes}
        for node, primary in before.items():
            if node not in self.primaries:
                primary.leave()
                self._counted = _added(self._counted, primary.group)
                for replica in primary.replicas.values():
                    self._follower.gone(replica.node)
        if before.keys() != self.primaries.keys():
            self._follower.moved()

    # A look

    async def _look_at(self, primary: WatchedPrimary, endpoint: Endpoint) -> None:
        held = await self._hold(primary.group)
        ask = _ask_owner if self._reading and isinstance(self._topology, Cluster) else _ask_single
        try:
            await self._ask_all(primary, endpoint, ask)
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

    async def _ask_all(self, primary: WatchedPrimary, endpoint: Endpoint, ask: _AskPrimary) -> None:
        asking = self._asking.get(primary.node)
        if asking is None:
            asking = self._asking[primary.node] = self._loop.create_task(self._ask_primary(primary, endpoint, ask))
            asking.add_done_callback(self._asked)
        await asyncio.wait([asking], timeout=_PRIMARY_FIRST_SECONDS)
        answered = await self._links.ask_all(primary.replicas, partial(self._measure, primary), _ANSWER_SECONDS)
        for each, replica in primary.replicas.items():
            if each not in answered:
                self._measured(primary, replica, None)

    def _asked(self, asking: "asyncio.Task[None]") -> None:
        if not asking.cancelled() and (error := asking.exception()) is not None:
            self._failed(error)

    async def _ask_primary(self, primary: WatchedPrimary, endpoint: Endpoint, ask: _AskPrimary) -> None:
        try:
            at, look = self.clock(), primary.group.begin_look()
            told, slots = (await self._links.ask_all([endpoint], ask, _PRIMARY_SECONDS)).get(endpoint, (None, None))
        finally:
            del self._asking[primary.node]
        if told is None or primary.node not in self.primaries:
            return
        if not self._serves_clients(primary.node, told.process):
            self._links.drop(endpoint)  # the next one leads to where clients are
            return
        if told.is_replica:
            return
        if primary.told(look, at, told):
            self._follower.moved()
        if slots is not None:
            primary.owns(slots, self.clock())
        self._list(primary, self._replicas_of(primary.node, told))

    def _serves_clients(self, node: Node, process: str) -> bool:
        # What clients write to another server is not in this one's offset.
        used = self._processes(node)
        return all(each == process for each in used)

    async def _measure(self, primary: WatchedPrimary, link: UpstreamConnection, endpoint: Endpoint) -> None:
        told = await _ask(link)
        replica = primary.replicas.get(endpoint)
        if replica is not None:
            self._measured(primary, replica, told)

    def _measured(self, primary: WatchedPrimary, replica: WatchedReplica, told: Told | None) -> None:
        before = replica.readable
        primary.measured(replica, told, self.clock(), self._follower.bounds())
        state = replica.state
        if state is None or not state.reached or state.foreign or replica.readable is not before:
            self._follower.left(replica.node)

    def _list(self, primary: WatchedPrimary, found: Mapping[Endpoint, Node | None]) -> None:
        now, known = self.clock(), primary.replicas
        for endpoint in found.keys() & known.keys():
            known[endpoint].listed_at = now
        for endpoint, replica in list(known.items()):
            if endpoint not in found and self._is_remembered(replica, now):
                continue
            if endpoint not in found or found[endpoint] not in (None, replica.node):
                del primary.replicas[endpoint]
                replica.readable.leave()
                primary.group.changed()
                self._follower.gone(replica.node)
        for endpoint, node in found.items():
            if endpoint not in known:
                known[endpoint] = WatchedReplica(node or self._new_node(), endpoint, Replica(), listed_at=now)

    def _is_remembered(self, replica: WatchedReplica, now: float) -> bool:
        return self._listed() is None and now - replica.listed_at < _REMEMBERED_SECONDS

    def _listed(self) -> Sequence[Endpoint] | None:
        """The replicas of which others tell than their primary; None if nobody does."""
        topology = self._topology
        if isinstance(topology, Cluster):
            return ()
        return topology.login.replicas or (topology.replicas if isinstance(topology, Primary) else None)

    def _new_node(self) -> Node:
        # Of a route that is no cluster: the lowest number that no other one has.
        taken = {replica.node.number for replica in self._all()}
        return Node(next(number for number in count(1) if number not in taken))

    def _replicas_of(self, primary: Node, told: Told) -> Mapping[Endpoint, Node | None]:
        topology = self._topology
        if isinstance(topology, Cluster):
            return topology.replicas_of(primary)
        listed = self._listed()
        announced = (topology.login.reach(Endpoint(*each)) for each in told.replicas)
        return dict.fromkeys(announced if listed is None else listed)

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


async def _ask_owner(link: UpstreamConnection, _: Endpoint) -> tuple[Told | None, OwnSlots | None]:
    told, nodes = await asyncio.gather(_ask(link), link.ask(["CLUSTER", "NODES"]))
    return told, read_own_slots(read_reply(nodes))


async def _ask_single(link: UpstreamConnection, _: Endpoint) -> tuple[Told | None, OwnSlots | None]:
    return await _ask(link), None


async def _ask(link: UpstreamConnection) -> Told | None:
    reply, _ = await asyncio.gather(link.ask(["INFO", "replication"]), ask_process(link))
    told = read_reply(reply)
    found = read_replication(told) if isinstance(told, bytes) else None
    return None if found is None else found._replace(process=process_of(link), replicates_slots=link.replicates_slots)


async def ask_process(link: UpstreamConnection) -> None:
    """Learn which server this connection leads to, unless that is known. Raises ConnectionResetError."""
    if link.run_id is None:
        info = await link.ask(["INFO", "server"])
        link.run_id, link.replicates_slots = run_id_in(info), replicates_slot_states(info)


def process_of(link: UpstreamConnection) -> str:
    """The run_id of the server that a connection leads to; empty if it has not been asked, or does not tell."""
    return "" if link.run_id is None else link.run_id.decode("ascii")

"""Finds the connections that lead to a replica, and retires them where others lead to a primary.

An address can lead to another server at any time: that of a load balancer, or a virtual one. Connections that are open
stay with the old server, a replica then, and new ones lead to the new primary.

    an error READONLY           the server is asked for its role (ROLE). If it is a replica, so is the one that a new
                                connection leads to. If that is a primary, the connection is retired, and all others of
                                its node are asked: those in use once they are given back, those that are being opened
                                before they are used. If not, all connections stay, since reads still work there, and
                                each second a new connection is asked
    connections of one node     one connection to each process is asked, at once and then each second. If one leads to a
    lead to several processes   primary, those that lead to a replica are asked and retired as above. Of a process that
    (``run_id``)                could not be asked, each connection is asked before it joins the others

So no connection is missed because it was in use, or was being opened, when the others were asked. Where all servers are
replicas, all connections stay: an address can lead to replicas on purpose. Where Redis does not tell its run_id, each
connection counts as one to a process of its own for a while after a replica has been found.

The address of a cluster's node leads to one server, whose role the other nodes tell. Sentinels name another primary.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias
from weakref import WeakSet

from proxy.commands.table import Lane
from proxy.net.connection.engine import is_replica
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.pool.connection_set import ConnectionSet
from proxy.net.pool.restarts import Restarts
from proxy.net.pool.sole_replicas import SoleReplicas
from proxy.net.topology.roles import REPLICA
from proxy.net.topology.topology import Topology
from proxy.session.ports.pool_key import Node

Process: TypeAlias = "bytes | UpstreamConnection"
"""A run_id; where Redis does not tell it, the connection itself."""
Processes: TypeAlias = Mapping[Process, Sequence[UpstreamConnection]]
"""The connections that lead to each."""

_ANSWER_SECONDS = 0.5
_UNSETTLED_SECONDS = 10.0
"""Longer than a connection takes to open."""


class Demotions:
    """The roles of the servers behind one route's ``connections``.

    ``give_back`` takes a connection that no client uses. ``staying`` has the nodes whose connections lead to a replica
    because there is nothing better.
    """

    def __init__(
        self,
        topology: Topology,
        loop: asyncio.AbstractEventLoop,
        connections: ConnectionSet,
        restarts: Restarts,
        give_back: Callable[[UpstreamConnection], None],
        staying: SoleReplicas,
    ) -> None:
        self.staying = staying
        self._topology = topology
        self._loop = loop
        self._connections = connections
        self._restarts = restarts
        self._give_back = give_back
        self._suspects: WeakSet[UpstreamConnection] = WeakSet()
        self._found_at: dict[Node, float] = {}
        self._replicas: dict[Node, dict[Process, bool]] = {}  # of nodes with several processes: those that answered
        self._comparing: dict[Node, asyncio.Task[None]] = {}
        self._demoted: dict[Node, set[bytes]] = {}
        """Processes that said last that they are replicas, by their run_ids. Who is subscribed there stays."""

    def writable(self, node: Node) -> set[str]:
        """The run_ids of the processes of this node that clients use, but for those that are known as replicas."""
        demoted = self._demoted.get(node, set())
        return {each for each in self._restarts.processes(node) if each.encode() not in demoted}

    # After an error

    def doubted(self, upstream: UpstreamConnection) -> None:
        """An error said READONLY. A script can return that, too, so ask for the server's role: on a private connection
        when its client has given it back. What knows of all servers asks at once."""
        if upstream.shared:
            self._connections.start(self._check(upstream))
        else:
            self._topology.doubt()

    async def _check(self, upstream: UpstreamConnection) -> None:
        replica = False
        with contextlib.suppress(OSError):  # it is lost, or could not be asked now: the next READONLY asks again
            replica = await is_replica(upstream)
        if not replica:
            self._trust(upstream)
        elif await self.staying.leads_to_primary(upstream.key.node):
            self._retire(upstream)
            self._suspect_all(upstream.key.node)
        elif not upstream.closed:
            self.staying.add(upstream.key.node)  # it is asked again each second, so further errors tell nothing

    async def _leads_to_primary(self, node: Node) -> bool:
        # That is asked each second where all servers are replicas.
        return not self.staying.has(node) and await self.staying.leads_to_primary(node)

    def _suspect_all(self, node: Node) -> None:
        stayed = self.staying.discard(node)
        for each in [*self._connections.members.values()]:
            if each.key.node is node:
                if stayed:
                    each.pipeline.trust_role()  # or it would count as one that is being asked
                self._suspect(each)

    async def _look_again(self, node: Node) -> None:
        if await self.staying.leads_to_primary(node):
            self._suspect_all(node)

    async def _ask_role(self, upstream: UpstreamConnection) -> None:
        if await self.staying.has_become_replica(upstream) and not upstream.pipeline.read_only:
            upstream.pipeline.suspect_role()
            await self._check(upstream)

    def _trust(self, upstream: UpstreamConnection) -> None:
        upstream.pipeline.trust_role()
        self._joined(upstream)

    def _joined(self, upstream: UpstreamConnection) -> None:
        # Clients write there again, or would get an error.
        if upstream.run_id is not None:
            self._demoted.get(upstream.key.node, set()).discard(upstream.run_id)

    def _retire(self, upstream: UpstreamConnection) -> None:
        if upstream.run_id is not None:
            self._demoted.setdefault(upstream.key.node, set()).add(upstream.run_id)
        self._found_at[upstream.key.node] = self._loop.time()
        self._topology.doubt()
        self._restarts.retired(upstream)
        upstream.retire()

    def _suspect(self, upstream: UpstreamConnection) -> None:
        if upstream.retiring:
            return
        if upstream.apart:
            upstream.abort()  # whoever needs it opens another one
        elif not upstream.shared:
            self._suspects.add(upstream)
            if self._connections.pools.of(upstream.key).take(upstream):
                self._give_back(upstream)
        elif not upstream.pipeline.read_only:
            upstream.pipeline.suspect_role()
            self._connections.start(self._check(upstream))

    # Before it joins the others

    def is_in_doubt(self, upstream: UpstreamConnection) -> bool:
        """Whether a connection that was in use needs ``admit`` before it joins the others of its node."""
        return upstream.pipeline.read_only or upstream in self._suspects

    async def admit(self, upstream: UpstreamConnection, *, new: bool = False) -> None:
        """Let a connection that nobody uses join the others of its node. If it leads to a replica, and others lead to a
        primary, it is retired. On a ``new`` one a probe of Keyrail's own can have met READONLY.

        Raises ConnectionRefusedError then, and ConnectionResetError if it is lost.
        """
        met = new and upstream.pipeline.read_only
        if met:
            upstream.pipeline.trust_role()
        joins = await self._joins(upstream)
        while joins and upstream in self._suspects:  # another replica has been found meanwhile
            joins = await self._joins(upstream)
        if not joins:
            raise ConnectionRefusedError(REPLICA)
        self._joined(upstream)
        if met:
            self.staying.add(upstream.key.node)

    async def _joins(self, upstream: UpstreamConnection) -> bool:
        suspected = self.is_in_doubt(upstream)
        self._suspects.discard(upstream)
        node, own = upstream.key.node, upstream.run_id or upstream
        others = upstream.identified and self._has_others(node, own)
        if not others:
            self._replicas.pop(node, None)  # what processes have said is over once one is alone
        if not (suspected or others):
            return True
        if not await is_replica(upstream):
            self._trust(upstream)
            if self.staying.has(node):
                self._suspect_all(node)
            if others and not self._is_sole_primary(node, own):
                self._replicas[node] = {own: False}  # what the others have said may be over
                self._begin_to_compare(node)
            return True
        if not suspected:
            self._replicas.setdefault(node, {})[own] = True
            await self._compare_anew(node)
        if not self._has_primary(node) and not (suspected and await self._leads_to_primary(node)):
            upstream.pipeline.trust_role()
            return True
        self._retire(upstream)
        return False

    # Several processes

    def another_second(self) -> None:
        """Ask the processes of each node for their roles, where there are several; and where new connections lead if
        all are replicas."""
        for node in self.staying.due():
            self._connections.start(self._look_again(node))
        for gone in {*self._replicas, *self._found_at, *self._demoted}.difference(self._topology.nodes):
            self._replicas.pop(gone, None)
            self._found_at.pop(gone, None)
            self._demoted.pop(gone, None)
        self._forget_who_left()
        asks = self.staying.asks_role()
        for node in self._topology.nodes:
            processes = self._processes(node)
            if len(processes) < 2:
                self._replicas.pop(node, None)
                self._ask_alone(node, asks)
                continue
            known = self._replicas.get(node, {})
            self._replicas[node] = {each: known[each] for each in processes if each in known}
            self._begin_to_compare(node)

    def _forget_who_left(self) -> None:
        if self._demoted:
            used = {each.run_id for each in self._connections.members.values()}
            self._demoted = {node: kept for node, demoted in self._demoted.items() if (kept := demoted & used)}

    def _ask_alone(self, node: Node, asks: bool) -> None:
        home = self._connections.pools.of(self._connections.pools.home_of(node)).shared(Lane.FAST)
        if asks and home is not None and home.vacant() and not (home.pipeline.read_only or self.staying.has(node)):
            self._connections.start(self._ask_role(home))

    def _begin_to_compare(self, node: Node) -> asyncio.Task[None]:
        if node not in self._comparing:
            self._comparing[node] = self._connections.start(self._compare(node))
        return self._comparing[node]

    async def _compare_anew(self, node: Node) -> None:
        # Thousands of connections can open at once: one comparison that begins now is enough for all of them.
        if node in self._comparing:
            await asyncio.wait([self._comparing[node]])
        await asyncio.wait([self._begin_to_compare(node)])

    async def _compare(self, node: Node) -> None:
        try:
            await self._ask(node, self._processes(node))
        finally:
            self._comparing.pop(node, None)
        if self._has_primary(node):
            for process, members in self._processes(node).items():
                if self._replicas[node].get(process, True):
                    for each in members:
                        self._suspect(each)

    def _processes(self, node: Node) -> dict[Process, Sequence[UpstreamConnection]]:
        found: dict[Process, Sequence[UpstreamConnection]] = {}
        for run_id, members in self._told(node).items():
            usable = [*filter(_usable, members)]
            if run_id is None:
                found |= {each: [each] for each in usable}
            elif usable:
                found[run_id] = usable
        return found

    def _has_others(self, node: Node, own: Process) -> bool:
        # Asked for each connection that opens: it looks at none of those that lead to the same process.
        told = self._told(node).items()
        return any(each is not own for run_id, members in told if run_id != own for each in filter(_usable, members))

    def _told(self, node: Node) -> Mapping[bytes | None, Collection[UpstreamConnection]]:
        of_node = {} if self._topology.router is not None else self._connections.processes.of(node)
        unsettled = self._loop.time() - self._found_at.get(node, float("-inf")) < _UNSETTLED_SECONDS
        return of_node if unsettled or None not in of_node else {each: of_node[each] for each in of_node if each}

    def _is_sole_primary(self, node: Node, own: Process) -> bool:
        known = self._replicas.get(node, {})
        told = self._told(node)
        unsettled = None in told or any(known.get(each) is not (each != own) for each in told if each is not None)
        return not unsettled and known.get(own) is False

    def _has_primary(self, node: Node) -> bool:
        return False in self._replicas.get(node, {}).values()

    def _note(self, node: Node, process: Process, replica: bool | None) -> None:
        known = self._replicas.get(node, {})
        if replica is None:
            known.pop(process, None)
        else:
            known[process] = replica

    async def _ask(self, node: Node, processes: Processes) -> None:
        """Ask these processes, one connection to each that nobody has for itself."""
        asked = {process: next(filter(self._can_ask, members), None) for process, members in processes.items()}
        await asyncio.gather(*(self._ask_one(node, *each) for each in asked.items()))

    def _can_ask(self, upstream: UpstreamConnection) -> bool:
        if upstream.shared or upstream.apart:
            return not upstream.closed
        return upstream in self._connections.pools.of(upstream.key).idle and upstream.is_free()

    async def _ask_one(self, node: Node, process: Process, upstream: UpstreamConnection | None) -> None:
        if upstream is None:
            return
        # Whoever wants an idle one is told when it is back.
        taken = self._connections.pools.of(upstream.key).take(upstream)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                self._note(node, process, await is_replica(upstream))
        except OSError:
            self._note(node, process, None)
        finally:
            if taken:
                self._give_back(upstream)


def _usable(upstream: UpstreamConnection) -> bool:
    # Those that carry messages cannot be asked: subscribers, and tracking connections.
    return not (upstream.retiring or upstream.pipeline.relay)

"""All upstream connections of a route, in pools or used by clients, and how many commands they carried."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.pool.pools import Pools
from proxy.net.pool.server_processes import ServerProcesses
from proxy.net.pool.user_connections import UserConnections
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.pool_key import Node, PoolKey
from proxy.session.session import Session


class ConnectionSet:
    """The connections of one route, and the tasks that work on them. ``closing``: the route ends.

    ``members`` has the connections by pipeline, because sessions know only the pipeline; ``of_users`` has those of
    users whom clients log in as, ``processes`` those of each server process. ``events`` are counters for the metrics.
    """

    def __init__(
        self,
        home: PoolKey,
        place: Callable[[Node], Node],
        loop: asyncio.AbstractEventLoop,
        clients: Collection[Session],
        events: Counter[str],
    ) -> None:
        self.pools = Pools(home, place)
        self.members: dict[UpstreamPipeline, UpstreamConnection] = {}
        self.of_users = UserConnections()
        self.processes = ServerProcesses()
        self.closing = False
        self.events = events
        self._loop = loop
        self._clients = clients
        self._tasks: set[asyncio.Task[None]] = set()
        self._not_private: dict[UpstreamConnection, None] = {}
        self._pooled = 0
        self._pinned = 0
        self._by_node: Counter[Node] = Counter()
        self.added: Callable[[UpstreamConnection], object] = lambda _: None
        """Called with each new connection."""
        self._shares: Callable[[UpstreamConnection], object] = lambda _: None

    def start(self, work: Any) -> asyncio.Task[None]:
        """Run a coroutine until it ends or the route closes."""
        task: asyncio.Task[None] = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def on_share(self, act: Callable[[UpstreamConnection], object]) -> None:
        """Call ``act`` with each connection that clients share from now on."""
        self._shares = act

    def add(self, upstream: UpstreamConnection) -> None:
        """A connection has been opened."""
        self.members[upstream.pipeline] = upstream
        self.added(upstream)
        self.of_users.add(upstream)
        upstream.followed = self._follow
        self._follow(upstream)

    def remove(self, upstream: UpstreamConnection) -> None:
        """A connection is lost; its commands still count."""
        self.members.pop(upstream.pipeline, None)
        self.of_users.remove(upstream)
        self.processes.remove(upstream)
        upstream.followed = None
        self._not_private.pop(upstream, None)
        self.account(upstream)

    def _follow(self, upstream: UpstreamConnection) -> None:
        if upstream.shared or upstream.apart:
            self._not_private[upstream] = None
            if upstream.shared:
                self._shares(upstream)
        else:
            self._not_private.pop(upstream, None)

    def close(self) -> None:
        """Close all of them now."""
        self.closing = True
        for task in self._tasks:
            task.cancel()
        for upstream in list(self.members.values()):
            upstream.abort()

    def shared_in_use(self) -> list[UpstreamPipeline]:
        """The connections of several clients on which replies are pending."""
        return [each.pipeline for each in self._not_private if each.shared and each.pipeline.head is not None]

    def apart(self, node: Node) -> list[UpstreamConnection]:
        """The connections to this node that no client uses."""
        return [each for each in self._not_private if each.apart and each.key.node is node]

    def take_spare(self, key: PoolKey, *, anywhere: bool = False) -> UpstreamConnection | None:
        """Take a connection without pending replies out of this pool; clients that shared it get another one.

        ``anywhere``: of any pool of the same login.
        """
        upstream = self.pools.take_spare(key, anywhere=anywhere)
        if upstream is None:
            return None
        self.account(upstream)
        if not upstream.shared:
            return upstream  # no client refers to an idle one
        upstream.shared = False
        upstream.pipeline.usable = True  # also where nobody was to use it until it was free
        for client in self._clients:  # no reply is pending on it, so they only drop it
            nodes = client.sender.nodes
            if nodes is not None and upstream.pipeline in nodes:
                nodes[nodes.index(upstream.pipeline)] = None
            reads = client.sender.reads
            if reads is not None and reads.primary is upstream.pipeline:
                reads.primary = None
            if client.sender.upstream is upstream.pipeline:
                client.sender.upstream, client.intake.direct = None, False
        return upstream

    def leave_late(self, node: Node) -> None:
        """Clients of a cluster that await nothing take another connection than this node's for what any node can do."""
        for client in self._clients:
            upstream = client.sender.upstream
            shared = client.sender.nodes is not None and client.sender.pending_replies == 0
            if shared and isinstance(upstream, PrivatePipeline) and upstream.key.node is node:
                client.sender.upstream = None

    # Figures

    def account(self, upstream: UpstreamConnection) -> None:
        """Count the commands and ownerless pushes of a connection, before it becomes shared or private."""
        pipeline = upstream.pipeline
        if upstream.shared:
            self._pooled += pipeline.commands
        else:
            self._pinned += pipeline.commands
        self._by_node[pipeline.key.node] += pipeline.commands
        pipeline.commands = 0
        if pipeline.strays:
            self.events["ownerless_push"] += pipeline.strays
            pipeline.strays = 0

    def carried(self) -> dict[str, int]:
        """How many commands used shared connections, and how many used private ones."""
        for upstream in self.members.values():
            self.account(upstream)
        return {"pooled": self._pooled, "pinned": self._pinned}

    def carried_by_node(self, nodes: Collection[Node]) -> dict[Node, int]:
        """How many commands each of these nodes got, up to the last call of ``carried``; all others are forgotten."""
        for gone in self._by_node.keys() - set(nodes):
            del self._by_node[gone]
        return {node: self._by_node[node] for node in nodes}

    def connections_by_node(self) -> Counter[Node]:
        """How many connections each node has."""
        return Counter(upstream.key.node for upstream in self.members.values())

    def connection_counts(self) -> dict[str, int]:
        """How many connections are shared, used by one client, or ready for one client."""
        shared = sum(upstream.shared for upstream in self._not_private)
        apart = sum(upstream.apart for upstream in self._not_private)
        idle = self.pools.idle()
        return {"shared": shared, "private": len(self.members) - shared - apart - idle, "idle": idle}

    def private(self) -> int:
        """How many connections are for single clients, including those that are being opened."""
        return self.pools.opening_private() + len(self.members) - len(self._not_private)

"""Reacts when a route's upstream connections are lost or take commands again, and when its nodes change.

When a connection is lost, Keyrail closes the clients that have pending replies or state on it, and no others.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial

from proxy.hotpath.counting.error_counts import ErrorCounts
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.hotpath.upstream.sent_unit import follow
from proxy.net.config.settings import Settings
from proxy.net.connection.failures import Failures
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.downstream.waiting import bring_on
from proxy.net.policy.capabilities import Capabilities
from proxy.net.policy.policies import Policies
from proxy.net.pool.connection_set import ConnectionSet
from proxy.net.pool.databases import Databases
from proxy.net.pool.demotions import Demotions
from proxy.net.pool.opening import Opening
from proxy.net.pool.replicas import Replicas
from proxy.net.pool.restarts import Restarts
from proxy.net.pool.sole_replicas import SoleReplicas
from proxy.net.pool.supply import Supply
from proxy.net.pool.user_logins import UserLogins
from proxy.net.topology.cluster import Cluster
from proxy.net.topology.known_scripts import KnownScripts
from proxy.net.topology.topology import Change, Topology
from proxy.session.cluster.subscription_link import SubscriptionLink
from proxy.session.ports.pool_key import Node, PoolKey
from proxy.session.session import Session


def _nothing() -> None:
    """Nobody has to know."""


_LAST_ANSWERS = 2.0
"""Seconds that a node that has become a replica has for what it was sent before."""


def _close_losers(upstream: UpstreamConnection, unanswered: Sequence[ReplySink]) -> None:
    losers = {sink.client() for sink in unanswered}
    owner = None if upstream.pipeline.owner is None else upstream.pipeline.owner.client()
    if owner is not None and owner not in losers and not owner.let_go():
        losers.add(owner)
    for loser in losers:
        if loser is not None:
            loser.close("upstream_lost")


class Connections:
    """Owns one route's upstream connections: ``all`` existing ones, the ``opening`` of new ones, and the ``supply`` of
    its pools.

    ``give_back`` takes a connection that no client uses. ``doubt`` gets each error reply about an unknown or forbidden
    command.
    """

    def __init__(
        self,
        topology: Topology,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        capabilities: Capabilities,
        policies: Policies,
        clients: Collection[Session],
        events: Counter[str],
        failures: Failures,
        *,
        give_back: Callable[[UpstreamConnection], None],
        doubt: Callable[[UpstreamConnection, bytes], None],
        log_as: str = "",
    ) -> None:
        """Changes of roles are logged as those of the route ``log_as``, if that is not empty."""
        self.topology = topology
        self.settings = settings
        self.loop = loop
        self.output_limit = settings.client_output_limit
        self.errors = ErrorCounts()
        self.redirects = follow if topology.router is not None else None
        self.all = ConnectionSet(
            PoolKey(None, topology.login.database, 2, topology.home), topology.place, loop, clients, events
        )
        self.pools = self.all.pools
        self._server_changed: Callable[[], None] = _nothing
        self._stuck: Callable[[Node, Sequence[UpstreamConnection]], None] = lambda _node, _silent: None
        self.restarts = Restarts(topology, self.all.processes, self._restarted)
        staying = SoleReplicas(topology, loop, self.all.start, self._open_apart, settings, log_as)
        self.demotions = Demotions(topology, loop, self.all, self.restarts, give_back, staying)
        self.known_scripts = None if topology.router is None else KnownScripts()
        self.opening = Opening(topology, settings, loop, self.all, self, self.restarts, self.known_scripts)
        self.supply = Supply(
            topology,
            settings,
            loop,
            self.all,
            self.opening,
            self,
            capabilities,
            policies,
            self.demotions,
            failures,
            give_back,
        )
        self.logins = UserLogins(topology, loop, self.all, capabilities, self.supply.alive, clients)
        self.supply.on_reach(self._reached)
        self.databases = None
        if topology.router is not None:
            self.databases = Databases(topology, self.supply, self.opening, self.all.start)
        self.replicas = None
        if isinstance(topology, Cluster):
            self.replicas = Replicas(topology, loop, lambda: self.opening.tls, self.all.start, self.count)
        self._capabilities = capabilities
        self._doubt = doubt

    async def _open_apart(self, node: Node) -> UpstreamConnection:
        return await self.opening.open_apart(node)

    def _reached(self, node: Node) -> None:
        self.logins.reached(node)
        if self.databases is not None:
            self.databases.forget(node)

    def on_server_change(self, act: Callable[[], None]) -> None:
        """Call ``act`` when another server, or another process of it, takes commands."""
        self._server_changed = act

    def _restarted(self, node: Node) -> None:
        self._capabilities.renew(node)
        self._server_changed()

    def close(self) -> None:
        """Close all of them."""
        self.all.close()
        if self.replicas is not None:
            self.replicas.close()

    def lost(self, upstream: UpstreamConnection) -> None:
        """Close the clients that have pending replies or state on the connection."""
        self.all.remove(upstream)
        pool = self.pools.of(upstream.key)
        shared = pool.forget(upstream)
        upstream.pipeline.abandon(partial(_close_losers, upstream))
        self.logins.lost(upstream)
        if shared:
            self.supply.lost(pool)
        self.supply.supply_all()

    def command_refused(self, upstream: UpstreamConnection, line: bytes) -> None:
        """Redis does not know, or does not allow, a command."""
        self._doubt(upstream, line)

    def on_resume(self, upstream: UpstreamConnection) -> None:
        """A shared connection takes commands again."""
        pool = self.pools.of(upstream.key)
        bring_on(self.loop, pool.take_waiting(upstream.lane))

    def count(self, event: str) -> None:
        """Count an event for the metrics."""
        self.all.events[event] += 1

    # Nodes

    def adopt(self, change: Change) -> None:
        """Nodes have come and gone. What waits in the connections of those that have gone is not sent any more: a
        primary that was deposed while it hung would run it, and it would be lost. One that says itself that it is a
        replica answers what it was sent, and goes on to send messages to subscribers until it leaves the cluster."""
        for node in change.left:
            self.supply.leave(node)
            theirs = [each for each in self.all.members.values() if each.key.node is node]
            if node not in change.demoted:
                for upstream in theirs:
                    upstream.drop()
            self.pools.leave(node, change.heir)
            if node in change.demoted:
                for upstream in theirs:
                    if not isinstance(upstream.pipeline.owner, SubscriptionLink):
                        upstream.retire()
                        self.loop.call_later(_LAST_ANSWERS, upstream.drop)
            self.restarts.leave(node, change.heir)
            if self.known_scripts is not None:
                self.known_scripts.leave(node)
            if self.databases is not None:
                self.databases.forget(node)
            self._capabilities.leave(node)
        for upstream in [each for each in self.all.members.values() if each.key.node in change.gone]:
            upstream.drop()
        for node in change.came:
            self.pools.join(node)
            self.supply.join(node)
        if change.back:
            self.supply.retry_now()
        self._server_changed()

    def stuck(self, node: Node, silent: Sequence[UpstreamConnection]) -> None:
        """These shared connections are silent, while the node answers on another one."""
        self._stuck(node, silent)

    def on_stuck(self, act: Callable[[Node, Sequence[UpstreamConnection]], None]) -> None:
        """Call ``act`` with these."""
        self._stuck = act

    def hesitates(self, node: Node, *, late: bool) -> None:
        """A node's answer to a health check is late, or has come. What any node can do, another one does meanwhile."""
        self.topology.hesitates(node, late=late)
        if late:
            self.pools.look_again(node)
            self.all.leave_late(node)

    # Roles

    def doubted(self, upstream: UpstreamConnection) -> None:
        """An error said READONLY: the server may be a replica now."""
        self.demotions.doubted(upstream)

    def retired(self, upstream: UpstreamConnection) -> None:
        """A connection is about to close: if it was shared, open another one."""
        pool = self.pools.of(upstream.key)
        self.count("retired")
        self._server_changed()
        for apart in self.all.apart(upstream.key.node):
            apart.abort()  # health checks must ask the new server
        if pool.forget(upstream):
            self.supply.ensure(pool, upstream.lane)

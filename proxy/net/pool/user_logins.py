"""Users whom clients log in as, on all nodes: who has to log in again when connections are lost.

Keyrail keeps no passwords, so only a client can open connections of its user. Before one server all of them need those.
With a cluster upstream a client has to log in again only if

    it has used a connection that was the last one of its user to a node, and the node goes on without it
    it needs one to a node that answers, and its user has none there
    a node has come, or is back: clients of a user without a connection there are closed, one after the other, until one
    of them has logged in

All others go on. No command runs as somebody else: each connection stays in the pool of the user who has logged in on
it.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection

from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.policy.capabilities import Capabilities
from proxy.net.pool.connection_set import ConnectionSet
from proxy.net.pool.groups import Groups
from proxy.net.topology.topology import Topology
from proxy.session.ports.client import ServedClient
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.pool_key import UNAUTHENTICATED, Node, PoolKey
from proxy.session.ports.pool_waiter import LOGIN_LOST
from proxy.session.session import Session

_A_MOMENT = 0.05
"""Seconds in which the loss of a node shows, if a connection was lost with it."""
_BETWEEN_LOGINS = 0.1
"""Seconds."""


class UserLogins:
    """Those of one route. ``refused`` has the errors of nodes that refuse a user whose login another node has accepted;
    ``under_way`` counts logins that a node is being asked about. ``alive`` says whether a node answers."""

    def __init__(
        self,
        topology: Topology,
        loop: asyncio.AbstractEventLoop,
        connections: ConnectionSet,
        capabilities: Capabilities,
        alive: Callable[[Node], bool],
        clients: Collection[Session],
    ) -> None:
        self.refused: dict[tuple[Node, str], str] = {}
        self.under_way: Counter[tuple[Node, str]] = Counter()
        self._topology = topology
        self._loop = loop
        self._connections = connections
        self._capabilities = capabilities
        self._alive = alive
        self._clients = clients
        self._by_user: Groups[ServedClient, str] = Groups()

    def entered(self, client: ServedClient) -> None:
        """A client belongs to another pool now, of the same user or of another one."""
        user = client.key.user
        stays = user != UNAUTHENTICATED and not client.gone and client in self._clients
        self._by_user.put(client, user if stays else None)

    def left(self, client: ServedClient) -> None:
        """A client has left."""
        self._by_user.put(client, None)

    def logged_in(self, user: str) -> int:
        """How many clients are logged in as this user."""
        return len(self._by_user.of(user))

    def lost(self, upstream: UpstreamConnection) -> None:
        """A connection is lost: if its user has no other one there, clients have to log in again."""
        user, node = upstream.key.user, upstream.key.node
        if user is None:
            return
        if not self._connections.of_users.any_of(user):
            self._capabilities.rights.forget(user)
        if self._topology.router is not None:
            # Whoever had one for itself is closed already, or has let go.
            theirs = self._by_user.of(user) if upstream.shared else ()
            used = [client for client in theirs if _has_used(client, upstream.pipeline)]
            if used:
                self._loop.call_later(_A_MOMENT, self._close_next, user, node, used)
        elif not self._has(user, node):
            for client in list(self._by_user.of(user)):
                self.left(client)  # or the loss of each connection that only retired would close all of them again
                client.close(LOGIN_LOST)

    def must_log_in(self, key: PoolKey) -> bool:
        """Whether only a login of a client can bring a connection of this pool's user to its node, which answers."""
        user, node = key.user, self._topology.place(key.node)
        if user is None or self._topology.router is None or node not in self._topology.nodes:
            return False
        expected = self.under_way[node, user] > 0 or (node, user) in self.refused
        return not expected and self._alive(node) and not self._has(user, node)

    def lacks(self, key: PoolKey) -> bool:
        """Whether the user has fewer connections to this node than clients, so that logins have been lost there."""
        user, node = key.user, self._topology.place(key.node)
        if user is None or self._topology.router is None or not self._alive(node) or (node, user) in self.refused:
            return False
        return self._connections.of_users.count(user, node) < self.logged_in(user)

    def reached(self, node: Node) -> None:
        """A node has come, or is back."""
        if self._topology.router is None:
            return
        for user, theirs in self._by_user.all().items():
            if not self._has(user, node):
                self._loop.call_later(_BETWEEN_LOGINS, self._close_next, user, node, list(theirs))

    def _has(self, user: str, node: Node) -> bool:
        return self._connections.of_users.count(user, node) > 0

    def _close_next(self, user: str, node: Node, clients: list[ServedClient]) -> None:
        # Until one of them has logged in again, or the node has gone.
        lacking = self.must_log_in(PoolKey(user, 0, 2, node))
        left = [client for client in clients if not client.gone and client.key.user == user]
        if lacking and left:
            left.pop(0).close_when_drained(LOGIN_LOST)
        if left and (lacking or self.under_way[node, user] > 0) and not self._connections.closing:
            self._loop.call_later(_BETWEEN_LOGINS, self._close_next, user, node, left)


def _has_used(client: ServedClient, pipeline: PrivatePipeline) -> bool:
    return client.sender.upstream is pipeline or pipeline in (client.sender.nodes or ())

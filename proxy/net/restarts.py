"""Detects that Redis has restarted, and closes the clients that relied on the memory of the old process.

A pooled client keeps its socket when Redis restarts. Client libraries remember for each socket which scripts they have
loaded, and do not load them again inside MULTI: ioredis would get NOSCRIPT until the application restarts. So Keyrail
closes clients that rely on the memory of the server process when a new process answers.

INFO identifies a process by its ``run_id``. Keyrail reads it on each new connection before the first command of a
client. If it cannot be read, the loss of all connections counts as a restart.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection

from proxy.net.engine import run_id_in
from proxy.net.topology import Topology
from proxy.net.upstream import UpstreamConnection
from proxy.session.pool_key import Login, Node
from proxy.session.pool_waiter import PoolWaiter

_log = logging.getLogger("keyrail.route")


class Restarts:
    """The server processes behind one route, and the clients that rely on their memory.

    ``met`` counts the restarts.
    """

    def __init__(
        self, topology: Topology, connections: Collection[UpstreamConnection], forget: Callable[[Node], object]
    ) -> None:
        """``forget`` is called at a restart: what Keyrail learned about the node's old process may be wrong now."""
        self._topology = topology
        self._forget = forget
        self._connections = connections
        self._clients: set[PoolWaiter] = set()
        self._met: set[Node] = set()
        self._known: defaultdict[Node, set[bytes]] = defaultdict(set)
        self.met = 0
        self._refusals: dict[Login, str] = {}

    @property
    def off(self) -> list[str]:
        """Texts for ``features_off`` if Redis refuses INFO."""
        return [
            f"Keyrail does not know a restarted Redis by its run_id (INFO: {text})"
            for (user, *_), text in self._refusals.items()
            if user is None
        ]

    def processes(self, node: Node) -> set[str]:
        """The run_ids of the processes of this node that clients use, as far as they are known."""
        used = (each for each in self._connections if each.identified and each.key.node is node and not each.retiring)
        return {each.run_id.decode("ascii") for each in used if each.run_id is not None}

    def relies(self, client: PoolWaiter) -> None:
        """This client has sent a command that relies on the memory of the server process."""
        self._clients.add(client)

    def client_closed(self, client: PoolWaiter) -> None:
        """This client has gone."""
        self._clients.discard(client)

    def retired(self, upstream: UpstreamConnection) -> None:
        """Clients leave the process behind this connection. If they come back to it, its memory is another one."""
        if upstream.run_id is not None:
            self._known[upstream.key.node].discard(upstream.run_id)

    def leave(self, node: Node, heir: Node | None) -> None:
        """This node has gone: if it comes back, clients begin on it anew. Those that relied on its process are closed
        when the heir turns out to be another one."""
        self._forget_refusals(node)
        met, known = node in self._met, self._known.pop(node, set())
        self._met.discard(node)
        if heir is not None and met:
            self._met.add(heir)
            self._known[heir] |= known

    async def identify(self, upstream: UpstreamConnection) -> None:
        """Learn the process behind a new connection; close the clients that relied on another process.

        Raises ConnectionResetError.
        """
        login = upstream.key.login
        if not self._others(upstream):
            self._forget_refusals(upstream.key.node)
        if login not in self._refusals:
            frame = await upstream.ask(["INFO", "server"])
            upstream.run_id = run_id_in(frame)
            if upstream.run_id is None and not frame.startswith(b"-BUSY"):
                self._refusals[login] = _reason(frame)
        another = self._is_another(upstream, self._others(upstream))
        upstream.identified = True
        if another:
            self.met += 1
            self._forget(upstream.key.node)
            self._close_clients(upstream.key.node)

    def _forget_refusals(self, node: Node) -> None:
        for refused in [refused for refused in self._refusals if refused[1] is node]:
            del self._refusals[refused]

    def _others(self, upstream: UpstreamConnection) -> list[UpstreamConnection]:
        # Connections to a process of this node that clients have used. One that is being identified may lead elsewhere.
        node = upstream.key.node
        return [
            other
            for other in self._connections
            if other.identified and other is not upstream and other.key.node is node
        ]

    def _is_another(self, upstream: UpstreamConnection, others: Collection[UpstreamConnection]) -> bool:
        node, run_id = upstream.key.node, upstream.run_id
        known = self._known[node]
        another = node in self._met and (not others if run_id is None or not known else run_id not in known)
        self._met.add(node)
        if another:
            # The processes that the remaining clients have used, or will use first.
            known.clear()
            known.update(other.run_id for other in others if other.run_id is not None and not other.retiring)
        if run_id is not None:
            known.add(run_id)
        return another

    def _close_clients(self, node: Node) -> None:
        clients, self._clients = self._clients, set()
        if clients:
            _log.warning(
                "%s: another Redis process answers now; closed %d clients that use scripts, functions or tracking",
                self._topology.address(node),
                len(clients),
            )
        for client in clients:
            client.close("redis_restarted")


def _reason(frame: bytes) -> str:
    return frame[1:].decode("utf-8", "replace").strip() if frame.startswith(b"-") else "it names no run_id"

"""Detects that Redis has restarted, and closes the clients that relied on the memory of the old process.

A pooled client keeps its socket when Redis restarts. Client libraries remember for each socket which scripts they have
loaded, and do not load them again inside MULTI: ioredis would get NOSCRIPT until the application restarts. So Keyrail
closes clients that rely on the memory of the server process when a new process answers.

INFO identifies a process by its ``run_id``. Keyrail reads it on each new connection before the first command of a
client. If it cannot be read, the loss of all connections counts as a restart.
"""

import logging
from collections import defaultdict
from collections.abc import Callable

from proxy.commands.error_texts import IS_BUSY
from proxy.net.connection.engine import run_id_in
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.pool.server_processes import ServerProcesses
from proxy.net.topology.topology import Topology
from proxy.session.ports.pool_key import Login, Node
from proxy.session.ports.pool_waiter import PoolWaiter

_log = logging.getLogger("keyrail.route")


class Restarts:
    """The server processes behind one route, and the clients that rely on their memory.

    ``met`` counts the restarts.
    """

    def __init__(self, topology: Topology, connections: ServerProcesses, forget: Callable[[Node], object]) -> None:
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
        return {each.decode("ascii") for each in self._used(node)}

    def _used(self, node: Node) -> set[bytes]:
        told = ((run_id, members) for run_id, members in self._connections.of(node).items() if run_id is not None)
        return {run_id for run_id, members in told if not all(each.retiring for each in members)}

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
        login, node = upstream.key.login, upstream.key.node
        if not self._connections.of(node):
            self._forget_refusals(node)
        if login not in self._refusals:
            frame = await upstream.ask(["INFO", "server"])
            upstream.run_id = run_id_in(frame)
            if upstream.run_id is None and not IS_BUSY.begin(frame):
                self._refusals[login] = _reason(frame)
        another = self._is_another(upstream)
        upstream.identified = True
        if not upstream.closed:
            self._connections.add(upstream)
        if another:
            self.met += 1
            self._forget(node)
            self._close_clients(node)

    def _forget_refusals(self, node: Node) -> None:
        for refused in [refused for refused in self._refusals if refused[1] is node]:
            del self._refusals[refused]

    def _is_another(self, upstream: UpstreamConnection) -> bool:
        node, run_id = upstream.key.node, upstream.run_id
        others = self._connections.of(node)  # clients have used these; one that is being identified may lead elsewhere
        known = self._known[node]
        another = node in self._met and (not others if run_id is None or not known else run_id not in known)
        self._met.add(node)
        if another:
            # The processes that the remaining clients have used, or will use first.
            known.clear()
            known.update(self._used(node))
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

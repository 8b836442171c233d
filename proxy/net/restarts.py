"""Whether a new connection leads to another server process than the clients know, and who is closed then.

A pooled client keeps its socket when Redis restarts. Client libraries remember for each socket which scripts they have
loaded, and do not load them again inside MULTI: ioredis would get NOSCRIPT until the application restarts. So clients
that count on the memory of the server process are closed when that process is another one.

INFO tells a process by its ``run_id``. It is asked on each new connection before a client's command goes over it. Where
it cannot be read, the loss of all connections counts as a restart.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Collection

from proxy.net.topology import Topology
from proxy.net.upstream import UpstreamConnection
from proxy.session.pool_waiter import PoolWaiter
from proxy.session.ports import Login, Node

_RUN_ID = re.compile(rb"\nrun_id:([0-9a-zA-Z]+)\r\n")

_log = logging.getLogger("keyrail.route")


class Restarts:
    """The server processes behind one route, and the clients that count on their memory.

    ``met`` counts how often there was another process than before.
    """

    def __init__(
        self, topology: Topology, connections: Collection[UpstreamConnection], forget: Callable[[], object]
    ) -> None:
        """``forget`` is called where what was learnt of the process before may not hold for this one."""
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
        """Texts for ``features_off`` where Redis refuses INFO."""
        return [
            f"Keyrail does not know a restarted Redis by its run_id (INFO: {text})"
            for (user, *_), text in self._refusals.items()
            if user is None
        ]

    def relies(self, client: PoolWaiter) -> None:
        """This client has sent a command that counts on the memory of the server process."""
        self._clients.add(client)

    def client_closed(self, client: PoolWaiter) -> None:
        """This client has gone."""
        self._clients.discard(client)

    def retired(self, upstream: UpstreamConnection) -> None:
        """Clients leave the process behind this connection: whoever comes back to it finds another memory."""
        if upstream.run_id is not None:
            self._known[upstream.key.node].discard(upstream.run_id)

    def leave(self, node: Node) -> None:
        """This node has gone: if it comes back, clients begin on it anew."""
        self._met.discard(node)
        self._known.pop(node, None)

    async def identify(self, upstream: UpstreamConnection) -> None:
        """Learn which process a new connection leads to; close the clients that relied on another one.

        Raises ConnectionResetError.
        """
        login = upstream.key.login
        if not self._others(upstream):
            for refused in [refused for refused in self._refusals if refused[1] is upstream.key.node]:
                del self._refusals[refused]
        if login not in self._refusals:
            frame = await upstream.ask(["INFO", "server"])
            found = _RUN_ID.search(frame)
            if found is not None:
                upstream.run_id = found[1]
            elif not frame.startswith(b"-BUSY"):
                self._refusals[login] = _reason(frame)
        another = self._is_another(upstream, self._others(upstream))
        upstream.identified = True
        if another:
            self.met += 1
            self._forget()
            self._close_clients(upstream.key.node)

    def _others(self, upstream: UpstreamConnection) -> list[UpstreamConnection]:
        # Connections to a process of this node that clients have met. One that is being identified may lead to another.
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
            # What the clients that stay have met, or will meet first.
            known.clear()
            known.update(other.run_id for other in others if other.run_id is not None and not other.retiring)
        if run_id is not None:
            known.add(run_id)
        return another

    def _close_clients(self, node: Node) -> None:
        clients, self._clients = self._clients, set()
        if clients:
            _log.warning(
                "%s: another server process than before; closed %d clients that use scripts, functions or tracking",
                self._topology.address(node),
                len(clients),
            )
        for client in clients:
            client.close("redis_restarted")


def _reason(frame: bytes) -> str:
    return frame[1:].decode("utf-8", "replace").strip() if frame.startswith(b"-") else "it names no run_id"

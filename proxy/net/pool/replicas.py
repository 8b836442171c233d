"""Commands for all nodes of a cluster, on its replicas: CONFIG SET, ACL SETUSER, SCRIPT LOAD …

The engines do not replicate what these set, so a failover would lose it. Clients have no connections to replicas;
Keyrail opens one of its own to each when the first such command comes, as the user that it is configured with. The
primaries have answered by then, as the client's own user, so nothing runs here that the client may not run.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, TypeAlias

from proxy.net.config.endpoint import Endpoint
from proxy.net.connection.connect import UpstreamRefusedError, open_upstream
from proxy.net.connection.own_connections import OwnConnections
from proxy.net.connection.tls import FollowedContext
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.topology.cluster import Cluster
from proxy.net.topology.node_guard import NodeGuard
from proxy.session.ports.pool_key import Node, PoolKey, Role

MOST_SECONDS = 2.0
"""How long a replica has for its answer."""
_log = logging.getLogger("keyrail.route")
_UNREACHED = b"-ERR keyrail: a replica cannot be reached\r\n"

Answered: TypeAlias = Callable[[Sequence[tuple[str, bytes]]], None]
"""Gets the name of each replica and its reply."""


class _Replica(NamedTuple):
    """A replica that is asked."""

    alias: str
    node: Node


class Replicas(OwnConnections):
    """The replicas of one cluster. ``tls`` gives the context of connections, ``start`` runs a task, ``count`` counts an
    event for the metrics."""

    def __init__(
        self,
        cluster: Cluster,
        loop: asyncio.AbstractEventLoop,
        tls: Callable[[], FollowedContext | None],
        start: Callable[[Coroutine[Any, Any, None]], object],
        count: Callable[[str], None],
    ) -> None:
        super().__init__(count)
        self._cluster = cluster
        self._guard = NodeGuard(cluster)
        self._loop = loop
        self._tls = tls
        self._start = start
        self._links: dict[Endpoint, UpstreamConnection] = {}
        self._turns: defaultdict[Endpoint, asyncio.Lock] = defaultdict(asyncio.Lock)

    def ask(self, argv: Sequence[bytes], of: Sequence[Node] | None, answered: Answered) -> bool:
        """Send a command to the replicas of these primaries, or to all, but for those that have failed; False if there
        are none."""
        replicas, primaries = dict[Endpoint, _Replica](), {}
        for alias, node, known in self._cluster.known():
            if not known.is_primary and not known.failed and known.endpoint is not None:
                place = self._cluster.reachable(known.endpoint)
                replicas[place], primaries[place] = _Replica(alias, node), self._cluster.member(known.primary_id)
        for gone in self._turns.keys() - replicas.keys():
            self._drop(gone)
            if not self._turns[gone].locked():
                del self._turns[gone]
        asked = {place: replica for place, replica in replicas.items() if of is None or primaries[place] in of}
        if asked:
            self._start(self._ask_all(asked, argv, answered))
        return bool(asked)

    async def _ask_all(self, replicas: dict[Endpoint, _Replica], argv: Sequence[bytes], answered: Answered) -> None:
        frames = await asyncio.gather(*(self._ask(place, replica.node, argv) for place, replica in replicas.items()))
        answered([(replica.alias, frame) for replica, frame in zip(replicas.values(), frames, strict=True)])

    async def _ask(self, endpoint: Endpoint, node: Node, argv: Sequence[bytes]) -> bytes:
        # In the order in which the primaries have answered, all on one connection.
        link = None
        try:
            async with asyncio.timeout(MOST_SECONDS):
                async with self._turns[endpoint]:
                    link = await self._link(endpoint, node)
                    reply = link.ask(argv)
                return await reply
        except (OSError, UpstreamRefusedError):
            pass
        except Exception:  # noqa: BLE001 - whatever it is, the client gets an answer
            _log.exception("a replica could not be asked")
        if link is not None and self._links.get(endpoint) is link:
            self._drop(endpoint)
        return _UNREACHED

    async def _link(self, endpoint: Endpoint, node: Node) -> UpstreamConnection:
        link = self._links.get(endpoint)
        if link is None or link.closed or link.key.node is not node:
            self._drop(endpoint)
            address, key = self._cluster.login.at(endpoint), PoolKey(None, 0, 2, node, Role.REPLICA)
            link = (await open_upstream(address, self._tls(), self, key, self._loop)).upstream
            try:
                await self._guard.check(link, address)
            except BaseException:
                link.abort()
                raise
            self._links[endpoint] = link
        return link

    def _drop(self, endpoint: Endpoint) -> None:
        link = self._links.pop(endpoint, None)
        if link is not None:
            link.abort()

    def close(self) -> None:
        """Close all connections."""
        for endpoint in list(self._links):
            self._drop(endpoint)

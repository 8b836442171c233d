"""Commands for all nodes of a cluster, on its replicas: CONFIG SET, ACL SETUSER, SCRIPT LOAD …

The engines do not replicate what these set, so a failover would lose it. Clients have no connections to replicas;
Keyrail opens one of its own to each when the first such command comes, as the user that it is configured with. The
primaries have answered by then, as the client's own user, so nothing runs here that the client may not run.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from proxy.net.cluster import Cluster
from proxy.net.connect import UpstreamRefusedError, open_upstream
from proxy.net.slot_map import Endpoint
from proxy.net.tls import FollowedContext
from proxy.net.upstream import UpstreamConnection
from proxy.session.pool_key import PoolKey

MOST_SECONDS = 2.0
"""How long a replica has for its answer."""
_UNREACHED = b"-ERR keyrail: a replica cannot be reached\r\n"

Answered: TypeAlias = Callable[[Sequence[tuple[str, bytes]]], None]
"""Gets the name of each replica and its reply."""


class Replicas:
    """The replicas of one cluster. ``tls`` gives the context of connections, ``start`` runs a task."""

    output_limit = 0
    errors = None
    redirects = None

    def __init__(
        self,
        cluster: Cluster,
        loop: asyncio.AbstractEventLoop,
        tls: Callable[[], FollowedContext | None],
        start: Callable[[Coroutine[Any, Any, None]], None],
        count: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._loop = loop
        self._tls = tls
        self._start = start
        self._count = count
        self._links: dict[Endpoint, UpstreamConnection] = {}

    def ask(self, argv: Sequence[bytes], answered: Answered) -> bool:
        """Send a command to all replicas that have not failed; False if there are none."""
        replicas = {
            self._cluster.reachable(known.endpoint): alias
            for alias, _, known in self._cluster.known()
            if not known.is_primary and not known.failed and known.endpoint is not None
        }
        for gone in self._links.keys() - replicas.keys():
            self._drop(gone)
        if replicas:
            self._start(self._ask_all(replicas, argv, answered))
        return bool(replicas)

    async def _ask_all(self, replicas: dict[Endpoint, str], argv: Sequence[bytes], answered: Answered) -> None:
        frames = await asyncio.gather(*(self._ask(endpoint, argv) for endpoint in replicas))
        answered(list(zip(replicas.values(), frames, strict=True)))

    async def _ask(self, endpoint: Endpoint, argv: Sequence[bytes]) -> bytes:
        try:
            async with asyncio.timeout(MOST_SECONDS):
                link = self._links.get(endpoint)
                if link is None or link.closed:
                    address = self._cluster.login.at(endpoint)
                    key = PoolKey(None, 0, 2, self._cluster.home)
                    link = (await open_upstream(address, self._tls(), self, key, self._loop)).upstream
                    self._links[endpoint] = link
                return await link.ask(argv)
        except (OSError, UpstreamRefusedError):
            self._drop(endpoint)
            return _UNREACHED

    def _drop(self, endpoint: Endpoint) -> None:
        link = self._links.pop(endpoint, None)
        if link is not None:
            link.abort()

    def close(self) -> None:
        """Close all connections."""
        for endpoint in list(self._links):
            self._drop(endpoint)

    # What its connections report

    def lost(self, upstream: UpstreamConnection) -> None:
        """A replica may have ended: the next command finds out."""
        upstream.pipeline.abandon()

    def on_resume(self, upstream: UpstreamConnection) -> None:
        """None of them is shared."""

    def doubted(self, upstream: UpstreamConnection) -> None:
        """All of them are to replicas."""

    def command_refused(self, upstream: UpstreamConnection, line: bytes) -> None:
        """The client is told."""

    def retired(self, upstream: UpstreamConnection) -> None:
        """None of them is retired."""

    def count(self, event: str) -> None:
        """Count an event for the metrics."""
        self._count(event)

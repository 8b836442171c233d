"""Opens connections to the nodes of a route: the guard of the topology, login, database, server process, scripts.

Some of them no client and no pool gets (``apart``); pools get the others from ``supply.py``.
"""

import asyncio
import contextlib
import logging
from collections import Counter

from proxy.net.config.settings import Settings
from proxy.net.connection.connect import Opened, UpstreamRefusedError, open_upstream, open_without_login, set_to
from proxy.net.connection.engine import is_replica
from proxy.net.connection.tls import FollowedContext, upstream_context
from proxy.net.connection.upstream import Keeper, UpstreamConnection
from proxy.net.pool.connection_set import ConnectionSet
from proxy.net.pool.restarts import Restarts
from proxy.net.topology.guards import guard_of
from proxy.net.topology.known_scripts import KnownScripts
from proxy.net.topology.roles import REPLICA
from proxy.net.topology.topology import Topology
from proxy.session.ports.pool_key import Node, PoolKey

_log = logging.getLogger("keyrail.route")


class Opening:
    """How one route's ``keeper`` gets new connections.

    ``busy`` counts, by pool, the connections that wait with SELECT until Redis has finished a script. ``tls`` is that
    of the upstream, if it has any.
    """

    def __init__(
        self,
        topology: Topology,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        connections: ConnectionSet,
        keeper: Keeper,
        restarts: Restarts,
        known_scripts: KnownScripts | None,
    ) -> None:
        self.busy: Counter[PoolKey] = Counter()
        self.tls: FollowedContext | None = None
        self._topology = topology
        self._settings = settings
        self._loop = loop
        self._connections = connections
        self._pools = connections.pools
        self._keeper = keeper
        self._restarts = restarts
        self._known_scripts = known_scripts
        self._guard = guard_of(topology)

    def begin(self) -> None:
        """Read the files of the upstream's TLS. Raises TlsError."""
        tls = self._topology.login.tls
        if tls is not None:
            self.tls = upstream_context(tls, _log.warning)

    async def connect(self, key: PoolKey, keeper: Keeper | None = None) -> Opened:
        """Open a connection of the route's own login for this pool, and for the route's keeper unless it is another.

        Raises OSError if the node cannot be reached, and UpstreamRefusedError if it refuses the connection.
        """
        seconds = self._settings.connect_timeout
        key = self._pools.placed(key)
        if key.node not in self._topology.nodes:
            raise ConnectionRefusedError(f"{self._topology.login}: no node is known")
        address = self._topology.address(key.node)
        confirmed = self._guard is None or await self._guard.confirms(address, seconds)
        opening = open_upstream(address, self.tls, keeper or self._keeper, key, self._loop)
        async with asyncio.timeout(seconds):
            opened = await opening
        self._admit(opened.upstream)
        try:
            if self._guard is not None and not confirmed:
                async with asyncio.timeout(seconds):
                    await self._guard.check(opened.upstream, address)
            await set_to(opened.upstream, key, seconds, self.busy)
            if not opened.unauthenticated:
                async with asyncio.timeout(seconds):
                    await self.identify(opened.upstream)
                if self._known_scripts is not None:
                    async with asyncio.timeout(seconds):
                        await self._known_scripts.load_on(opened.upstream)
        except BaseException:
            opened.upstream.abort()
            raise
        return opened

    def _admit(self, upstream: UpstreamConnection) -> None:
        # Whoever closes the connections to a node that goes does not know of one that is still being opened.
        if upstream.key.node not in self._topology.nodes:
            upstream.abort()
            raise ConnectionRefusedError("another server has taken its place")
        self._connections.add(upstream)

    async def identify(self, upstream: UpstreamConnection) -> None:
        """Learn which process is behind a new connection, and that it is no replica where Sentinels name the primary.

        No client's command goes to a server that they have replaced, or have not promoted yet. Raises OSError.
        """
        if self._topology.login.sentinels is not None and await is_replica(upstream):
            raise ConnectionRefusedError(REPLICA)
        await self._restarts.identify(upstream)

    async def open_tracking(self, database: int, node: Node, keeper: Keeper) -> UpstreamConnection:
        """Open a connection of the route's own login to this node, in RESP3, for this keeper.

        Raises OSError if Redis cannot be reached, and UpstreamRefusedError if it refuses the connection.
        """
        key = self._pools.home_of(node)._replace(database=database, protocol=3)
        opened = await self.connect(key, keeper)
        opened.upstream.apart = True
        return opened.upstream

    async def open_apart(self, node: Node) -> UpstreamConnection:
        """Open a connection of the route's own login that no client and no pool gets.

        Raises OSError if the node cannot be reached, and UpstreamRefusedError if it refuses the connection.
        """
        upstream = (await self.connect(self._pools.home_of(node))).upstream
        upstream.apart = True
        return upstream

    async def open_for_login(self, node: Node | None = None) -> UpstreamConnection:
        """Open a connection without a login, to this node or to any. Raises OSError."""
        home = self._pools.placed(self._pools.home) if node is None else self._pools.home_of(node)
        if home.node not in self._topology.nodes:
            raise ConnectionRefusedError(f"{self._topology.login}: no node is known")
        address, seconds = self._topology.address(home.node), self._settings.connect_timeout
        if self._guard is not None and not await self._guard.confirms(address, seconds, provable=False):
            raise self._guard.refusal(address)
        if self._topology.router is not None and not self._pools.alive(self._pools.home_of(home.node)):
            # No password of a client goes to a server that the route's own login has not found to be the node.
            with contextlib.suppress(UpstreamRefusedError):
                (await self.open_apart(home.node)).abort()
        opening = open_without_login(address, self.tls, self._keeper, home._replace(protocol=2), self._loop)
        async with asyncio.timeout(seconds):
            upstream = await opening
        upstream.apart = True
        self._admit(upstream)
        return upstream

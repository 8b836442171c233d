"""Nodes whose server is a replica although no primary has its address: their connections stay.

Reads still work there, and Redis answers writes with READONLY itself. A new connection tells where the address leads:
``leads_to_primary``. It is asked each second at first, then each ten seconds: perhaps the address leads to a replica on
purpose. Behind Sentinels and in a cluster others tell which server is the primary.

A server that nobody writes to is asked for its role every few seconds, by HELLO, which is refused to hardly any user.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from proxy.net.config.settings import Settings
from proxy.net.connection.connect import UpstreamRefusedError
from proxy.net.connection.engine import is_replica, says_replica
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.topology.roles import REPLICA
from proxy.net.topology.topology import Topology
from proxy.session.ports.pool_key import Node

_OFTEN_SECONDS = 60
_RARELY = 10
_ROLE_EVERY = 5
"""Ticks, which are a second apart."""
_ANSWER_SECONDS = 0.5

_log = logging.getLogger("keyrail.route")


class SoleReplicas:
    """Of one route. ``open_apart`` opens a connection that no client gets; that and its answer may take as long as the
    ``settings`` give a connection. Changes are logged as those of the route ``log_as``, if that is not empty."""

    def __init__(
        self,
        topology: Topology,
        loop: asyncio.AbstractEventLoop,
        start: Callable[[Any], object],
        open_apart: Callable[[Node], Awaitable[UpstreamConnection]],
        settings: Settings,
        log_as: str,
    ) -> None:
        self._log_as = log_as
        self._topology = topology
        self._loop = loop
        self._start = start
        self._open_apart = open_apart
        self._settings = settings
        self._ticks: dict[Node, int] = {}
        self._scouts: dict[Node, asyncio.Future[bool]] = {}
        self._until_role = 0

    @property
    def reason(self) -> str:
        """Which servers are replicas; empty if none is."""
        return "; ".join(f"{self._topology.address(node)}: {REPLICA}" for node in self._ticks)

    def has(self, node: Node) -> bool:
        """Whether it is known to lead to replicas alone."""
        return node in self._ticks

    def add(self, node: Node) -> None:
        """Its server is a replica, and so is the one that new connections lead to."""
        if node not in self._ticks and node in self._topology.nodes:
            self._ticks[node] = 0
            if self._log_as:
                _log.warning(
                    "route %s: %s: %s: reads go on, and Redis refuses writes (READONLY)",
                    self._log_as,
                    self._topology.address(node),
                    REPLICA,
                )

    def discard(self, node: Node) -> bool:
        """A connection leads to a primary. Whether none did before."""
        if self._ticks.pop(node, None) is None:
            return False
        if self._log_as and node in self._topology.nodes:
            _log.info("route %s: %s: it is a primary", self._log_as, self._topology.address(node))
        return True

    def due(self) -> list[Node]:
        """The nodes of which a new connection is to be asked now. Called each second."""
        for gone in self._ticks.keys() - {*self._topology.nodes}:
            del self._ticks[gone]
        for node in self._ticks:
            self._ticks[node] += 1
        return [node for node, ticks in self._ticks.items() if ticks < _OFTEN_SECONDS or ticks % _RARELY == 0]

    async def leads_to_primary(self, node: Node) -> bool:
        """Whether another connection than that to a replica is to be had: a new one leads to a primary, or others
        tell, or nobody can be asked since only clients can log in."""
        self._topology.doubt()
        if self._topology.router is not None or self._topology.login.sentinels is not None:
            return True
        scout = self._scouts.get(node)
        if scout is None:
            scout = self._scouts[node] = self._loop.create_future()
            self._start(self._scout(node, scout))
        return await asyncio.shield(scout)

    async def _scout(self, node: Node, told: "asyncio.Future[bool]") -> None:
        primary = False  # if it cannot be told, reads go on, and it is tried again
        try:
            with contextlib.suppress(OSError, UpstreamRefusedError):
                async with asyncio.timeout(self._settings.connect_timeout):
                    primary = await self._is_primary(await self._open_apart(node))
        finally:
            del self._scouts[node]
            told.set_result(primary)

    async def _is_primary(self, fresh: UpstreamConnection) -> bool:
        try:
            return fresh.unauthenticated or not await is_replica(fresh)
        finally:
            fresh.abort()

    def asks_role(self) -> bool:
        """Whether servers without a known problem are to be asked for their role now. Called each second."""
        self._until_role = (self._until_role or _ROLE_EVERY) - 1
        return not self._until_role and self._topology.router is None and self._topology.login.sentinels is None

    async def has_become_replica(self, upstream: UpstreamConnection) -> bool:
        """Whether the server behind this connection says that it is a replica."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return says_replica(await upstream.ask(["HELLO"]))
        except OSError:
            return False

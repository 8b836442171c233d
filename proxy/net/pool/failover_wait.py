"""How long commands wait for a server that takes the place of a lost one (``--failover-wait``).

Sentinels may take long to promote one, so each command waits so long. Behind a name there may be one server alone: the
time begins when that is lost. Nobody waits where no other server can take the place, or for one that is there and
refuses connections.
"""

import asyncio
from contextlib import suppress

from proxy.net.config.settings import Settings
from proxy.net.topology.topology import Topology


class FailoverWait:
    """Of one route. ``lost_at`` is since when no node has a connection; None while one has."""

    def __init__(self, topology: Topology, settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
        self.lost_at: float | None = None
        self._seconds = settings.failover_wait if topology.fails_over else 0.0
        self._has_sentinels = topology.login.sentinels is not None
        self._loop = loop
        self._there = asyncio.Event()

    def lost(self) -> None:
        """No node has a connection."""
        if self.lost_at is None:
            self.lost_at = self._loop.time()
        self._there.clear()

    def refused(self) -> None:
        """A server is there, and refuses connections."""
        self._there.set()

    def reached(self) -> None:
        """A node has a connection."""
        self.lost_at = None
        self._there.set()

    def until(self) -> float:
        """The time up to which a command waits that comes now."""
        now = self._loop.time()
        return (now if self._has_sentinels or self.lost_at is None else self.lost_at) + self._seconds

    def waits(self) -> bool:
        """Whether commands that came when the last connection was lost still wait."""
        return self.lost_at is not None and self._loop.time() < self.lost_at + self._seconds

    async def await_server(self, until: float) -> None:
        """Wait until a server is there, or this time has come."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._there.wait()

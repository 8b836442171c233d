"""A worker's shares of the rate limits that it has in common with others: it asks the supervisor for them."""

import asyncio
import time
from collections.abc import Callable, Sequence

from proxy.net.connection.periodic import Periodic
from proxy.net.route.route import Route
from proxy.server.control import ShareLimits
from proxy.server.leases import LEASE_SECONDS, LOST_SECONDS, Leases
from proxy.server.requests import Channel, RequestError, outcome


class WorkerLeases:
    """The shares of these ``routes``; ``count`` counts an event."""

    def __init__(self, channel: Channel, routes: Sequence[Route], count: Callable[[str], None]) -> None:
        self._channel = channel
        self._routes = routes
        self._leased = 0.0
        self._wanted = False
        self._demanded = time.monotonic()
        self._periodic = Periodic(asyncio.get_running_loop(), LEASE_SECONDS, {"sharing limits": self._ask}, count)

    def begin(self) -> None:
        """Ask periodically."""
        self._periodic.begin()

    def end(self) -> None:
        """Ask no more."""
        self._periodic.end()

    def _ask(self) -> None:
        now = time.monotonic()
        before, self._demanded = self._demanded, now
        wanted = tuple(route.rule_state.demand(now - before) for route in self._routes)
        if now - self._leased > LOST_SECONDS:
            for route in self._routes:
                route.rule_state.lease({})
        if any(wanted) or self._wanted:
            self._channel.request(ShareLimits(wanted)).add_done_callback(self._lease)
        self._wanted = any(wanted)

    def _lease(self, shares: "asyncio.Future[tuple[Leases, ...]]") -> None:
        routes = outcome(shares)
        if isinstance(routes, RequestError):
            return
        self._leased = time.monotonic()
        for route, leases in zip(self._routes, routes, strict=True):
            route.rule_state.lease(leases)

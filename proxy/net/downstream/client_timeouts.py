"""Clients that are looked at every now and then: those that wait, that have been idle for long, or that have left."""

import asyncio
from collections.abc import Callable, Collection

from proxy.net.config.settings import Settings
from proxy.net.downstream.idle_clients import IdleClients, LeftClients
from proxy.net.downstream.reply_timeout import ReplyTimeout
from proxy.net.downstream.waiting import WaitingClients
from proxy.session.session import Session


class ClientTimeouts:
    """Those of the clients of one route in one worker. ``silent`` says whether Redis does not answer; ``count`` counts
    an event. Each of the ``steps`` is taken once a second, and has a name that logs show."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clients: Collection[Session],
        settings: Settings,
        silent: Callable[[], bool],
        count: Callable[[str], object],
    ) -> None:
        idle = IdleClients(loop, clients, settings.client_idle_timeout, count)
        left = LeftClients(loop, clients, silent, count)
        self._waits = (
            WaitingClients(loop, clients, count),
            ReplyTimeout(loop, clients, settings.upstream_timeout, count),
        )
        self._all = *self._waits, idle, left
        self.steps = {
            "closing idle clients": idle.another_second,
            "closing clients that left": left.another_second,
        }

    def begin(self) -> None:
        """Begin to look at clients that wait."""
        for each in self._waits:
            each.begin()

    def end(self) -> None:
        """Look at no client any more."""
        for each in self._all:
            each.end()

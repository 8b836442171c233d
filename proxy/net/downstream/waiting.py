"""Clients whose next command waits: how many of them go on at once, and that none is forgotten.

To bring a client on is never wrong: its command is examined again (``session.progress``).
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial

from proxy.net.connection.periodic import Periodic
from proxy.net.downstream.rounds import PORTION, Rounds
from proxy.session.ports.pool_waiter import Waiter
from proxy.session.session import Session

LOOK_SECONDS = 5.0
"""How often clients that wait are looked at. It goes through all clients of a route, so not more often."""


def bring_on(loop: asyncio.AbstractEventLoop, waiters: Iterable[Waiter]) -> None:
    """What these clients wait for has come: they go on, a portion in each turn of the event loop, the first now."""
    _bring_on(loop, iter(waiters))


def _bring_on(loop: asyncio.AbstractEventLoop, waiters: Iterator[Waiter]) -> None:
    more = True
    try:
        for _ in range(PORTION):
            waiter = next(waiters, None)
            if waiter is None:
                more = False
                break
            if not waiter.gone:
                waiter.arrived()
    finally:
        if more:  # also where one of them failed
            loop.call_soon(partial(_bring_on, loop, waiters))


class WaitingClients:
    """Those of one route in one worker. Whoever changes something tells those who wait for it; should that be lost,
    they go on all the same a moment later. Clients in the queue of a pool are left out: they have a time limit, and
    would stand at its end."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clients: Collection[Session], count: Callable[[str], object]
    ) -> None:
        self._rounds = Rounds(loop, clients, "looking at clients that wait", _look, count)
        self._turns = Periodic(loop, LOOK_SECONDS, {"looking at clients that wait": self._rounds.begin}, count)

    def begin(self) -> None:
        """Begin to look."""
        self._turns.begin()

    def end(self) -> None:
        """End it."""
        self._turns.end()
        self._rounds.end()


def _look(client: Session) -> None:
    if client.awaited is not None and client.upstream_wait is None:
        client.arrived()

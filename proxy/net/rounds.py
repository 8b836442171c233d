"""Goes through all clients of a route, a portion in each turn of the event loop: what is done about thousands of
clients holds up none of them."""

import asyncio
from collections.abc import Callable, Collection, Iterator
from itertools import islice

from proxy.session.session import Session

PORTION = 256
"""Clients visited in one turn. That takes less than a millisecond, about as long as the commands of as many clients."""


def _nothing() -> None:
    pass


class Rounds:
    """``visit`` is called for each client that is there when its turn comes, then ``ended``."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clients: Collection[Session],
        visit: Callable[[Session], object],
        ended: Callable[[], None] = _nothing,
    ) -> None:
        self._loop = loop
        self._clients = clients
        self._visit = visit
        self._ended = ended
        self._left: Iterator[Session] = iter(())
        self._next: asyncio.Handle | None = None

    @property
    def under_way(self) -> bool:
        """Whether a round has begun and not ended."""
        return self._next is not None

    def begin(self) -> None:
        """Visit the first portion now, each further one in a turn of its own. A round that is under way goes on."""
        if self._next is None:
            self._left = iter(list(self._clients))
            self._go_on()

    def end(self) -> None:
        """Visit nobody any more."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _go_on(self) -> None:
        portion = list(islice(self._left, PORTION))
        # Before the visits: after an error in one, the round goes on.
        self._next = self._loop.call_soon(self._go_on) if len(portion) == PORTION else None
        for client in portion:
            if client in self._clients:
                self._visit(client)
        if self._next is None:
            self._ended()

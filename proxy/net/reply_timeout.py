"""Bounds the time that a client waits for a reply (``--upstream-timeout``): then it gets an error, and is closed.

Closed, since the reply may still come, and the command may have run: nothing is sent again, and no later reply is taken
for this one. Not bounded is who asked to wait: commands that block, subscriptions, MONITOR; and a client that does not
read what it is sent. Nothing is noted while a command passes: each turn compares what a client has been answered.
"""

import asyncio
from collections.abc import Callable, Collection

from proxy.net.backlog import Wait, wait_of, waits
from proxy.net.periodic import Periodic
from proxy.session.session import Session

_TURNS = 4
"""Looks at each client in the time that a reply may take; so it is over within 1.25 of it."""


class ReplyTimeout:
    """Watches over the clients of one route in one worker. A reply may take ``seconds``; 0 is for ever."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clients: Collection[Session],
        seconds: float,
        count: Callable[[str], object],
    ) -> None:
        self._loop = loop
        self._clients = clients
        self._seconds = seconds
        self._turned = loop.time()
        self._waits: dict[Session, Wait] = {}
        self._error = f"-ERR upstream timeout: no reply from Redis for {seconds:g} s (--upstream-timeout)\r\n".encode()
        self._turns = Periodic(loop, seconds / _TURNS, {"closing clients that wait": self._turn}, count)

    def begin(self) -> None:
        """Begin to watch."""
        if self._seconds > 0:
            self._turns.begin()

    def end(self) -> None:
        """End it."""
        self._turns.end()

    def _turn(self) -> None:
        now = self._loop.time()
        # While this process stood still it read no replies.
        pause = max(0.0, now - self._turned - 2 * self._seconds / _TURNS)
        self._turned = now
        before, self._waits = self._waits, {}
        for client in list(self._clients):
            if not waits(client):
                continue
            known = before.get(client)
            wait = wait_of(client, known, now)
            if wait is known:
                wait = wait._replace(since=wait.since + pause)
            if now - wait.since < self._seconds:
                self._waits[client] = wait
                continue
            if _between_frames(client):
                client.sender.out.append(self._error)
            client.close("upstream_timeout")


def _between_frames(client: Session) -> bool:
    """Whether no part of a reply has come: an error in its middle would be taken for data."""
    upstream = client.sender.upstream
    return upstream is None or upstream.between_frames()

"""Limits the time that a client waits for a reply (``--upstream-timeout``): it gets an error, and is closed.

Keyrail closes the client because the reply may still come, and the command may have run. It sends nothing again. There
is no limit for clients that asked to wait (blocking commands, subscriptions, MONITOR), and for clients that do not read
their replies. The hot path records nothing for this: each turn compares how many replies a client has received.
"""

import asyncio
from collections.abc import Callable, Collection

from proxy.net.connection.periodic import Periodic
from proxy.net.downstream.backlog import Wait, wait_of, waits
from proxy.net.downstream.rounds import Rounds
from proxy.session.session import Session

_TURNS = 4
"""Checks of each client in the time that a reply may take. A client is closed after at most 1.25 of that time."""


class ReplyTimeout:
    """Checks the clients of one route in one worker. A reply may take ``seconds``; 0 means no limit."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clients: Collection[Session],
        seconds: float,
        count: Callable[[str], object],
    ) -> None:
        self._loop = loop
        self._rounds = Rounds(loop, clients, "closing clients that wait", self._visit, count, self._forget)
        self._seconds = seconds
        self._turned = loop.time()
        self._pause = 0.0
        self._before: dict[Session, Wait] = {}
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
        self._rounds.end()

    def _turn(self) -> None:
        if self._rounds.under_way:
            return
        now = self._loop.time()
        # While this process was paused it read no replies.
        self._pause = max(0.0, now - self._turned - 2 * self._seconds / _TURNS)
        self._turned = now
        self._before, self._waits = self._waits, {}
        self._rounds.begin()

    def _forget(self) -> None:
        self._before = {}

    def _visit(self, client: Session) -> None:
        if not waits(client):
            return
        known = self._before.get(client)
        wait = wait_of(client, known, self._loop.time())
        if wait is known:
            wait = wait._replace(since=wait.since + self._pause)
        if self._turned - wait.since < self._seconds:
            self._waits[client] = wait
            return
        if _between_frames(client):
            client.sender.out.append(self._error)
        client.close("upstream_timeout")


def _between_frames(client: Session) -> bool:
    """Whether no part of a reply has come. The client would read an error inside a reply as data."""
    upstream = client.sender.upstream
    return upstream is None or upstream.between_frames()

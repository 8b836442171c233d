"""Closes clients that have sent no command for long, as Redis does with ``timeout`` (clientsCronHandleTimeout), and
those that have half-closed their connection, while Redis does not answer.

As in Redis, clients that block, subscribe or monitor stay connected, and so do clients with a pending reply or an
unfinished command. The hot path records nothing for this: each turn compares how many commands a client has sent.
"""

import asyncio
from collections.abc import Callable, Collection

from proxy.hotpath.intake.intake import FINISHED, WAITING
from proxy.net.downstream.rounds import Rounds
from proxy.session.session import Session

_TURNS = 10
"""Checks of each client in the time that it may be idle."""


class LeftClients:
    """Closes clients that have half-closed their connection, while Redis is ``silent``.

    They would keep their sockets until Redis answers, and clients that try again would add more. While Redis answers, a
    half-closed client gets its replies.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clients: Collection[Session],
        silent: Callable[[], bool],
        count: Callable[[str], object],
    ) -> None:
        self._rounds = Rounds(loop, clients, "closing clients that left", self._visit, count)
        self._silent = silent

    def another_second(self) -> None:
        """Close those of this second."""
        if self._silent():
            self._rounds.begin()

    def end(self) -> None:
        """Look at no client any more."""
        self._rounds.end()

    def _visit(self, client: Session) -> None:
        if client.leaving and client.intake.phase != FINISHED and self._silent():
            client.close("upstream_silent")


def rests(client: Session) -> bool:
    """Whether the client waits for nothing, and nothing of it is on its way."""
    sender, intake, state = client.sender, client.intake, client.state
    waits = sender.pending_replies > 0 or sender.stalled or sender.full
    comes = intake.phase == WAITING or intake.pending is not None or intake.unfinished is not None
    subscribed = state.subscriptions is not None or client.subscriber is not None
    listens = subscribed or (state.upstream is not None and state.upstream.relay)
    return not waits and not comes and not listens


class IdleClients:
    """Checks the clients of one route in one worker. They may be idle for ``seconds``; 0 means no limit."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clients: Collection[Session],
        seconds: float,
        count: Callable[[str], object],
    ) -> None:
        self._loop = loop
        self._rounds = Rounds(loop, clients, "closing idle clients", self._visit, count, self._forget)
        self._seconds = seconds
        self._next = self._now = 0.0
        self._before: dict[Session, tuple[int, float]] = {}
        self._seen: dict[Session, tuple[int, float]] = {}

    def another_second(self) -> None:
        """Close clients that have been idle for too long."""
        now = self._loop.time()
        if self._seconds <= 0 or now < self._next or self._rounds.under_way:
            return
        self._next, self._now = now + self._seconds / _TURNS, now
        self._before, self._seen = self._seen, {}
        self._rounds.begin()

    def end(self) -> None:
        """Look at no client any more."""
        self._rounds.end()

    def _forget(self) -> None:
        self._before = {}

    def _visit(self, client: Session) -> None:
        sent = client.sender.forwarded + client.sender.remembered + client.local
        former, since = self._before.get(client, (sent, self._now))
        if former != sent or not rests(client):
            since = self._now
        if self._now - since >= self._seconds:
            client.close("idle")
        else:
            self._seen[client] = sent, since

"""Closes clients that have sent no command for long, as Redis does with ``timeout`` (clientsCronHandleTimeout).

As in Redis, clients that block, subscribe or monitor stay connected, and so do clients with a pending reply or an
unfinished command. The hot path records nothing for this: each turn compares how many commands a client has sent.
"""

from collections.abc import Callable, Collection

from proxy.hotpath.intake import FINISHED, WAITING
from proxy.session.session import Session

_TURNS = 10
"""Checks of each client in the time that it may be idle."""


def close_who_left(clients: Collection[Session], silent_since: float | None) -> None:
    """Close clients that have half-closed their connection, while Redis does not answer.

    They would keep their sockets until Redis answers, and clients that try again would add more. While Redis answers, a
    half-closed client gets its replies.
    """
    if silent_since is not None:
        for client in [client for client in clients if client.link.leaving and client.intake.phase != FINISHED]:
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

    def __init__(self, clients: Collection[Session], seconds: float, clock: Callable[[], float]) -> None:
        self._clients = clients
        self._seconds = seconds
        self._clock = clock
        self._next = 0.0
        self._seen: dict[Session, tuple[int, float]] = {}

    def another_second(self) -> None:
        """Close clients that have been idle for too long."""
        now = self._clock()
        if self._seconds <= 0 or now < self._next:
            return
        self._next = now + self._seconds / _TURNS
        before, self._seen = self._seen, {}
        for client in list(self._clients):
            sent = client.sender.forwarded + client.sender.remembered + client.local
            former, since = before.get(client, (sent, now))
            if former != sent or not rests(client):
                since = now
            if now - since >= self._seconds:
                client.close("idle")
            else:
                self._seen[client] = sent, since

"""How much waits: commands in flight, commands that wait in Keyrail, and the age of the oldest of both.

The hot path records nothing for this. Each round over the clients compares how many replies a client has received with
the round before: a client that waits, and has received none in between, has waited at least since then. So ages are too
small by up to the time between two rounds. Clients that asked to wait (blocking commands, subscriptions, MONITOR), and
clients that do not read their replies, have no age.
"""

from collections.abc import Callable
from typing import NamedTuple

from proxy.hotpath.intake.intake import WAITING
from proxy.session.session import Session


class Wait(NamedTuple):
    """How many commands of a client have been answered, and since when it waits for more."""

    answered: int
    since: float


def waits(client: Session) -> bool:
    """Whether a client waits for a reply, and has not asked to wait."""
    chosen = (
        client.state.blocked
        or client.sender.full
        or (client.state.upstream is not None and client.state.upstream.relay)
    )
    return (client.sender.pending_replies > 0 or client.intake.phase == WAITING) and not chosen


def wait_of(client: Session, before: Wait | None, now: float) -> Wait:
    """Since when this waiting client waits. ``before`` is the result of the last call for it."""
    answered = client.sender.forwarded - client.sender.pending_replies
    return before if before is not None and before.answered == answered else Wait(answered, now)


class Backlog:
    """The waiting commands of one route, in one worker."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._before: dict[Session, Wait] = {}
        self._waits: dict[Session, Wait] = {}
        self._in_flight = self._queued = 0
        self._began = 0.0
        self._figures = {"in_flight": 0, "queued": 0}
        self.oldest = 0.0
        """Seconds that the longest waiting client has waited."""

    def begin(self) -> None:
        """A round begins."""
        self._before, self._waits, self._began = self._waits, {}, self._clock()
        self._in_flight = self._queued = 0

    def note(self, client: Session) -> None:
        """Add what waits of a client."""
        self._in_flight += client.sender.pending_replies
        # Only the first waiting command of a client is known; the next ones are unread bytes.
        self._queued += client.intake.phase == WAITING or client.sender.stalled
        if waits(client):
            self._waits[client] = wait_of(client, self._before.get(client), self._clock())

    def publish(self) -> None:
        """The round has ended: its figures hold until the next one ends."""
        self._before = {}
        self._figures = {"in_flight": self._in_flight, "queued": self._queued}
        since = min((wait.since for wait in self._waits.values()), default=self._began)
        self.oldest = max(0.0, self._began - since)

    def figures(self) -> dict[str, int]:
        """How many commands wait, by place."""
        return self._figures

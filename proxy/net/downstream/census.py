"""What the clients of a route have sent, and what of it waits, in one worker.

The hot path adds up nothing for this: clients are gone through each second (``rounds``), and each counts once more when
it leaves. Where clients are few, ``refresh`` goes through them whenever exact figures are needed; else the figures are
those of the last round.

The buffers of clients are

    output   replies that clients have not read yet
    query    bytes of commands that are unfinished, or that wait
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection

from proxy.net.downstream.backlog import Backlog
from proxy.net.downstream.rounds import Rounds
from proxy.session.session import Session

FEW = 256
"""Clients that are all gone through at once for exact figures: in less than a millisecond."""
_NOTHING = (0, 0)


class Census:
    """Counts the commands, the buffers and the waiting commands of these clients."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clients: Collection[Session], count: Callable[[str], object]
    ) -> None:
        self._loop = loop
        self._clients = clients
        self._rounds = Rounds(loop, clients, "counting what clients sent", self._visit, count, self._publish)
        self._then: list[Callable[[], object]] = []
        self._counted: dict[Session, tuple[int, int]] = {}
        self._by_app: Counter[str] = Counter()
        self._backlog = Backlog(loop.time)
        self._output = self._query = 0
        self._buffers = {"output": 0, "query": 0}
        self.answered_locally = 0
        """Commands since the start that Keyrail answered without Redis."""

    def begin(self, then: Callable[[], object]) -> None:
        """Go through all clients, unless that is under way; ``then`` is called when each has been seen."""
        if then not in self._then:
            self._then.append(then)
        self._begin()

    def refresh(self) -> None:
        """Go through all clients now, if they are few."""
        if len(self._clients) <= FEW:
            self.settle()

    def settle(self) -> None:
        """Go through all clients now, however many they are: at the end of a route."""
        self._rounds.finish()
        self._begin()
        self._rounds.finish()

    async def complete(self) -> None:
        """Return once each client has been seen since the call."""
        for _ in range(2):  # what is under way may have seen some before
            seen = asyncio.Event()
            self.begin(seen.set)
            await seen.wait()

    def _begin(self) -> None:
        if not self._rounds.under_way:
            self._backlog.begin()
            self._output = self._query = 0
            self._rounds.begin()

    def leaves(self, client: Session) -> None:
        """A client has left; its commands still count."""
        self._count(client)
        self._counted.pop(client, None)

    def commands_by_app(self) -> Counter[str]:
        """Commands since the start, by the app that their client was of when they were counted."""
        return Counter(self._by_app)

    def buffered(self) -> int:
        """Bytes in the buffers of all clients."""
        return sum(self._buffers.values())

    def figures(self) -> dict[str, object]:
        """What waits, and where."""
        return {"buffers": self._buffers, "backlog": self._backlog.figures(), "oldest": self._backlog.oldest}

    def _visit(self, client: Session) -> None:
        self._count(client)
        self._output += client.waiting()
        self._query += client.intake.unread()
        self._backlog.note(client)

    def _count(self, client: Session) -> None:
        local = client.local + client.sender.remembered
        commands = client.sender.forwarded + local
        counted, counted_local = self._counted.get(client, _NOTHING)
        if commands != counted:
            self._by_app[client.effective_policy.compiled.app] += commands - counted
            self.answered_locally += local - counted_local
            self._counted[client] = commands, local

    def _publish(self) -> None:
        self._buffers = {"output": self._output, "query": self._query}
        self._backlog.publish()
        due, self._then = self._then, []
        for then in due:
            then()

"""What only the supervisor knows, since it adds up all workers: asked for when a client wants it, kept for a moment.

However many clients ask, the supervisor is asked once in that moment. One that does not answer in time is not waited
for: the clients are told.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from proxy.session.gate import Seeker
from proxy.session.topic import Topic

KEPT_SECONDS = 0.5
PATIENCE_SECONDS = 3.0

Ask = Callable[[Topic], None]


class Consultation:
    """One route's questions; ``ask`` passes one on, ``told`` brings its answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ask: Ask) -> None:
        self._loop = loop
        self._ask = ask
        self._known: dict[Topic, tuple[float, dict[str, Any]]] = {}
        self._waiting: dict[Topic, set[Seeker]] = {}

    def consult(self, seeker: Seeker, topic: Topic) -> dict[str, Any] | None:
        """What the supervisor has said, its ``age`` in seconds included, and nothing where it says nothing.

        None while it is being asked; ``arrived`` is then called.
        """
        now = self._loop.time()
        when, answer = self._known.get(topic, (0.0, {}))
        if topic in self._known and now - when <= KEPT_SECONDS:
            return {**answer, "age": round(answer["age"] + now - when, 3)} if answer else answer
        waiting = self._waiting.get(topic)
        if waiting is None:
            waiting = self._waiting[topic] = set()
            self._loop.call_later(PATIENCE_SECONDS, self._give_up, topic, waiting)
            self._ask(topic)
        waiting.add(seeker)
        return None

    def told(self, topic: Topic, answer: dict[str, Any]) -> None:
        """The supervisor has answered."""
        self._known[topic] = self._loop.time(), answer
        for seeker in self._waiting.pop(topic, ()):
            if not seeker.gone:
                seeker.arrived()

    def _give_up(self, topic: Topic, waiting: set[Seeker]) -> None:
        if self._waiting.get(topic) is waiting:
            self.told(topic, {})

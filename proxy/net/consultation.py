"""What only the supervisor knows, since it adds up all workers: asked for when a client wants it, kept for a moment.

However many clients ask, the supervisor is asked once in that moment. If it does not answer, the clients are told.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from proxy.session.ports import SupervisorPort
from proxy.session.seeker import Seeker
from proxy.session.topic import Topic

KEPT_SECONDS = 0.5

RequestInfo = Callable[[Topic], "asyncio.Future[dict[str, Any]]"]
"""Asks the supervisor. The future ends in time: with the answer, or with an exception."""


class Consultation(SupervisorPort):
    """One route's questions; ``now`` counts seconds."""

    def __init__(self, now: Callable[[], float], request: RequestInfo) -> None:
        self._now = now
        self._request = request
        self._known: dict[Topic, tuple[float, dict[str, Any]]] = {}
        self._waiting: dict[Topic, set[Seeker]] = {}

    def consult(self, seeker: Seeker, topic: Topic) -> dict[str, Any] | None:
        """What the supervisor has said, its ``age`` in seconds included, and nothing where it says nothing.

        None while it is being asked; ``arrived`` is then called.
        """
        now = self._now()
        when, answer = self._known.get(topic, (0.0, {}))
        if topic in self._known and now - when <= KEPT_SECONDS:
            return {**answer, "age": round(answer["age"] + now - when, 3)} if answer else answer
        if topic not in self._waiting:
            self._waiting[topic] = set()
            self._request(topic).add_done_callback(partial(self._answered, topic))
        self._waiting[topic].add(seeker)
        return None

    def _answered(self, topic: Topic, reply: "asyncio.Future[dict[str, Any]]") -> None:
        self._known[topic] = self._now(), reply.result() if reply.exception() is None else {}
        for seeker in self._waiting.pop(topic):
            if not seeker.gone:
                seeker.arrived()

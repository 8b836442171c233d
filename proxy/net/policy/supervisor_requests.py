"""Requests to the supervisor, which adds up the figures of all workers.

An answer is kept for a moment, so many clients cause one request. If the supervisor does not answer, clients are told.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from proxy.session.ports.info_query import InfoQuery
from proxy.session.ports.pool_waiter import PoolWaiter
from proxy.session.ports.ports import SupervisorPort

KEPT_SECONDS = 0.5
_MOST_KEPT = 64
"""Answers, before old ones are dropped: each tenant has its own."""

RequestInfo = Callable[[InfoQuery], "asyncio.Future[dict[str, Any]]"]
"""Asks the supervisor. The future ends in time, with the answer or an exception."""


class SupervisorRequests(SupervisorPort):
    """The requests of one route; ``now`` counts seconds."""

    def __init__(self, now: Callable[[], float], request: RequestInfo) -> None:
        self._now = now
        self._request = request
        self._known: dict[InfoQuery, tuple[float, dict[str, Any]]] = {}
        self._waiting: dict[InfoQuery, set[PoolWaiter]] = {}

    def group_info(self, waiter: PoolWaiter, query: InfoQuery) -> dict[str, Any] | None:
        """The supervisor's answer with its ``age`` in seconds; empty if it did not answer.

        None while it is being asked; ``arrived`` is called afterwards.
        """
        now = self._now()
        when, answer = self._known.get(query, (0.0, {}))
        if query in self._known and now - when <= KEPT_SECONDS:
            return {**answer, "age": round(answer["age"] + now - when, 3)} if answer else answer
        if query not in self._waiting:
            self._waiting[query] = set()
            self._request(query).add_done_callback(partial(self._answered, query))
        self._waiting[query].add(waiter)
        return None

    def _answered(self, query: InfoQuery, reply: "asyncio.Future[dict[str, Any]]") -> None:
        now = self._now()
        if len(self._known) >= _MOST_KEPT:
            self._known = {each: told for each, told in self._known.items() if now - told[0] <= KEPT_SECONDS}
        self._known[query] = now, reply.result() if reply.exception() is None else {}
        for waiter in self._waiting.pop(query):
            if not waiter.gone:
                waiter.arrived()

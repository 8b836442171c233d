"""Keyrail's own queries to Redis, on connections that no client uses.

There is one such connection for each pool. It is taken for the first query and given back when no reply is pending, so
queries of many clients travel as one pipeline. Keyrail has no passwords of users whom clients log in as. For these it
uses one of their connections: an idle one, or else the shared one. If there is none, as with ``--pooling off``, the
query fails.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.pool.checkout import Checkout
from proxy.session.ports.pool_key import PoolKey
from proxy.session.ports.pool_waiter import PoolWaiter
from proxy.session.ports.ports import QueryPort, Questions

Answered: TypeAlias = Callable[[Sequence[bytes] | None], None]

_MOST_WAITING = 10_000
"""Queries that may wait for one pool's connection, or for replies on it."""


_MOST_OPEN = 128
"""Pending queries on one pool's connection. Commands of clients come between these and the next ones."""

_log = logging.getLogger("keyrail.route")


class InternalQueries(QueryPort):
    """The connections for queries, by pool."""

    def __init__(self, checkout: Checkout) -> None:
        self._checkout = checkout
        self._connections: dict[PoolKey, _QueryConnection] = {}

    def ask(self, key: PoolKey, questions: Questions, answered: Answered) -> None:
        """Send queries. ``answered`` gets the reply frames, or None if there is no connection or it was lost."""
        connection = self._connections.get(key)
        if connection is None:
            connection = self._connections[key] = _QueryConnection(self._checkout, key)
        connection.ask(questions, answered)
        if connection.quiet:
            self._connections.pop(key, None)

    def tend(self) -> None:
        """Forget connections without queries."""
        for key in [key for key, connection in self._connections.items() if connection.quiet]:
            del self._connections[key]


class _QueryConnection(PoolWaiter):
    """The connection for one pool's queries, while there are any."""

    gone = False

    def __init__(self, checkout: Checkout, key: PoolKey) -> None:
        self._checkout = checkout
        self._key = key
        self._upstream: UpstreamConnection | None = None
        self._awaiting = False
        self._waiting: list[tuple[Questions, Answered]] = []
        self._open = 0

    @property
    def quiet(self) -> bool:
        """Whether no query is pending or waiting."""
        return not self._waiting and self._open == 0 and not self._awaiting

    def turn_away(self, error: bytes, cause: str) -> None:
        """There is no connection: those who ask need not know why."""
        self.close(cause)

    def ask(self, questions: Questions, answered: Answered) -> None:
        """Send the queries now, or when there is a connection."""
        if self._open + len(self._waiting) >= _MOST_WAITING:
            answered(None)
            return
        self._waiting.append((questions, answered))
        self._go_on()

    def arrived(self) -> None:
        """There may be a connection now."""
        self._awaiting = False
        self._go_on()

    def close(self, cause: str) -> None:
        """There will be no connection."""
        self._awaiting = False
        waiting, self._waiting = self._waiting, []
        for _, answered in waiting:
            answered(None)

    def _go_on(self) -> None:
        if not self._waiting or self._awaiting or self._open >= _MOST_OPEN:
            return
        upstream = self._upstream
        if upstream is not None and self._open and self._checkout.wanted(self._key):
            return  # behind its replies it goes to whoever has waited for one
        if upstream is None or upstream.closed:
            upstream = self._checkout.for_questions(self._key)
        if upstream is None:
            self._awaiting = self._checkout.await_questions(self, self._key)
            if not self._awaiting:
                self.close("no_upstream")
            return
        self._upstream = None if upstream.shared else upstream
        room = _MOST_OPEN - self._open
        waiting, self._waiting = self._waiting[:room], self._waiting[room:]
        for questions, answered in waiting:
            self._send(upstream, questions, answered)

    def _send(self, upstream: UpstreamConnection, questions: Questions, answered: Answered) -> None:
        self._open += 1
        asked = asyncio.gather(*(upstream.ask(question) for question in questions), return_exceptions=True)
        asked.add_done_callback(partial(self._have, upstream, answered))

    def _have(
        self, upstream: UpstreamConnection, answered: Answered, asked: "asyncio.Future[list[bytes | BaseException]]"
    ) -> None:
        self._open -= 1
        frames = [] if asked.cancelled() else asked.result()
        replies = [frame for frame in frames if isinstance(frame, bytes)]
        try:
            answered(replies if len(replies) == len(frames) and frames else None)
        except Exception:  # noqa: BLE001 - logged with its traceback; whoever else asks goes on
            # It cannot be the reply: what else comes there is not trusted either.
            _log.exception("a reply to a query of Keyrail's own cannot be read; its connection is closed")
            upstream.abort()
        if self._open == 0 and (not self._waiting or self._checkout.wanted(self._key)):
            self._give_back()
        self._go_on()

    def _give_back(self) -> None:
        upstream, self._upstream = self._upstream, None
        if upstream is not None and not upstream.closed:
            self._checkout.give_back(upstream)

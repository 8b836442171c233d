"""What other workers have seen of scripts: asked for when a client runs one that was never seen here.

A worker knows a script before the client that sent it hears that it is loaded, so whoever asks after that is told. The
supervisor passes the question to all other workers; however many clients run the same script, it is asked once. A
question that is not answered is taken as answered with no.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from proxy.rules.shared_state import Fact, FactKey, SharedFacts
from proxy.session.pool_waiter import PoolWaiter
from proxy.session.ports import ScriptPort

FindCalls = Callable[[FactKey], "asyncio.Future[Fact | None]"]
"""Asks the other workers. The future ends in time: with what they know, or with an exception."""


class ScriptExchange(ScriptPort):
    """One route's questions; ``find_calls`` is None where there is no other worker."""

    def __init__(self, find_calls: FindCalls | None, memories: Callable[[], Iterable[SharedFacts]]) -> None:
        self._find_calls = find_calls
        self._memories = memories
        self._waiting: dict[FactKey, list[_Search]] = {}

    def find(self, waiter: PoolWaiter, keys: frozenset[FactKey]) -> bool:
        """Ask about each; ``arrived`` is called when all have been answered. False where there is nobody to ask."""
        if self._find_calls is None or not keys:
            return False
        search = _Search(waiter, len(keys))
        for key in keys:
            if key not in self._waiting:
                self._waiting[key] = []
                self._find_calls(key).add_done_callback(partial(self._found, key))
            self._waiting[key].append(search)
        return True

    def _found(self, key: FactKey, reply: "asyncio.Future[Fact | None]") -> None:
        calls = reply.result() if reply.exception() is None else None
        if calls is not None:
            for memory in self._memories():
                memory.learn(key, calls)
        for search in self._waiting.pop(key):
            search.left -= 1
            if search.left == 0 and not search.waiter.gone:
                search.waiter.arrived()

    def recall(self, key: FactKey) -> Fact | None:
        """What is known here."""
        return next((calls for memory in self._memories() if (calls := memory.recall(key)) is not None), None)


class _Search:
    """A client that waits for so many answers."""

    __slots__ = ("left", "waiter")

    def __init__(self, waiter: PoolWaiter, left: int) -> None:
        self.waiter = waiter
        self.left = left

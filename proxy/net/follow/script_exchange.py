"""Asks other workers about a script that this worker has not seen, and tells them of those that clients use.

A worker knows a script before its client gets the reply to SCRIPT LOAD, so a later question finds it. The supervisor
passes the question to all other workers. If many clients run the same script, it is asked once. No answer means that
no worker knows the script.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from proxy.net.topology.known_scripts import KnownScripts, ScriptNews
from proxy.rules.shared_state import Fact, FactKey, SharedFacts
from proxy.session.ports.pool_waiter import Waiter
from proxy.session.ports.ports import ScriptPort

FindCalls = Callable[[FactKey], "asyncio.Future[Fact | None]"]
"""Asks the other workers. The future ends in time, with a result or an exception."""


class ScriptExchange(ScriptPort):
    """Those of one route; ``find_calls`` is None if there is no other worker, ``known`` without a cluster upstream."""

    def __init__(
        self,
        find_calls: FindCalls | None,
        memories: Callable[[], Iterable[SharedFacts]],
        known: KnownScripts | None = None,
    ) -> None:
        self._find_calls = find_calls
        self._memories = memories
        self._known = known
        self._waiting: dict[FactKey, list[_Search]] = {}

    def find(self, waiter: Waiter, keys: frozenset[FactKey]) -> bool:
        """Ask about each script; ``arrived`` is called after all answers. False if there is nobody to ask."""
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
        """The calls of a script, if this worker knows them."""
        return next((calls for memory in self._memories() if (calls := memory.recall(key)) is not None), None)

    def news(self) -> ScriptNews:
        """What clients of this worker have used of scripts since the last call, with a cluster upstream."""
        return ScriptNews() if self._known is None else self._known.take_news()

    def learn(self, news: ScriptNews) -> None:
        """What clients of other workers have used."""
        if self._known is not None:
            self._known.learn(news)


class _Search:
    """A client that waits for ``left`` answers."""

    __slots__ = ("left", "waiter")

    def __init__(self, waiter: Waiter, left: int) -> None:
        self.waiter = waiter
        self.left = left

"""Ends that a cache is held back: once its writers have been answered, and all connections have told what they changed.

On each tracking connection Redis is asked whether it lives, behind the replies to all that may have written any key:
the answer comes behind their invalidations. What a lost connection would have told is of no interest any more, as
nothing that came from there is kept. The same ends that clients are answered nothing who have looked at any key.
"""

from collections.abc import Callable, Collection, Mapping
from functools import partial

from proxy.hotpath.cache.reply_cache import ReplyCache
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.local_cache.fills import Fills


class Barrier:
    """That of one cache; ``connections`` gives those that there are now."""

    def __init__(self, cache: ReplyCache, connections: Callable[[], Collection[Fills]]) -> None:
        self._cache = cache
        self._connections = connections
        self._awaited: set[Fills] = set()
        self._held_back_by: int | None = None
        self._have_looked: Mapping[ReplySink, int] = {}

    def settle(self, now: float) -> None:
        """Ask, unless that is done already, if all who hold the cache back have been answered, or any who look."""
        cache = self._cache
        if self._awaited or not (cache.held_back or cache.looking):
            return
        self._held_back_by = cache.held_back_by if cache.held_back and not cache.waits_for_writers() else None
        self._have_looked = cache.have_looked()
        if self._held_back_by is None and not self._have_looked:
            return
        self._awaited = set(self._connections())
        for each in list(self._awaited):
            each.ask(now, partial(self.passed, each))
        if not self._awaited:
            self._all_passed()

    def passed(self, connection: Fills, now: float) -> None:
        """This one has answered, or is lost."""
        if connection not in self._awaited:
            return
        self._awaited.discard(connection)
        if not self._awaited:
            self._all_passed()
            self.settle(now)

    def _all_passed(self) -> None:
        if self._cache.held_back_by == self._held_back_by:
            self._cache.release()
        for reader, at in self._have_looked.items():
            self._cache.end_look(reader, at)
        self._have_looked = {}

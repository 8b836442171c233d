"""Ends that a cache is held back: once its writers have been answered, and all connections have told what they changed.

On each tracking connection Redis is asked whether it lives, behind the replies to all that may have written any key:
the answer comes behind their invalidations. What a lost connection would have told is of no interest any more, as
nothing that came from there is kept.
"""

from collections.abc import Callable, Collection
from functools import partial

from proxy.hotpath.reply_cache import ReplyCache
from proxy.local_cache.fills import Fills


class Barrier:
    """That of one cache; ``connections`` gives those that there are now."""

    def __init__(self, cache: ReplyCache, connections: Callable[[], Collection[Fills]]) -> None:
        self._cache = cache
        self._connections = connections
        self._awaited: set[Fills] = set()
        self._held_back_by = 0

    def settle(self, now: float) -> None:
        """If the cache is held back, and all who hold it back have been answered: ask, unless that is done already."""
        if self._awaited or not self._cache.held_back or self._cache.waits_for_writers():
            return
        self._held_back_by = self._cache.held_back_by
        self._awaited = set(self._connections())
        for each in list(self._awaited):
            each.ask(now, partial(self.passed, each))
        if not self._awaited:
            self._cache.release()

    def passed(self, connection: Fills, now: float) -> None:
        """This one has answered, or is lost."""
        if connection not in self._awaited:
            return
        self._awaited.discard(connection)
        if self._awaited:
            return
        if self._cache.held_back_by == self._held_back_by:
            self._cache.release()
        else:
            self.settle(now)

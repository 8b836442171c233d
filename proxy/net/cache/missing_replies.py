"""Replies that a local cache lacks, and reads that wait for them.

A reply is fetched once for all who want it. They wait for at most ``MOST_WAIT``; then Redis answers each of them, and
reads of that key do not wait for a second, and for twice as long each time that they wait in vain again.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from proxy.hotpath.cache.reply_cache import ReplyCache
from proxy.local_cache.expected import CacheBounds, CachedRequest
from proxy.net.cache.tracked_database import TrackedDatabase
from proxy.session.ports.client import ServedClient
from proxy.session.ports.ports import AwaitedReply

MOST_WAIT = 0.05
"""Seconds."""
_LOOK_AGAIN = 0.001
_CONTENDED = 1.0
_LONGEST_CONTENDED = 64.0
_MOST_CONTENDED = 1000


class Wait(AwaitedReply):
    """A client's read that waits, ``until`` then at most, for ``due`` replies."""

    def __init__(self, waiter: ServedClient, until: float) -> None:
        self.over = False
        self.until = until
        self.due = 1
        self._waiter = waiter

    def end(self) -> None:
        """One of the replies has come, or cannot come. Behind the last, the client goes on."""
        self.due -= 1
        if self.due <= 0 and not self.over:
            self.over = True
            if not self._waiter.gone:
                self._waiter.arrived()


class _Contended(NamedTuple):
    """Reads of a key do not wait ``until`` then, for so many ``seconds`` since they did in vain."""

    until: float
    seconds: float


class _Missing:
    def __init__(self, read: CachedRequest, bounds: CacheBounds, database: TrackedDatabase) -> None:
        self.read = read
        self.bounds = bounds
        self.database = database
        self.waits: list[Wait] = []
        self.timer: asyncio.TimerHandle | None = None


class MissingReplies:
    """Those of all databases. ``settle`` is called when keys may be held no more; ``count`` counts events."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, settle: Callable[[], None], count: Callable[[str], None]
    ) -> None:
        self._loop = loop
        self._settle = settle
        self._count = count
        self._missing: dict[tuple[ReplyCache, bytes], _Missing] = {}
        self._held: list[_Missing] = []
        self._look_later: asyncio.TimerHandle | None = None
        self._contended: dict[bytes, _Contended] = {}

    def wait_for(
        self, wait: Wait, requests: Sequence[tuple[CachedRequest, CacheBounds]], database: TrackedDatabase
    ) -> bool:
        """Fetch the replies, or join those who wait for them; False if one of them cannot be fetched now."""
        wait.due = len(requests)
        wait.over = not all(self._join(wait, read, bounds, database) for read, bounds in requests)
        return not wait.over

    def _join(self, wait: Wait, read: CachedRequest, bounds: CacheBounds, database: TrackedDatabase) -> bool:
        place = (database.cache, read.request)
        missing = self._missing.get(place)
        if missing is not None and missing.bounds.served == bounds.served:
            missing.waits.append(wait)
            return True
        missing = self._missing[place] = _Missing(read, bounds, database)
        missing.waits.append(wait)
        if not self._begin(missing):
            del self._missing[place]
            return False
        missing.timer = self._loop.call_later(MOST_WAIT, self._give_up, missing)
        return True

    def look_again(self) -> None:
        """Replies have come: look which keys are not held any more."""
        held, self._held = self._held, []
        for missing in held:
            if missing.waits and not self._begin(missing):
                self._end(missing)
        self._settle()

    def is_contended(self, key: bytes) -> bool:
        """Whether reads of this key have waited too long, a short while ago."""
        contended = self._contended.get(key)
        return contended is not None and contended.until > self._loop.time()

    def another_second(self) -> None:
        """Forget keys that were contended."""
        now = self._loop.time()
        self._contended = {name: each for name, each in self._contended.items() if now < each.until + each.seconds}

    def end_all(self) -> None:
        """Nobody waits any more, and nothing is fetched for those who have waited."""
        ending, self._missing, self._held = [*self._missing.values(), *self._held], {}, []
        for missing in ending:
            self._end(missing)

    def _begin(self, missing: _Missing) -> bool:
        cache = missing.database.cache
        holders = cache.holders(missing.read.key)
        if holders and not cache.held_back:
            for holder in holders:
                holder.notify_when_idle = True
            self._held.append(missing)
            if self._look_later is None:
                self._look_later = self._loop.call_later(_LOOK_AGAIN, self._look_now)
            return True
        return missing.database.fill(missing.read, missing.bounds, partial(self._filled, missing))

    def _look_now(self) -> None:
        self._look_later = None
        self.look_again()

    def _give_up(self, missing: _Missing) -> None:
        key = missing.read.key
        before = self._contended.get(key)
        if before is not None or len(self._contended) < _MOST_CONTENDED:
            seconds = _CONTENDED if before is None else min(2 * before.seconds, _LONGEST_CONTENDED)
            self._contended[key] = _Contended(self._loop.time() + seconds, seconds)
        self._count("cache_waits_over")
        self._end(missing)

    def _filled(self, missing: _Missing) -> None:
        self._contended.pop(missing.read.key, None)
        self._end(missing)

    def _end(self, missing: _Missing) -> None:
        place = (missing.database.cache, missing.read.request)
        if self._missing.get(place) is missing:
            del self._missing[place]
        if missing.timer is not None:
            missing.timer.cancel()
            missing.timer = None
        waits, missing.waits = missing.waits, []
        for wait in waits:
            wait.end()

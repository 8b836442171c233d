"""The tracking connection of one database of one node: it fills a reply cache, and tells it what has changed.

It is a connection of Keyrail's own, in RESP3, with ``CLIENT TRACKING ON``. While there is none, the cache is empty and
off. A connection that is lost, silent, refused or out of step is replaced after a second.
"""

import asyncio
import logging
import os
import select
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from proxy.hotpath.in_flight import ReplySink
from proxy.hotpath.reply_cache import ReplyCache
from proxy.local_cache.fills import (
    CacheBounds,
    CachedRequest,
    Fills,
    OutOfStepError,
    RefusedFillError,
    RefusedPingError,
)
from proxy.net.connect import UpstreamRefusedError
from proxy.net.group_counts import GroupCount
from proxy.net.own_connections import OwnConnections
from proxy.net.tracking_setup import FieldTtls, begin_tracking
from proxy.net.upstream import Keeper, UpstreamConnection

_PIECE = 65536
"""Bytes that are read at once, while a client waits."""
_AGAIN = 1.0
"""Seconds from a loss, or a failure, to the next attempt."""

_log = logging.getLogger("keyrail.route")


class TrackedDatabase(OwnConnections):
    """The cache of one database, and its tracking connection. ``open_connection`` opens one for this keeper, which is
    logged in, in RESP3, in this database; ``forget`` is called when it is lost. What Redis has said before one of the
    ``user_changes`` counts no more. ``count`` counts events for the metrics.

    ``refused`` is why there can be no cache; empty if there can, or Redis has not been asked. ``features_off`` say
    what it lacks. ``wanted``: somebody reads from this database.
    """

    def __init__(
        self,
        open_connection: Callable[[Keeper], Awaitable[UpstreamConnection]],
        forget: Callable[[UpstreamConnection], None],
        loop: asyncio.AbstractEventLoop,
        user_changes: GroupCount,
        count: Callable[[str], None],
    ) -> None:
        super().__init__(count)
        self.cache = ReplyCache()
        self.field_ttls = FieldTtls.UNTOLD
        self.features_off: Sequence[str] = ()
        self.refused = ""
        self.wanted = False
        self._open_connection = open_connection
        self._forget = forget
        self._loop = loop
        self._user_changes = user_changes
        self._users_known = user_changes.counts()
        self._upstream: UpstreamConnection | None = None
        self._fills: Fills | None = None
        self._readable = select.poll()
        self._descriptor = -1
        self._within_pass = False
        self._task: asyncio.Task[None] | None = None
        self._again = 0.0
        self._closed = False
        self._before = (0, 0, 0)

    @property
    def connected(self) -> bool:
        """Whether there is a tracking connection."""
        return self._fills is not None

    def tick(self) -> None:
        """To be called every ``PING_EVERY`` seconds."""
        now = self._loop.time()
        if self._fills is not None:
            if not self._fills.tick(now):
                self._count("cache_silent")
                self._drop()
        elif self._task is None and now >= self._again and not self._closed:
            self._task = self._loop.create_task(self._open())
            self._task.add_done_callback(self._opened)

    def renew(self) -> None:
        """Another server may be there, or the same one as another process: nothing may be trusted any more."""
        if self._task is not None:
            self._task.cancel()
        self._drop()
        self._again = 0.0

    def look_at_users(self) -> bool:
        """Whether users have changed, in any worker: Redis may refuse now what is in memory."""
        changes = self._user_changes.counts()
        if changes == self._users_known:
            return False
        self._users_known = changes
        self.renew()
        return True

    def close(self) -> None:
        """Close the connection, for good."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
        self._drop()

    # Reading

    def unread(self) -> bool:
        """Take in what Redis has sent on the connection; whether something of it is left, or has not come to its
        end. Encrypted bytes are left to the event loop. Nothing is left where users have changed, but memory is empty
        now."""
        if self.look_at_users():
            return True
        if self._readable.poll(0) and not self._take_in():
            return True
        return self._fills is not None and self._fills.within_push()

    def _take_in(self) -> bool:
        # As if the event loop had read it, which finds nothing then. Others go on behind the client that reads now.
        upstream = self._upstream
        if upstream is None or self._descriptor < 0:
            return False
        try:
            data = os.read(self._descriptor, _PIECE)
        except OSError:
            return False
        if not data:
            return False
        self._within_pass = True
        try:
            upstream.data_received(data)
        finally:
            self._within_pass = False
        return len(data) < _PIECE and self._upstream is upstream

    def when_read(self, act: Callable[[], None]) -> bool:
        """Call ``act`` once that has been read; False if there is no connection."""
        if self._fills is None:
            return False
        self._fills.when_read(act)
        return True

    def settle(self) -> None:
        """Commands that hold the cache back may have been answered."""
        if self._fills is not None:
            self._fills.settle(self._loop.time())

    def take_changes(self) -> Counter[bytes]:
        """How often Redis has told of a change of each key since the last call."""
        return Counter() if self._fills is None else self._fills.take_changes()

    def figures(self) -> tuple[int, int, int]:
        """Since the start: fills, those of them that kept nothing, and invalidated keys."""
        now = (0, 0, 0)
        if self._fills is not None:
            now = (self._fills.begun, self._fills.in_vain, self._fills.invalidations)
        begun, in_vain, invalidations = (sum(each) for each in zip(self._before, now, strict=True))
        return begun, in_vain, invalidations

    def fill(self, read: CachedRequest, bounds: CacheBounds, over: Callable[[], None]) -> bool:
        """Fill the reply to a read; ``over`` is called when that has ended. False if it cannot be filled now."""
        if self._fills is None:
            return False
        return self._fills.begin(read, bounds, self._loop.time(), over)

    # Its connection

    async def _open(self) -> None:
        upstream = await self._open_connection(self)
        try:
            tracking = await begin_tracking(upstream)
            upstream.check()
        except BaseException:
            upstream.abort()
            raise
        self.refused = ""
        self.field_ttls, self.features_off = tracking
        self._begin(upstream)

    def _begin(self, upstream: UpstreamConnection) -> None:
        assert upstream.transport is not None, "it has been asked"
        replies = ReplySink()
        replies.write = self._receive
        pipeline = upstream.pipeline
        pipeline.owner = replies
        pipeline.relay = True
        self._upstream = upstream
        descriptor = upstream.transport.get_extra_info("socket").fileno()
        self._readable = select.poll()
        self._readable.register(descriptor, select.POLLIN)
        self._descriptor = -1 if upstream.transport.get_extra_info("ssl_object") else descriptor
        self._fills = Fills(self.cache, lambda data: pipeline.offer_commands(replies, data), self._loop.time())

    def _opened(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        if task.cancelled() or (error := task.exception()) is None:
            return
        self._again = self._loop.time() + _AGAIN
        if isinstance(error, UpstreamRefusedError):
            self.refused = str(error)
        elif not isinstance(error, OSError):
            _log.error("the local cache cannot open its connection", exc_info=error)

    def _receive(self, data: bytes) -> None:
        if self._fills is None:
            return
        try:
            if self._within_pass:
                self._fills.take_in(data, self._loop.time())
                self._loop.call_soon(self._fills.tell)
            else:
                self._fills.receive(data, self._loop.time())
        except RefusedPingError:
            self._count("cache_refused")
            self._drop()
        except RefusedFillError as error:
            self._count("cache_refused")
            self.refused = str(error)
            self._drop()
        except OutOfStepError as error:
            self._count("out_of_step")
            _log.error("the connection of the local cache is out of step and is replaced: %s", error)
            self._drop()

    def _drop(self) -> None:
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.abort()
        self._end_fills()

    def retired(self, upstream: UpstreamConnection) -> None:
        """The server is a replica now."""
        self.renew()

    def lost(self, upstream: UpstreamConnection) -> None:
        """The connection is lost, and with it all that is in the cache."""
        super().lost(upstream)
        self._forget(upstream)
        if upstream is self._upstream:
            self._upstream = None
            self._end_fills()

    def _end_fills(self) -> None:
        fills = self._fills
        if fills is not None:
            self._before = self.figures()
            self._fills = None
            self._readable = select.poll()
            self._descriptor = -1
            self._again = self._loop.time() + _AGAIN
            fills.lost()
            # Those who wait go on behind whatever else the loss changes.
            self._loop.call_soon(fills.tell)

"""The tracking connection to one server, for one database: it fills a reply cache, and tells it what has changed.

It is a connection of Keyrail's own, in RESP3, with ``CLIENT TRACKING ON``. While there is none, nothing of that server
is in the cache. A connection that is lost, silent, refused or out of step is replaced after a second.
"""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from proxy.hotpath.cache.cached_reply import ReplySource
from proxy.hotpath.cache.reply_cache import ReplyCache
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.local_cache.expected import CacheBounds, CachedRequest, RefusedFillError, RefusedPingError, Word
from proxy.local_cache.fills import Fills
from proxy.local_cache.frames import OutOfStepError
from proxy.net.cache.tracking_setup import FieldTtls, begin_tracking
from proxy.net.connection.connect import UpstreamRefusedError
from proxy.net.connection.own_connections import OwnConnections
from proxy.net.connection.upstream import Keeper, UpstreamConnection
from proxy.session.ports.pool_key import Node

_PIECE = 65536
"""Bytes that are read at once, while a client waits."""
_AGAIN = 1.0
"""Seconds from a loss, or a failure, to the next attempt."""

_log = logging.getLogger("keyrail.route")


class TrackingListener(Protocol):
    """Who has to know of the connections of a database."""

    def opened(self, connection: "TrackedServer", descriptor: int) -> None:
        """There is a connection, with this descriptor; bytes that can be read there may be invalidations."""

    def received(self, connection: "TrackedServer", *, within_push: bool) -> None:
        """Bytes have come; whether a part of an invalidation is among them, whose end is to come."""

    def closed(self, connection: "TrackedServer", fills: Fills, descriptor: int) -> None:
        """It is lost, and nothing that came from there is in the cache any more."""


class TrackedServer(OwnConnections):
    """The server of this ``node`` as a source of the ``cache``, and the tracking connection to it. ``open_connection``
    opens one for this keeper, which is logged in, in RESP3, in the cache's database; ``forget`` is called when it is
    lost. With a cluster upstream, ``word`` gets what the node says of itself. ``count`` counts events for the metrics.

    ``refused`` is why there can be none; empty if there can, or Redis has not been asked. ``features_off`` say what the
    cache lacks. ``wanted``: somebody reads from there.
    """

    read = staticmethod(os.read)

    def __init__(
        self,
        node: Node,
        cache: ReplyCache,
        listener: TrackingListener,
        open_connection: Callable[[Keeper], Awaitable[UpstreamConnection]],
        forget: Callable[[UpstreamConnection], None],
        loop: asyncio.AbstractEventLoop,
        count: Callable[[str], None],
        word: Word | None = None,
    ) -> None:
        super().__init__(count)
        self.node = node
        self.source = ReplySource(cache)
        self.field_ttls = FieldTtls.UNTOLD
        self.features_off: Sequence[str] = ()
        self.refused = ""
        self.wanted = False
        self.fills: Fills | None = None
        self._cache = cache
        self._listener = listener
        self._open_connection = open_connection
        self._forget = forget
        self._loop = loop
        self._word = word
        self._upstream: UpstreamConnection | None = None
        self._descriptor = -1
        self._encrypted = False
        self._within_pass = False
        self._task: asyncio.Task[None] | None = None
        self._again = 0.0
        self._closed = False
        self._before = (0, 0, 0)

    @property
    def connected(self) -> bool:
        """Whether there is a tracking connection."""
        return self.fills is not None

    def tick(self) -> None:
        """To be called every ``PING_EVERY`` seconds."""
        now = self._loop.time()
        if self.fills is not None:
            if not self.fills.tick(now):
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

    def close(self) -> None:
        """Close the connection, for good."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
        self._drop()

    # Reading

    def take_in(self) -> bool:
        """Take in what Redis has sent, as if the event loop had read it, which finds nothing then. Others go on behind
        the client that reads now. False if something is left; encrypted bytes are left to the event loop."""
        upstream = self._upstream
        if upstream is None or self._encrypted:
            return False
        try:
            data = self.read(self._descriptor, _PIECE)
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
        if self.fills is None:
            return False
        self.fills.when_read(act)
        return True

    def take_changes(self) -> Counter[bytes]:
        """How often Redis has told of a change of each key since the last call."""
        return Counter() if self.fills is None else self.fills.take_changes()

    def figures(self) -> tuple[int, int, int]:
        """Since the start: fills, those of them that kept nothing, and invalidated keys."""
        now = (0, 0, 0)
        if self.fills is not None:
            now = (self.fills.begun, self.fills.in_vain, self.fills.invalidations)
        begun, in_vain, invalidations = (sum(each) for each in zip(self._before, now, strict=True))
        return begun, in_vain, invalidations

    def fill(self, read: CachedRequest, bounds: CacheBounds, over: Callable[[], None]) -> bool:
        """Fill the reply to a read; ``over`` is called when that has ended. False if it cannot be filled now."""
        if self.fills is None:
            return False
        return self.fills.begin(read, bounds, self._loop.time(), over)

    def doubt(self) -> None:
        """With a cluster upstream: the node has sent somebody elsewhere."""
        if self.fills is not None:
            self.fills.doubt(self._loop.time())

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
        self._descriptor = upstream.transport.get_extra_info("socket").fileno()
        self._encrypted = bool(upstream.transport.get_extra_info("ssl_object"))
        now, write = self._loop.time(), lambda data: pipeline.offer_commands(replies, data)
        self.fills = Fills(self._cache, self.source, write, now, self._word)
        self._listener.opened(self, self._descriptor)

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
        fills = self.fills
        if fills is None:
            return
        try:
            if self._within_pass:
                fills.take_in(data, self._loop.time())
                self._loop.call_soon(fills.tell)
            else:
                fills.receive(data, self._loop.time())
        except RefusedPingError:
            self._count("cache_refused")
            self._drop()
        except RefusedFillError as error:
            self._count("cache_refused")
            self.refused = str(error)
            self._drop()
        except OutOfStepError as error:
            self._count("out_of_step")
            text = "the connection of the local cache is out of step and is replaced: %s"
            _log.error(text, error, exc_info=error.__cause__)
            self._drop()
        if self.fills is fills:
            self._listener.received(self, within_push=fills.within_push())

    def _drop(self) -> None:
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.abort()
        self._end_fills()

    def retired(self, upstream: UpstreamConnection) -> None:
        """The server is a replica now."""
        self.renew()

    def lost(self, upstream: UpstreamConnection) -> None:
        """The connection is lost, and with it all that came from there."""
        super().lost(upstream)
        self._forget(upstream)
        if upstream is self._upstream:
            self._upstream = None
            self._end_fills()

    def _end_fills(self) -> None:
        fills = self.fills
        if fills is not None:
            self._before = self.figures()
            self.fills = None
            descriptor, self._descriptor = self._descriptor, -1
            self._again = self._loop.time() + _AGAIN
            fills.lost()
            self._listener.closed(self, fills, descriptor)
            # Those who wait go on behind whatever else the loss changes.
            self._loop.call_soon(fills.tell)

"""Commands without invalidation messages, such as SWAPDB, that may still run.

Nothing is answered from memory before they have run, also where their clients have left. That shows by a reply behind
them on their connection. Where the connection is lost before, Redis may still run what it has received.

While there is a local cache, the session tells of each that it sends. Nobody has told of those from before: what is
pending on a connection that clients share may be one. (A connection of one client ends with it, and Redis forgets what
waits there.)
"""

from collections.abc import Callable, Iterable
from functools import partial

from proxy.hotpath.cache.reply_cache import ReplyCache
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline

_PERHAPS = 1.0
"""Seconds in which a command may still run whose connection has ended before its reply."""


class CommandsWithoutInvalidation:
    """Those of a route's clients. ``after`` calls something after some seconds."""

    def __init__(self, after: Callable[[float, Callable[[], None]], object]) -> None:
        self._after = after
        self._running: list[ReplySink] = []

    def sent(self, upstream: UpstreamPipeline, has_run: Callable[[], None]) -> ReplySink:
        """One has been sent last on this connection. Until it has run, it has a reply pending to the returned sink."""
        running = self._keep(ReplySink())
        upstream.when_drained(partial(self._drained, upstream, running, has_run))
        return running

    def relayed(self, upstream: UpstreamPipeline) -> ReplySink:
        """The same, where nobody can tell the replies on the connection apart: until that is closed."""
        return self._keep(_UntilClosed(upstream))

    def pending_on(self, upstreams: Iterable[UpstreamPipeline], have_run: Callable[[], None]) -> None:
        """There is a cache from now on, and any command whose reply is pending there may be one."""
        for upstream in upstreams:
            self.sent(upstream, have_run)

    def hold_back(self, cache: ReplyCache) -> None:
        """Have all that may still run hold back the memory of a database that is read for the first time."""
        for running in self._running:
            if not running.finished(1):
                cache.hold_back(running, 1, forget=True)

    def _keep(self, running: ReplySink) -> ReplySink:
        running.requested = running.pending_replies = 1
        self._running = [each for each in self._running if not each.finished(1)]
        self._running.append(running)
        return running

    def _drained(self, upstream: UpstreamPipeline, running: ReplySink, has_run: Callable[[], None]) -> None:
        if upstream.closed:
            self._after(_PERHAPS, partial(_end, running, has_run))
        else:
            _end(running, has_run)


def _end(running: ReplySink, has_run: Callable[[], None]) -> None:
    running.pending_replies = 0
    has_run()


class _UntilClosed(ReplySink):
    """Stands for a command on a connection whose replies nobody can tell apart."""

    def __init__(self, upstream: UpstreamPipeline) -> None:
        super().__init__()
        self._upstream = upstream

    def finished(self, _position: int) -> bool:
        """Whether the connection has come to its end."""
        return self._upstream.closed

"""Finds shared connections from which nothing comes although replies are pending, while their node answers a PING on
another connection: a paused write may hold them up (``write_pauses``).

    a connection writes              from now on it is looked at ten times a second, until nothing is pending there
    nothing came for two looks       its node is sent a PING on the connection of the health checks
    and that is answered             the connection is stuck. It counts as such once a second at most, until it moves

So a Redis that is in a slow command gets one PING, and while nothing is pending no timer runs. What Keyrail has slept
through is no silence.
"""

import asyncio

from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.pool.connections import Connections
from proxy.net.pool.liveness import Liveness
from proxy.session.ports.pool_key import Node

_EVERY = 0.1
_SILENCE = 0.09
_LATE = 0.05
"""Seconds by which a look may be late before that counts as a pause of this process."""
_AGAIN = 1.0
"""Seconds before a connection that stands still counts as stuck once more."""


class _Look:
    """At one connection: how far it was, and since when it is there. ``told`` is when it was found stuck."""

    __slots__ = ("progress", "since", "told")

    def __init__(self, progress: tuple[object, ...], now: float) -> None:
        self.moved(progress, now)

    def moved(self, progress: tuple[object, ...], now: float) -> None:
        """Something has come, or may have come."""
        self.progress = progress
        self.since = now
        self.told = float("-inf")


class Standstills:
    """Those of one route in one worker."""

    def __init__(self, connections: Connections, liveness: Liveness) -> None:
        self._connections = connections
        self._liveness = liveness
        self._loop = connections.loop
        self._looks: dict[UpstreamConnection, _Look] = {}
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        connections.all.on_share(self._follow)

    def end(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _follow(self, upstream: UpstreamConnection) -> None:
        upstream.writing.when_written(self._written)

    def _written(self, pipeline: UpstreamPipeline) -> None:
        upstream = self._connections.all.members.get(pipeline)
        if upstream is not None and upstream.shared and not self._connections.all.closing:
            self._looks[upstream] = _Look(upstream.progress(), self._loop.time())
            if self._timer is None:
                self._plan()

    def _plan(self) -> None:
        self._due = self._loop.time() + _EVERY
        self._timer = self._loop.call_later(_EVERY, self._look)

    def _look(self) -> None:
        now = self._loop.time()
        slept = now - self._due > _LATE
        stuck: dict[Node, list[UpstreamConnection]] = {}
        for upstream, look in [*self._looks.items()]:
            if upstream.closed or not upstream.shared or upstream.pipeline.head is None:
                del self._looks[upstream]
                if upstream.shared and not upstream.closed:
                    self._follow(upstream)
                continue
            progress = upstream.progress()
            if slept or progress != look.progress or not upstream.reading:
                look.moved(progress, now)
            elif self._is_stuck(upstream, look, now):
                look.told = now
                stuck.setdefault(upstream.key.node, []).append(upstream)
        self._timer = None
        if self._looks:
            self._plan()
        for node, silent in stuck.items():
            self._connections.stuck(node, silent)

    def _is_stuck(self, upstream: UpstreamConnection, look: _Look, now: float) -> bool:
        node = self._liveness.of(upstream.key.node)
        if node is None or now - look.since < _SILENCE or now - look.told < _AGAIN:
            return False
        return node.answers_since(max(look.since, look.told), now)

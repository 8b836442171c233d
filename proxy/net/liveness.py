"""Whether Redis answers, found out without the clients' commands.

A Redis that hangs, or a network that swallows what is sent, closes no connection: only a PING with a deadline tells.
Each second one is sent to each node on a connection of the route's own, and on the shared ones.

    no answer for ``silence`` seconds    the route is not ready, and says since when. Nobody is closed: a Redis that is
                                         frozen, in a slow command or under CLIENT PAUSE answers all of it later
    the same of one shared connection,   the connection is dead, and Redis is not: it is replaced, and the clients that
    where a fresh one is answered        wait on it are closed, so that they connect again

Under CLIENT PAUSE WRITE a connection that has sent a write is silent, and a fresh one is answered PING. So the fresh
one must be answered PFCOUNT as well: it changes nothing, and Redis holds it back as it does a write
(``may_replicate``). On the slow lane a command of a module may hold up its connection alone, so nothing is replaced
there. Connections of single clients are not asked anything: TCP keepalive and TCP_USER_TIMEOUT watch over those.
"""

import asyncio
import logging
import time
from collections.abc import Iterator
from functools import partial

from proxy.commands.table import Lane
from proxy.net.connect import UpstreamRefusedError
from proxy.net.connections import Connections
from proxy.net.upstream import UpstreamConnection
from proxy.session.ports import Node

_HELD_LIKE_WRITES = ["PFCOUNT", "keyrail:answers"]

_PAUSE = 0.5
"""Seconds by which a turn may be late before the delay counts as a pause of this process."""

_log = logging.getLogger("keyrail.route")


class _Question:
    """A PING under way: since when, and since when nothing has moved on its connection."""

    __slots__ = ("asked", "moved", "progress")

    def __init__(self, now: float, progress: tuple[int, ...]) -> None:
        self.asked = now
        self.moved = now
        self.progress = progress


class NodeLiveness:
    """Watches over the connections to one node of a route in one worker.

    Redis is ``silent_since`` that time, in seconds since the epoch; None while it answers. ``silence`` is in seconds,
    and with 0 nothing is asked.
    """

    def __init__(self, connections: Connections, node: Node, silence: float) -> None:
        self.silent_since: float | None = None
        self._connections = connections
        self._supply = connections.supply
        self._node = node
        self._silence = silence
        self._own: UpstreamConnection | None = None
        self._opening = False
        self._turned = self._heard = connections.loop.time()
        self._questions: dict[UpstreamConnection, _Question] = {}
        self._checking = False
        self._proved = False

    @property
    def reason(self) -> str:
        """Since when Redis does not answer; empty where it does."""
        if self.silent_since is None:
            return ""
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.silent_since))
        return f"{self._connections.topology.address(self._node)}: Redis does not answer since {since}"

    def another_second(self) -> None:
        """Look at what has not been answered, and ask again where it has."""
        now = self._connections.loop.time()
        self._forgive_pause(now)
        self._observe(now)
        self._ask_all(now)

    def _forgive_pause(self, now: float) -> None:
        # While this process stood still it read nothing, so that time is not Redis's silence.
        pause = now - self._turned - 1.0
        self._turned = now
        if pause > _PAUSE:
            self._heard += pause
            for question in self._questions.values():
                question.asked += pause
                question.moved += pause

    # Asking

    def _ask_all(self, now: float) -> None:
        if self._own is None or self._own.closed:
            self._open()
        else:
            self._ask(self._own, now)
        for upstream in self._shared():
            self._ask(upstream, now)

    def _shared(self) -> Iterator[UpstreamConnection]:
        # Of the route's own login always, so that no client has to find out; of its users' where somebody waits.
        for pool in self._connections.pools:
            for upstream in pool.lanes[Lane.FAST]:
                if (
                    upstream.key.node is self._node
                    and upstream.reading
                    and (pool.key.user is None or upstream.pipeline.head is not None)
                ):
                    yield upstream

    def _ask(self, upstream: UpstreamConnection, now: float) -> None:
        if upstream not in self._questions and upstream.vacant() and not upstream.closed:
            self._questions[upstream] = _Question(now, upstream.progress())
            upstream.ask(["PING"]).add_done_callback(partial(self._answered, upstream))

    def _answered(self, upstream: UpstreamConnection, question: "asyncio.Future[bytes]") -> None:
        self._questions.pop(upstream, None)
        if not question.cancelled() and question.exception() is None:
            self._heard = self._connections.loop.time()
            self.silent_since = None

    def _open(self) -> None:
        # Where the pool of the route has no connection either, it says so itself, and goes on trying.
        if not self._opening and self._supply.alive(self._node):
            self._opening = True
            self._connections.all.start(self._open_own())

    async def _open_own(self) -> None:
        try:
            self._own = await self._supply.open_apart(self._node)
        except (OSError, UpstreamRefusedError):
            self._own = None
        finally:
            self._opening = False

    # Looking

    def _observe(self, now: float) -> None:
        for upstream, question in self._questions.items():
            progress = upstream.progress()
            if progress != question.progress or not upstream.reading:
                question.progress, question.moved = progress, now
        dead = self._dead(now)
        proved, self._proved = self._proved, False
        if not dead:
            return
        if proved:
            self._replace(dead)
            return
        first = min(self._questions[upstream].asked for upstream in dead)
        if self.silent_since is None and now - max(first, self._heard) >= self._silence:
            self.silent_since = time.time() - (now - first)
        if not self._checking:
            self._checking = True
            self._connections.all.start(self._check())

    def _dead(self, now: float) -> list[UpstreamConnection]:
        return [
            upstream
            for upstream, question in self._questions.items()
            if not upstream.closed and now - question.moved >= self._silence
        ]

    async def _check(self) -> None:
        fresh: UpstreamConnection | None = None
        try:
            async with asyncio.timeout(self._silence):
                fresh = await self._supply.open_apart(self._node)
                # The next turn acts on it: a Redis that was frozen until now answers everything before that.
                self._proved = await self._runs_writes(fresh)
        except (OSError, UpstreamRefusedError):
            return
        finally:
            self._checking = False
            if fresh is not None:
                fresh.abort()

    async def _runs_writes(self, fresh: UpstreamConnection) -> bool:
        # Only a result: Redis looks at rights, and whether it is busy or loading, before it looks whether it is paused.
        if await fresh.ask(["PING"]) != b"+PONG\r\n":
            return False
        return (await fresh.ask(_HELD_LIKE_WRITES)).startswith((b":", b"-WRONGTYPE"))

    def _replace(self, dead: list[UpstreamConnection]) -> None:
        self.silent_since = None
        for upstream in dead:
            self._connections.count("silent")
            upstream.abort()
        if dead:
            _log.warning(
                "%s: replaced %d connections that were silent for %g s: a new one is answered",
                self._connections.topology.address(self._node),
                len(dead),
                self._silence,
            )


class Liveness:
    """Watches over all nodes of one route in one worker; the route is ``silent_since`` the first of them is."""

    def __init__(self, connections: Connections, silence: float) -> None:
        self._connections = connections
        self._silence = silence
        self._nodes: dict[Node, NodeLiveness] = {}

    @property
    def silent_since(self) -> float | None:
        """Seconds since the epoch; None while all nodes answer."""
        return min((since for each in self._nodes.values() if (since := each.silent_since) is not None), default=None)

    @property
    def reason(self) -> str:
        """Which nodes do not answer, and since when; empty while all do."""
        return "; ".join(each.reason for each in self._nodes.values() if each.reason)

    def another_second(self) -> None:
        """Ask the nodes that the topology has now, and forget the others."""
        if self._silence <= 0 or self._connections.all.closing:
            return
        self._nodes = {
            node: self._nodes.get(node) or NodeLiveness(self._connections, node, self._silence)
            for node in self._connections.topology.nodes
        }
        for each in self._nodes.values():
            each.another_second()

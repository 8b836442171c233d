"""Health checks with PING: whether Redis answers, and which connections are dead.

If Redis hangs, or the network drops packets, no connection is closed. Only a PING with a deadline detects that. Each
second Keyrail sends one to each node, on a connection of its own and on the shared ones.

    no reply for ``silence`` seconds     the route is not ready, and its reason says since when. No client is closed: a
                                         Redis that is frozen, in a slow command or under CLIENT PAUSE answers later
    the same on one shared connection,   this connection is dead, but Redis is not: Keyrail replaces the connection, and
    while a new connection gets replies  closes the clients that wait on it, so that they connect again

Under CLIENT PAUSE WRITE a connection that has sent a write gets no reply, but PING on a new connection does. So Redis
must also answer PFCOUNT on the new connection. PFCOUNT changes nothing, and CLIENT PAUSE WRITE delays it like a write
(``may_replicate``). On the slow lane a command of a module may block its connection alone, so Keyrail replaces nothing
there. It sends no PING on connections of single clients: TCP keepalive and TCP_USER_TIMEOUT detect their loss.

A node whose PING is not answered within a second is late: its topology finds out each second whether another server has
taken its place. With a cluster upstream, another node does meanwhile what any node can do, such as PING.
"""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from functools import partial

from proxy.commands.table import Lane
from proxy.net.connection.connect import UpstreamRefusedError
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.pool.connections import Connections
from proxy.net.pool.node_info import NodeInfo
from proxy.net.pool.write_probe import runs_writes
from proxy.session.ports.pool_key import Node

_PONG = b"+PONG\r\n"
_SHOWN = 100
"""The most bytes of a reply that the log shows."""

_LATE_SECONDS = 0.9
"""A little less than a turn."""

_PAUSE = 0.5
"""Seconds by which a turn may be late before the delay counts as a pause of this process."""

_SHORTLY = 0.02
"""Seconds in which what Redis has answered together with a PING has surely come."""

_log = logging.getLogger("keyrail.route")


class _Question:
    """A pending PING: when it was sent, by two clocks, and when its connection last made progress."""

    __slots__ = ("asked", "moved", "progress", "sent")

    def __init__(self, now: float, progress: tuple[object, ...]) -> None:
        self.asked = now
        self.sent = time.perf_counter()
        self.moved = now
        self.progress = progress


class NodeLiveness:
    """The health checks of one node of a route, in one worker.

    Redis has not answered since ``silent_since``, in seconds since the epoch; None while it answers. ``ping`` is how
    many seconds its last answer took, on the connection of the checks. ``silence`` is in seconds; 0 turns the checks
    off.
    """

    def __init__(self, connections: Connections, node: Node, silence: float, *, asks_info: bool = False) -> None:
        self.silent_since: float | None = None
        self.ping: float | None = None
        self._info = NodeInfo() if asks_info else None
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
        self._late = False
        self._own_asked = self._own_heard = float("-inf")

    @property
    def reason(self) -> str:
        """A text that says since when Redis has not answered; empty while it answers."""
        if self.silent_since is None:
            return ""
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.silent_since))
        return f"{self._connections.topology.address(self._node)}: Redis has not answered since {since}"

    @property
    def info(self) -> Mapping[str, float] | None:
        """What the node says of its keys and memory (``info_figures``); None if it has not answered for a while, or
        another worker asks."""
        return None if self._info is None else self._info.figures(self._connections.loop.time())

    def another_second(self) -> None:
        """Check the pending PINGs, and send new ones."""
        now = self._connections.loop.time()
        self._forgive_pause(now)
        self._observe(now)
        self._note_late(now)
        in_time = self._own is not None and self._own not in self._questions and not self._late
        self._ask_all(now)
        if self._info is not None and self._own is not None and in_time:
            self._info.ask(self._own, now)  # after PING, whose time it is not to lengthen

    def _note_late(self, now: float) -> None:
        # On a user's connection commands of that user alone may be held back.
        asked = [question for upstream, question in self._questions.items() if upstream.key.user is None]
        late = any(now - question.moved >= _LATE_SECONDS for question in asked)
        if late != self._late:
            self._late = late
            self._connections.hesitates(self._node, late=late)
        if late or self.silent_since is not None:
            self._connections.topology.doubt()

    def answers_since(self, moment: float, now: float) -> bool:
        """Whether Redis has answered a PING of the checks' own connection that was sent after this moment, and a little
        time has gone by since. If not, one is sent, unless one is pending."""
        if self._own_asked > moment:
            return now - self._own_heard >= _SHORTLY
        self._ask_own(now)
        return False

    def _forgive_pause(self, now: float) -> None:
        # While this process was paused it read nothing, so this time does not count as silence of Redis.
        pause = now - self._turned - 1.0
        self._turned = now
        if pause > _PAUSE:
            self._heard += pause
            for question in self._questions.values():
                question.asked += pause
                question.moved += pause

    # Asking

    def _ask_own(self, now: float) -> None:
        if self._own is None or self._own.closed:
            self._open()
        else:
            self._ask(self._own, now)

    def _ask_all(self, now: float) -> None:
        self._ask_own(now)
        for upstream in self._shared():
            self._ask(upstream, now)

    def _shared(self) -> Iterator[UpstreamConnection]:
        # With the route's own login always, so that no client meets a dead connection. With a user's login only while
        # a client waits.
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
        asked = self._questions.pop(upstream, None)
        if not question.cancelled() and question.exception() is None:
            reply = question.result()
            if reply != _PONG and not reply.startswith(b"-"):
                # Each of its replies may be to another command than it is taken for.
                self._connections.count("out_of_step")
                _log.error("a connection is out of step and is closed: PING was answered %r", reply[:_SHOWN])
                upstream.abort()
            self._heard = self._connections.loop.time()
            self.silent_since = None
            if self._late:
                self._note_late(self._heard)
            if upstream is self._own and asked is not None:
                self._own_asked, self._own_heard = asked.asked, self._heard
                # The loop's clock stands still while it is busy with others.
                self.ping = time.perf_counter() - asked.sent

    def _open(self) -> None:
        # Without any connection to the node, the pool reports that itself and keeps trying.
        if not self._opening and self._supply.alive(self._node):
            self._opening = True
            self._connections.all.start(self._open_own())

    async def _open_own(self) -> None:
        try:
            self._own = await self._connections.opening.open_apart(self._node)
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
                fresh = await self._connections.opening.open_apart(self._node)
                # The next turn acts on it. A Redis that was frozen until now answers everything before that.
                self._proved = await self._runs_writes(fresh)
        except (OSError, UpstreamRefusedError):
            return
        finally:
            self._checking = False
            if fresh is not None:
                fresh.abort()

    async def _runs_writes(self, fresh: UpstreamConnection) -> bool:
        return await fresh.ask(["PING"]) == _PONG and await runs_writes(fresh, self._connections.topology)

    def _replace(self, dead: list[UpstreamConnection]) -> None:
        self.silent_since = None
        for upstream in dead:
            self._connections.count("silent")
            upstream.abort()
        if dead:
            _log.warning(
                "%s: replaced %d connections without a reply for %g s; Redis answers on a new connection",
                self._connections.topology.address(self._node),
                len(dead),
                self._silence,
            )


class Liveness:
    """The health checks of all nodes of one route, in one worker. ``silent_since`` is that of the first silent node.
    ``asks_info``: this worker asks nodes for INFO, too."""

    def __init__(self, connections: Connections, silence: float, *, asks_info: bool = False) -> None:
        self._connections = connections
        self._silence = silence
        self._asks_info = asks_info
        self._nodes: dict[Node, NodeLiveness] = {}

    @property
    def silent_since(self) -> float | None:
        """Seconds since the epoch; None while all nodes answer."""
        return min((since for each in self._nodes.values() if (since := each.silent_since) is not None), default=None)

    @property
    def reason(self) -> str:
        """Which nodes have not answered, and since when; empty while all answer."""
        return "; ".join(each.reason for each in self._nodes.values() if each.reason)

    def of(self, node: Node) -> NodeLiveness | None:
        """The health checks of this node, if it has any."""
        return self._nodes.get(node)

    def another_second(self) -> None:
        """Check the current nodes of the topology, and forget the others."""
        if self._silence <= 0 or self._connections.all.closing:
            return
        self._nodes = {
            node: self._nodes.get(node)
            or NodeLiveness(self._connections, node, self._silence, asks_info=self._asks_info)
            for node in self._connections.topology.nodes
        }
        for each in self._nodes.values():
            each.another_second()

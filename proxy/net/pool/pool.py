"""One pool of upstream connections: shared ones on two lanes, idle ones for single clients, and the waiting sessions.

The key of a pool is user, database and protocol, and a node in a role. Its clients share one connection. Keyrail opens
more, up to a limit, while that one is head-blocked or its write buffer is full. Commands that can occupy Redis for long
use connections of a second lane.

Pools of the route's own login open connections when they need them. Keyrail keeps no passwords of clients, so the pool
of a user whom clients log in as has only connections on which a client's AUTH succeeded. Each such login leaves its
connection in the pool, for a minute more than the user has clients. A connection in another database or protocol of the
same login is switched by a hidden SELECT or HELLO. When the last connection of a login is lost, Keyrail closes the
clients of that login.
"""

import asyncio
import itertools
import random
from collections import deque
from collections.abc import Callable, Sequence

from proxy.commands.table import Lane
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.pool.backoff import Backoff
from proxy.session.ports.pool_key import PoolKey
from proxy.session.ports.pool_waiter import PoolWaiter, UpstreamWait

_IDLE_SECONDS = 60.0
_NUMBERS = itertools.count()
"""Of the waits, in the order in which they began."""


class Wait(UpstreamWait):
    """One wait of a session in a ``pool``, for a connection of the ``lane`` or, if it is None, a private one.

    It lasts up to the time ``until``, or until it has ``ended``. The session's next wait is another object.
    """

    def __init__(self, waiter: PoolWaiter, pool: "Pool", lane: Lane | None, until: float) -> None:
        self.waiter = waiter
        self.pool = pool
        self.lane = lane
        self.until = until
        self.ended = False
        self._left = False
        self.number = next(_NUMBERS)
        self._queue().append(self)
        pool.wanting[pool] = None

    @property
    def gone(self) -> bool:
        """Whether its session waits no more."""
        return self._left or self.waiter.gone

    def arrived(self) -> None:
        """There may be a connection for it."""
        self.waiter.arrived()

    def end(self) -> None:
        """Leave the queue."""
        self._left = True
        if not self.ended:
            self.ended = True
            self._queue().remove(self)

    def _queue(self) -> "deque[Wait]":
        return self.pool.waiting_private if self.lane is None else self.pool.waiting_shared[self.lane]


def turn_away(waiter: PoolWaiter, refusal: str) -> None:
    """Close a session that gets no connection; the client gets the error of Redis if there is one."""
    if refusal:
        waiter.turn_away(f"-{refusal}\r\n".encode(), "upstream_refused")
    else:
        waiter.close("no_upstream")


def _turn_all_away(queue: deque[Wait], refusal: str) -> None:
    waiting = [*queue]
    queue.clear()
    for wait in waiting:
        wait.ended = True  # all of them first: a client that is closed ends its other waits
    for wait in waiting:
        if not wait.waiter.gone:
            turn_away(wait.waiter, refusal)


class Pool:
    """The connections of one key.

    ``refusal`` has the error with which Redis refused the last connection, by lane (None: a private connection). It has
    no entry if Redis could not be reached, or has accepted a connection since.
    """

    def __init__(self, key: PoolKey, wanting: "dict[Pool, None] | None" = None) -> None:
        """``wanting`` are the pools of the route in which sessions may wait."""
        self.key = key
        self.wanting: dict[Pool, None] = {} if wanting is None else wanting
        self.lanes: dict[Lane, list[UpstreamConnection]] = {Lane.FAST: [], Lane.SLOW: []}
        self.idle: list[UpstreamConnection] = []
        self.opening: dict[Lane | None, int] = {Lane.FAST: 0, Lane.SLOW: 0, None: 0}
        self.waiting_shared: dict[Lane, deque[Wait]] = {Lane.FAST: deque(), Lane.SLOW: deque()}
        self.waiting_private: deque[Wait] = deque()
        self.backoff: dict[Lane | None, Backoff] = {lane: Backoff(random.random) for lane in self.opening}
        self.backing_off: dict[Lane | None, asyncio.TimerHandle] = {}
        self.refusal: dict[Lane | None, str] = {}
        self.kept_at = float("-inf")
        """The time at which there was last a connection for one client."""
        self.deserted_at: float | None = None
        """Since when the user has no clients, whom clients have logged in as."""

    def shared(self, lane: Lane) -> UpstreamConnection | None:
        """A shared connection of the lane that takes commands now."""
        for upstream in self.lanes[lane]:
            if upstream.takes_work():
                return upstream
        return None

    def in_unit(self, lane: Lane) -> bool:
        """Whether a client's open transaction is all that keeps a connection of the lane from taking commands."""
        return any(upstream.in_unit() for upstream in self.lanes[lane])

    def alive(self, lane: Lane) -> bool:
        """Whether the lane has a connection, also a busy one."""
        return bool(self.lanes[lane])

    def take_idle(self) -> UpstreamConnection | None:
        """Remove and return the idle connection that was used last."""
        for upstream in reversed(self.idle):
            if upstream.is_free():
                self.idle.remove(upstream)
                return upstream
        return None

    def take(self, upstream: UpstreamConnection) -> bool:
        """Remove this connection if it is an idle one; return whether it was."""
        if upstream not in self.idle:
            return False
        self.idle.remove(upstream)
        return True

    def has_idle(self) -> bool:
        """Whether ``take_idle`` finds one."""
        return any(upstream.is_free() for upstream in self.idle)

    def keep(self, upstream: UpstreamConnection, now: float, most: int) -> None:
        """Keep an idle connection for one client, or close it if there are ``most`` already."""
        if len(self.idle) >= most:
            upstream.close()
            return
        upstream.put_by(now)
        self.kept_at = now
        self.idle.append(upstream)

    def forget(self, upstream: UpstreamConnection) -> bool:
        """Remove a connection; return whether it was a shared one."""
        for members in self.lanes.values():
            if upstream in members:
                members.remove(upstream)
                return True
        self.take(upstream)
        return False

    def reap(self, now: float) -> None:
        """Close connections that have been idle for a minute."""
        for upstream in [idle for idle in self.idle if now - idle.idle_since > _IDLE_SECONDS]:
            self.idle.remove(upstream)
            upstream.close()

    def trim(self, most: int, now: float) -> None:
        """Close idle connections until there are at most ``most``: as many as the user has clients. A minute after the
        last one has left, the shared connections are closed, too."""
        while len(self.idle) > most:
            self.idle.pop(0).close()
        self.deserted_at = None if most else self.deserted_at or now
        if self.deserted_at is not None and now - self.deserted_at > _IDLE_SECONDS:
            for upstream in [shared for shared in self.connections() if shared.is_free()]:
                self.forget(upstream)
                upstream.close()

    def wake(self, queue: deque[Wait], there_is: Callable[[], object] = lambda: True) -> None:
        """Let each waiting session try once more, while ``there_is`` something for it.

        A session that finds nothing queues again, and keeps its place. If a session does not take the connection,
        because it waits for something else by now, the next one can.
        """
        again = False
        for _ in range(len(queue)):
            if not queue or not there_is():
                break
            wait = queue.popleft()
            wait.ended = True
            others = len(queue)
            if not wait.waiter.gone:
                wait.waiter.arrived()
            for anew in itertools.islice(queue, others, None):
                if anew.waiter is wait.waiter:
                    anew.number, again = wait.number, True
        if again:
            in_order = sorted(queue, key=lambda wait: wait.number)
            queue.clear()
            queue.extend(in_order)

    def take_waiting(self, lane: Lane) -> Sequence[Wait]:
        """Whoever waits for a shared connection of this lane, to be brought on: the queue is empty then."""
        queue = self.waiting_shared[lane]
        waiting = [*queue]
        queue.clear()
        for wait in waiting:
            wait.ended = True
        return waiting

    def take_over(self, other: "Pool") -> None:
        """Whoever waits in another pool waits here from now on."""
        for lane, queue in other.waiting_shared.items():
            self.waiting_shared[lane] += queue
        self.waiting_private += other.waiting_private
        self.kept_at = max(self.kept_at, other.kept_at)
        for queue in (other.waiting_private, *other.waiting_shared.values()):
            for wait in queue:
                wait.pool = self
                self.wanting[self] = None
            queue.clear()

    def refuse(self, refusal: str) -> None:
        """No connection can be switched to this pool's database and protocol: the waiting sessions get Redis's error
        and are closed, but for those that wait for a shared connection which is there."""
        _turn_all_away(self.waiting_private, refusal)
        for lane, queue in self.waiting_shared.items():
            if not self.alive(lane):
                _turn_all_away(queue, refusal)

    def succeeded(self, lane: Lane | None) -> None:
        """Redis has accepted a connection for this lane."""
        self.backoff[lane].succeeded()
        self.refusal.pop(lane, None)

    def failed(self, lane: Lane | None, refusal: str) -> None:
        """A connection for this lane failed. With a ``refusal`` of Redis, the waiting clients get it and are closed."""
        self.refusal.pop(lane, None)
        if not refusal:
            return
        self.refusal[lane] = refusal
        if lane is None:
            _turn_all_away(self.waiting_private, refusal)
        elif not self.alive(lane):
            _turn_all_away(self.waiting_shared[lane], refusal)

    def connections(self) -> list[UpstreamConnection]:
        """All connections that no client has for itself."""
        return [*self.lanes[Lane.FAST], *self.lanes[Lane.SLOW], *self.idle]

    def awaited(self) -> bool:
        """Whether somebody waits for a connection."""
        return bool(self.waiting_private or any(self.waiting_shared.values()))

    def longest(self) -> int:
        """The number of the wait that has lasted longest."""
        return min(queue[0].number for queue in (self.waiting_private, *self.waiting_shared.values()) if queue)

    def in_use(self) -> bool:
        """Whether the pool has a connection, or somebody waits for one."""
        return bool(self.connections() or any(self.opening.values()) or self.backing_off or self.awaited())

"""The upstream connections of a route, by pool: shared ones on two lanes, idle ones for single clients, and who waits.

A pool is a (user, database, protocol) on a node in a role. Its clients' runs meet on one shared connection for as long
as that takes them; more are opened, up to a limit, while its head is blocked or it is congested. Commands that can hold
Redis up for long go on connections of a second lane.

Pools of the route's own login open connections as they need them. Pools of a user that clients have logged in as
consist only of connections on which some client's AUTH succeeded, for Keyrail keeps no password: every such login
leaves its connection here, so there are as many as clients, and a connection of another database or protocol of the
same login is set right by a hidden SELECT or HELLO. When a login's last connection is lost, its clients are closed.
"""

import random
from collections import deque
from collections.abc import Callable

from proxy.commands.table import Lane
from proxy.net.upstream import UpstreamConnection
from proxy.session.pool_waiter import PoolWaiter
from proxy.session.ports import PoolKey

_IDLE_SECONDS = 60.0


class Wait:
    """One time that a session waits; it may wait again, with another of these."""

    def __init__(self, waiter: PoolWaiter) -> None:
        self.waiter = waiter


def turn_away(waiter: PoolWaiter, refusal: str) -> None:
    """Close who gets no connection, with the error that refused it where there is one."""
    if refusal:
        waiter.turn_away(f"-{refusal}\r\n".encode(), "upstream_refused")
    else:
        waiter.close("no_upstream")


def _turn_all_away(queue: deque[Wait], refusal: str) -> None:
    waiting = [*queue]
    queue.clear()
    for wait in waiting:
        turn_away(wait.waiter, refusal)


class Pool:
    """The connections of one key.

    ``refusal`` is what Redis said when it refused the last connection of a lane (None: a private one); nothing where it
    could not be reached, or has accepted one since.
    """

    def __init__(self, key: PoolKey) -> None:
        self.key = key
        self.lanes: dict[Lane, list[UpstreamConnection]] = {Lane.FAST: [], Lane.SLOW: []}
        self.idle: list[UpstreamConnection] = []
        self.opening: dict[Lane | None, int] = {Lane.FAST: 0, Lane.SLOW: 0, None: 0}
        self.waiting_shared: dict[Lane, deque[Wait]] = {Lane.FAST: deque(), Lane.SLOW: deque()}
        self.waiting_private: deque[Wait] = deque()
        self.backoff: dict[Lane | None, Backoff] = {lane: Backoff(random.random) for lane in self.opening}
        self.backing_off: set[Lane | None] = set()
        self.refusal: dict[Lane | None, str] = {}

    def shared(self, lane: Lane) -> UpstreamConnection | None:
        """A shared connection of the lane that takes work now."""
        for upstream in self.lanes[lane]:
            if upstream.takes_work():
                return upstream
        return None

    def in_unit(self, lane: Lane) -> bool:
        """Whether a connection of the lane would take work, were it not for a client's open transaction."""
        return any(upstream.in_unit() for upstream in self.lanes[lane])

    def alive(self, lane: Lane) -> bool:
        """Whether the lane has any connection, busy as it may be."""
        return bool(self.lanes[lane])

    def take_idle(self) -> UpstreamConnection | None:
        """An idle private connection, the one used last."""
        for upstream in reversed(self.idle):
            if upstream.is_free():
                self.idle.remove(upstream)
                return upstream
        return None

    def has_idle(self) -> bool:
        """Whether ``take_idle`` finds one."""
        return any(upstream.is_free() for upstream in self.idle)

    def keep(self, upstream: UpstreamConnection, now: float, most: int) -> None:
        """Put a private connection by; it is closed when there are ``most`` already."""
        if len(self.idle) >= most:
            upstream.close()
            return
        upstream.put_by(now)
        self.idle.append(upstream)

    def forget(self, upstream: UpstreamConnection) -> bool:
        """Remove a connection; whether it was a shared one."""
        for members in self.lanes.values():
            if upstream in members:
                members.remove(upstream)
                return True
        if upstream in self.idle:
            self.idle.remove(upstream)
        return False

    def reap(self, now: float) -> None:
        """Close connections that have been idle for a minute."""
        for upstream in [idle for idle in self.idle if now - idle.idle_since > _IDLE_SECONDS]:
            self.idle.remove(upstream)
            upstream.close()

    def trim(self, most: int) -> None:
        """Close idle connections that are more than ``most``."""
        while len(self.idle) > most:
            self.idle.pop(0).close()

    def wake(self, queue: deque[Wait], there_is: Callable[[], object] = lambda: True) -> None:
        """Let those who wait try again, each once, as long as there is something for them.

        Those who find nothing queue up anew. Who does not take what there is, since it has another reason to wait by
        now, leaves it to the next one.
        """
        for _ in range(len(queue)):
            if not queue or not there_is():
                return
            waiter = queue.popleft().waiter
            if not waiter.gone:
                waiter.arrived()

    def refuse(self) -> None:
        """Close those who wait: no connection can be set to what this pool's are."""
        for queue in (self.waiting_private, *self.waiting_shared.values()):
            _turn_all_away(queue, "")

    def succeeded(self, lane: Lane | None) -> None:
        """Redis has accepted a connection for this lane."""
        self.backoff[lane].succeeded()
        self.refusal.pop(lane, None)

    def failed(self, lane: Lane | None, refusal: str) -> None:
        """There is no new connection for this lane; with a ``refusal`` of Redis, who waits is told it, and closed."""
        self.refusal.pop(lane, None)
        if not refusal:
            return
        self.refusal[lane] = refusal
        if lane is None:
            _turn_all_away(self.waiting_private, refusal)
        elif not self.alive(lane):
            _turn_all_away(self.waiting_shared[lane], refusal)

    def connections(self) -> list[UpstreamConnection]:
        """All that are not in the hands of a client."""
        return [*self.lanes[Lane.FAST], *self.lanes[Lane.SLOW], *self.idle]

    def in_use(self) -> bool:
        """Whether anything is here or expected."""
        expected = any(self.opening.values()) or self.backing_off or self.waiting_private
        return bool(self.connections() or expected or any(self.waiting_shared.values()))


class Backoff:
    """Seconds to wait before the next attempt: doubling from 50 ms to 2 s, with jitter, reset by success."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._failures = 0

    def failed(self) -> float:
        """One more failure: how long to wait now."""
        self._failures += 1
        return min(2.0, 0.05 * 2.0 ** min(self._failures - 1, 10)) * (0.5 + self._random())

    def succeeded(self) -> None:
        """Start anew."""
        self._failures = 0

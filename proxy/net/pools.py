"""All pools of a route. Those that nothing is in and nobody waits at are forgotten, but for the home pool."""

from collections.abc import Callable, Iterator

from proxy.commands.table import Lane
from proxy.net.pool import Pool
from proxy.net.upstream import UpstreamConnection
from proxy.session.gate import PoolKey


class Pools:
    """The pools by key; ``home`` is the one that clients begin in."""

    def __init__(self, home: PoolKey) -> None:
        self.home = home
        self._pools: dict[PoolKey, Pool] = {}

    def of(self, key: PoolKey) -> Pool:
        """The pool of this key; it exists from the first look at it."""
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = Pool(key)
        return pool

    def __iter__(self) -> Iterator[Pool]:
        return iter(list(self._pools.values()))

    def alive(self, key: PoolKey) -> bool:
        """Whether this pool has a connection on its fast lane."""
        pool = self._pools.get(key)
        return pool is not None and pool.alive(Lane.FAST)

    def reaches(self, database: int) -> bool:
        """Whether the route's own login has connections of this database."""
        return any(
            key.database == database and key.user is None and pool.alive(Lane.FAST) for key, pool in self._pools.items()
        )

    def users(self) -> list[PoolKey]:
        """A key for each user that clients have logged in as."""
        return list({key.user: key for key in self._pools if key.user is not None}.values())

    def take_spare(self, user: str | None) -> UpstreamConnection | None:
        """A connection of this user on which nothing is owed, taken from whichever pool can do without it."""
        theirs = [pool for pool in self._pools.values() if pool.key.user == user]
        for pool in sorted(theirs, key=lambda pool: not pool.idle):
            open_ones = (upstream for upstream in pool.lanes[Lane.FAST] if not upstream.closed)
            free = (upstream for upstream in open_ones if upstream.head is None and upstream.vacant())
            upstream = pool.take_idle() or next(free, None)
            if upstream is not None:
                pool.forget(upstream)
                return upstream
        return None

    def idle(self) -> int:
        """Connections that lie ready for single clients."""
        return sum(len(pool.idle) for pool in self)

    def opening_private(self) -> int:
        """Connections for single clients that are being opened."""
        return sum(pool.opening[None] for pool in self)

    def tend(self, now: float, logged_in: Callable[[str], int]) -> None:
        """Close what has been idle for long, and what is more than a user's clients can need."""
        for key, pool in list(self._pools.items()):
            if key.user is None:
                pool.reap(now)
            else:
                pool.trim(logged_in(key.user))
            if key != self.home and not pool.in_use():
                del self._pools[key]

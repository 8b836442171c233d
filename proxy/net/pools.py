"""All pools of a route. Those that nothing is in and nobody waits at are forgotten, but for the home pool."""

import itertools
from collections.abc import Callable, Iterator

from proxy.commands.table import Lane
from proxy.net.pool import Pool
from proxy.net.upstream import UpstreamConnection
from proxy.session.ports import PoolKey


class Pools:
    """The pools by key; ``home`` is the one that clients begin in."""

    def __init__(self, home: PoolKey) -> None:
        self.home = home
        self._pools: dict[PoolKey, Pool] = {}
        self._by_user: dict[str | None, dict[PoolKey, Pool]] = {}

    def of(self, key: PoolKey) -> Pool:
        """The pool of this key; it exists from the first look at it."""
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = self._by_user.setdefault(key.user, {})[key] = Pool(key)
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

    def of_user(self, user: str | None) -> list[Pool]:
        """The pools of this user, of all databases and protocols."""
        return [*self._by_user.get(user, {}).values()]

    def take_idle(self, user: str | None) -> UpstreamConnection | None:
        """An idle connection of this user, of any database and protocol."""
        return next((found for pool in self.of_user(user) if (found := pool.take_idle()) is not None), None)

    def find_spare(self, user: str | None, key: PoolKey | None = None) -> UpstreamConnection | None:
        """A connection of this user without pending replies: of this pool, or else of any that can do without it."""
        theirs = self.of_user(user) if key is None else [self.of(key)]
        idle = (upstream for pool in theirs for upstream in reversed(pool.idle))
        shared = (upstream for pool in theirs for upstream in pool.lanes[Lane.FAST])
        return next((upstream for upstream in itertools.chain(idle, shared) if upstream.is_free()), None)

    def take_spare(self, user: str | None, key: PoolKey | None = None) -> UpstreamConnection | None:
        """The same, taken out of its pool."""
        upstream = self.find_spare(user, key)
        if upstream is not None:
            self.of(upstream.key).forget(upstream)
        return upstream

    def close_idle(self, wanting: Pool) -> None:
        """Close an idle connection of another pool, if there is any, to make room for one in this pool."""
        for pool in self._pools.values():
            if pool is not wanting and pool.key.user is None and pool.idle and not pool.waiting_private:
                pool.idle.pop(0).close()
                return

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
                self._remove(key)

    def _remove(self, key: PoolKey) -> None:
        del self._pools[key]
        theirs = self._by_user[key.user]
        del theirs[key]
        if not theirs:
            del self._by_user[key.user]

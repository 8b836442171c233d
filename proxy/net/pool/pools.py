"""All pools of a route. A pool without connections and waiting sessions is removed, except one for each node."""

import itertools
from collections.abc import Callable, Iterator
from weakref import WeakSet

from proxy.commands.table import Lane
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.pool.pool import Pool
from proxy.session.ports.pool_key import ANY_NODE, Login, Node, PoolKey


class Pools:
    """The pools by key. Clients begin in the pool ``home``.

    ``place`` says which node stands for the one in a key.
    """

    def __init__(self, home: PoolKey, place: Callable[[Node], Node] = lambda node: node) -> None:
        self.home = home
        self._place = place
        self._left: WeakSet[Node] = WeakSet()
        self._pools: dict[PoolKey, Pool] = {}
        self._wanting: dict[Pool, None] = {}
        self._own: dict[PoolKey, Pool] = {}
        """Those of the route's own login. Of users whom clients log in as there can be thousands."""
        self._by_login: dict[Login, dict[PoolKey, Pool]] = {}

    def of(self, key: PoolKey) -> Pool:
        """The pool of this key; created if there is none."""
        key = self.placed(key)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = self._by_login.setdefault(key.login, {})[key] = Pool(key, self._wanting)
            if key.user is None:
                self._own[key] = pool
        return pool

    def placed(self, key: PoolKey) -> PoolKey:
        """The key with the node that stands for the one in it."""
        node = self._place(key.node)
        return key if node is key.node else key._replace(node=node)

    def home_of(self, node: Node) -> PoolKey:
        """The pool of this node that always has a connection."""
        return self.home._replace(node=node)

    def is_home(self, key: PoolKey) -> bool:
        """Whether this is a pool that always has a connection. Each node has one."""
        return (key == self.home or key == self.home_of(key.node)) and key.node not in self._left

    def __iter__(self) -> Iterator[Pool]:
        return iter(list(self._pools.values()))

    def wanting(self) -> list[Pool]:
        """The pools in which sessions wait."""
        for pool in [pool for pool in self._wanting if not pool.awaited()]:
            del self._wanting[pool]
        return [*self._wanting]

    def alive(self, key: PoolKey) -> bool:
        """Whether this pool has a connection on its fast lane."""
        pool = self._pools.get(self.placed(key))
        return pool is not None and pool.alive(Lane.FAST)

    def reaches(self, key: PoolKey) -> bool:
        """Whether the key's login has connections of its database."""
        return any(pool.key.database == key.database and pool.alive(Lane.FAST) for pool in self.of_login(key))

    def users(self) -> list[PoolKey]:
        """A key for each user that clients have logged in as, on each node."""
        return list({key.login: key for key in self._pools if key.user is not None}.values())

    def of_login(self, key: PoolKey) -> list[Pool]:
        """The pools of the key's user on its node, of all databases and protocols."""
        return [*self._by_login.get(self.placed(key).login, {}).values()]

    def take_idle(self, key: PoolKey, *, alike: bool = False) -> UpstreamConnection | None:
        """An idle connection of the key's login, of any database; with ``alike``, of the key's protocol."""
        pools = (pool for pool in self.of_login(key) if not alike or pool.key.protocol == key.protocol)
        return next((found for pool in pools if (found := pool.take_idle()) is not None), None)

    def find_spare(self, key: PoolKey, *, anywhere: bool = False) -> UpstreamConnection | None:
        """A connection of this pool without pending replies; ``anywhere``: of any pool of its login."""
        theirs = self.of_login(key) if anywhere else [self.of(key)]
        idle = (upstream for pool in theirs for upstream in reversed(pool.idle))
        shared = (upstream for pool in theirs for upstream in pool.lanes[Lane.FAST])
        return next((upstream for upstream in itertools.chain(idle, shared) if upstream.is_free()), None)

    def take_spare(self, key: PoolKey, *, anywhere: bool = False) -> UpstreamConnection | None:
        """The same, removed from its pool."""
        upstream = self.find_spare(key, anywhere=anywhere)
        if upstream is not None:
            self.of(upstream.key).forget(upstream)
        return upstream

    def close_idle(self, wanting: Pool) -> None:
        """Close an idle connection of another pool, if there is one, so that this pool can open one."""
        for pool in self._own.values():
            if pool is not wanting and pool.idle and not pool.waiting_private:
                pool.idle.pop(0).close()
                return

    def idle(self) -> int:
        """How many idle connections are ready for single clients."""
        return sum(len(pool.idle) for pool in self)

    def opening_private(self) -> int:
        """How many connections for single clients are being opened."""
        return sum(pool.opening[None] for pool in self._own.values())

    def tend(self, now: float, logged_in: Callable[[str], int]) -> None:
        """Close connections that were idle for long, or that are more than a user has clients."""
        for key, pool in list(self._pools.items()):
            if key.user is None:
                pool.reap(now)
            else:
                pool.trim(logged_in(key.user), now)
            if not pool.in_use() and not self.is_home(key):
                self._remove(key)

    def join(self, node: Node) -> None:
        """A node has come: whoever waits for any waits for the one that stands for any now."""
        self._left.discard(node)
        for key, pool in list(self._pools.items()):
            if key.node is ANY_NODE:
                self._remove(key)
                self.of(key).take_over(pool)

    def look_again(self, node: Node) -> None:
        """Whoever waits for a connection to this node looks whether another one will do."""
        for pool in [pool for key, pool in self._pools.items() if key.node is node]:
            for queue in (pool.waiting_private, *pool.waiting_shared.values()):
                pool.wake(queue)

    def leave(self, node: Node, heir: Node | None) -> None:
        """A node has gone, and its connections with it: whoever waits for one waits for the heir's, or looks for
        another."""
        self._left.add(node)
        for key, pool in list(self._pools.items()):
            if key.node is node:
                self._remove(key)
                if heir is not None:
                    self.of(key._replace(node=heir)).take_over(pool)
                for queue in (pool.waiting_private, *pool.waiting_shared.values()):
                    pool.wake(queue)

    def _remove(self, key: PoolKey) -> None:
        del self._pools[key]
        self._own.pop(key, None)
        theirs = self._by_login[key.login]
        del theirs[key]
        if not theirs:
            del self._by_login[key.login]

"""Sessions that wait for a connection of a user whom clients log in as.

Keyrail opens none for such a user. So a session of any database and protocol waits for one that its user has, which is
switched when no reply is pending on it. Who has waited longest gets it.
"""

import asyncio
from functools import partial
from weakref import WeakSet

from proxy.commands.table import Lane
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.pool.connection_set import ConnectionSet
from proxy.net.pool.pool import Pool
from proxy.net.pool.supply import Supply
from proxy.session.ports.pool_key import PoolKey


class UserWaits:
    """Those of one route."""

    def __init__(self, connections: ConnectionSet, supply: Supply, loop: asyncio.AbstractEventLoop) -> None:
        self._of_users = connections.of_users
        self._pools = connections.pools
        self._supply = supply
        self._loop = loop
        self._watched: WeakSet[UpstreamConnection] = WeakSet()

    def some_have(self, key: PoolKey) -> bool:
        """Whether there are connections of this user's to the node, which others may have for themselves."""
        return key.user is not None and self._of_users.count(key.user, self._pools.placed(key).node) > 0

    def in_use(self, key: PoolKey) -> bool:
        """Whether replies are pending on shared connections of this login: one of them is free behind these."""
        pools = self._pools.of_login(key) if key.user is not None else ()
        return any(upstream.pipeline.head is not None for pool in pools for upstream in pool.lanes[Lane.FAST])

    def watch(self, key: PoolKey) -> None:
        """Serve the waiting sessions when no reply is pending on a shared connection of this login."""
        for pool in self._pools.of_login(key) if key.user is not None else ():
            for upstream in pool.lanes[Lane.FAST]:
                if upstream.pipeline.head is not None and upstream not in self._watched:
                    self._watched.add(upstream)
                    upstream.pipeline.when_drained(partial(self._drained, upstream, key))

    def _drained(self, upstream: UpstreamConnection, key: PoolKey) -> None:
        # In the next turn of the loop: the connection is free after the bytes just received are distributed.
        self._watched.discard(upstream)
        self._loop.call_soon(self.serve, key)

    def serve(self, key: PoolKey) -> None:
        """A connection of this login is free: a session that waits in any of its pools gets it."""
        waiting = sorted(filter(Pool.awaited, self._pools.of_login(key)), key=Pool.longest)
        for pool in waiting:
            pool.wake(pool.waiting_private, partial(self._pools.find_spare, key, anywhere=True))
            self._supply.supply(pool)
            if pool.waiting_shared[Lane.FAST] and not pool.alive(Lane.FAST):
                self._supply.ensure(pool, Lane.FAST)
        if any(map(Pool.awaited, waiting)):
            self.watch(key)

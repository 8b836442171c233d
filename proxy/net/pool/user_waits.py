"""Sessions that wait for a connection of a user whom clients log in as.

Keyrail opens none for such a user. So a session of any database and protocol waits for one that its user has, which is
switched when no reply is pending on it. Who has waited longest gets it: others that would keep a shared one busy wait.
"""

import asyncio
from collections.abc import Callable
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
        self.asked: WeakSet[UpstreamConnection] = WeakSet()
        """Those that have queries of Keyrail's own alone."""

    def some_have(self, key: PoolKey) -> bool:
        """Whether there are connections of this user's to the node, which others may have for themselves."""
        return key.user is not None and self._of_users.count(key.user, self._pools.placed(key).node) > 0

    def in_use(self, key: PoolKey) -> bool:
        """Whether a connection of this login is free soon: replies are pending on a shared one, it is being switched,
        or it has queries of Keyrail's own."""
        pools = self._pools.of_login(key) if key.user is not None else ()
        asked = any(each.key.login == self._pools.placed(key).login and not each.closed for each in self.asked)
        return asked or any(
            any(pool.opening.values()) or any(upstream.pipeline.head is not None for upstream in pool.lanes[Lane.FAST])
            for pool in pools
        )

    def any_for(self, key: PoolKey) -> bool:
        """Whether a session waits for a connection of this login."""
        return key.user is not None and any(map(Pool.awaited, self._pools.of_login(key)))

    def watch(self, key: PoolKey) -> None:
        """Serve the waiting sessions when the replies that are pending now on a shared connection of this login have
        come."""
        for pool in self._pools.of_login(key) if key.user is not None else ():
            for upstream in pool.lanes[Lane.FAST]:
                if upstream.pipeline.head is not None and upstream not in self._watched:
                    self._watched.add(upstream)
                    upstream.pipeline.when_drained(partial(self._soon, self._answered, upstream, key))

    def _soon(
        self, act: Callable[[UpstreamConnection, PoolKey], None], upstream: UpstreamConnection, key: PoolKey
    ) -> None:
        # In the next turn of the loop: the connection is free after the bytes just received are distributed.
        self._loop.call_soon(act, upstream, key)

    def _answered(self, upstream: UpstreamConnection, key: PoolKey) -> None:
        if upstream.shared and upstream.pipeline.head is not None and not upstream.head_blocked and self.any_for(key):
            # Its clients have sent more, and would for ever: those have to wait as well now.
            upstream.drain(partial(self._soon, self._drained, upstream, key))
            return
        self._watched.discard(upstream)
        self.serve(key)

    def _drained(self, upstream: UpstreamConnection, key: PoolKey) -> None:
        self._watched.discard(upstream)
        self.serve(key)
        upstream.reopen()

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

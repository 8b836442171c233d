"""The upstream connections of a route: how they come, and what happens when they go.

They are opened when they are needed, but for one that is always wanted: as long as it stands, the route is ready. One
attempt at a time is made for each lane of a pool; after a failure the next one waits, ever longer, as long as somebody
wants it. A connection that is lost takes along the clients that have pending replies or state on it, and no others.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from proxy.commands.table import Lane
from proxy.net.capabilities import Capabilities
from proxy.net.client import ClientConnection
from proxy.net.connect import Opened, UpstreamRefusedError, open_upstream, set_to
from proxy.net.engine import is_replica
from proxy.net.policies import Policies
from proxy.net.pool import Pool
from proxy.net.pools import Pools
from proxy.net.restarts import Restarts
from proxy.net.settings import RouteSettings, Settings
from proxy.net.tls import FollowedContext, reason_of, upstream_context
from proxy.net.upstream import UpstreamConnection
from proxy.session.ports import PoolKey

IDLE_KEPT = 16

_log = logging.getLogger("keyrail.route")


class Connections:
    """The keeper of one route's upstream connections.

    ``reason`` says why none is there, and is empty while one is; ``attempted`` is set when the first attempt is over.
    ``busy`` counts, by pool, the connections that wait to be set to its database until Redis has run a script.
    ``give_back`` takes a connection that no client has. ``doubt`` is told of each error that says that a command is
    unknown or not allowed.
    """

    def __init__(
        self,
        route: RouteSettings,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        capabilities: Capabilities,
        policies: Policies,
        clients: Collection[ClientConnection],
        events: Counter[str],
        *,
        give_back: Callable[[UpstreamConnection], None],
        doubt: Callable[[UpstreamConnection, bytes], None],
    ) -> None:
        self.settings = settings
        self.loop = loop
        self.output_limit = settings.client_output_limit
        self.home = PoolKey(None, route.upstream.database, 2)
        self.pools = Pools(self.home)
        self.reason = "connecting to " + str(route.upstream)
        self.attempted = asyncio.Event()
        self.closing = False
        self.address = route.upstream
        self._capabilities = capabilities
        self._policies = policies
        self._clients = clients
        self._events = events
        self._tls: FollowedContext | None = None
        self._all: set[UpstreamConnection] = set()
        self.restarts = Restarts(str(route.upstream), self._all, capabilities.forget_all)
        self._tasks: set[asyncio.Task[None]] = set()
        self.busy: Counter[PoolKey] = Counter()
        self._give_back = give_back
        self._doubt = doubt
        self._pooled = 0
        self._pinned = 0

    # Life

    def begin(self) -> None:
        """Begin to connect. Raises TlsError."""
        if self.address.tls is not None:
            self._tls = upstream_context(self.address.tls, _log.warning)
        self.ensure(self.pools.of(self.home), Lane.FAST)

    def alive(self) -> bool:
        """Whether the connection that is always wanted is there."""
        return self.pools.of(self.home).alive(Lane.FAST)

    def start(self, work: Any) -> None:
        """Run a coroutine until it ends or the route closes."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Close all of them now."""
        for task in self._tasks:
            task.cancel()
        for upstream in list(self._all):
            upstream.abort()

    # Opening

    def ensure(self, pool: Pool, lane: Lane) -> None:
        """See to it that the lane has a connection that takes work: one attempt at a time, up to the limit."""
        if pool.key.user is not None:
            idle = pool.take_idle()
            if idle is not None:
                self.share(pool, idle, lane)
            elif not pool.alive(lane) and pool.opening[lane] == 0:
                self._convert(pool, lane)
            return
        if self._backs_off(pool, lane):
            return
        free = sum(not upstream.head_blocked for upstream in pool.lanes[lane])
        if pool.opening[lane] == 0 and free < self.settings.upstream_connections:
            self._open(pool, lane)

    def _backs_off(self, pool: Pool, lane: Lane | None) -> bool:
        # Each lane backs off from its own failures alone; while Redis is away, all wait for the connection that is
        # always wanted.
        home = self.pools.of(self.home)
        return lane in pool.backing_off or (not self.alive() and Lane.FAST in home.backing_off)

    def supply(self, pool: Pool) -> None:
        """Get a connection for each client that waits for one of its own, as far as they are to be had."""
        while len(pool.waiting_private) > pool.opening[None] and self._supply_one(pool):
            pass

    def _supply_one(self, pool: Pool) -> bool:
        if pool.key.user is not None:
            return self._convert(pool, None)
        if self._backs_off(pool, None):
            return False
        if not self.has_room():
            self.pools.close_idle(pool)
            return False
        return self._open(pool, None)

    def offer(self, pool: Pool, upstream: UpstreamConnection) -> None:
        """Let an idle connection of the route's own login be taken by who waits for one."""
        pool.keep(upstream, self.loop.time(), max(IDLE_KEPT, len(pool.waiting_private)))
        pool.wake(pool.waiting_private, pool.has_idle)
        if pool.idle:
            for other in self.pools.of_user(None):  # it may have the place of one that clients wait for
                self.supply(other)

    def supply_all(self) -> None:
        """The same for all pools, and a shared connection where clients wait for the first one of their lane."""
        for pool in self.pools:
            for lane in Lane:
                if pool.waiting_shared[lane] and not pool.alive(lane):
                    self.ensure(pool, lane)
            self.supply(pool)

    def has_room(self) -> bool:
        """Whether one more connection may be opened for a single client."""
        private = self.pools.opening_private() + sum(not (each.shared or each.apart) for each in self._all)
        return private < self.settings.private_connections

    def lack_of_room(self) -> str:
        """The error for a client that gets none for this reason; empty where there is room."""
        return "" if self.has_room() else f"ERR all {self.settings.private_connections} private connections are in use"

    def _open(self, pool: Pool, lane: Lane | None) -> bool:
        if self.closing or self._capabilities.refusal is not None:
            return False
        pool.opening[lane] += 1
        self.start(self._open_into(pool, lane))
        return True

    async def _open_into(self, pool: Pool, lane: Lane | None) -> None:
        upstream: UpstreamConnection | None = None
        try:
            opened = await self._connect(pool.key)
            upstream = opened.upstream
            await asyncio.wait_for(self._policies.learn(opened), self.settings.connect_timeout)
            upstream.check()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next attempt may go well
            pool.opening[lane] -= 1
            if upstream is not None:
                upstream.abort()
            self._failed(pool, lane, error)
            return
        pool.opening[lane] -= 1
        self.attempted.set()
        if self.closing or self._capabilities.refusal is not None:
            upstream.abort()
            return
        pool.succeeded(lane)
        if lane is None:
            self.offer(pool, upstream)
        else:
            self.share(pool, upstream, lane)

    async def _connect(self, key: PoolKey) -> Opened:
        opened = await asyncio.wait_for(
            open_upstream(self.address, self._tls, self, key, self.loop), self.settings.connect_timeout
        )
        self._all.add(opened.upstream)
        try:
            await set_to(opened.upstream, key, self.settings.connect_timeout, self.busy)
            if not opened.unauthenticated:
                await asyncio.wait_for(self.restarts.identify(opened.upstream), self.settings.connect_timeout)
        except BaseException:
            opened.upstream.abort()
            raise
        return opened

    async def open_apart(self) -> UpstreamConnection:
        """A connection of the route's own login that no client and no pool gets.

        Raises OSError where Redis can't be reached, UpstreamRefusedError where it says no.
        """
        upstream = (await self._connect(self.home)).upstream
        upstream.apart = True
        return upstream

    async def open_to_learn(self) -> UpstreamConnection | None:
        """A connection on which what is not known of the route's own login has been learnt.

        None where Redis is away: when it is back, it is asked all the same.
        """
        with contextlib.suppress(OSError, TimeoutError, UpstreamRefusedError):
            opened = await self._connect(self.home)
            await self._policies.learn(opened)
            return opened.upstream
        return None

    def share(self, pool: Pool, upstream: UpstreamConnection, lane: Lane) -> None:
        """Open a connection to all clients of its pool."""
        upstream.open_to_all(lane)
        pool.lanes[lane].append(upstream)
        if pool.key == self.home and lane is Lane.FAST and self.reason:
            self.reason = ""
            self._events["reconnects"] += 1
        pool.wake(pool.waiting_shared[lane])
        if pool.key == self.home:
            self.supply_all()

    def take_spare(self, user: str, key: PoolKey | None = None) -> UpstreamConnection | None:
        """A connection of this user without pending replies, as it is; clients that share it get another.

        With ``key``, one of that pool.
        """
        upstream = self.pools.take_spare(user, key)
        if upstream is None:
            return None
        self.account(upstream)
        upstream.shared = False
        for client in self._clients:  # no reply is pending on it: they only forget it
            if client.upstream is upstream:
                client.upstream, client.direct = None, False
        return upstream

    def _convert(self, pool: Pool, lane: Lane | None) -> bool:
        # No client gets it before Redis has confirmed the database: the client's commands would run in another one.
        assert pool.key.user is not None
        upstream = self.take_spare(pool.key.user)
        if upstream is None:
            return False
        pool.opening[lane] += 1
        self.start(self._convert_into(upstream, pool, lane))
        return True

    async def _convert_into(self, upstream: UpstreamConnection, pool: Pool, lane: Lane | None) -> None:
        try:
            await set_to(upstream, pool.key, self.settings.connect_timeout, self.busy)
        except UpstreamRefusedError as error:
            _log.warning("user %s: a connection stays in database %d: %s", pool.key.user, upstream.key.database, error)
            pool.refuse()
        except OSError:
            upstream.abort()
        finally:
            pool.opening[lane] -= 1
        if not upstream.closed:
            self._give_back(upstream)

    # Failing, and trying again

    def _failed(self, pool: Pool, lane: Lane | None, error: Exception) -> None:
        self.attempted.set()
        self._events["connect_failures"] += 1
        if pool.key == self.home and not pool.alive(Lane.FAST):
            self.reason = f"{self.address}: {reason_of(error)}"
        if isinstance(error, UpstreamRefusedError) and not any(each.refusal for each in self.pools):
            _log.warning("%s refuses connections: %s", self.address, error)
        pool.failed(lane, str(error) if isinstance(error, UpstreamRefusedError) else "")
        if lane not in pool.backing_off and not self.closing:
            pool.backing_off.add(lane)
            self.loop.call_later(pool.backoff[lane].failed(), self._retry, pool, lane)

    def _retry(self, pool: Pool, lane: Lane | None) -> None:
        pool.backing_off.discard(lane)
        if pool.key == self.home and lane is Lane.FAST and not self.alive():
            self.ensure(pool, lane)
        self.supply_all()

    # What connections report

    def lost(self, upstream: UpstreamConnection) -> None:
        """Close the clients that have pending replies or state on it; the others notice nothing."""
        self._all.discard(upstream)
        self.account(upstream)
        pool = self.pools.of(upstream.key)
        shared = pool.forget(upstream)
        unanswered = {sink.client() for sink in upstream.abandon()}
        owner = upstream.owner
        if isinstance(owner, ClientConnection) and owner not in unanswered and not owner.let_go():
            unanswered.add(owner)
        for loser in unanswered:
            if isinstance(loser, ClientConnection):
                loser.close("upstream_lost")
        user = upstream.key.user
        if user is not None and not any(other.key.user == user for other in self._all):
            self._capabilities.forget(user)
            for client in [client for client in self._clients if client.key.user == user]:
                client.close("login_lost")
        if shared and not self.closing and pool.key == self.home and not pool.alive(Lane.FAST):
            self.reason = f"{self.address}: the connection was lost"
            self.ensure(pool, Lane.FAST)
        self.supply_all()

    def command_refused(self, upstream: UpstreamConnection, line: bytes) -> None:
        """Redis does not know, or does not allow, a command."""
        self._doubt(upstream, line)

    def on_resume(self, upstream: UpstreamConnection) -> None:
        """A shared connection takes work again."""
        pool = self.pools.of(upstream.key)
        pool.wake(pool.waiting_shared[upstream.lane])

    def doubted(self, upstream: UpstreamConnection) -> None:
        """An error said READONLY, which a script can say, too: only the server's own role retires a connection."""
        self.start(self._check_role(upstream))

    async def _check_role(self, upstream: UpstreamConnection) -> None:
        try:
            replica = await self.leads_to_replica(upstream)
        except OSError:
            upstream.trust_role()  # it is lost, or nothing could be asked now: the next error that says READONLY tells
        else:
            if replica:
                for other in [other for pool in self.pools for other in pool.connections()]:
                    if other is not upstream and not other.read_only:
                        other.read_only = other.read_only_told = True
                        self.start(self._check_role(other))

    async def leads_to_replica(self, upstream: UpstreamConnection) -> bool:
        """Ask a connection that no client holds for the server's role, and retire it if that is a replica.

        Raises ConnectionResetError.
        """
        if not await is_replica(upstream):
            upstream.trust_role()
            return False
        self.restarts.retired(upstream)
        upstream.retire()
        return True

    def retired(self, upstream: UpstreamConnection) -> None:
        """A connection is to close: open another in its place where it was shared."""
        pool = self.pools.of(upstream.key)
        self._events["retired"] += 1
        for apart in [each for each in self._all if each.apart]:
            apart.abort()  # or it would go on telling how that server is
        if pool.forget(upstream):
            self.ensure(pool, upstream.lane)

    def count(self, event: str) -> None:
        """Count an event for the metrics."""
        self._events[event] += 1

    # Figures

    def account(self, upstream: UpstreamConnection) -> None:
        """Count what a connection has carried, commands and pushes for nobody, before it is shared, or no more."""
        if upstream.shared:
            self._pooled += upstream.commands
        else:
            self._pinned += upstream.commands
        upstream.commands = 0
        if upstream.strays:
            self._events["ownerless_push"] += upstream.strays
            upstream.strays = 0

    def carried(self) -> dict[str, int]:
        """How many commands went over shared connections, and over connections of one client."""
        for upstream in self._all:
            self.account(upstream)
        return {"pooled": self._pooled, "pinned": self._pinned}

    def connection_counts(self) -> dict[str, int]:
        """How many connections are shared, in the hands of one client, or ready for one."""
        shared = sum(upstream.shared for upstream in self._all)
        apart = sum(upstream.apart for upstream in self._all)
        idle = self.pools.idle()
        return {"shared": shared, "private": len(self._all) - shared - apart - idle, "idle": idle}

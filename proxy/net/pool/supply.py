"""Opens the upstream connections that a route's pools need, and puts them there.

Keyrail opens connections when they are needed. In addition it always keeps one connection to each node; the route is
ready while these are connected. Each lane of a pool makes one attempt at a time. After a failure it waits before the
next attempt, longer each time, while somebody needs a connection.

Keyrail has no passwords of users whom clients log in as. A connection for such a user comes from a client's login; it
is switched to the database and protocol that are needed.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable

from proxy.commands.table import Lane
from proxy.net.config.settings import Settings
from proxy.net.connection.connect import Opened, UpstreamRefusedError, set_to
from proxy.net.connection.failures import Failures
from proxy.net.connection.tls import handshake_failure, reason_of
from proxy.net.connection.upstream import Keeper, UpstreamConnection
from proxy.net.downstream.waiting import bring_on
from proxy.net.policy.capabilities import Capabilities
from proxy.net.policy.policies import Policies
from proxy.net.pool.connection_set import ConnectionSet
from proxy.net.pool.demotions import Demotions
from proxy.net.pool.failover_wait import FailoverWait
from proxy.net.pool.opening import Opening
from proxy.net.pool.pool import Pool
from proxy.net.topology.topology import Topology
from proxy.session.ports.pool_key import Node

IDLE_KEPT = 16
AT_ONCE = 64
"""Attempts of a pool to connect for single clients. More would only slow each other down, up to the time limit."""
_CONNECTING = "connecting to"

_log = logging.getLogger("keyrail.route")


class Supply:
    """The new connections of one route's pools.

    ``attempted`` is set after the first attempt. ``failover`` says how long commands wait for another server.
    ``give_back`` takes a connection that no client uses.
    """

    def __init__(
        self,
        topology: Topology,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        connections: ConnectionSet,
        opening: Opening,
        keeper: Keeper,
        capabilities: Capabilities,
        policies: Policies,
        demotions: Demotions,
        failures: Failures,
        give_back: Callable[[UpstreamConnection], None],
    ) -> None:
        self.attempted = asyncio.Event()
        self.failover = FailoverWait(topology, settings, loop)
        self._topology = topology
        self._settings = settings
        self._loop = loop
        self._connections = connections
        self._pools = connections.pools
        self._opening = opening
        self._keeper = keeper
        self._capabilities = capabilities
        self._policies = policies
        self._demotions = demotions
        self._failures = failures
        self._give_back = give_back
        self._reasons = {node: f"{_CONNECTING} {topology.address(node)}" for node in topology.nodes}
        self._reached: set[Node] = set()
        self._on_reach: Callable[[Node], None] = lambda _: None

    def on_reach(self, act: Callable[[Node], None]) -> None:
        """Call ``act`` with each node that takes commands, for the first time or again."""
        self._on_reach = act

    def begin(self) -> None:
        """Start to connect to each node. Raises TlsError."""
        self.failover.lost()
        self._opening.begin()
        for node in self._topology.nodes:
            self.ensure(self._pools.of(self._pools.home_of(node)), Lane.FAST)

    def join(self, node: Node) -> None:
        """A node has come: connect to it."""
        self._reasons[node] = f"{_CONNECTING} {self._topology.address(node)}"
        self.ensure(self._pools.of(self._pools.home_of(node)), Lane.FAST)

    def leave(self, node: Node) -> None:
        """A node has gone: nobody misses its connections."""
        if not any(map(self.alive, self._topology.nodes)):
            self.failover.lost()
        self._reasons.pop(node, None)
        self._reached.discard(node)

    def _is_gone(self, pool: Pool) -> bool:
        return pool.key.node not in self._topology.nodes or self._pools.of(pool.key) is not pool

    def alive(self, node: Node) -> bool:
        """Whether the pool that always has a connection to this node has one."""
        return self._pools.alive(self._pools.home_of(node))

    def lack(self, node: Node) -> str:
        """Why there is no connection to this node, if it was lost or could not be made; empty if there is one."""
        reason = self._reasons.get(node, "")
        return "" if reason.startswith(_CONNECTING) else reason.removeprefix(f"{self._topology.address(node)}: ")

    @property
    def reason(self) -> str:
        """Why such a connection is missing; empty if none is missing."""
        return "; ".join(self._reasons.values())

    def ensure(self, pool: Pool, lane: Lane) -> None:
        """Open a connection for the lane unless an attempt is under way or the limit is reached."""
        if pool.key.user is not None:
            idle = pool.take_idle()
            if idle is not None:
                self.share(pool, idle, lane)
            elif not pool.alive(lane) and pool.opening[lane] == 0:
                self._convert(pool, lane)
            return
        free = sum(not upstream.head_blocked for upstream in pool.lanes[lane])
        if pool.opening[lane] == 0 and free < self._settings.upstream_connections and not self._backs_off(pool, lane):
            self._open(pool, lane)

    def _backs_off(self, pool: Pool, lane: Lane | None) -> bool:
        # Each lane backs off after its own failures only. While a node is down, all of its lanes wait for the pool that
        # always has a connection.
        if lane in pool.backing_off:
            return True
        home = self._pools.of(self._pools.home_of(pool.key.node))
        return not home.alive(Lane.FAST) and Lane.FAST in home.backing_off

    def supply(self, pool: Pool) -> None:
        """Open a connection for each client that waits for one of its own, up to the limits."""
        while pool.opening[None] < min(len(pool.waiting_private), AT_ONCE) and self._supply_one(pool):
            pass

    def _supply_one(self, pool: Pool) -> bool:
        if pool.key.user is not None:
            return self._convert(pool, None)
        if self._backs_off(pool, None):
            return False
        if not self.has_room():
            self._pools.close_idle(pool)
            return False
        return self._open(pool, None)

    def offer(self, pool: Pool, upstream: UpstreamConnection) -> None:
        """Give an idle connection of the route's own login to a client that waits for one."""
        pool.keep(upstream, self._loop.time(), max(IDLE_KEPT, len(pool.waiting_private)))
        pool.wake(pool.waiting_private, pool.has_idle)
        self.supply(pool)
        if pool.idle:
            for node in self._topology.nodes:
                for other in self._pools.of_login(self._pools.home_of(node)):
                    self.supply(other)  # clients of another pool may wait for room

    def supply_all(self) -> None:
        """Open connections for all waiting clients: private ones, and the first shared one of a lane."""
        for pool in self._pools.wanting():
            for lane in Lane:
                if pool.waiting_shared[lane] and not pool.alive(lane):
                    self.ensure(pool, lane)
            self.supply(pool)

    def has_room(self) -> bool:
        """Whether one more connection may be opened for a single client."""
        return self._connections.private() < self._settings.private_connections

    def lack_of_room(self) -> str:
        """The error for a client that gets no connection because there is no room; empty if there is room."""
        most = self._settings.private_connections
        return "" if self.has_room() else f"ERR all {most} private connections are in use"

    # Opening

    def _open(self, pool: Pool, lane: Lane | None) -> bool:
        if self._connections.closing or self._capabilities.refusal is not None:
            return False
        if self._is_gone(pool):
            self._topology.doubt()
            return False
        pool.opening[lane] += 1
        self._connections.start(self._open_into(pool, lane))
        return True

    async def _open_into(self, pool: Pool, lane: Lane | None) -> None:
        try:
            opened = await self._opening.connect(pool.key)
            await self._learn(opened)
        except Exception as error:  # noqa: BLE001 - an attempt can fail in any way; it is reported and tried again
            pool.opening[lane] -= 1
            self._failed(pool, lane, error)
            return
        upstream = opened.upstream
        pool.opening[lane] -= 1
        self.attempted.set()
        if self._connections.closing or self._capabilities.refusal is not None or self._is_gone(pool):
            upstream.abort()
            return
        pool.succeeded(lane)
        if lane is None:
            self.offer(pool, upstream)
        else:
            self.share(pool, upstream, lane)

    async def _learn(self, opened: Opened) -> None:
        try:
            async with asyncio.timeout(self._settings.connect_timeout):
                await self._policies.learn(opened)
                await self._demotions.admit(opened.upstream, new=True)
                opened.upstream.check()
        except BaseException:
            opened.upstream.abort()
            raise

    async def open_to_learn(self, node: Node) -> UpstreamConnection | None:
        """Open a connection and learn on it what the route's own login may run on this node.

        None if Redis cannot be reached. Keyrail asks again when it is back.
        """
        with contextlib.suppress(OSError, TimeoutError, UpstreamRefusedError):
            opened = await self._opening.connect(self._pools.home_of(node))
            await self._learn(opened)
            return opened.upstream
        return None

    def share(self, pool: Pool, upstream: UpstreamConnection, lane: Lane) -> None:
        """Share a connection among all clients of its pool."""
        upstream.open_to_all(lane)
        pool.lanes[lane].append(upstream)
        home = self._pools.is_home(pool.key)
        if home and lane is Lane.FAST:
            self._reach(pool.key.node)
        bring_on(self._loop, pool.take_waiting(lane))
        if home:
            self.supply_all()

    def _reach(self, node: Node) -> None:
        self.failover.reached()
        before = self._topology.place(self._topology.home)
        self._topology.connected(node)
        if self._topology.place(self._topology.home) is not before:
            self._pools.look_again(before)
        missed = self._reasons.pop(node, "")
        if missed and node in self._reached:
            self._keeper.count("reconnects")
        self._reached.add(node)
        if missed:
            self._on_reach(node)

    def _convert(self, pool: Pool, lane: Lane | None) -> bool:
        # No client gets it before Redis has confirmed the database. Otherwise commands would run in the wrong one.
        assert pool.key.user is not None
        upstream = self._connections.take_spare(pool.key, anywhere=True)
        if upstream is None:
            return False
        pool.opening[lane] += 1
        self._connections.start(self._convert_into(upstream, pool, lane))
        return True

    async def _convert_into(self, upstream: UpstreamConnection, pool: Pool, lane: Lane | None) -> None:
        try:
            await set_to(upstream, pool.key, self._settings.connect_timeout, self._opening.busy)
        except UpstreamRefusedError as error:
            _log.warning(
                "user %s: a connection could not be switched and stays in database %d: %s",
                pool.key.user,
                upstream.key.database,
                error,
            )
            pool.refuse(str(error).partition(": ")[2])
        except OSError:
            upstream.abort()
        finally:
            pool.opening[lane] -= 1
        if not upstream.closed:
            self._give_back(upstream)

    # Failing, and trying again

    def _failed(self, pool: Pool, lane: Lane | None, error: Exception) -> None:
        self.attempted.set()
        if self._is_gone(pool):
            return
        self._topology.doubt()
        self._keeper.count("connect_failures")
        address = self._topology.address(pool.key.node)
        if self._pools.is_home(pool.key) and not pool.alive(Lane.FAST):
            self._miss(pool.key.node, f"{address}: {reason_of(error, encrypted=address.tls is not None)}")
            if isinstance(error, UpstreamRefusedError):
                self.failover.refused()
        if isinstance(error, UpstreamRefusedError) and not any(each.refusal for each in self._pools):
            _log.warning("%s refuses connections: %s", address, error)
        if isinstance(error, ssl.SSLError):
            reason, _ = handshake_failure(error)
            self._failures.note("tls_upstream", reason, f"{address}: the TLS handshake failed: {reason_of(error)}")
        pool.failed(lane, str(error) if isinstance(error, UpstreamRefusedError) else "")
        if lane not in pool.backing_off and not self._connections.closing:
            seconds = pool.backoff[lane].failed()
            pool.backing_off[lane] = self._loop.call_later(seconds, self._retry, pool, lane)

    def retry_now(self) -> None:
        """The server is back: no lane backs off any longer."""
        for pool in self._pools:
            for lane, timer in [*pool.backing_off.items()]:
                timer.cancel()
                self._retry(pool, lane)

    def _retry(self, pool: Pool, lane: Lane | None) -> None:
        pool.backing_off.pop(lane, None)
        if lane is Lane.FAST and self._pools.is_home(pool.key) and not pool.alive(lane):
            self.ensure(pool, lane)
        self.supply_all()

    def lost(self, pool: Pool) -> None:
        """A shared connection of this pool was lost: open another one if the pool must always have one."""
        if self._is_gone(pool):
            return
        self._topology.doubt()
        if not self._connections.closing and self._pools.is_home(pool.key) and not pool.alive(Lane.FAST):
            self._miss(pool.key.node, f"{self._topology.address(pool.key.node)}: the connection was lost")
            self.ensure(pool, Lane.FAST)

    def _miss(self, node: Node, reason: str) -> None:
        self._reasons[node] = reason
        if not any(map(self.alive, self._topology.nodes)):
            self.failover.lost()
        before = self._topology.place(self._topology.home)
        self._topology.disconnected(node)
        if self._topology.place(self._topology.home) is not before:
            self._pools.look_again(node)

"""Gives upstream connections to sessions: a shared one, or a private one until the session gives it back.

A session waits if there is none. It continues to wait while the pool has a connection of that kind, or while Keyrail
learns what a user may run, or others who wait for connections of their own get theirs. Otherwise a connection attempt
that is under way has 250 ms, and a server that can take the place of a lost primary has ``--failover-wait``
(``failover_wait.py``); then the client is closed.

Connections of users whom clients log in as come from these logins. When the first one is given back, Keyrail learns
what the user may run.
"""

import asyncio
import contextlib
import logging
from collections import Counter, defaultdict
from collections.abc import Collection
from functools import partial
from itertools import islice

from proxy.commands.table import Lane
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.net.connection.engine import Engine, described_by
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.downstream.waiting import bring_on
from proxy.net.policy.capabilities import Capabilities
from proxy.net.policy.policies import Policies
from proxy.net.pool.connections import Connections
from proxy.net.pool.pool import Wait, turn_away
from proxy.net.pool.user_waits import UserWaits
from proxy.session.ports.client import ServedClient
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.pool_key import PoolKey
from proxy.session.ports.pool_waiter import LOGIN_LOST, PoolWaiter
from proxy.session.ports.ports import PoolPort
from proxy.session.session import Session
from proxy.wire.decode import read_reply

_ATTEMPT_PATIENCE = 0.25
_LACKING_PATIENCE = 2.0
"""Seconds in which one of too few connections of a user may be free. Its client's next login brings another one."""

_log = logging.getLogger("keyrail.route")


class Checkout(PoolPort):
    """The connections of one route, for its sessions."""

    def __init__(
        self,
        connections: Connections,
        capabilities: Capabilities,
        policies: Policies,
        clients: Collection[Session],
    ) -> None:
        self._connections = connections
        self._pools = connections.pools
        self._supply = connections.supply
        self._settings = connections.settings
        self._loop = connections.loop
        self._capabilities = capabilities
        self._policies = policies
        self._clients = clients
        self._learning: Counter[str | None] = Counter()
        self._awaiting: defaultdict[str, dict[PoolWaiter, None]] = defaultdict(dict)
        self._user_waits = UserWaits(connections.all, connections.supply, connections.loop)

    # Shared

    def has_pool(self, key: PoolKey) -> bool:
        """Whether this pool has connections, or can open them with what Redis is known to accept."""
        if self._pools.alive(key):
            return True
        if key.user is not None or self._capabilities.needs_password or not self._capabilities.hello:
            return False
        return self._pools.reaches(key)

    def ready(self, key: PoolKey) -> UpstreamPipeline | None:
        """A shared connection of the fast lane that takes commands now. Opens none."""
        found = self._pools.of(key).shared(Lane.FAST)
        return None if found is None else found.pipeline

    def shared(self, key: PoolKey, lane: Lane) -> UpstreamPipeline | None:
        """A shared connection that takes commands now. If all are busy, another one is opened."""
        found = self._shared(key, lane)
        return None if found is None else found.pipeline

    def _shared(self, key: PoolKey, lane: Lane) -> UpstreamConnection | None:
        # Keyrail cannot open more connections for a user whose password it does not have: one lane for them.
        lane = Lane.FAST if key.user is not None else lane
        pool = self._pools.of(key)
        found = pool.shared(lane)
        if found is None:
            self._supply.ensure(pool, lane)
            found = pool.shared(lane)
        return found

    def await_shared(self, waiter: PoolWaiter, key: PoolKey, lane: Lane) -> Wait:
        """Wait for a shared connection: without a limit if the lane has one, else so long for one under way."""
        lane = Lane.FAST if key.user is not None else lane
        until = self._supply.failover.until()
        if self._user_waits.some_have(key):
            until = max(until, self._loop.time() + self._settings.connect_timeout)
        wait = Wait(waiter, self._pools.of(key), lane, until)
        if not wait.pool.alive(lane):
            self._user_waits.watch(key)
        patience = 0.0 if self._connections.logins.must_log_in(key) else _ATTEMPT_PATIENCE
        self._loop.call_later(patience, self._abandon_shared_wait, wait, lane)
        return wait

    def _abandon_shared_wait(self, wait: Wait, lane: Lane) -> None:
        pool = wait.pool
        if wait.ended:
            return
        if self._connections.logins.must_log_in(pool.key):
            wait.end()
            wait.waiter.close(LOGIN_LOST)
            return
        # While Redis is reachable, wait for the attempt that is under way: it has its own time limit.
        reachable = self._supply.alive(pool.key.node) or self._connections.opening.busy[pool.key] > 0
        coming = pool.opening[lane] > 0 and reachable
        goes_on = pool.alive(lane) or coming or self._learning[pool.key.user] or self._user_waits.in_use(pool.key)
        more = _ATTEMPT_PATIENCE if goes_on else self._time_left(wait, lane)
        if more > 0 and not wait.waiter.gone:
            self._loop.call_later(more, self._abandon_shared_wait, wait, lane)
            return
        wait.end()
        turn_away(wait.waiter, pool.refusal.get(lane, ""))

    def _time_left(self, wait: Wait, lane: Lane | None) -> float:
        # A server that refuses connections is there: no other one is expected.
        home = self._pools.of(self._pools.home_of(wait.pool.key.node))
        refused = lane in wait.pool.refusal or Lane.FAST in home.refusal
        return 0.0 if refused else wait.until - self._loop.time()

    def refusal(self, key: PoolKey) -> str:
        """The error with which the pool's node has refused the login of its user; empty where it has not."""
        if key.user is not None:
            return self._connections.logins.refused.get((key.node, key.user), "")
        return self._pools.of(self._pools.home_of(key.node)).refusal.get(Lane.FAST, "")

    def lacking_database(self, waiter: PoolWaiter, number: int) -> bytes | None:
        """The error of a node of a cluster that lacks this database; empty where all have it, None while they are
        asked: ``arrived`` is called then."""
        databases = self._connections.databases
        return b"" if databases is None else databases.refusal(waiter, number)

    # Private

    def private(self, key: PoolKey) -> PrivatePipeline | None:
        """An idle connection for one client. For a user whom clients log in as, one of theirs that nobody uses."""
        found = self._pools.of(key).take_idle()
        if found is None and key.user is not None:
            found = self._connections.all.take_spare(key)
        return None if found is None else found.pipeline

    def private_anywhere(self, key: PoolKey) -> PrivatePipeline | None:
        """An idle connection of the key's user in any database, for a command that needs none."""
        found = self._pools.of(key).take_idle() or self._pools.take_idle(key)
        if found is None and key.user is not None:
            found = self._connections.all.take_spare(key, anywhere=True)
        return None if found is None else found.pipeline

    def private_alike(self, key: PoolKey) -> PrivatePipeline | None:
        """The same, of the key's protocol."""
        found = self._pools.of(key).take_idle() or self._pools.take_idle(key, alike=True)
        if found is None and key.user is not None:
            found = self._connections.all.take_spare(key)
        return None if found is None else found.pipeline

    def opens_private(self, key: PoolKey) -> bool:
        """Whether a connection for one client can be opened now. Keyrail must have the user's password."""
        if key.user is not None or self._capabilities.refusal is not None or not self._supply.alive(key.node):
            return False
        pool = self._pools.of(key._replace(database=0))
        return self._supply.has_room() and None not in pool.backing_off and None not in pool.refusal

    def await_private_anywhere(self, waiter: PoolWaiter, key: PoolKey) -> Wait:
        """Wait for such a connection. A new one gets no SELECT, because Redis refuses that while it is BUSY."""
        return self.await_private(waiter, key._replace(database=0) if key.user is None else key)

    def await_private(self, waiter: PoolWaiter, key: PoolKey) -> Wait:
        """Wait for a private connection: the time of a connection attempt while Redis is reachable, else less."""
        pool = self._pools.of(key)
        wait = Wait(waiter, pool, None, self._supply.failover.until())
        self._supply.supply(pool)
        self._user_waits.watch(key)
        ready = self._capabilities.refusal is None and self._supply.alive(key.node)
        refused = pool.refusal.get(None)
        patience = self._settings.connect_timeout if ready and not refused else _ATTEMPT_PATIENCE
        if self._connections.logins.must_log_in(key):
            patience = 0.0
        elif self._connections.logins.lacks(key):
            patience = min(patience, _LACKING_PATIENCE)
        self._loop.call_later(patience, self._abandon_private_wait, wait)
        return wait

    def _abandon_private_wait(self, wait: Wait) -> None:
        pool = wait.pool
        if wait.ended:
            return
        # If Redis is reachable and runs a script, a client with a connection would not be closed either.
        busy = _ATTEMPT_PATIENCE if self._connections.opening.busy[pool.key] > 0 else 0.0
        more = max(busy, self._next_in_a_crowd(wait), self._time_left(wait, None))
        if more > 0 and not wait.waiter.gone:
            self._loop.call_later(more, self._abandon_private_wait, wait)
            return
        wait.end()
        if self._connections.logins.lacks(pool.key):
            wait.waiter.close(LOGIN_LOST)
            return
        for waiter in (*self._capabilities.behind(wait.waiter), wait.waiter):
            turn_away(waiter, pool.refusal.get(None) or self._supply.lack_of_room())

    def _next_in_a_crowd(self, wait: Wait) -> float:
        """Seconds to wait on: while those before a client get theirs, the attempt for it is under way or still to
        come. Not where Redis refuses or cannot be reached, and not where there is no room for another attempt."""
        pool, logins = wait.pool, self._connections.logins
        if None in pool.refusal or not self._supply.alive(pool.key.node) or logins.lacks(pool.key):
            return 0.0
        attempts = pool.opening[None]
        under_way = wait in islice(pool.waiting_private, attempts)
        to_come = (attempts > 0 or None in pool.backing_off) and self._supply.has_room()
        return pool.kept_at + self._settings.connect_timeout - self._loop.time() if under_way or to_come else 0.0

    # For queries of Keyrail's own

    def for_questions(self, key: PoolKey) -> UpstreamConnection | None:
        """A connection for queries: an idle one. For users whom clients log in as, else the shared one.

        The last shared connection of a user stays shared.
        """
        found = self._pools.of(key).take_idle()
        if key.user is None:
            return found
        if found is None:
            return self._shared(key, Lane.FAST)
        self._user_waits.asked.add(found)
        return found

    def wanted(self, key: PoolKey) -> bool:
        """Whether clients wait for a connection that queries have, where no other one can be opened."""
        return self._user_waits.any_for(key)

    def has_spare(self, key: PoolKey) -> bool:
        """Whether a query of the route's own login can have a connection that no client waits for."""
        if not self._supply.alive(key.node) or self._capabilities.needs_password:
            return False
        return bool(self._pools.of(key).idle) or self._supply.has_room()

    def await_questions(self, waiter: PoolWaiter, key: PoolKey) -> bool:
        """Wait for such a connection; False if none will come."""
        if key.user is None:
            self.await_private(waiter, key)
        elif self._pools.of(key).in_unit(Lane.FAST):
            # A transaction on a shared connection has arrived whole, so it ends in this turn of the loop.
            self._loop.call_soon(waiter.arrived)
        elif self._comes(key):
            self.await_shared(waiter, key, Lane.FAST)
        else:
            return False
        return True

    def _comes(self, key: PoolKey) -> bool:
        # A connection of the user's with another protocol or database may be on its way to this pool.
        coming = self._pools.of(key).opening[Lane.FAST] > 0 or self._learning[key.user] > 0
        return self._pools.alive(key) or coming or self._user_waits.in_use(key)

    def release(self, upstream: PrivatePipeline) -> None:
        """Take back a connection of one client alone."""
        connection = self._connections.all.members.get(upstream)
        if connection is not None:
            self.give_back(connection)

    def give_back(self, upstream: UpstreamConnection, *, asked: bool = False) -> None:
        """Share a connection that no client uses if its pool has no shared one; else keep it for a single client.

        One that may lead to a replica is asked first, unless it has been ``asked``.
        """
        upstream.resume()
        self._user_waits.asked.discard(upstream)
        gone = upstream.key.node not in self._connections.topology.nodes
        if gone or self._connections.all.closing or upstream.pipeline.relay or not upstream.is_free():
            upstream.close()
            return
        if not asked and self._connections.demotions.is_in_doubt(upstream):
            self._connections.all.start(self._give_back_unless_replica(upstream))
            return
        user = upstream.key.user
        if user is not None and (self._policies.asks_about(user, upstream.key.node) or not upstream.identified):
            self._learning[user] += 1
            if not self._capabilities.rights.probed(user, upstream.key.node):
                self._capabilities.rights.beginning.add(user)
            self._connections.all.start(self._learn_user(upstream, user))
            return
        pool = self._pools.of(upstream.key)
        self._connections.all.account(upstream)
        if self._settings.pooling and pool.shared(Lane.FAST) is None and pool.opening[Lane.FAST] == 0:
            self._supply.share(pool, upstream, Lane.FAST)
            if user is None:
                self._supply.supply_all()  # there is room for one more private connection
        elif user is None:
            self._supply.offer(pool, upstream)
        else:
            pool.keep(upstream, self._loop.time(), max(self.logged_in(user), len(pool.waiting_private)))
        if user is not None:
            self._user_waits.serve(pool.key)

    async def _give_back_unless_replica(self, upstream: UpstreamConnection) -> None:
        with contextlib.suppress(OSError):
            await self._connections.demotions.admit(upstream)
            self.give_back(upstream, asked=True)

    def relies_on_process(self, waiter: PoolWaiter) -> None:
        """This client relies on the memory of the server process: it is closed when Redis restarts."""
        self._connections.restarts.relies(waiter)

    def discard(self, upstream: UpstreamPipeline) -> None:
        """Close a connection at once."""
        connection = self._connections.all.members.get(upstream)
        if connection is not None:
            connection.abort()

    def close_gracefully(self, upstream: UpstreamPipeline) -> None:
        """Close a connection after its commands, and the hidden commands that follow from them, have run."""
        connection = self._connections.all.members.get(upstream)
        if connection is not None:
            connection.resume()
            connection.finish()

    def retire(self, upstream: UpstreamPipeline) -> None:
        """Close a shared connection when no reply is pending; new commands use other connections."""
        connection = self._connections.all.members.get(upstream)
        if connection is not None:
            connection.retire()

    # Users whom clients log in as

    def logged_in(self, user: str) -> int:
        """How many clients are logged in as this user."""
        return self._connections.logins.logged_in(user)

    def entered(self, client: ServedClient) -> None:
        """The client belongs to another pool now: it may have another user."""
        self._connections.logins.entered(client)

    def await_user(self, waiter: PoolWaiter, user: str) -> bool:
        """Whether Keyrail is learning for the first time what this user may run; then ``waiter`` waits for that."""
        if self._capabilities.knows_user(user) or not self._learning[user]:
            return False
        self._awaiting[user][waiter] = None
        return True

    async def _learn_user(self, upstream: UpstreamConnection, user: str) -> None:
        # A login has left a new connection. Learn its server process and, at the first login of a user, the engine and
        # what the user may run. Nobody else gets the connection before that.
        try:
            async with asyncio.timeout(self._settings.connect_timeout):
                await self._learn_on(upstream, user)
        except OSError as error:
            _log.warning("user %s: Keyrail could not ask Redis what the user may run: %s", user, error)
            upstream.abort()
            return
        except Exception:  # noqa: BLE001 - after any error no client gets the connection
            _log.exception("user %s: Keyrail could not ask Redis what the user may run; the connection is closed", user)
            upstream.abort()
            return
        finally:
            if self._learning[user] == 1:
                self._connections.all.start(self._settle(user))  # no further node is being asked
            else:
                self._learning[user] -= 1
        if self._capabilities.refusal is not None:
            for client in list(self._clients):
                client.close("not_ready")
        self.give_back(upstream)

    async def _learn_on(self, upstream: UpstreamConnection, user: str) -> None:
        if not upstream.identified:
            await self._connections.opening.identify(upstream)
            await self._connections.demotions.admit(upstream)
        if self._policies.asks_about(user, upstream.key.node):
            found = described_by(read_reply(await upstream.ask(["HELLO", upstream.key.protocol])))
            await self._policies.learn_user(upstream, found or self._capabilities.engine or Engine())

    async def _settle(self, user: str) -> None:
        try:
            await self._policies.settle(user)
        finally:
            self._learning[user] -= 1
            if not self._learning[user]:
                self._capabilities.rights.beginning.discard(user)
                self._capabilities.able.setdefault(user, frozenset())
            self._loop.call_soon(partial(bring_on, self._loop, self._awaiting.pop(user, ())))

"""One route in one worker: its listeners, its clients, its pools, and the policy that is in force.

It is the ``Gate`` of its sessions and the ``Keeper`` of its upstream connections. Upstreams are opened when they are
needed, but for one that is always wanted: as long as it stands, the route is ready.
"""

import asyncio
import contextlib
import logging
import random
import ssl
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from socket import AF_UNIX, socket
from typing import Any

from proxy.commands.command import Command
from proxy.commands.table import Lane, State, Table
from proxy.hotpath.counters import Counters
from proxy.hotpath.intake import Terms
from proxy.hotpath.ledger import Ledger
from proxy.net.client import ClientConnection
from proxy.net.connect import Opened, UpstreamRefusedError, open_upstream
from proxy.net.engine import Engine, complete_table, described_by, probe
from proxy.net.pool import Backoff, Pool, Wait
from proxy.net.settings import ListenerSettings, RouteSettings, Settings
from proxy.net.tls import FollowedContext, upstream_context
from proxy.net.upstream import UpstreamConnection, read_reply
from proxy.policy.compile import Hit, compile_policy
from proxy.policy.model import Mode, Policy
from proxy.session.gate import Lingerer, PoolKey, PrivateLedger, Regime, Seeker
from proxy.traffic.merge import Answer
from proxy.traffic.windows import Windows
from proxy.wire.limits import limits_of, protocol_error
from proxy.wire.request import Limits, Request

_ATTEMPT_PATIENCE = 0.25
_LINGER = 0.2
_IDLE_KEPT = 16
_UNKNOWN_REMEMBERED = 1024
_WARNINGS_PER_SECOND = 10

# CLIENT SETNAME and its kin are answered here, for those who may use them.
_NAMES = "CLIENT"

_log = logging.getLogger("keyrail.route")


class ClusterRefusedError(Exception):
    """The upstream is a cluster node: clients would learn the nodes' addresses and walk around the guard."""


class Gateway:
    """One route's traffic."""

    def __init__(
        self,
        route: RouteSettings,
        settings: Settings,
        policy: Policy,
        loop: asyncio.AbstractEventLoop,
        generation: int,
    ) -> None:
        self.route = route
        self.settings = settings
        self.loop = loop
        self.pooling = settings.pooling
        self.output_limit = settings.client_output_limit
        self.query_limit = settings.client_query_limit
        self.home = PoolKey(None, route.upstream.database, 2)
        self.reason = "connecting to " + str(route.upstream)
        self.refusal: str | None = None
        self.engine: Engine | None = None
        self.stranger = False
        self._hello = True
        self.generation = generation
        self.clients: set[ClientConnection] = set()
        self._policy = policy
        self._prepared: tuple[Policy, int] | None = None
        self._tls: FollowedContext | None = None
        self._pools: dict[PoolKey, Pool] = {}
        self._connections: set[UpstreamConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.AbstractServer] = []
        self._backoff = Backoff(random.random)
        self._retrying = False
        self._closing = False
        self._attempted = asyncio.Event()
        self._drained = asyncio.Event()
        self._available: dict[str | None, frozenset[str]] = {}
        self._regimes: dict[frozenset[str], Regime] = {}
        self._former: list[Regime] = []
        self._learning: Counter[str | None] = Counter()
        self._lacking: set[bytes] = set()
        self._probing: dict[bytes, list[Seeker]] = {}
        self._counters = Counters()
        self._windows = Windows(self._counters, time.monotonic())
        self._request = Request()
        self._verdicts: Counter[tuple[str, str, str]] = Counter()
        self._events: Counter[str] = Counter()
        self._closed: Counter[str] = Counter()
        self._clients_total = 0
        self._pooled = 0
        self._pinned = 0
        self._local = 0
        self._warnings_left = _WARNINGS_PER_SECOND
        self._ticker: asyncio.TimerHandle | None = None

    # Life

    async def start(self) -> None:
        """Begin to connect; a Redis that is down is no error. Raises ClusterRefusedError and TlsError."""
        if self.route.upstream.tls is not None:
            self._tls = upstream_context(self.route.upstream.tls, _log.warning)
        self._tick()
        self._ensure(self._pool(self.home), Lane.FAST)
        try:
            await asyncio.wait_for(self._attempted.wait(), self.settings.connect_timeout)
        except TimeoutError:
            return
        if self.refusal is not None:
            raise ClusterRefusedError(self.refusal)

    async def serve(self, sock: socket, listener: ListenerSettings, ssl_context: ssl.SSLContext | None) -> None:
        """Accept clients on a socket that listens."""
        create = self.loop.create_unix_server if sock.family == AF_UNIX else self.loop.create_server
        server = await create(self._new_client, sock=sock, ssl=ssl_context, backlog=1024)
        self._servers.append(server)

    def _new_client(self) -> ClientConnection:
        return ClientConnection(self, self.home, self.limits(authenticated=False))

    def stop_accepting(self) -> None:
        """Take no more clients."""
        for server in self._servers:
            server.close()
        self._servers.clear()

    async def drain(self, seconds: float) -> None:
        """Read no more; give each client up to ``seconds`` to receive what it is owed, then close it."""
        for client in list(self.clients):
            client.close_when_paid("shutdown")
        self._drained = asyncio.Event()
        if self.clients:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._drained.wait(), seconds)
        for client in list(self.clients):
            client.close("shutdown")

    def close(self) -> None:
        """Close everything now."""
        self._closing = True
        self.stop_accepting()
        if self._ticker is not None:
            self._ticker.cancel()
        for client in list(self.clients):
            client.close("shutdown")
        for task in self._tasks:
            task.cancel()
        for upstream in list(self._connections):
            upstream.abort()

    def _tick(self) -> None:
        self._windows.rotate(time.monotonic())
        self._warnings_left = _WARNINGS_PER_SECOND
        now = self.loop.time()
        for key, pool in list(self._pools.items()):
            if key.user is None:
                pool.reap(now)
            else:
                pool.trim(self._logged_in(key.user))
            if key != self.home and not pool.in_use():
                del self._pools[key]
        self._ticker = self.loop.call_later(1.0, self._tick)

    # Policy

    def prepare(self, policy: Policy, generation: int) -> None:
        """Compile a policy without putting it in force. Raises what compiling raises."""
        compile_policy(policy, self._table())
        self._prepared = policy, generation

    def commit(self) -> None:
        """Put the prepared policy in force for all clients; those inside MULTI finish under the old one."""
        if self._prepared is None:
            return
        needed_before = self._needs()
        self._policy, self.generation = self._prepared
        self._prepared = None
        if self._needs() - needed_before:
            self._available.pop(None, None)
            self._start(self._probe_again())
            for key in {key.user: key for key in self._pools if key.user is not None}.values():
                self._probe_user_again(key)
        self._renew()

    def _probe_user_again(self, key: PoolKey) -> None:
        # Where all connections of the user are busy, what was found out before still holds, and the rest is unknown.
        upstream = self._convert(key)
        if upstream is not None:
            self._available.pop(key.user, None)
            self.release(upstream)

    def _needs(self) -> frozenset[str]:
        return compile_policy(self._policy, self._table()).needs | {_NAMES}

    async def _probe_again(self) -> None:
        # A Redis that is away is asked when it is back: ``_learn`` finds nothing known of it.
        with contextlib.suppress(OSError, TimeoutError, UpstreamRefusedError):
            opened = await self._connect(self.home)
            await self._learn(opened)
            self.release(opened.upstream)

    def _renew(self) -> None:
        self._former = [*self._former, *self._regimes.values()][-8:]
        self._regimes = {}
        for client in list(self.clients):
            client.adopt()

    def _table(self) -> Table:
        return Engine().table if self.engine is None else self.engine.table

    def regime(self, key: PoolKey) -> Regime:
        """The policy as compiled for what this pool's user may run."""
        available = self._available.get(key.user, frozenset())
        regime = self._regimes.get(available)
        if regime is None:
            table = self._table()
            policy = compile_policy(self._policy, table, available)
            pooled = bytes(
                state == State.POOL and lane == Lane.FAST.value
                for state, lane in zip(table.states, table.lanes, strict=True)
            )
            pinned = bytes(state == State.POOL for state in table.states)
            terms = Terms(policy.plan, table.lookup, table.keys, self._counters, self._request, pooled, pinned)
            regime = self._regimes[available] = Regime(terms, policy, table, self.generation)
        return regime

    def limits(self, authenticated: bool) -> Limits:
        """What a client may announce."""
        engine = self.engine or Engine()
        return limits_of(engine.name, engine.version, authenticated or not self.stranger)

    def protocol_error(self, code: int, byte: int) -> bytes:
        """The engine's words for a protocol error."""
        self._events["protocol_errors"] += 1
        return protocol_error(code, byte)

    def keeps_names(self, key: PoolKey) -> bool:
        """Whether this user may use CLIENT at all: if not, Redis is to say so itself."""
        return not self.strange(key) and _NAMES in self._available.get(key.user, {_NAMES})

    def strange(self, key: PoolKey) -> bool:
        """Whether nobody has logged in on this pool's connections, although Redis asks for a password."""
        return self.stranger and key.user is None

    def any_command_covers(self) -> bool:
        """Whether any command moves its connection's replication offset up to the server's: not in Valkey."""
        return self.engine is not None and self.engine.name != "valkey"

    def names_libraries(self) -> bool:
        """Whether the engine knows CLIENT SETINFO."""
        return self.engine is not None and self.engine.names_libraries()

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def report(self, hits: Sequence[Hit], command: Command, seeker: Seeker) -> None:
        """Count what the rules said, and log what is in ``warn``."""
        for hit in hits:
            self._verdicts[hit.rule, hit.mode.value, hit.what] += 1
            if hit.mode is Mode.WARN and self._warnings_left > 0 and isinstance(seeker, ClientConnection):
                self._warnings_left -= 1
                _log.warning(
                    "rule %s would have %s %s from %s (user %s, name %r)",
                    hit.rule,
                    hit.what,
                    command.name,
                    seeker.address,
                    seeker.key.user or "default",
                    seeker.name.decode("utf-8", "replace"),
                )

    # Clients

    def connected(self, client: ClientConnection) -> None:
        """A client has come."""
        if self.refusal is not None or self._closing:
            client.close("not_ready")
            return
        self.clients.add(client)
        self._clients_total += 1

    def departed(self, client: ClientConnection, cause: str) -> None:
        """A client has gone."""
        self.clients.discard(client)
        self._closed[cause] += 1
        if not self.clients:
            self._drained.set()
        self._local += client.local

    # What sessions ask for

    def _pool(self, key: PoolKey) -> Pool:
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = Pool(key)
        return pool

    def has_pool(self, key: PoolKey) -> bool:
        """Whether connections of this pool are there, or can be opened without asking Redis for something new."""
        pool = self._pools.get(key)
        if pool is not None and pool.alive(Lane.FAST):
            return True
        if key.user is not None or self.stranger or not self._hello:
            return False
        return any(
            other.database == key.database and other.user is None and self._pools[other].alive(Lane.FAST)
            for other in self._pools
        )

    def shared(self, key: PoolKey, lane: Lane) -> Ledger | None:
        """A shared connection that takes work now; another is opened when all are busy."""
        # Nobody can open more connections for a user whose password is not known here: they have one lane.
        lane = Lane.FAST if key.user is not None else lane
        pool = self._pool(key)
        found = pool.shared(lane)
        if found is None:
            self._ensure(pool, lane)
            found = pool.shared(lane)
        return found

    def await_shared(self, seeker: Seeker, key: PoolKey, lane: Lane) -> None:
        """Wait for a shared connection: as long as there is one, otherwise 250 ms for an attempt under way."""
        lane = Lane.FAST if key.user is not None else lane
        pool = self._pool(key)
        wait = Wait(seeker)
        pool.waiting_shared[lane].append(wait)
        self.loop.call_later(_ATTEMPT_PATIENCE, self._give_up_shared, wait, pool, lane)

    def _give_up_shared(self, wait: Wait, pool: Pool, lane: Lane) -> None:
        if wait not in pool.waiting_shared[lane]:
            return
        if (pool.alive(lane) or self._learning[pool.key.user]) and not wait.seeker.gone:
            self.loop.call_later(_ATTEMPT_PATIENCE, self._give_up_shared, wait, pool, lane)
            return
        pool.waiting_shared[lane].remove(wait)
        wait.seeker.close("no_upstream")

    def private(self, key: PoolKey) -> PrivateLedger | None:
        """An idle connection for one client; for users without a password here, one of theirs set right."""
        found = self._pool(key).take_idle()
        if found is None and key.user is not None:
            found = self._convert(key)
        return found

    def _convert(self, key: PoolKey) -> UpstreamConnection | None:
        theirs = [pool for pool in self._pools.values() if pool.key.user == key.user]
        for pool in sorted(theirs, key=lambda pool: not pool.idle):
            other = pool.key
            free = (u for u in pool.lanes[Lane.FAST] if u.head is None and not u.closed)
            upstream = pool.take_idle() or next(free, None)
            if upstream is None:
                continue
            pool.forget(upstream)
            self._account(upstream)
            upstream.shared = False
            for client in self.clients:  # nothing is owed on it: they only forget it
                if client.ledger is upstream:
                    client.ledger, client.direct = None, False
            if other.protocol != key.protocol:
                self._set_right(upstream, ["HELLO", key.protocol])
            if other.database != key.database:
                self._set_right(upstream, ["SELECT", key.database])
            upstream.key = key
            upstream.usable = True
            return upstream
        return None

    def _set_right(self, upstream: UpstreamConnection, argv: list[str | int]) -> None:
        def answered(question: "asyncio.Future[bytes]") -> None:
            if question.exception() is None and question.result().startswith(b"-"):
                upstream.abort()

        upstream.ask(argv).add_done_callback(answered)

    def await_private(self, seeker: Seeker, key: PoolKey) -> None:
        """Wait for a private connection: for its login while Redis is known to be there, otherwise 250 ms."""
        pool = self._pool(key)
        wait = Wait(seeker)
        pool.waiting_private.append(wait)
        if key.user is None and self._private_count() < self.settings.private_connections:
            self._open(pool, None)
        for upstream in pool.lanes[Lane.FAST] if key.user is not None else ():
            upstream.when_paid(partial(pool.wake, pool.waiting_private, 1))
        patience = self.settings.connect_timeout if self.ready else _ATTEMPT_PATIENCE
        self.loop.call_later(patience, self._give_up_private, wait, pool)

    def _give_up_private(self, wait: Wait, pool: Pool) -> None:
        if wait in pool.waiting_private:
            pool.waiting_private.remove(wait)
            wait.seeker.close("no_upstream")

    def _private_count(self) -> int:
        opening = sum(pool.opening[None] for pool in self._pools.values())
        return opening + sum(not upstream.shared for upstream in self._connections)

    def release(self, ledger: PrivateLedger) -> None:
        """Take back a connection: to share it where its pool has none, else to lie ready for a single client."""
        assert isinstance(ledger, UpstreamConnection)
        if self._closing or ledger.retiring or ledger.head is not None or ledger.relay or ledger.closed:
            ledger.close()
            return
        user = ledger.key.user
        if user is not None and user not in self._available:
            self._learning[user] += 1
            self._start(self._learn_user(ledger, user))
            return
        pool = self._pool(ledger.key)
        self._account(ledger)
        ledger.resume()
        if self.pooling and pool.shared(Lane.FAST) is None and pool.opening[Lane.FAST] == 0:
            self._share(pool, ledger, Lane.FAST)
            return
        most = _IDLE_KEPT if user is None else self._logged_in(user)
        pool.keep(ledger, self.loop.time(), max(most, len(pool.waiting_private)))
        pool.wake(pool.waiting_private, 1)

    def _logged_in(self, user: str) -> int:
        return sum(client.key.user == user for client in self.clients)

    async def _learn_user(self, upstream: UpstreamConnection, user: str) -> None:
        # The first login of a user: what Redis is, and what this user may run. Until then nobody else gets it.
        try:
            found = described_by(read_reply(await upstream.ask(["HELLO", upstream.key.protocol])))
            learning = self._learn_engine(upstream, found or self.engine or Engine())
            await asyncio.wait_for(learning, self.settings.connect_timeout)
        except Exception:  # noqa: BLE001 - whatever it is, the connection is not handed to a client
            _log.exception("user %s: nothing could be learnt on a new connection; it is closed", user)
            upstream.abort()
            return
        finally:
            self._learning[user] -= 1
        self._available.setdefault(user, frozenset())
        if self.refusal is not None:
            for client in list(self.clients):
                client.close("not_ready")
        self.release(upstream)

    def linger(self, session: Lingerer) -> None:
        """A login is rarely followed by nothing."""
        self.loop.call_later(_LINGER, session.linger_over)

    def discard(self, ledger: Ledger) -> None:
        """Close a connection at once."""
        assert isinstance(ledger, UpstreamConnection)
        ledger.abort()

    def dismiss(self, ledger: Ledger) -> None:
        """Close a connection whose state is not wanted, behind what was sent on it."""
        assert isinstance(ledger, UpstreamConnection)
        ledger.resume()
        ledger.close()

    def lacks(self, name: bytes) -> bool:
        """Whether the engine has said that it does not know this command."""
        return name in self._lacking

    def probing(self, name: bytes) -> bool:
        """Whether a session is asking about it now."""
        return name in self._probing

    def await_probe(self, seeker: Seeker, name: bytes) -> None:
        """Wait for that session's answer."""
        self._probing[name].append(seeker)

    def begin_probe(self, name: bytes) -> None:
        """A session asks."""
        self._probing[name] = []

    def end_probe(self, name: bytes, lacking: bool) -> None:
        """It has its answer."""
        if lacking and len(self._lacking) < _UNKNOWN_REMEMBERED:
            self._lacking.add(name)
        for seeker in self._probing.pop(name, []):
            if not seeker.gone:
                self.loop.call_soon(seeker.arrived)

    # Connections

    def _start(self, work: Any) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _ensure(self, pool: Pool, lane: Lane) -> None:
        # One attempt at a time, and no more connections than the settings allow.
        if pool.key.user is not None:
            idle = pool.take_idle() or (None if pool.alive(lane) else self._convert(pool.key))
            if idle is not None:
                self._share(pool, idle, lane)
            return
        if self._retrying and not pool.alive(lane):
            return
        free = sum(not upstream.burdened for upstream in pool.lanes[lane])
        if pool.opening[lane] == 0 and free < self.settings.upstream_connections:
            self._open(pool, lane)

    def _open(self, pool: Pool, lane: Lane | None) -> None:
        if self._closing or (self.refusal is not None):
            return
        pool.opening[lane] += 1
        self._start(self._open_into(pool, lane))

    async def _open_into(self, pool: Pool, lane: Lane | None) -> None:
        upstream: UpstreamConnection | None = None
        try:
            opened = await self._connect(pool.key)
            upstream = opened.upstream
            await asyncio.wait_for(self._learn(opened), self.settings.connect_timeout)
            upstream.check()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next attempt may go well
            pool.opening[lane] -= 1
            if upstream is not None:
                upstream.abort()
            self._failed(pool, lane, error)
            return
        pool.opening[lane] -= 1
        self._attempted.set()
        if self._closing or self.refusal is not None:
            upstream.abort()
            return
        self._backoff.succeeded()
        if lane is None:
            pool.keep(upstream, self.loop.time(), max(_IDLE_KEPT, len(pool.waiting_private)))
            pool.wake(pool.waiting_private, 1)
        else:
            self._share(pool, upstream, lane)

    async def _connect(self, key: PoolKey) -> Opened:
        opened = await asyncio.wait_for(
            open_upstream(self.route.upstream, self._tls, self, key, self.loop), self.settings.connect_timeout
        )
        self._connections.add(opened.upstream)
        return opened

    async def _learn(self, opened: Opened) -> None:
        # What the first connection to an engine tells: the others find it known.
        self.stranger = opened.stranger
        self._hello = opened.hello
        if opened.engine is not None:
            await self._learn_engine(opened.upstream, opened.engine)

    async def _learn_engine(self, upstream: UpstreamConnection, found: Engine) -> None:
        if found.cluster and not self.settings.allow_cluster:
            self.refusal = self.reason = (
                f"{self.route.upstream} is in cluster mode: clients would learn its nodes' addresses and walk around "
                "the policy; allow_cluster says that they may"
            )
            return
        user = upstream.key.user
        if self.engine is None or self.engine.version != found.version:
            await complete_table(upstream, found)
            self.engine = found
            self._lacking.clear()
            self._available.clear()
        if user in self._available:
            return
        needs = self._needs()
        self._available[user] = await probe(upstream, needs)
        self._renew()
        found = self.engine
        if user is not None:
            return
        missing = sorted(needs - self._available[None] - {_NAMES})
        found.features_off += [f"rewrites to {name} ({name} is not allowed or not known)" for name in missing]

    def _share(self, pool: Pool, upstream: UpstreamConnection, lane: Lane) -> None:
        upstream.open_to_all(lane)
        pool.lanes[lane].append(upstream)
        if pool.key == self.home and lane is Lane.FAST and self.reason:
            self.reason = ""
            self._events["reconnects"] += 1
        pool.wake(pool.waiting_shared[lane])

    def _failed(self, pool: Pool, lane: Lane | None, error: Exception) -> None:
        self._attempted.set()
        self._events["connect_failures"] += 1
        if pool.key == self.home and not pool.alive(Lane.FAST):
            text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
            self.reason = f"{self.route.upstream}: {text}"
        wanted = pool.waiting_private or any(pool.waiting_shared.values())
        if wanted or (pool.key == self.home and lane is Lane.FAST):
            self._retry_later()

    def _retry_later(self) -> None:
        if self._retrying or self._closing:
            return
        self._retrying = True
        self.loop.call_later(self._backoff.failed(), self._retry)

    def _retry(self) -> None:
        self._retrying = False
        for pool in list(self._pools.values()):
            for lane in Lane:
                wanted = pool.waiting_shared[lane] or (pool.key == self.home and lane is Lane.FAST)
                if wanted and not pool.alive(lane):
                    self._ensure(pool, lane)
        self._open_for_waiting()

    def _open_for_waiting(self) -> None:
        # A place for a private connection has become free, or an attempt has failed: those who wait are still there.
        for pool in list(self._pools.values()):
            missing = len(pool.waiting_private) - pool.opening[None]
            while missing > 0 and pool.key.user is None and self._private_count() < self.settings.private_connections:
                missing -= 1
                self._open(pool, None)

    # What connections report

    def lost(self, upstream: UpstreamConnection) -> None:
        """Close the clients that have debts or state on it; the others notice nothing."""
        self._connections.discard(upstream)
        self._account(upstream)
        pool = self._pool(upstream.key)
        shared = pool.forget(upstream)
        losers = set(upstream.abandon())
        owner = upstream.owner
        if isinstance(owner, ClientConnection) and owner not in losers and not owner.let_go():
            losers.add(owner)
        for loser in losers:
            if isinstance(loser, ClientConnection):
                loser.close("upstream_lost")
        user = upstream.key.user
        if user is not None and not any(other.key.user == user for other in self._connections):
            for client in [client for client in self.clients if client.key.user == user]:
                client.close("login_lost")
        if shared and not self._closing and pool.key == self.home and not pool.alive(Lane.FAST):
            self.reason = f"{self.route.upstream}: the connection was lost"
            self._ensure(pool, Lane.FAST)
        if not self._retrying:
            self._open_for_waiting()

    def relieved(self, upstream: UpstreamConnection) -> None:
        """A shared connection takes work again."""
        pool = self._pool(upstream.key)
        pool.wake(pool.waiting_shared[upstream.lane])

    def retired(self, upstream: UpstreamConnection) -> None:
        """A shared connection is to close: open another in its place."""
        pool = self._pool(upstream.key)
        pool.forget(upstream)
        self._events["retired"] += 1
        self._ensure(pool, upstream.lane)

    def count(self, event: str) -> None:
        """Count an event for the metrics."""
        self._events[event] += 1

    # Figures

    @property
    def ready(self) -> bool:
        """Whether commands reach Redis."""
        return self.refusal is None and self._pool(self.home).alive(Lane.FAST)

    def _account(self, upstream: UpstreamConnection) -> None:
        if upstream.shared:
            self._pooled += upstream.commands
        else:
            self._pinned += upstream.commands
        upstream.commands = 0

    def _account_plans(self) -> None:
        for regime in [*self._regimes.values(), *self._former]:
            changed = regime.terms.plan.changed
            for command_id, hits in regime.policy.lowered.items():
                count = changed[command_id]
                changed[command_id] = 0
                for hit in hits if count else ():
                    self._verdicts[hit.rule, hit.mode.value, hit.what] += count

    def snapshot(self) -> dict[str, Any]:
        """All figures since the start, as JSON can hold them."""
        for upstream in self._connections:
            self._account(upstream)
        self._account_plans()
        verdicts: dict[str, dict[str, int]] = {}
        for (rule, mode, what), count in self._verdicts.items():
            verdicts.setdefault(rule, {})[f"{mode} {what}"] = count
        engine = self.engine
        shared = sum(upstream.shared for upstream in self._connections)
        idle = sum(len(pool.idle) for pool in self._pools.values())
        return {
            "route": self.route.name,
            "ready": self.ready,
            "reason": self.reason,
            "engine": None if engine is None else {"name": engine.name, "version": engine.version_text},
            "clients": len(self.clients),
            "clients_total": self._clients_total,
            "upstreams": {"shared": shared, "private": len(self._connections) - shared - idle, "idle": idle},
            "commands": {
                "pooled": self._pooled,
                "pinned": self._pinned,
                "local": self._local + sum(client.local for client in self.clients),
            },
            "verdicts": verdicts,
            "closed": dict(self._closed),
            "events": dict(self._events),
            "out_of_step": self._events["out_of_step"],
            "reconnects": max(0, self._events["reconnects"] - 1),
            "features_off": [] if engine is None else engine.features_off,
            "generation": self.generation,
        }

    def busiest(self, window: int) -> Answer:
        """The busiest keys of the last ``window`` seconds, as ``traffic.merge`` takes them."""
        return self._windows.answer(window, time.monotonic())

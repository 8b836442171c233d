"""The policy in force on one route, and how another one replaces it.

Keyrail learns on its own connections what a user may run. When it knows more, or another policy comes into force, the
clients adopt new effective policies. Former ones are kept until their counts are taken and no client is inside a
transaction that began under them. No cycle refers to them, so they are freed without the garbage collector, which
blocks all clients.

Nothing here blocks the event loop. Before another policy comes into force, or the kill switch is turned, a thread binds
the effective policies of the connected clients, while the event loop serves them (``SWITCH_SECONDS`` is how long the
loop may have to wait for the thread). Then the clients adopt them, some in each turn of the loop. A client does so
between two commands, so one policy judges each command. The rules judge all commands of the first client of an app
until its plan has arrived.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from typing import Any, Protocol

from proxy.hotpath.cluster.router import Router
from proxy.hotpath.counting.call_counts import CallCounts
from proxy.hotpath.counting.counters import Counters
from proxy.hotpath.counting.sampler import Sampler
from proxy.hotpath.upstream.write_gate import WriteGate
from proxy.net.connection.asked_once import AskedOnce
from proxy.net.connection.connect import Opened
from proxy.net.connection.engine import Engine, probe
from proxy.net.connection.lacking import UNCLEAR, WITHOUT_MULTI, not_allowed, not_known, not_told
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.policy.cache_scope import CacheScope
from proxy.net.policy.capabilities import Capabilities
from proxy.net.policy.command_counts import CommandCounts
from proxy.net.policy.plan_compiler import FindPlans, PlanUnavailableError
from proxy.net.policy.policy_generation import HotPathParts, PolicyGeneration
from proxy.net.policy.rights import NAMES
from proxy.net.policy.verdicts import Verdicts
from proxy.policy.apps import Caller
from proxy.policy.compile import CompiledPolicy
from proxy.policy.model import Policy
from proxy.policy.zones import Zones
from proxy.rules.memory import Memory
from proxy.session.policy.judging import end_if_told
from proxy.session.ports.client import EffectivePolicy, ServedClient
from proxy.session.ports.pool_key import UNAUTHENTICATED, Node, PoolKey
from proxy.session.ports.ports import PolicyPort
from proxy.session.session import Session
from proxy.traffic.redaction import Redact
from proxy.wire.request import Request

SWITCH_SECONDS = 0.0005
"""For ``sys.setswitchinterval``: a thread gives way to another one after so long. Python's own 5 ms is for each turn of
the event loop. Where no other thread runs, it costs nothing."""
_SLICE_SECONDS = 0.001
"""The time in one turn of the event loop for clients that adopt a policy."""
_PLAN_SECONDS = 3.0
"""How long the start of a route and the kill switch wait for plans."""
_AGAIN_SECONDS, _LONGEST_AGAIN_SECONDS = 1.0, 60.0
"""Seconds until plans that cannot be had are asked for again: they double up to the longest."""
_FORMER_KEPT = 8

_log = logging.getLogger("keyrail.policies")


class CacheFollower(Protocol):
    """The local cache."""

    def follow(self, scope: CacheScope) -> None:
        """Another policy comes into force: its clients are told one after the other."""


class Policies(PolicyPort):
    """The policy in force, and the one that is prepared to replace it.

    ``find_plans`` finds the plans of the first policy. ``memory`` has the state of the rules. ``workers`` is the number
    of workers that serve the route. ``calls`` counts commands by name. ``start`` starts a task.
    The ``gate`` is that of all clients.
    """

    def __init__(
        self,
        policy: Policy,
        generation: int,
        find_plans: FindPlans,
        known: Capabilities,
        counters: Counters,
        sampler: Sampler,
        clients: Collection[Session],
        workers: int,
        paused: bool,
        start: Callable[[Coroutine[Any, Any, None]], "asyncio.Future[None]"],
        router: Router | None = None,
    ) -> None:
        self.memory = Memory(workers)
        self.calls = CommandCounts()
        self._capabilities = known
        self._clients = clients
        self._paused = paused
        self._start = start
        self.gate = WriteGate()
        self._parts = HotPathParts(counters, sampler, router, Request(), self.gate)
        table = known.table()
        self._current = PolicyGeneration(policy, generation, find_plans, table, self.memory, paused, self._parts)
        self._caches: CacheFollower | None = None
        self._prepared: PolicyGeneration | None = None
        self._former: list[tuple[EffectivePolicy, ...]] = []
        self._changing = asyncio.Lock()
        self._completing: PolicyGeneration | None = None
        self._tasks: set[asyncio.Future[None]] = set()
        self._asked = AskedOnce()

    def cached_by(self, caches: CacheFollower) -> None:
        """Tell this local cache of each policy that comes into force."""
        self._caches = caches

    async def begin(self) -> None:
        """Get ready for the first clients."""
        await self._current.bind(())
        self._tell_caches()
        with contextlib.suppress(TimeoutError, PlanUnavailableError):
            async with asyncio.timeout(_PLAN_SECONDS):
                await self._current.complete()
        self._complete_later()

    # The policy in force

    @property
    def generation(self) -> int:
        """The number of the generation in force."""
        return self._current.number

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules in force."""
        return self._current.policy.rule_names

    @property
    def redact(self) -> Redact:
        """How the policy in force shows keys."""
        return self._current.policy.redact

    @property
    def zones(self) -> Zones:
        """The zones of the policy in force."""
        return self._current.policy.zones

    @property
    def moves_reads(self) -> bool:
        """Whether it has rules about reads that replicas may answer."""
        return any(rule.settings.moves_reads for rule in self._current.policy.rules)

    @property
    def replica_lags(self) -> Sequence[float]:
        """How many seconds a replica may be behind that answers reads: one for each kind of them, the least first."""
        plans = [each.config.plan.replica_reads for each in self._current.effective_policies.values()]
        return sorted({terms.max_lag for plan in plans if plan for terms in plan.terms if terms.enforced})

    @property
    def prepared(self) -> bool:
        """Whether a policy waits to be put in force."""
        return self._prepared is not None

    async def prepare(self, policy: Policy, generation: int, find_plans: FindPlans) -> None:
        """Compile a policy without putting it in force. Raises what compiling raises, and PlanUnavailableError."""
        self._prepared = None
        table, memory = self._capabilities.table(), self.memory.fork()
        coming = PolicyGeneration(policy, generation, find_plans, table, memory, self._paused, self._parts)
        await coming.bind(await self._callers())
        await coming.complete()
        self._prepared = coming

    async def commit(self) -> bool:
        """Put the prepared policy in force for all clients, and say whether it needs commands that nobody has asked
        about."""
        assert self._prepared is not None
        needed = self._current.needed
        coming, self._prepared = self._prepared, None
        await self._put_in_force(coming)
        return bool(self._current.needed - needed)

    async def pause(self, paused: bool) -> None:
        """Enforce nothing but locked rules from now on, or end that."""
        if paused == self._paused:
            return
        coming = self._current.turned(self._capabilities.table(), paused)
        await coming.bind(await self._callers())
        with contextlib.suppress(TimeoutError, PlanUnavailableError):
            async with asyncio.timeout(_PLAN_SECONDS):
                await coming.complete()
        self._paused = paused
        await self._put_in_force(coming)

    async def _put_in_force(self, coming: PolicyGeneration) -> None:
        async with self._changing:
            # Since it was prepared, the kill switch, the engine or the connected apps may have changed.
            if coming.number < self._current.number:
                coming = self._current
            table = self._capabilities.table()
            if coming.table is table and coming.paused == self._paused and coming is self._current:
                return
            if coming.table is not table or coming.paused != self._paused:
                coming = coming.turned(table, self._paused)
            await coming.bind(await self._callers())
            self._former = [*self._former, tuple(self._current.effective_policies.values())][-_FORMER_KEPT:]
            self._current = coming
            if coming.memory is not self.memory:
                self.memory.join(coming.memory)
                coming.memory = self.memory
                self.memory.retain(coming.active)
            self._complete_later()
            self._tell_caches()
            await self._adopt()

    def _tell_caches(self) -> None:
        if self._caches is not None and self._current.cache_scope is not None:
            self._caches.follow(self._current.cache_scope)

    async def _adopt(self) -> None:
        # Clients inside MULTI finish under the policy under which they began.
        async for client in self._in_slices():
            client.adopt()
            end_if_told(client)

    async def _callers(self) -> set[tuple[frozenset[str], Caller]]:
        return {(self._able(client.key), client.caller()) async for client in self._in_slices()}

    async def _in_slices(self) -> AsyncIterator[Session]:
        """All connected clients; other callbacks of the event loop run after each slice."""
        over = time.perf_counter() + _SLICE_SECONDS
        for client in list(self._clients):
            if client in self._clients:
                yield client
            if time.perf_counter() > over:
                await asyncio.sleep(0)
                over = time.perf_counter() + _SLICE_SECONDS

    def effective_policy(self, key: PoolKey, caller: Caller) -> EffectivePolicy:
        """The policy as compiled for the client's app and for what this pool's user may run."""
        found = self._current.effective_policy(self._current.whose(self._able(key), caller))
        if self._current.incomplete:
            self._complete_later()
        return found

    def calls_of(self, client: ServedClient) -> CallCounts:
        """The counters of the commands of this client, and of all that evidence does not tell from it."""
        return self.calls.of(client.effective_policy.table, client)

    @property
    def exact_evidence(self) -> bool:
        """Whether the policy in force records every command."""
        return self._current.policy.exact_evidence

    def sample(self) -> None:
        """Trace commands as the policy in force says."""
        self._parts.sampler.take_all(self.exact_evidence)

    def _complete_later(self) -> None:
        if self._current.incomplete and self._completing is not self._current:
            self._completing = self._current
            self._run(self._complete(self._current))

    def _run(self, work: Coroutine[Any, Any, None]) -> "asyncio.Future[None]":
        task = self._start(work)
        self._tasks.add(task)  # an event loop keeps no task alive
        task.add_done_callback(self._tasks.discard)
        return task

    async def _complete(self, generation: PolicyGeneration) -> None:
        """Get the missing plans, while the policy is in force."""
        pause = _AGAIN_SECONDS
        try:
            while generation.incomplete and generation is self._current:
                try:
                    await generation.complete()
                except PlanUnavailableError as error:
                    _log.warning("commands are judged without a plan for now: %s", error)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LONGEST_AGAIN_SECONDS)
        finally:
            if self._completing is generation:
                self._completing = None

    def rehearsal(self, key: PoolKey, caller: Caller) -> CompiledPolicy:
        """The same policy, for commands that are only tried: it has no state of clients, and spends no tokens."""
        return self._current.rehearsal(self._current.whose(self._able(key), caller))

    def _able(self, key: PoolKey) -> frozenset[str]:
        # Before its login a client is asked nothing that depends on what its user may run.
        user = None if key.user == UNAUTHENTICATED else key.user
        return self._capabilities.able.get(user, frozenset())

    # Learning

    async def learn(self, opened: Opened) -> None:
        """Keep what the first connection to an engine tells, for all later ones. Raises ConnectionResetError."""
        self._capabilities.needs_password = opened.unauthenticated
        self._capabilities.hello = opened.hello
        if opened.engine is not None:
            await self.learn_user(opened.upstream, opened.engine)
            await self.settle(opened.upstream.key.user)

    async def learn_user(self, upstream: UpstreamConnection, found: Engine) -> None:
        """Find out what the user of a connection may run on its node; ``settle`` puts that into force. Raises
        ConnectionResetError."""
        subject = (upstream.key.login, found.name, found.version, self._current.needed)
        await self._asked.ask(subject, lambda: self._learn_user(upstream, found))

    async def _learn_user(self, upstream: UpstreamConnection, found: Engine) -> None:
        user, node = upstream.key.user, upstream.key.node
        known = self._capabilities
        if not await known.meet(upstream, found):
            return
        await self._follow_engine()
        if not self.asks_about(user, node):
            return
        known.rights.begin(user, node)
        try:
            probed = await probe(upstream, self._current.needed)
        except ConnectionResetError:
            known.rights.fail(user, node)
            raise
        known.rights.tell(user, node, *probed)

    async def settle(self, user: str | None) -> None:
        """Let this user's clients run what all nodes let it run, as far as they have told."""
        able = self._capabilities.rights.on_all(user)
        if self._capabilities.able.get(user) != able:
            await self._wholly(self._let_run(user, able))

    async def _wholly(self, change: Coroutine[Any, Any, None]) -> None:
        """Wait for a change. The change is completed even if the caller is cancelled."""
        await asyncio.shield(self._run(change))

    async def _follow_engine(self) -> None:
        """Bind the policy again if the engine has another table of commands now."""
        if self._capabilities.table() is not self._current.table:
            await self._wholly(self._put_in_force(self._current))

    async def _let_run(self, user: str | None, able: frozenset[str]) -> None:
        """Put into force what the user may run."""
        async with self._changing:
            if self._capabilities.able.get(user) == able:
                return
            callers = {(able, client.caller()) async for client in self._in_slices() if client.key.user == user}
            await self._current.bind(callers or {(able, Caller(user or ""))})
            self._capabilities.able[user] = able
            self._complete_later()
            await self._adopt()

    def asks_about(self, user: str | None, node: Node) -> bool:
        """Whether it is time to find out what this user may run on this node."""
        return self._capabilities.rights.due(user, node, self._current.needed)

    def lacks(self, user: str | None) -> frozenset[str]:
        """Commands that rules would send for this user, and that it was last known not to be able to run."""
        able = self._capabilities.able.get(user)
        return frozenset() if able is None else self._current.needed - able - {NAMES}

    @property
    def features_off(self) -> list[str]:
        """For each command that rules send and that does not work with the route's own login: why, and what follows."""
        known = self._capabilities
        able, engine = known.able.get(None, frozenset()), known.engine or Engine()
        lacking, rights = self.lacks(None), known.rights
        untold = lacking & rights.untold
        unclear = (lacking & rights.unclear) - untold
        doubtful = ((untold, WITHOUT_MULTI), (unclear, UNCLEAR))
        return [
            *(not_told(names, why) for names, why in doubtful if names),
            *(
                not_known(engine, name, able) if name in rights.unknown else not_allowed([name])
                for name in sorted(lacking - untold - unclear)
            ),
        ]

    # Figures

    def count_into(self, verdicts: Verdicts) -> None:
        """Add what the plans have done by themselves since the last call."""
        for effective_policy in (
            *self._current.effective_policies.values(),
            *(each for former in self._former for each in former),
        ):
            changed = effective_policy.config.plan.changed
            for counter, hits in effective_policy.compiled.lowered.items():
                count = changed[counter]
                changed[counter] = 0
                for hit in hits if count else ():
                    verdicts.add(hit, count, effective_policy.compiled.app)
        if self._former:
            in_use = {id(client.effective_policy) for client in self._clients}
            self._former = [tuple(each for each in former if id(each) in in_use) for former in self._former if former]

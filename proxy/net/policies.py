"""The policy in force on one route, compiled for what each user may run.

A rewrite may need a command that some user is not allowed, and rules have a mode of their own for each app, so there is
an *effective policy* for each set of allowed commands and each app.
Keyrail learns on its own connections what a user may run. When it knows more, or another policy comes into force, the
clients adopt new effective policies. Former ones are kept until their counts are taken and no client is inside a
transaction that began under them. No cycle refers to them, so they end without the garbage collector, which holds up
all clients.

To compile a large policy takes tens of milliseconds for each app. So before another policy comes into force, or the
kill switch is turned, a thread makes the effective policies of the clients that are there, while the event loop goes on
serving them (``SWITCH_SECONDS`` is how long it may have to wait for the thread); then all clients change over at once.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TypeAlias

from proxy.commands.spec import Spec
from proxy.commands.table import ConnectionState, Lane, Table
from proxy.hotpath.counters import Counters
from proxy.hotpath.hot_path_config import MAY_WRITE, READS, HotPathConfig
from proxy.hotpath.router import Router
from proxy.hotpath.sampler import Sampler
from proxy.net.capabilities import NAMES, Capabilities
from proxy.net.command_counts import CommandCounts
from proxy.net.connect import Opened
from proxy.net.engine import Engine, probe
from proxy.net.lacking import not_allowed, not_known
from proxy.net.upstream import UpstreamConnection
from proxy.net.verdicts import Verdicts
from proxy.policy.apps import App, Caller, identify
from proxy.policy.compile import CompiledPolicy, PolicyCompiler, compile_policy, needs_of
from proxy.policy.model import Policy
from proxy.policy.precedence import is_active
from proxy.rules.memory import Memory
from proxy.session.ports import UNAUTHENTICATED, EffectivePolicy, PolicyPort, PoolKey
from proxy.session.session import Session
from proxy.traffic.redaction import Redact
from proxy.wire.request import Request

SWITCH_SECONDS = 0.0005
"""For ``sys.setswitchinterval``: a thread gives way to another one after so long. Python's own 5 ms is for each turn of
the event loop. Where no other thread runs, it costs nothing."""
_FORMER_KEPT = 8
_CALLERS_KEPT = 10_000
_LONGEST_KEPT = 256
"""Characters of a client name: who has a longer one is identified each time."""

_Whose: TypeAlias = tuple[frozenset[str], App | None]
"""What a user may run, and the app."""
_EffectivePolicies: TypeAlias = dict[_Whose, EffectivePolicy]
_Compilers: TypeAlias = dict[frozenset[str], PolicyCompiler]
"""By what a user may run."""


@dataclass(slots=True)
class _Prepared:
    """A policy that is to come into force, and its effective policies so far."""

    policy: Policy
    generation: int
    table: Table
    memory: Memory
    paused: bool
    effective_policies: _EffectivePolicies = field(default_factory=dict)
    compilers: _Compilers = field(default_factory=dict)
    needed: frozenset[str] = frozenset()
    active: frozenset[str] = frozenset()
    """The rules that remember something."""
    identified: dict[Caller, App | None] = field(default_factory=dict)


class Policies(PolicyPort):
    """The policy in force, ``generation`` being its number, and the one that is prepared to follow it.

    ``memory`` is what its rules remember; of the ``workers`` that serve the route, this is one. ``calls`` counts
    commands by name.
    """

    def __init__(
        self,
        policy: Policy,
        generation: int,
        known: Capabilities,
        counters: Counters,
        sampler: Sampler,
        clients: Collection[Session],
        workers: int,
        paused: bool,
        router: Router | None = None,
    ) -> None:
        self.generation = generation
        self._policy = policy
        self.memory = Memory(workers)
        self._capabilities = known
        self._counters = counters
        self._sampler = sampler
        self._router = router
        self._clients = clients
        self._paused = paused
        self._prepared: _Prepared | None = None
        self._request = Request()
        self.calls = CommandCounts()
        self._table: Table | None = None
        self._effective_policies: _EffectivePolicies = {}
        self._compilers: _Compilers = {}
        self._rehearsals: dict[_Whose, CompiledPolicy] = {}
        self._former: list[tuple[EffectivePolicy, ...]] = []
        self._identified: dict[Caller, App | None] = {}
        self._needed: tuple[Policy, Table, frozenset[str]] | None = None

    async def prepare(self, policy: Policy, generation: int) -> None:
        """Compile a policy without putting it in force. Raises what compiling raises."""
        coming = _Prepared(policy, generation, self._capabilities.table(), self.memory.fork(), self._paused)
        await self._make_effective_policies(coming)
        self._prepared = coming

    async def _make_effective_policies(self, coming: _Prepared) -> None:
        # Those of the clients that are there now, and one at least: what is wrong with the policy shows then.
        callers = dict.fromkeys((client.key, client.caller()) for client in self._clients)
        wanted = {(self._able(key), _identified(coming.identified, coming.policy, caller)) for key, caller in callers}
        await asyncio.to_thread(self._compile_all, coming, wanted or {(frozenset(), None)})

    def _compile_all(self, coming: _Prepared, wanted: Collection[_Whose]) -> None:
        for whose in wanted:
            coming.effective_policies[whose] = self._effective_policy(coming, whose)
        coming.needed = needs_of(coming.policy, coming.table) | {NAMES}
        coming.active = frozenset(rule.name for rule in coming.policy.rules if is_active(coming.policy, rule))

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules in force."""
        return self._policy.rule_names

    @property
    def redact(self) -> Redact:
        """How their policy shows keys."""
        return self._policy.redact

    @property
    def prepared(self) -> bool:
        """Whether a policy waits to be put in force."""
        return self._prepared is not None

    def commit(self) -> bool:
        """Put the prepared policy in force for all clients, and say whether it needs commands that nobody has asked
        about."""
        assert self._prepared is not None
        needed_before = self._needs()
        coming, self._prepared = self._prepared, None
        if coming.paused != self._paused:  # the kill switch has been turned since
            coming.paused, coming.effective_policies = self._paused, {}
        self.memory.join(coming.memory)
        self._put_in_force(coming)
        self.memory.retain(coming.active)
        return bool(self._needs() - needed_before)

    async def pause(self, paused: bool) -> None:
        """Enforce nothing but locked rules from now on, or end that."""
        if paused != self._paused:
            coming = self._as_it_is(paused)
            await self._make_effective_policies(coming)
            self._put_in_force(coming)

    def _put_in_force(self, coming: _Prepared) -> None:
        self._policy, self.generation, self._paused = coming.policy, coming.generation, coming.paused
        table = self._capabilities.table()
        self._retire(table)
        if coming.table is table:
            self._effective_policies, self._compilers = coming.effective_policies, coming.compilers
            self._needed = coming.policy, table, coming.needed
        self._identified = coming.identified
        self._adopt()

    def _retire(self, table: Table) -> None:
        # Effective policies that were made before are for no client any more.
        self._former = [*self._former, tuple(self._effective_policies.values())][-_FORMER_KEPT:]
        self._table = table
        self._effective_policies, self._compilers = {}, {}
        self._rehearsals.clear()

    def _adopt(self) -> None:
        # All clients take over what is in force now; those inside MULTI finish under what they began with.
        for client in list(self._clients):
            client.adopt()

    def effective_policy(self, key: PoolKey, caller: Caller) -> EffectivePolicy:
        """The policy as compiled for the client's app and for what this pool's user may run."""
        whose = self._whose(key, caller)
        effective_policy = self._effective_policies.get(whose)
        if effective_policy is None:
            effective_policy = self._effective_policies[whose] = self._effective_policy(
                self._as_it_is(self._paused), whose
            )
        return effective_policy

    def _as_it_is(self, paused: bool) -> _Prepared:
        table = self._capabilities.table()
        made = _Prepared(self._policy, self.generation, table, self.memory, paused, identified=self._identified)
        if table is self._table:
            made.compilers = self._compilers
        return made

    def _effective_policy(self, coming: _Prepared, whose: _Whose) -> EffectivePolicy:
        able, app = whose
        table = coming.table
        compiler = coming.compilers.get(able)
        if compiler is None:
            compiler = coming.compilers[able] = PolicyCompiler(coming.policy, table, able, memory=coming.memory)
        policy = compiler.compile(app, paused=coming.paused)
        pinned = bytes(map(_forwarding, table.specs))
        pooled = bytes(may * (lane == Lane.FAST.value) for may, lane in zip(pinned, table.lanes, strict=True))
        config = HotPathConfig(
            policy.plan,
            table.lookup,
            table.keys,
            self._counters,
            self._request,
            pooled,
            pinned,
            sampler=self._sampler,
            router=self._router,
            calls=self.calls.of(table),
        )
        return EffectivePolicy(config, policy, table, coming.generation)

    def rehearsal(self, key: PoolKey, caller: Caller) -> CompiledPolicy:
        """The same policy once more, to try commands on: it knows nothing of what clients do, and spends nothing."""
        whose = able, app = self._whose(key, caller)
        found = self._rehearsals.get(whose)
        if found is None:
            assert self._table is not None
            found = compile_policy(self._policy, self._table, able, app=app, paused=self._paused)
            self._rehearsals[whose] = found
        return found

    def _whose(self, key: PoolKey, caller: Caller) -> _Whose:
        # Plans for another table of commands are useless: the engine was not known then, or it was another one.
        table = self._capabilities.table()
        if table is not self._table:
            self._retire(table)
        return self._able(key), _identified(self._identified, self._policy, caller)

    def _able(self, key: PoolKey) -> frozenset[str]:
        # Before its login a client is asked nothing that depends on what its user may run.
        user = None if key.user == UNAUTHENTICATED else key.user
        return self._capabilities.able.get(user, frozenset())

    # Learning

    def _needs(self) -> frozenset[str]:
        # Asked each second for each user, and to be found only by binding every rule of every app.
        policy, table = self._policy, self._capabilities.table()
        if self._needed is None or self._needed[0] is not policy or self._needed[1] is not table:
            self._needed = policy, table, needs_of(policy, table) | {NAMES}
        return self._needed[2]

    async def learn(self, opened: Opened) -> None:
        """Keep what the first connection to an engine tells, for all later ones. Raises ConnectionResetError."""
        self._capabilities.needs_password = opened.unauthenticated
        self._capabilities.hello = opened.hello
        if opened.engine is not None:
            await self.learn_user(opened.upstream, opened.engine)

    async def learn_user(self, upstream: UpstreamConnection, found: Engine) -> None:
        """Find out what the user of a connection may run. Raises ConnectionResetError."""
        user = upstream.key.user
        known = self._capabilities
        if not await known.meet(upstream, found) or not self.asks_about(user):
            return
        known.look_at(user)
        try:
            able, unclear, unknown = await probe(upstream, self._needs())
        except ConnectionResetError:
            if user in known.able:
                known.doubted.add(user)
            raise
        if user is None:
            known.unknown = unknown
        if unclear:
            able |= unclear & known.able.get(user, frozenset())
            known.doubted.add(user)
        if known.able.get(user) != able:
            known.able[user] = able
            self._adopt()

    def asks_about(self, user: str | None) -> bool:
        """Whether it is time to find out what this user may run."""
        return self._capabilities.asks_about(user, lacks=bool(self.lacks(user)))

    def lacks(self, user: str | None) -> frozenset[str]:
        """Commands that rules would send for this user, and that it was last known not to be able to run."""
        able = self._capabilities.able.get(user)
        return frozenset() if able is None else self._needs() - able - {NAMES}

    @property
    def features_off(self) -> list[str]:
        """For each command that rules send and that does not work with the route's own login: why, and what follows."""
        known = self._capabilities
        able, engine = known.able.get(None, frozenset()), known.engine or Engine()
        return [
            not_known(engine, name, able) if name in known.unknown else not_allowed([name])
            for name in sorted(self.lacks(None))
        ]

    # Figures

    def count_into(self, verdicts: Verdicts) -> None:
        """Add what the plans have done by themselves since the last call."""
        for effective_policy in (
            *self._effective_policies.values(),
            *(each for former in self._former for each in former),
        ):
            changed = effective_policy.config.plan.changed
            for counter, hit in effective_policy.compiled.lowered.items():
                count = changed[counter]
                changed[counter] = 0
                if count:
                    verdicts.add(hit, count, effective_policy.compiled.app)
        if self._former:
            in_use = {id(client.effective_policy) for client in self._clients}
            self._former = [tuple(each for each in former if id(each) in in_use) for former in self._former if former]


def _forwarding(spec: Spec) -> int:
    # Commands that depend on the server process go through the session.
    if spec.state is not ConnectionState.POOL or spec.process_bound:
        return 0
    return READS if spec.only_reads else MAY_WRITE


def _identified(known: dict[Caller, App | None], policy: Policy, caller: Caller) -> App | None:
    # All clients are asked about at a reload, and many of them are alike. A client may have a name of a megabyte.
    if len(caller.client_name) > _LONGEST_KEPT:
        return identify(policy.apps, caller)
    if caller not in known:
        if len(known) >= _CALLERS_KEPT:
            known.clear()
        known[caller] = identify(policy.apps, caller)
    return known[caller]

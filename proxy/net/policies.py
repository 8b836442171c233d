"""The policy in force on one route, compiled for what each user may run.

A rewrite may need a command that some user is not allowed, and rules have a mode of their own for each app, so there is
a *regime* for each set of allowed commands and each app.
What is allowed is learnt on connections that are nobody's; whenever more is known, or another policy comes into force,
the clients adopt new regimes. Former regimes are kept for a while: transactions end under them, and their plans still
hold counts.
"""

import asyncio
from collections.abc import Collection

from proxy.commands.table import Lane, State
from proxy.hotpath.counters import Counters
from proxy.hotpath.intake import Terms
from proxy.hotpath.sampler import Sampler
from proxy.net.client import ClientConnection
from proxy.net.connect import Opened
from proxy.net.engine import Engine, probe
from proxy.net.knowledge import NAMES, Knowledge
from proxy.net.upstream import UpstreamConnection
from proxy.net.verdicts import Verdicts
from proxy.policy.apps import App, Caller, identify
from proxy.policy.compile import CompiledPolicy, compile_policy, needs_of
from proxy.policy.model import Policy
from proxy.policy.precedence import is_active
from proxy.rules.memory import Memory
from proxy.session.gate import PoolKey, Regime
from proxy.traffic.redaction import Redact
from proxy.wire.request import Request

_FORMER_KEPT = 8
_CALLERS_KEPT = 10_000


class Policies:
    """The policy in force, ``generation`` being its number, and the one that is prepared to follow it.

    ``memory`` is what its rules remember; of the ``workers`` that serve the route, this is one.
    """

    def __init__(
        self,
        policy: Policy,
        generation: int,
        known: Knowledge,
        counters: Counters,
        sampler: Sampler,
        clients: Collection[ClientConnection],
        workers: int,
        paused: bool,
    ) -> None:
        self.generation = generation
        self._policy = policy
        self.memory = Memory(workers)
        self._known = known
        self._counters = counters
        self._sampler = sampler
        self._clients = clients
        self._paused = paused
        self._prepared: tuple[Policy, int] | None = None
        self._request = Request()
        self._regimes: dict[tuple[frozenset[str], App | None], Regime] = {}
        self._rehearsals: dict[tuple[frozenset[str], App | None], CompiledPolicy] = {}
        self._former: list[tuple[Regime, ...]] = []
        self._identified: dict[Caller, App | None] = {}

    async def prepare(self, policy: Policy, generation: int) -> None:
        """Compile a policy without putting it in force. Raises what compiling raises."""
        for app in (None, *policy.apps):
            compile_policy(policy, self._known.table(), app=app)
            # With many apps it takes long enough for clients to notice.
            await asyncio.sleep(0)
        self._prepared = policy, generation

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules in force."""
        return self._policy.rule_names

    @property
    def redact(self) -> Redact:
        """What their policy lets be shown of keys."""
        return self._policy.redact

    @property
    def prepared(self) -> bool:
        """Whether a policy waits to be put in force."""
        return self._prepared is not None

    def commit(self) -> bool:
        """Put the prepared policy in force, and say whether it needs commands that nobody has asked about.

        The clients do not know it before ``renew``.
        """
        assert self._prepared is not None
        needed_before = self._needs()
        self._policy, self.generation = self._prepared
        self._prepared = None
        self._identified.clear()
        self.memory.retain({rule.name for rule in self._policy.rules if is_active(self._policy, rule)})
        return bool(self._needs() - needed_before)

    def pause(self, paused: bool) -> None:
        """Enforce nothing but locked rules from now on, or end that."""
        if paused != self._paused:
            self._paused = paused
            self.renew()

    def renew(self) -> None:
        """Let all clients adopt what is in force now; those inside MULTI finish under what they began with."""
        self._former = [*self._former, tuple(self._regimes.values())][-_FORMER_KEPT:]
        self._regimes = {}
        self._rehearsals.clear()
        for client in list(self._clients):
            client.adopt()

    def regime(self, key: PoolKey, caller: Caller) -> Regime:
        """The policy as compiled for the client's app and for what this pool's user may run."""
        able = self._known.able.get(key.user, frozenset())
        app = self._identify(caller)
        regime = self._regimes.get((able, app))
        if regime is None:
            table = self._known.table()
            policy = compile_policy(self._policy, table, able, app=app, memory=self.memory, paused=self._paused)
            pooled = bytes(
                state == State.POOL and lane == Lane.FAST.value
                for state, lane in zip(table.states, table.lanes, strict=True)
            )
            pinned = bytes(state == State.POOL for state in table.states)
            terms = Terms(
                policy.plan,
                table.lookup,
                table.keys,
                self._counters,
                self._request,
                pooled,
                pinned,
                sampler=self._sampler if self._policy.count_keys else None,
            )
            regime = self._regimes[able, app] = Regime(terms, policy, table, self.generation)
        return regime

    def rehearsal(self, key: PoolKey, caller: Caller) -> CompiledPolicy:
        """The same policy once more, to try commands on: it knows nothing of what clients do, and spends nothing."""
        able = self._known.able.get(key.user, frozenset())
        app = self._identify(caller)
        found = self._rehearsals.get((able, app))
        if found is None:
            found = compile_policy(self._policy, self._known.table(), able, app=app, paused=self._paused)
            self._rehearsals[able, app] = found
        return found

    def _identify(self, caller: Caller) -> App | None:
        # All clients are asked about at a reload, and many of them are alike.
        if caller not in self._identified:
            if len(self._identified) >= _CALLERS_KEPT:
                self._identified.clear()
            self._identified[caller] = identify(self._policy.apps, caller)
        return self._identified[caller]

    # Learning

    def _needs(self) -> frozenset[str]:
        return needs_of(self._policy, self._known.table()) | {NAMES}

    async def learn(self, opened: Opened) -> None:
        """What the first connection to an engine tells: the others find it known. Raises ConnectionResetError."""
        self._known.stranger = opened.stranger
        self._known.hello = opened.hello
        if opened.engine is not None:
            await self.learn_user(opened.upstream, opened.engine)

    async def learn_user(self, upstream: UpstreamConnection, found: Engine) -> None:
        """Find out what the user of a connection may run. Raises ConnectionResetError."""
        user = upstream.key.user
        if not await self._known.meet(upstream, found) or user in self._known.able:
            return
        needs = self._needs()
        able = self._known.able[user] = await probe(upstream, needs)
        self.renew()
        engine = self._known.engine
        if user is None and engine is not None:
            missing = sorted(needs - able - {NAMES})
            engine.features_off += [f"what rules send as {name} (not allowed, or not known)" for name in missing]

    # Figures

    def count_into(self, verdicts: Verdicts) -> None:
        """Add what the plans have done by themselves since the last call."""
        for regime in (*self._regimes.values(), *(each for former in self._former for each in former)):
            changed = regime.terms.plan.changed
            for command_id, hits in regime.policy.lowered.items():
                count = changed[command_id]
                changed[command_id] = 0
                for hit in hits if count else ():
                    verdicts.add(hit, count, regime.policy.app)

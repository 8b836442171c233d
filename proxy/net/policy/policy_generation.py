"""One generation of a policy in one worker: bound for its clients, with plans from the supervisor.

A rewrite may need a command that some user may not run, and rules have a mode for each app, so there is an *effective
policy* for each set of allowed commands and each app. ``bind`` makes effective policies whose rules judge every
command. ``complete`` adds their plans, after which most commands need no judging. A plan never changes a verdict, so
clients do not have to wait for it.
"""

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from proxy.cluster.split_commands import split_commands
from proxy.commands.cached_reads import NO_KEYS, cache_role
from proxy.commands.held_by_pause import held_by_pause
from proxy.commands.replica_reads import hides_absence
from proxy.commands.spec import Spec
from proxy.commands.table import ConnectionState, Lane, Table
from proxy.hotpath.cluster.router import Router
from proxy.hotpath.counting.counters import Counters
from proxy.hotpath.counting.sampler import Sampler
from proxy.hotpath.plan.hot_path_config import MAY_WRITE, READS, HotPathConfig
from proxy.hotpath.upstream.write_gate import WriteGate
from proxy.net.policy.cache_scope import CacheScope
from proxy.net.policy.garbage_collector import uncollected
from proxy.net.policy.plan_compiler import FindPlans, WantedPlans, added_to_standard
from proxy.net.policy.rights import NAMES
from proxy.policy.apps import App, Caller, identify
from proxy.policy.compile import CompiledPolicy, PolicyCompiler, needs_of
from proxy.policy.lower_policy import LoweredPolicy
from proxy.policy.model import Policy
from proxy.policy.plan_tables import NewParts, PlanReader
from proxy.policy.precedence import is_active
from proxy.rules.memory import Memory
from proxy.session.ports.client import EffectivePolicy
from proxy.wire.request import Request

_CALLERS_KEPT = 10_000
_PORTION = 20
"""The most plans in one request. One may take 0.1 s to make, more on a busy machine, and each app may need its own."""
_LONGEST_KEPT = 256
"""Characters of a client name: a client with a longer one is identified each time."""

_READING = threading.Lock()
"""Generations of one policy share readers, and a cancelled ``complete`` does not stop its thread."""

Whose: TypeAlias = tuple[frozenset[str], App | None]
"""The commands that a user may run, and the app: each such pair has an effective policy."""


@dataclass(frozen=True, slots=True)
class HotPathParts:
    """The parts of the hot path that all clients of a route share."""

    counters: Counters
    sampler: Sampler
    router: Router | None
    request: Request
    gate: WriteGate


class PolicyGeneration:
    """A policy and its effective policies, for one table of commands, with the kill switch on (`paused`) or off.

    `find_plans` finds its plans. `incomplete` are the effective policies without a plan. `cache_scope` is there once
    ``bind`` has been called.
    """

    def __init__(
        self,
        policy: Policy,
        number: int,
        find_plans: FindPlans,
        table: Table,
        memory: Memory,
        paused: bool,
        parts: HotPathParts,
    ) -> None:
        self.policy = policy
        self.number = number
        self.table = table
        self.memory = memory
        self.paused = paused
        self.effective_policies: dict[Whose, EffectivePolicy] = {}
        self.incomplete: set[Whose] = set()
        self.cache_scope: CacheScope | None = None
        self._of_rules: tuple[frozenset[str], frozenset[str]] | None = None
        self._find_plans = find_plans
        self._parts = parts
        self._compilers: dict[frozenset[str], PolicyCompiler] = {}
        self._readers: dict[frozenset[str], PlanReader] = {}
        self._rehearsals: dict[frozenset[str], PolicyCompiler] = {}
        self._rehearsed: dict[Whose, CompiledPolicy] = {}
        self._identified: dict[Caller, App | None] = {}
        self._pinned = bytes(map(_forwarding, table.specs))
        lanes = zip(self._pinned, table.lanes, strict=True)
        self._beside = bytes(map(tells_no_keys, table.specs))
        self._may_pause = bytes(map(held_by_pause, table.specs))
        self._hides_absence = bytes(map(hides_absence, table.specs))
        self._pooled = bytes(may * (lane == Lane.FAST.value) for may, lane in lanes)
        self._split_commands = None if parts.router is None else split_commands(table)

    def turned(self, table: Table, paused: bool) -> "PolicyGeneration":
        """The same policy for this table, with the kill switch on (`paused`) or off."""
        turned = PolicyGeneration(self.policy, self.number, self._find_plans, table, self.memory, paused, self._parts)
        turned._identified = self._identified
        if table is self.table:
            turned.cache_scope = self.cache_scope
            turned._compilers, turned._readers, turned._of_rules = self._compilers, self._readers, self._of_rules
        return turned

    @property
    def needed(self) -> frozenset[str]:
        """The commands that rules may send, and those that Keyrail sends itself."""
        return self._known_of_rules()[0]

    @property
    def active(self) -> frozenset[str]:
        """The rules that may remember something."""
        return self._known_of_rules()[1]

    def _known_of_rules(self) -> tuple[frozenset[str], frozenset[str]]:
        # Computed once, in a thread if ``bind`` comes first: it binds all rules of all apps.
        if self._of_rules is None:
            active = frozenset(rule.name for rule in self.policy.rules if is_active(self.policy, rule))
            self._of_rules = needs_of(self.policy, self.table) | {NAMES}, active
        return self._of_rules

    def whose(self, able: frozenset[str], caller: Caller) -> Whose:
        """Which effective policy a client has."""
        # A reload identifies all clients, and many of them are alike. A client may have a name of a megabyte.
        if len(caller.client_name) > _LONGEST_KEPT:
            return able, identify(self.policy.apps, caller)
        try:
            return able, self._identified[caller]
        except KeyError:
            if len(self._identified) >= _CALLERS_KEPT:
                self._identified.clear()
            app = self._identified[caller] = identify(self.policy.apps, caller)
            return able, app

    def effective_policy(self, whose: Whose) -> EffectivePolicy:
        """The effective policy; it is bound if it does not exist yet."""
        found = self.effective_policies.get(whose)
        if found is None:
            self._add(whose, self._bound(whose))
            found = self.effective_policies[whose]
        return found

    async def bind(self, clients: Collection[tuple[frozenset[str], Caller]]) -> None:
        """In a thread, bind the effective policies of these clients, and those of clients of no app."""
        for whose, bound in (await uncollected(self._bind_in_thread, clients)).items():
            if whose not in self.effective_policies:
                self._add(whose, bound)

    def _bind_in_thread(self, clients: Collection[tuple[frozenset[str], Caller]]) -> dict[Whose, EffectivePolicy]:
        wanted = {self.whose(able, caller) for able, caller in clients}
        wanted |= {(able, None) for able, _ in wanted} | {(frozenset(), None)}
        self._known_of_rules()
        if self.cache_scope is None:
            self.cache_scope = CacheScope.of(self.policy)
        return {whose: self._bound(whose) for whose in wanted if whose not in self.effective_policies}

    def _add(self, whose: Whose, bound: EffectivePolicy) -> None:
        self.effective_policies[whose] = bound
        self.incomplete.add(whose)

    def _bound(self, whose: Whose) -> EffectivePolicy:
        able, app = whose
        if able not in self._compilers:
            self._compilers[able] = PolicyCompiler(self.policy, self.table, able, memory=self.memory)
        compiled = self._compilers[able].bind(app, paused=self.paused)
        parts = self._parts
        config = HotPathConfig(
            compiled.plan,
            self.table.lookup,
            self.table.keys,
            parts.counters,
            parts.request,
            self._pooled,
            self._pinned,
            sampler=parts.sampler,
            router=parts.router,
            beside=self._beside,
            hides_absence=self._hides_absence,
            split_commands=self._split_commands,
            may_pause=self._may_pause,
            gate=parts.gate,
        )
        return EffectivePolicy(config, compiled, self.table, self.number)

    async def complete(self) -> None:
        """Get the missing plans of all effective policies. Raises PlanUnavailableError."""
        by_able: dict[frozenset[str], list[Whose]] = {}
        for whose in self.incomplete:
            by_able.setdefault(whose[0], []).append(whose)
        for able, of in by_able.items():
            of.sort(key=_name_of)  # all workers ask for the same plans first
            for first in range(0, len(of), _PORTION):
                await self._complete_portion(able, of[first : first + _PORTION])

    async def _complete_portion(self, able: frozenset[str], of: Sequence[Whose]) -> None:
        reader = self._readers.setdefault(able, PlanReader(self.policy.schema.automaton))
        added, apps = added_to_standard(self.table), tuple(map(_name_of, of))
        new = await self._find_plans(WantedPlans(added, able, self.paused, apps, reader.length))
        plans = await uncollected(_read, reader, new)
        for whose, lowered in zip(of, plans, strict=True):
            if whose not in self.incomplete:
                continue  # somebody else has asked, too: the plan that is in force has counted already
            effective_policy = self.effective_policies[whose]
            effective_policy.compiled.run(lowered)
            effective_policy.config.plan = effective_policy.compiled.plan
            self.incomplete.discard(whose)

    def rehearsal(self, whose: Whose) -> CompiledPolicy:
        """The policy for commands that are only tried: it has no state of clients, and spends no tokens."""
        able, app = whose
        if whose not in self._rehearsed:
            if able not in self._rehearsals:
                self._rehearsals[able] = PolicyCompiler(self.policy, self.table, able)
            self._rehearsed[whose] = self._rehearsals[able].bind(app, paused=self.paused)
        return self._rehearsed[whose]


def _name_of(whose: Whose) -> str:
    return "" if whose[1] is None else whose[1].name


def _read(reader: PlanReader, new: NewParts) -> list[LoweredPolicy]:
    with _READING:
        reader.take(new)
        return [reader.plan(number) for number in new.plans]


def tells_no_keys(spec: Spec) -> bool:
    """Whether the command tells nothing of the data, and changes nothing of it: PING, TIME, CLIENT SETINFO …"""
    if cache_role(spec) != NO_KEYS:
        return False
    return "connection" in spec.categories or (
        spec.only_reads and spec.categories.isdisjoint({"keyspace", "scripting"})
    )


def _forwarding(spec: Spec) -> int:
    # Commands that depend on the server process go through the session.
    if spec.state is not ConnectionState.POOL or spec.process_bound:
        return 0
    return READS if spec.only_reads else MAY_WRITE

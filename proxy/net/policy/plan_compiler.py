"""Makes the plans of a policy in a thread, each once for all workers and for all apps that no rule tells apart.

It takes little time to bind a policy to rules that judge, so each worker does that. To lower the rules to a plan takes
many times as long, and the result is a set of tables that is the same in every worker (``proxy.policy.plan_tables``).
So the supervisor makes the plans, and workers ask for those that their clients need.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import TypeAlias

from proxy.commands.spec import Spec
from proxy.commands.table import STANDARD, Table
from proxy.policy.compile import PolicyCompiler
from proxy.policy.model import Policy
from proxy.policy.plan_tables import NewParts, PlanTables


@dataclass(frozen=True, slots=True)
class WantedPlans:
    """Plans of a policy, for the clients of each of these `apps`; an empty name stands for clients of no app.

    `added` are the commands that the engine has and the standard table lacks. `available` are the commands that rules
    may send for the user. `paused`: only locked rules are enforced. The worker that asks `has` so many parts of earlier
    plans with the same `added` and `available`.
    """

    added: tuple[Spec, ...]
    available: frozenset[str]
    paused: bool
    apps: tuple[str, ...]
    has: int


class PlanUnavailableError(Exception):
    """Plans have not arrived; the text says why."""


FindPlans: TypeAlias = Callable[[WantedPlans], Awaitable[NewParts]]
"""Finds plans of one policy. Raises PlanUnavailableError."""

_Table: TypeAlias = tuple[tuple[Spec, ...], frozenset[str]]
_Key: TypeAlias = tuple[_Table, bool, str]


class _Plans:
    """The plans for one table of commands and one set of available ones."""

    def __init__(self, policy: Policy, table: Table, available: frozenset[str]) -> None:
        self._apps = {app.name: app for app in policy.apps}
        self._compiler = PolicyCompiler(policy, table, available)
        self._numbers: dict[Hashable, int] = {}
        self.tables = PlanTables(policy.schema.automaton)

    def make(self, app: str, paused: bool) -> int:
        bound = self._compiler.bind(self._apps.get(app), paused=paused)
        inputs = bound.plan_inputs
        if inputs not in self._numbers:
            self._numbers[inputs] = self.tables.add(bound.lower())
        return self._numbers[inputs]


class PlanCompiler:
    """The plans of one policy that workers have asked for."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._table_with: dict[tuple[Spec, ...], Table] = {(): STANDARD}
        self._plans: dict[_Table, _Plans] = {}
        self._made: dict[_Key, asyncio.Task[int]] = {}
        self._lock = asyncio.Lock()

    async def find(self, wanted: WantedPlans) -> NewParts:
        """Find these plans; a plan is made at the first request for it. Raises what compiling raises."""
        table = wanted.added, wanted.available
        keys = [(table, wanted.paused, app) for app in wanted.apps]
        for key in keys:
            if key not in self._made:
                self._made[key] = asyncio.get_running_loop().create_task(self._make(key))
        tasks = [self._made[key] for key in keys]
        if missing := [task for task in tasks if not task.done()]:
            await asyncio.wait(missing)
        numbers = [task.result() for task in tasks]
        return self._plans[table].tables.since(wanted.has, numbers)

    async def _make(self, key: _Key) -> int:
        try:
            async with self._lock:
                return await asyncio.to_thread(self._make_now, *key)
        except BaseException:
            del self._made[key]  # whoever asks again tries again
            raise

    def _make_now(self, table: _Table, paused: bool, app: str) -> int:
        plans = self._plans.get(table)
        if plans is None:
            added, available = table
            if added not in self._table_with:
                self._table_with[added] = Table((*STANDARD.specs, *added))
            plans = self._plans[table] = _Plans(self._policy, self._table_with[added], available)
        return plans.make(app, paused)


def added_to_standard(table: Table) -> tuple[Spec, ...]:
    """The commands of a table that the standard table lacks."""
    return table.specs[len(STANDARD.specs) :]

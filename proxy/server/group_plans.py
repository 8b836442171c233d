"""The plans of the policies in force, made once for all workers.

Each set of policies has an *edition*, a number that is used once, even for policies that the workers do not accept. So
a slow worker never gets the plan of other policies than it asks for.
"""

import asyncio
from collections.abc import Sequence

from proxy.net.plan_compiler import PlanCompiler
from proxy.policy.model import Policy
from proxy.policy.plan_tables import NewParts
from proxy.server.control import FindPlans, Prepare
from proxy.server.requests import Packed


class GroupPlans:
    """The plans of the edition ``in_force``, and of one that is prepared."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._last = 0
        self._compilers: dict[int, list[PlanCompiler]] = {}
        self.in_force = self.add(policies)

    async def prepare(self, policies: tuple[Policy, ...], generation: int) -> Prepare:
        """The request for workers to get ready for these policies, which become one more edition."""
        packed = await asyncio.to_thread(Packed.of, policies)
        return Prepare(packed, generation, self.add(policies))

    def add(self, policies: Sequence[Policy]) -> int:
        """Add an edition; return its number."""
        self._last += 1
        self._compilers[self._last] = [PlanCompiler(policy) for policy in policies]
        return self._last

    def forget_others(self) -> None:
        """Forget all editions but the one in force."""
        self._compilers = {self.in_force: self._compilers[self.in_force]}

    async def find(self, request: FindPlans) -> Packed[NewParts] | None:
        """Plans that a worker asks for; None if its policies are not in force any more. Raises what compiling
        raises."""
        compilers = self._compilers.get(request.edition)
        if compilers is None:
            return None
        return await asyncio.to_thread(Packed.of, await compilers[request.route].find(request.wanted))

"""The plans of the policies in force, made once for all workers.

Each set of policies has an *edition*, a number that is used once, even for policies that the workers do not accept. So
a slow worker never gets the plan of other policies than it asks for.
"""

import asyncio

from proxy.net.policy.plan_compiler import PlanCompiler
from proxy.policy.model import Policy
from proxy.policy.plan_tables import NewParts
from proxy.server.control import FindPlans, Prepare
from proxy.server.requests import Packed


class GroupPlans:
    """The plans of the edition ``in_force``, and of one that is prepared.

    Policies that are prepared again have their plans already, also after an attempt that failed: there may be many.
    """

    def __init__(self, policies: tuple[Policy, ...]) -> None:
        self._last = 0
        self._editions: dict[int, bytes] = {}
        self._compilers: dict[bytes, list[PlanCompiler]] = {}
        self.in_force = self._add(policies, Packed.of(policies))

    async def prepare(self, policies: tuple[Policy, ...], generation: int) -> Prepare:
        """The request for workers to get ready for these policies, which become one more edition."""
        packed = await asyncio.to_thread(Packed.of, policies)
        return Prepare(packed, generation, self._add(policies, packed))

    def _add(self, policies: tuple[Policy, ...], packed: Packed[tuple[Policy, ...]]) -> int:
        self._last += 1
        self._editions[self._last] = packed.body
        if packed.body not in self._compilers:
            self._compilers[packed.body] = [PlanCompiler(policy) for policy in policies]
        return self._last

    def forget_others(self) -> None:
        """Forget all editions but the one in force. The plans of the last one are kept until another one is added."""
        kept = {self._editions[each] for each in (self.in_force, self._last) if each in self._editions}
        self._compilers = {policies: self._compilers[policies] for policies in kept}
        self._editions = {self.in_force: self._editions[self.in_force]}

    async def find(self, request: FindPlans) -> Packed[NewParts] | None:
        """Plans that a worker asks for; None if its policies are not in force any more. Raises what compiling
        raises."""
        policies = self._editions.get(request.edition)
        if policies is None:
            return None
        compiler = self._compilers[policies][request.route]
        return await asyncio.to_thread(Packed.of, await compiler.find(request.wanted))

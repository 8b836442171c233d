"""The plans that workers run, made once for the whole group.

Each set of policies has an *edition*: a number that is used once, also for policies that no worker accepts in the end.
So a worker that is late never gets a plan of other policies than it asks about.
"""

from collections.abc import Sequence

from proxy.net.plan_compiler import PlanCompiler
from proxy.policy.model import Policy
from proxy.policy.plan_tables import NewParts
from proxy.server.control import FindPlans


class GroupPlans:
    """The plans of the edition ``in_force``, and of one that is prepared."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._last = 0
        self._compilers: dict[int, list[PlanCompiler]] = {}
        self.in_force = self.add(policies)

    def add(self, policies: Sequence[Policy]) -> int:
        """The number of one more edition."""
        self._last += 1
        self._compilers[self._last] = [PlanCompiler(policy) for policy in policies]
        return self._last

    def forget_others(self) -> None:
        """Forget all but the edition in force: every worker has followed, or none will."""
        self._compilers = {self.in_force: self._compilers[self.in_force]}

    async def find(self, request: FindPlans) -> NewParts | None:
        """Plans that a worker asks for; None if its policies are not in force any more. Raises what compiling
        raises."""
        compilers = self._compilers.get(request.edition)
        return None if compilers is None else await compilers[request.route].find(request.wanted)

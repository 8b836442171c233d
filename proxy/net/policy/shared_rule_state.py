"""The state of a route's rules that workers share: limits, and what is known of the stored keys."""

import time
from collections.abc import Callable, Mapping

from proxy.compression.budget import PlainBudget
from proxy.rules.memory import Memory
from proxy.rules.shared_state import CompressedValues, Demand, DividedState, Lease, Stored, StoredState, Written


class SharedRuleState:
    """One worker's part of it, by the name of the rule; ``now`` is in seconds since the epoch."""

    def __init__(self, memory: Memory, now: Callable[[], float]) -> None:
        self._memory = memory
        self._now = now

    def demand(self, seconds: float) -> dict[str, Mapping[str, Demand]]:
        """How much of each limit this worker could have used in the last ``seconds``, by rule and subject."""
        divided = self._memory.each(DividedState).items()
        wanted = {name: state.demand(seconds) for name, state in divided}
        return {name: wanted[name] for name, state in divided if wanted[name] or state.counts_clients}

    def lease(self, leases: Mapping[str, Mapping[str, Lease]]) -> None:
        """Set this worker's shares of the limits. A limit that is not named is shared equally."""
        for name, state in self._memory.each(DividedState).items():
            state.lease(leases.get(name, {}), self._now())

    def written(self) -> dict[str, Mapping[str, Written]]:
        """What clients have written since the last call, by app, for each rule that depends on what is stored."""
        return {name: state.written() for name, state in self._memory.each(StoredState).items()}

    def learn_stored(self, stored: Mapping[str, Stored]) -> None:
        """Take over what is known of the stored keys, for each of these rules."""
        for name, state in self._memory.each(StoredState).items():
            if name in stored:
                state.learn(stored[name], self._now())


def run_compression(
    memory: Memory,
    now: Callable[[], float],
    soon: Callable[[Callable[[], object]], object],
    fault: Callable[[], object],
) -> None:
    """Give what rules that compress share the clocks of this worker, and its event loop."""
    budget = memory.shared(PlainBudget)
    budget.run_by(now)
    budget.portions.run_by(soon, fault)
    memory.shared(CompressedValues).run_by(time.thread_time)

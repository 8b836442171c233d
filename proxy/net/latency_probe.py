"""How fast a route's Redis answers PING, for circuit breakers.

Ten times a second Keyrail sends a PING on a shared connection of each pool, in line with the clients' commands. Its
time is the time that commands wait, so none of these has to be timed. A pending PING counts with the time that it has
waited so far. Without a breaker in the policy nothing is sent.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from proxy.commands.error_texts import PROBE_FAILING
from proxy.commands.table import Lane
from proxy.net.periodic import Periodic
from proxy.net.pools import Pools
from proxy.net.upstream import UpstreamConnection
from proxy.rules.memory import Memory
from proxy.rules.shared_state import ObservingState

_SECONDS = 0.1
_NO_ANSWER = 1.0
"""Seconds after which a PING without an answer is a failure."""
_MOST_POOLS = 16

_log = logging.getLogger("keyrail.route")


class LatencyProbe:
    """Feeds the circuit breakers of one route. ``now`` is the clock of the rules."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        memory: Memory,
        pools: Pools,
        now: Callable[[], float],
        count: Callable[[str], object],
    ) -> None:
        self._loop = loop
        self._memory = memory
        self._pools = pools
        self._now = now
        self._asked: dict[UpstreamConnection, float] = {}
        self._took: list[float | None] = []
        self._periodic = Periodic(loop, _SECONDS, {"feeding circuit breakers": self._beat}, count)
        self.begin = self._periodic.begin
        self.end = self._periodic.end

    def figures(self) -> dict[str, int]:
        """By rule, whether its circuit breaker refuses commands."""
        return {name: int(circuit.restricts) for name, circuit in self._circuits()}

    def _circuits(self) -> list[tuple[str, ObservingState]]:
        return list(self._memory.each(ObservingState).items())

    def _beat(self) -> None:
        circuits = self._circuits()
        if circuits:
            self._observe(circuits)
            self._ask()

    def _observe(self, circuits: list[tuple[str, ObservingState]]) -> None:
        waiting = [self._loop.time() - asked for asked in self._asked.values()]
        took = [*self._took, *(None if seconds > _NO_ANSWER else seconds for seconds in waiting)]
        self._took = []
        if not self._pools.alive(self._pools.home):
            took = [None]
        if not took:
            return
        good = [seconds for seconds in took if seconds is not None]
        for name, circuit in circuits:
            before = circuit.description
            circuit.observe(self._now(), max(good) if len(good) == len(took) else None)
            if circuit.description != before:
                _log.warning("breaker %s is %s", name, circuit.description)

    def _ask(self) -> None:
        for pool in list(self._pools)[:_MOST_POOLS]:
            upstream = pool.shared(Lane.FAST)
            if upstream is not None and upstream not in self._asked:
                asked = self._asked[upstream] = self._loop.time()
                upstream.ask(["PING"]).add_done_callback(partial(self._answered, upstream, asked))

    def _answered(self, upstream: UpstreamConnection, asked: float, question: "asyncio.Future[bytes]") -> None:
        self._asked.pop(upstream, None)
        if question.cancelled() or question.exception() is not None:
            return
        # Any other reply, also a refusal of PING, shows that Redis works.
        self._took.append(None if PROBE_FAILING.begin(question.result()) else self._loop.time() - asked)

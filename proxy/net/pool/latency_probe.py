"""How fast a route's Redis answers PING, for circuit breakers.

Ten times a second Keyrail sends a PING on a shared connection of each pool, in line with the clients' commands. Its
time is the time that commands wait, so none of these has to be timed. A pending PING counts with the time that it has
waited so far. Without a breaker in the policy nothing is sent.

Each node is observed by itself. While commands wait for another server in its place (``--failover-wait``), no breaker
opens, nor while a server says that it is loading.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from functools import partial

from proxy.commands.error_texts import PROBE_FAILING, PROBE_LOADING
from proxy.commands.table import Lane
from proxy.net.connection.periodic import Periodic
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.pool.pools import Pools
from proxy.net.topology.topology import Topology
from proxy.rules.memory import Memory
from proxy.rules.shared_state import ObservingState
from proxy.session.ports.pool_key import Node

_SECONDS = 0.1
_NO_ANSWER = 1.0
"""Seconds after which a PING without an answer is a failure."""
_MOST_POOLS = 16

_log = logging.getLogger("keyrail.route")


class LatencyProbe:
    """Feeds the circuit breakers of one route. ``now`` is the clock of the rules, ``waiting`` says whether commands
    wait for another server."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        memory: Memory,
        pools: Pools,
        topology: Topology,
        waiting: Callable[[], bool],
        now: Callable[[], float],
        count: Callable[[str], object],
    ) -> None:
        self._loop = loop
        self._memory = memory
        self._pools = pools
        self._topology = topology
        self._waiting = waiting
        self._now = now
        self._asked: dict[UpstreamConnection, float] = {}
        self._took: defaultdict[Node, list[float | None]] = defaultdict(list)
        self._loading: set[Node] = set()
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
        took, self._took = self._took, defaultdict(list)
        loading, self._loading = self._loading, set()
        for upstream, asked in self._asked.items():
            seconds = self._loop.time() - asked
            took[upstream.key.node].append(None if seconds > _NO_ANSWER else seconds)
        router, nodes = self._topology.router, self._topology.nodes
        for name, state in circuits:
            state.owner = None if router is None else router.owner
            state.retain([node.number for node in nodes])
            for node in nodes:
                found = took[node] if self._pools.alive(self._pools.home_of(node)) else [None]
                before = state.description(node.number)
                if node in loading:
                    state.excuse(node.number)
                elif found:
                    good = [seconds for seconds in found if seconds is not None]
                    longest = max(good) if len(good) == len(found) else None
                    state.observe(node.number, self._now(), longest, may_open=not self._waiting())
                if state.description(node.number) != before:
                    place = "" if router is None else f" for {self._topology.address(node)}"
                    _log.warning("breaker %s%s is %s", name, place, state.description(node.number))

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
        node, reply = upstream.key.node, question.result()
        if PROBE_LOADING.begin(reply):
            self._loading.add(node)
        else:
            # Any other reply, also a refusal of PING, shows that Redis works.
            self._took[node].append(None if PROBE_FAILING.begin(reply) else self._loop.time() - asked)

"""The nodes of a cluster, or the primary that Sentinels name, in figures: who they are and how they do."""

from collections.abc import Mapping
from typing import Any

from proxy.net.cluster import Cluster
from proxy.net.connections import Connections
from proxy.net.liveness import Liveness
from proxy.net.primary import Primary
from proxy.net.replica_lag import ReplicaLag, ReplicaState
from proxy.net.slot_map import ClusterNode
from proxy.session.pool_key import Node

_RATE_SECONDS = 0.5
"""The least time between two looks at a rate."""


class NodeFigures:
    """Of one topology, as one worker has them. Only where the worker ``asks_replicas`` it knows how they do."""

    def __init__(
        self, topology: Cluster | Primary, connections: Connections, liveness: Liveness, *, asks_replicas: bool
    ) -> None:
        self._topology = topology
        self._connections = connections
        self._liveness = liveness
        self._clock = connections.loop.time
        self._lag: ReplicaLag | None = None
        if asks_replicas and isinstance(topology, Cluster):
            self._lag = ReplicaLag(topology, connections.loop, connections.count)
        self._counted_at = self._clock()
        self._counted: Mapping[str, int] = {}
        self._rates: Mapping[str, float] = {}

    def begin(self) -> None:
        """Begin to ask the replicas."""
        if self._lag is not None:
            self._lag.begin(self._connections.supply.tls)

    def close(self) -> None:
        """End that."""
        if self._lag is not None:
            self._lag.close()

    def rename(self, aliases: Mapping[str, str]) -> None:
        """What all workers call the nodes, by id."""
        if isinstance(self._topology, Cluster):
            self._topology.rename(aliases)

    def figures(self) -> dict[str, Any]:
        """``nodes`` in the order of their numbers, and the ``node_commands`` by id."""
        commands = self._commands()
        self._look_at_rates(commands)
        connections = self._connections.all.connections_by_node()
        aliases = {known.id: alias for alias, _, known in self._topology.known()}
        nodes = []
        for alias, node, known in self._topology.known():
            state, checks = self._state(known), self._liveness.of(node)
            ping = None if checks is None or checks.ping is None else round(checks.ping * 1000, 3)
            nodes.append(
                {
                    "node": alias,
                    "id": known.id,
                    "address": "" if known.endpoint is None else str(known.endpoint),
                    "role": "primary" if known.is_primary else "replica",
                    "primary": aliases.get(known.primary_id, ""),
                    "slots": [[first, last] for first, last in known.slots],
                    "open": self._open_slots(known),
                    "health": self._health(node, known, state),
                    "lack": self._connections.supply.lack(node),
                    "lag": None if state is None else state.lag,
                    "rate": self._rates.get(known.id, 0.0),
                    "connections": connections[node],
                    "ping_ms": ping,
                }
            )
        return {"nodes": nodes, "node_commands": commands}

    def _commands(self) -> dict[str, int]:
        self._connections.all.carried()
        ids = {node: known.id for _, node, known in self._topology.known()}
        return {ids[node]: number for node, number in self._connections.all.carried_by_node(ids.keys()).items()}

    def _look_at_rates(self, commands: Mapping[str, int]) -> None:
        seconds = self._clock() - self._counted_at
        if seconds < _RATE_SECONDS:
            return
        since = {name: number - self._counted.get(name, 0) for name, number in commands.items()}
        self._rates = {name: round(number / seconds, 1) for name, number in since.items()}
        self._counted, self._counted_at = commands, self._counted_at + seconds

    def _open_slots(self, known: ClusterNode) -> list[int]:
        opened = self._topology.map.opened if isinstance(self._topology, Cluster) else ()
        return sorted(each.slot for each in opened if known.id in (each.source, each.target))

    def _state(self, known: ClusterNode) -> ReplicaState | None:
        return None if self._lag is None or known.is_primary else self._lag.states.get(known.id)

    def _health(self, node: Node, known: ClusterNode, state: ReplicaState | None) -> str:
        checks = self._liveness.of(node)
        if known.failed:
            return "failed"
        nowhere = known.is_primary and known.endpoint is None
        if nowhere or self._connections.supply.lack(node) or (state is not None and not state.reached):
            return "lost"
        if checks is not None and checks.silent_since is not None:
            return "silent"
        return "ok" if state is None or state.linked else "unlinked"

"""The servers behind a route in figures: the nodes of a cluster, or a primary and its replicas.

A single server without replicas that are watched has none.
"""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, TypeAlias

from proxy.net.pool.connections import Connections
from proxy.net.pool.liveness import Liveness
from proxy.net.replicas.replica_connections import ReplicaConnections
from proxy.net.replicas.replica_watch import ReplicaWatch
from proxy.net.replicas.watched_replicas import ReplicaState
from proxy.net.topology.cluster import Cluster
from proxy.net.topology.primary import Primary
from proxy.net.topology.slot_map import ClusterNode
from proxy.net.topology.topology import Single
from proxy.session.ports.pool_key import Node

KnownTopology: TypeAlias = Cluster | Primary | Single
_Server: TypeAlias = tuple[str, Node, ClusterNode]

_RATE_SECONDS = 0.5
"""The least time between two looks at a rate."""


class NodeFigures:
    """Of one topology, as one worker has them; ``watch`` knows how replicas do, where this worker asks them, and
    ``readers`` what clients read from those of one primary."""

    def __init__(
        self,
        topology: KnownTopology,
        connections: Connections,
        liveness: Liveness,
        watch: ReplicaWatch,
        readers: ReplicaConnections | None = None,
    ) -> None:
        self._topology = topology
        self._connections = connections
        self._liveness = liveness
        self._watch = watch
        self._readers = readers
        self._names = _Names()
        self._clock = connections.loop.time
        self._counted_at = self._clock()
        self._counted: Mapping[str, int] = {}
        self._rates: Mapping[str, float] = {}

    def rename(self, aliases: Mapping[str, str]) -> None:
        """What all workers call the nodes, by id."""
        if isinstance(self._topology, Cluster):
            self._topology.rename(aliases)
        else:
            self._names.given = aliases

    def figures(self) -> dict[str, Any]:
        """``nodes`` in the order of their numbers, and the ``node_commands`` by id; without nodes the ``info`` of the
        one server."""
        servers = list(self._servers())
        commands = self._commands(servers)
        self._look_at_rates(commands)
        connections = self._connections.all.connections_by_node()
        aliases = {known.id: alias for alias, _, known in servers}
        nodes = []
        for alias, node, known in servers:
            state, checks = self._state(node), self._liveness.of(node)
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
                    "lag_seconds": None if state is None else state.lag_seconds,
                    "serves": self._serves(node),
                    "pending": 0 if self._readers is None else self._readers.pending(node),
                    "rate": self._rates.get(known.id, 0.0),
                    "connections": connections[node],
                    "ping_ms": ping,
                    "info": None if checks is None or checks.info is None else dict(checks.info),
                }
            )
        ids = {node: known.id for _, node, known in servers}
        reads = {} if self._readers is None else self._readers.figures(ids, commands)
        if not nodes and (info := self._sole_info()) is not None:
            return {"info": info, **reads}
        return {"nodes": nodes, "node_commands": commands, **reads} if nodes else reads

    def _sole_info(self) -> dict[str, float] | None:
        found = next((each.info for node in self._topology.nodes if (each := self._liveness.of(node))), None)
        return None if found is None else dict(found)

    def _serves(self, node: Node) -> bool:
        replica = self._watch.replica(node)
        return self._readers is not None and replica is not None and self._readers.serves(replica)

    def _servers(self) -> Iterator[_Server]:
        if isinstance(self._topology, Cluster):
            yield from self._topology.known()
            return
        servers = [(node, known) for _, node, known in self._topology.known()]
        for primary in self._watch.primaries.values():
            name, own = servers[0][1].id, servers[0][1].endpoint
            for endpoint, replica in sorted(primary.replicas.items()):
                if endpoint == own or (replica.state is not None and replica.state.is_primary):
                    continue  # the URL may name all servers as replicas, whichever is the primary
                servers.append((replica.node, ClusterNode(str(endpoint), endpoint, is_primary=False, primary_id=name)))
        if len(servers) > 1 or not isinstance(self._topology, Single) or self._topology.login.replicas:
            names = self._names.of([known.id for _, known in servers])
            yield from ((names[known.id], node, known) for node, known in servers)

    def _commands(self, servers: list[_Server]) -> dict[str, int]:
        self._connections.all.carried()
        ids = {node: known.id for _, node, known in servers}
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

    def _state(self, node: Node) -> ReplicaState | None:
        replica = self._watch.replica(node)
        return None if replica is None else replica.state

    def _health(self, node: Node, known: ClusterNode, state: ReplicaState | None) -> str:
        checks = self._liveness.of(node)
        if known.failed:
            return "failed"
        nowhere = known.is_primary and known.endpoint is None
        if nowhere or self._connections.supply.lack(node) or (state is not None and not state.reached):
            return "lost"
        if checks is not None and checks.silent_since is not None:
            return "silent"
        if state is None or not (state.syncing or state.foreign):
            return "ok" if state is None or state.linked else "unlinked"
        return "syncing" if state.syncing else "foreign"


class _Names:
    """What a worker calls the servers of a route that is no cluster, by id: as all workers do (``given``), else by
    numbers in the order in which it has met them."""

    def __init__(self) -> None:
        self.given: Mapping[str, str] = {}
        self._own: dict[str, str] = {}

    def of(self, ids: list[str]) -> Mapping[str, str]:
        """The names of these servers; all others are forgotten."""
        known = {**self._own, **self.given}
        names = {each: known[each] for each in ids if each in known}
        taken = {*names.values(), *self.given.values()}
        free = (name for number in count(1) if (name := f"n{number}") not in taken)
        self._own = {each: names.get(each) or next(free) for each in ids}
        return self._own

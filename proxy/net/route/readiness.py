"""Whether commands reach Redis, and why not."""

from collections.abc import Mapping
from typing import Any

from proxy.net.follow.watch import Watch
from proxy.net.policy.capabilities import Capabilities, ClusterFoundError
from proxy.net.pool.connections import Connections
from proxy.net.pool.liveness import Liveness
from proxy.net.replicas.replica_connections import ReplicaConnections
from proxy.net.replicas.replica_watch import ReplicaWatch
from proxy.net.route.node_figures import KnownTopology, NodeFigures
from proxy.net.topology.cluster import Cluster
from proxy.net.topology.topology import Topology


class Readiness:
    """Of the upstream of one route; ``watch`` finds out which servers it has, where they can change.

    ``replicas`` knows how replicas do, and ``readers`` what clients read from them; where it ``asks_replicas``, they
    are asked also if no client reads from them.
    """

    def __init__(
        self,
        topology: Topology,
        capabilities: Capabilities,
        connections: Connections,
        liveness: Liveness,
        watch: Watch | None,
        replicas: ReplicaWatch,
        readers: ReplicaConnections | None,
        *,
        asks_replicas: bool,
    ) -> None:
        self._topology = topology
        self._capabilities = capabilities
        self._supply = connections.supply
        self._opening = connections.opening
        self._liveness = liveness
        self._staying = connections.demotions.staying
        self._watch = watch
        self._replicas = replicas
        known = isinstance(topology, Cluster) or topology.login.sentinels is not None or bool(topology.login.replicas)
        self._asks_replicas = asks_replicas and known
        self._nodes: NodeFigures | None = None
        if isinstance(topology, KnownTopology):
            self._nodes = NodeFigures(topology, connections, liveness, replicas, readers)

    async def attempted(self) -> None:
        """Wait until each node has been tried. Raises ClusterFoundError."""
        if self._watch is not None:
            self._watch.begin(self._opening.tls)
            await self._watch.attempted.wait()
        if self._asks_replicas:
            self._replicas.begin(self._opening.tls)
        if self._topology.nodes:
            await self._supply.attempted.wait()
        if self._capabilities.refusal is not None:
            raise ClusterFoundError(self._capabilities.refusal)

    @property
    def found_cluster(self) -> bool:
        """Whether the server that the route was made for has turned out to be a node of a cluster."""
        return self._capabilities.refusal is not None

    @property
    def is_one_server(self) -> bool:
        """Whether the upstream has said that it is no cluster."""
        return not isinstance(self._topology, Cluster) and self._capabilities.engine is not None

    @property
    def ready(self) -> bool:
        """Whether commands reach Redis; of a cluster, whether a majority of it answers and those for any node do."""
        alive = map(self._supply.alive, self._topology.nodes)
        if self._watch is not None and not self._watch.settled:
            return False
        if isinstance(self._topology, Cluster):
            return any(alive)
        return not self.found_cluster and all(alive) and self._liveness.silent_since is None

    @property
    def reason(self) -> str:
        """Why commands do not reach Redis, and never empty then; or what is not as it should be although they do."""
        known = None if self._watch is None else self._watch.problem
        told = self._capabilities.refusal or known or self._supply.reason or self._liveness.reason
        told = told or self._staying.reason
        return told or ("" if self.ready else self._missing())

    def _missing(self) -> str:
        # Nobody has reported a failure: connections were given up on purpose, and others are not there yet.
        missing = [str(self._topology.address(each)) for each in self._topology.nodes if not self._supply.alive(each)]
        return f"no connection to {', '.join(missing)}" if missing else "the servers are not known yet"

    def close(self) -> None:
        """End what asks the servers about themselves."""
        if self._watch is not None:
            self._watch.close()
        self._replicas.close()

    def rename_nodes(self, aliases: Mapping[str, str]) -> None:
        """What all workers call the servers, by id."""
        if self._nodes is not None:
            self._nodes.rename(aliases)

    def figures(self) -> dict[str, Any]:
        """The same as JSON can hold it."""
        return {
            "ready": self.ready,
            "reason": self.reason,
            "silent_since": self._liveness.silent_since,
            **({} if self._nodes is None else self._nodes.figures()),
        }

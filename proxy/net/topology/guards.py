"""Which guard keeps the new connections of a topology away from other servers."""

from proxy.net.topology.cluster import Cluster
from proxy.net.topology.name_guard import NameGuard
from proxy.net.topology.node_guard import NodeGuard
from proxy.net.topology.primary import Primary
from proxy.net.topology.topology import Topology


def guard_of(topology: Topology) -> NameGuard | NodeGuard | None:
    """That of a cluster's nodes, or of a name that is followed; None where nothing tells one server from another."""
    if isinstance(topology, Cluster):
        return NodeGuard(topology)
    return NameGuard(topology) if isinstance(topology, Primary) and topology.login.sentinels is None else None

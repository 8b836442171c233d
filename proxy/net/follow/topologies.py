"""Which topology an upstream has, and what finds out about its servers."""

from collections.abc import Sequence
from functools import partial

from proxy.net.config.address import UpstreamAddress
from proxy.net.follow.cluster_watch import ClusterWatch
from proxy.net.follow.name_watch import NameWatch
from proxy.net.follow.nodes import Nodes
from proxy.net.follow.sentinel_watch import SentinelWatch
from proxy.net.follow.watch import Watch
from proxy.net.pool.connections import Connections
from proxy.net.topology.cluster import Cluster
from proxy.net.topology.primary import Primary
from proxy.net.topology.topology import Change, KnownServer, Single, Topology


def topology_of(upstream: UpstreamAddress, last_known: Sequence[KnownServer] = ()) -> Topology:
    """What its URL says; ``last_known`` are the servers that another worker has found."""
    topology: Topology
    if upstream.seeds:
        topology = Cluster(upstream)
    elif upstream.sentinels is not None or upstream.is_name:
        topology = Primary(upstream)
    else:
        topology = Single(upstream)
    topology.last_known = last_known
    return topology


def watch_over(topology: Topology, nodes: Nodes | None, connections: Connections, log_as: str) -> Watch | None:
    """What follows its changes; None where there are none. It logs as of the route ``log_as``, if that is not empty."""
    loop, seconds = connections.loop, connections.settings.connect_timeout
    adopt, count = connections.adopt, connections.count
    if isinstance(topology, Cluster) and nodes is not None:
        adopted = partial(_adopted, connections, nodes)
        return ClusterWatch(topology, loop, seconds, adopted, partial(nodes.looked, loop), count, log_as)
    if isinstance(topology, Primary) and topology.login.sentinels is not None:
        return SentinelWatch(topology, topology.login.sentinels, loop, seconds, adopt, count, log_as)
    if isinstance(topology, Primary):
        wait = connections.settings.failover_wait
        return NameWatch(topology, loop, seconds, wait, adopt, count, log_as)
    return None


def _adopted(connections: Connections, nodes: Nodes, change: Change) -> None:
    connections.adopt(change)
    nodes.adopted(change)

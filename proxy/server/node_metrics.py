"""Metrics about the nodes of clusters. A node that leaves takes its series along.

keyrail_node_ready{route,node}              1 if it answers
keyrail_node_primary{route,node}, keyrail_node_slots{route,node}
keyrail_node_lag_bytes{route,node}, keyrail_node_lag_seconds{route,node}, keyrail_node_serves_reads{route,node},
keyrail_node_reads_total{route,node}, keyrail_node_reads_resent_total{route,node},
keyrail_node_read_errors_total{route,node}  of replicas
keyrail_replica_reads_total{route,outcome}  reads that replicas may answer
keyrail_node_commands_total{route,node}, keyrail_node_connections{route,node}
keyrail_node_ping_seconds{route,node}       of primaries
keyrail_slots_without_node{route}           of clusters

By INFO, of primaries, also of a single server (its node is n1):
keyrail_node_keys{route,node}, keyrail_node_expires{route,node}, keyrail_node_average_ttl_seconds{route,node}
keyrail_node_memory_bytes{route,node}, keyrail_node_memory_limit_bytes{route,node}
keyrail_node_fragmentation_ratio{route,node}
keyrail_node_evicted_keys_total{route,node}, keyrail_node_expired_keys_total{route,node}
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from proxy.commands.slots import SLOTS
from proxy.server.figures import RouteFigures
from proxy.server.node_changes import is_alone, slot_count

_LABELS = ("route", "node")


def collect_nodes(routes: Sequence[RouteFigures]) -> Iterator[Metric]:
    """The nodes of each route that has a cluster."""
    gauges = {
        "ready": GaugeMetricFamily("keyrail_node_ready", "1 if a node of a cluster answers.", labels=_LABELS),
        "primary": GaugeMetricFamily("keyrail_node_primary", "1 for a primary, 0 for a replica.", labels=_LABELS),
        "slots": GaugeMetricFamily("keyrail_node_slots", "Hash slots that a node owns.", labels=_LABELS),
        "lag": GaugeMetricFamily(
            "keyrail_node_lag_bytes", "How far a replica is behind its primary's replication stream.", labels=_LABELS
        ),
        "lag_seconds": GaugeMetricFamily(
            "keyrail_node_lag_seconds", "How old the data of a replica is at most.", labels=_LABELS
        ),
        "serves": GaugeMetricFamily(
            "keyrail_node_serves_reads", "1 if a replica answers reads in its primary's place now.", labels=_LABELS
        ),
        "connections": GaugeMetricFamily("keyrail_node_connections", "Connections to a node.", labels=_LABELS),
        "ping": GaugeMetricFamily("keyrail_node_ping_seconds", "The last PING of a health check.", labels=_LABELS),
    }
    commands = CounterMetricFamily("keyrail_node_commands", "Commands that a node was sent.", labels=_LABELS)
    reads = {
        "reads": CounterMetricFamily(
            "keyrail_node_reads", "Reads that a replica was sent in its primary's place.", labels=_LABELS
        ),
        "reads_resent": CounterMetricFamily(
            "keyrail_node_reads_resent", "Of these, reads that were sent again to another server.", labels=_LABELS
        ),
        "read_errors": CounterMetricFamily(
            "keyrail_node_read_errors", "How often a replica failed while it answered reads.", labels=_LABELS
        ),
    }
    outcomes = CounterMetricFamily(
        "keyrail_replica_reads",
        "Reads that replicas may answer: moved to one, or left with the primary because of the client's own writes and "
        "earlier reads, or because no replica was near enough.",
        labels=("route", "outcome"),
    )
    yield from _collect_info(routes)
    unowned = GaugeMetricFamily(
        "keyrail_slots_without_node", "Hash slots whose node is missing or does not answer.", labels=("route",)
    )
    for route in routes:
        for node in route.nodes:
            labels = (route.name, node["node"])
            for name, value in _values(node):
                if value is not None:
                    gauges[name].add_metric(labels, value)
            commands.add_metric(labels, node["commands"])
            for name in reads if node["role"] == "replica" else ():
                reads[name].add_metric(labels, node[name])
        for outcome in ("moved", "own_writes", "no_replica"):
            outcomes.add_metric((route.name, outcome), route.counters.get("replica_reads", {}).get(outcome, 0))
        if route.nodes and not any(map(is_alone, route.nodes)):
            serving = (node for node in route.nodes if node["role"] == "primary" and node["health"] == "ok")
            unowned.add_metric((route.name,), SLOTS - sum(map(slot_count, serving)))
    yield from (*gauges.values(), commands, *reads.values(), outcomes, unowned)


_INFO = (
    ("keys", "Keys that a node has.", "total_keys", 1),
    ("expires", "Keys with a TTL that a node has.", "total_expires", 1),
    ("average_ttl_seconds", "The average TTL of its keys with a TTL, as Redis estimates it.", "average_ttl", 1000),
    ("memory_bytes", "What a node uses of its memory.", "used_memory", 1),
    ("memory_limit_bytes", "The maxmemory of a node; 0 without one.", "maxmemory", 1),
    ("fragmentation_ratio", "Memory that the system gives a node, by what it uses.", "mem_fragmentation_ratio", 1),
)
_INFO_COUNTERS = (
    ("evicted_keys", "Keys that a node has evicted for lack of memory."),
    ("expired_keys", "Keys of a node whose TTL has ended."),
)


def _collect_info(routes: Sequence[RouteFigures]) -> Iterator[Metric]:
    told = [((route.name, node["node"]), node["info"]) for route in routes for node in route.nodes if node["info"]]
    told += [((route.name, "n1"), route.info) for route in routes if route.info and not route.nodes]
    for name, text, field, unit in _INFO:
        gauge = GaugeMetricFamily(f"keyrail_node_{name}", text, labels=_LABELS)
        for labels, info in told:
            if field in info:
                gauge.add_metric(labels, info[field] / unit)
        yield gauge
    for name, text in _INFO_COUNTERS:
        counter = CounterMetricFamily(f"keyrail_node_{name}", text, labels=_LABELS)
        for labels, info in told:
            if name in info:
                counter.add_metric(labels, info[name])
        yield counter


def _values(node: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    yield "ready", float(node["health"] == "ok")
    yield "primary", float(node["role"] == "primary")
    yield "slots", None if is_alone(node) else slot_count(node)
    yield "lag", node["lag"]
    yield "lag_seconds", node["lag_seconds"]
    yield "serves", float(node["serves"]) if node["role"] == "replica" else None
    yield "connections", node["connections"]
    yield "ping", None if node["ping_ms"] is None else node["ping_ms"] / 1000

"""Adds up the workers' snapshots of a route.

Counters must never go down, so the last counters of every ended worker are kept and added. Gauges (connections now) are
of living workers only. A route is ready when it is ready in every worker.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from proxy.server.node_views import merged_nodes

COUNTERS = (
    "clients_total",
    "commands",
    "calls",
    "errors",
    "verdicts",
    "violations_dropped",
    "out_of",
    "closed",
    "events",
    "logins",
    "failures",
    "out_of_step",
    "reconnects",
    "traces",
    "node_commands",
    "local_cache",
    "local_cache_rules",
    "compressed",
    "node_reads",
    "replica_reads",
)
GAUGES = ("clients", "buffers", "backlog", "upstreams", "breakers", "local_cache_now")

Snapshot = Mapping[str, Any]


@dataclass(slots=True)
class RouteFigures:
    """One route, over all workers. ``counters`` and ``gauges`` hold numbers, or numbers by name.

    ``oldest`` is the longest time in seconds that a client has been waiting for a reply.

    Redis has not answered since ``silent_since``, in seconds since the epoch; None while it answers. ``nodes`` has the
    nodes of a cluster, or the primary that Sentinels name; ``info`` is of the one server without nodes. ``warning`` is
    what is not as it should be, although the route is ready.
    """

    name: str
    ready: bool
    reason: str
    engine: dict[str, str] | None
    generation: int
    features_off: list[str]
    counters: dict[str, Any] = field(default_factory=dict)
    gauges: dict[str, Any] = field(default_factory=dict)
    silent_since: float | None = None
    warning: str = ""
    oldest: float = 0.0
    nodes: list[dict[str, Any]] = field(default_factory=list)
    info: dict[str, float] | None = None


def add_numbers(total: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add the numbers of ``more``, at any depth, to those of ``total``."""
    for key, value in more.items():
        if isinstance(value, Mapping):
            add_numbers(total.setdefault(key, {}), value)
        else:
            total[key] = total.get(key, 0) + value


def counters_of(snapshot: Snapshot) -> dict[str, Any]:
    """Return the counters of a snapshot, which never go down."""
    return {name: snapshot[name] for name in COUNTERS if name in snapshot}


def merge_snapshots(name: str, living: Iterable[Snapshot], departed: Mapping[str, Any]) -> RouteFigures:
    """Add up the living workers' snapshots of a route and the counters that ended workers left."""
    snapshots = list(living)
    merged = RouteFigures(
        name=name,
        ready=bool(snapshots) and all(snapshot["ready"] for snapshot in snapshots),
        reason=next((s["reason"] for s in snapshots if not s["ready"] and s["reason"]), ""),
        warning=next((s["reason"] for s in snapshots if s["ready"] and s["reason"]), ""),
        silent_since=min((s["silent_since"] for s in snapshots if s["silent_since"] is not None), default=None),
        oldest=max((s["oldest"] for s in snapshots), default=0.0),
        engine=next((s["engine"] for s in snapshots if s["engine"]), None),
        generation=min((s["generation"] for s in snapshots), default=0),
        info=next((s["info"] for s in snapshots if s.get("info")), None),
        features_off=sorted({feature for s in snapshots for feature in s["features_off"]}),
    )
    add_numbers(merged.counters, departed)
    for snapshot in snapshots:
        add_numbers(merged.counters, counters_of(snapshot))
        add_numbers(merged.gauges, {name: snapshot[name] for name in GAUGES if name in snapshot})
    merged.nodes = merged_nodes(
        snapshots, merged.counters.get("node_commands", {}), merged.counters.get("node_reads", {})
    )
    if not snapshots:
        merged.reason = "no worker has reported yet"
    return merged

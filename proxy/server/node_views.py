"""The nodes of a cluster as all workers see them together."""

from collections.abc import Iterable, Mapping
from typing import Any

_HEALTH = ("ok", "unlinked", "silent", "lost", "failed")
"""From the best to the worst."""


def merged_nodes(snapshots: Iterable[Mapping[str, Any]], commands: Mapping[str, int]) -> list[dict[str, Any]]:
    """The nodes as the first worker lists them. Of each, the worst that any worker says, and the sums of what all do.

    ``commands`` are those that each node got, by id.
    """
    listed, *others = [snapshot["nodes"] for snapshot in snapshots if snapshot.get("nodes")] or [[]]
    merged = {node["id"]: dict(node) for node in listed}
    for node in (node for nodes in others for node in nodes):
        if node["id"] in merged:
            _add(merged[node["id"]], node)
    return [{**node, "commands": commands.get(name, 0)} for name, node in merged.items()]


def _add(node: dict[str, Any], other: Mapping[str, Any]) -> None:
    node["health"] = max(node["health"], other["health"], key=_HEALTH.index)
    node["lack"] = node["lack"] or other["lack"]
    node["rate"] = round(node["rate"] + other["rate"], 1)
    node["connections"] += other["connections"]
    for name in ("lag", "ping_ms"):
        node[name] = max((each[name] for each in (node, other) if each[name] is not None), default=None)

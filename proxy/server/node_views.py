"""The nodes of a cluster as all workers see them together."""

from collections.abc import Iterable, Mapping
from typing import Any

_HEALTH = ("ok", "syncing", "unlinked", "foreign", "silent", "lost", "failed")
"""From the best to the worst."""


def merged_nodes(
    snapshots: Iterable[Mapping[str, Any]], commands: Mapping[str, int], reads: Mapping[str, Mapping[str, int]]
) -> list[dict[str, Any]]:
    """The nodes as the first worker lists them. Of each, the worst that any worker says, and the sums of what all do.

    ``commands`` are those that each node got, by id, and ``reads`` those among them that it got in its primary's place:
    how many, how many of them were sent again elsewhere, and how often it failed.
    """
    listed, *others = [snapshot["nodes"] for snapshot in snapshots if snapshot.get("nodes")] or [[]]
    merged = {node["id"]: dict(node) for node in listed}
    for node in (node for nodes in others for node in nodes):
        if node["id"] in merged:
            _add(merged[node["id"]], node)
    return [{**node, "commands": commands.get(name, 0), **_reads(reads.get(name, {}))} for name, node in merged.items()]


def _reads(told: Mapping[str, int]) -> dict[str, int]:
    names = {"reads": "reads", "reads_resent": "resent", "read_errors": "errors"}
    return {name: told.get(each, 0) for name, each in names.items()}


def _add(node: dict[str, Any], other: Mapping[str, Any]) -> None:
    node["health"] = max(node["health"], other["health"], key=_HEALTH.index)
    node["lack"] = node["lack"] or other["lack"]
    node["rate"] = round(node["rate"] + other["rate"], 1)
    node["info"] = node["info"] or other["info"]
    node["serves"] = node["serves"] or other["serves"]
    for name in ("connections", "pending"):
        node[name] += other[name]
    for name in ("lag", "lag_seconds", "ping_ms"):
        node[name] = max((each[name] for each in (node, other) if each[name] is not None), default=None)

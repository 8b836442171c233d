"""A line for each change of a cluster's nodes, or of a primary, that an operator wants to know."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from proxy.server.notices import Level

Nodes: TypeAlias = Sequence[Mapping[str, Any]]
"""The nodes of a route, as ``NodeFigures`` has them."""


class Line(NamedTuple):
    """A line for the log."""

    text: str
    level: Level = Level.INFO


def changes(before: Nodes, after: Nodes) -> Iterator[Line]:
    """Tell what is different."""
    old = {node["id"]: node for node in before}
    for node in after:
        shown = f"node {node['node']} {node['address'] or 'without an address'}"
        was = old.pop(node["id"], None)
        if was is None or was["role"] != node["role"]:
            yield Line(f"{shown} is {_role(node)}")
            if node["health"] != "ok":
                yield _health(shown, node)
        elif was["health"] != node["health"]:
            yield _health(shown, node)
        elif was["address"] != node["address"]:
            yield Line(f"{shown} was at {was['address']} before")
        elif was["slots"] != node["slots"] and node["health"] != "failed":
            yield Line(f"{shown} is {_role(node)}, {slot_count(was)} before")
    for gone in old.values():
        yield Line(f"node {gone['node']} {gone['address']} {_parting(gone)}")


_HEALTH = {
    "ok": "is back",
    "unlinked": "has lost its primary",
    "syncing": "gets a copy of its primary's data",
    "foreign": "has other data than the primary",
    "silent": "does not answer",
    "failed": "has failed, most others say",
    "lost": "cannot be reached",
}


def _health(shown: str, node: Mapping[str, Any]) -> Line:
    why = f": {node['lack']}" if node["health"] == "lost" and node["lack"] else ""
    return Line(f"{shown} {_HEALTH[node['health']]}{why}", Level.INFO if node["health"] == "ok" else Level.WARNING)


def is_alone(node: Mapping[str, Any]) -> bool:
    """Whether Sentinels or a name lead to it, and it is no node of a cluster: it has no id there."""
    return bool(node["id"] == node["address"])


def _parting(node: Mapping[str, Any]) -> str:
    return "is not used any more" if is_alone(node) else "has left the cluster"


def _role(node: Mapping[str, Any]) -> str:
    if is_alone(node):
        return "the primary" if node["role"] == "primary" else "a replica"
    if node["role"] == "primary":
        return f"a primary of {slot_count(node)} slots"
    return f"a replica of {node['primary']}"


def slot_count(node: Mapping[str, Any]) -> int:
    """How many slots a node owns."""
    return sum(last + 1 - first for first, last in node["slots"])

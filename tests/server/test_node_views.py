"""The nodes of a cluster as several workers see them."""

from __future__ import annotations

import pytest

from proxy.server.node_views import merged_nodes
from tests.server.given_nodes import a_node


def test_what_all_workers_do_is_added_up() -> None:
    one = [a_node("n1", rate=1.25, connections=2, ping_ms=0.2), a_node("n2", lag=None, lack="no route")]
    other = [a_node("n2", lag=7), a_node("n1", rate=2.0, connections=1, ping_ms=0.3), a_node("n9")]
    first, second = merged_nodes([{"nodes": one}, {}, {"nodes": other}], {"n1-id": 40}, {})
    assert (first["rate"], first["connections"], first["ping_ms"], first["commands"]) == (3.2, 3, 0.3, 40)
    assert (second["lag"], second["commands"], second["lack"]) == (7, 0, "no route")
    assert (one[0]["rate"], one[0]["connections"]) == (1.25, 2), "snapshots stay as they are"
    assert merged_nodes([{}, {"nodes": []}], {}, {}) == []


def test_the_reads_of_a_replica_are_those_of_all_workers() -> None:
    workers = [
        [a_node("n2", role="replica", serves=False, pending=2, lag_seconds=0.4)],
        [a_node("n2", role="replica", serves=True, pending=3, lag_seconds=0.1)],
    ]
    (node,) = merged_nodes([{"nodes": each} for each in workers], {}, {"n2-id": {"reads": 9, "resent": 2, "errors": 1}})
    assert (node["serves"], node["pending"], node["lag_seconds"]) == (True, 5, 0.4)
    assert (node["reads"], node["reads_resent"], node["read_errors"]) == (9, 2, 1)


@pytest.mark.parametrize(
    ("one", "other", "worst"),
    [("ok", "lost", "lost"), ("failed", "ok", "failed"), ("silent", "lost", "lost"), ("unlinked", "ok", "unlinked")],
)
def test_the_worst_health_is_told(one: str, other: str, worst: str) -> None:
    (node,) = merged_nodes([{"nodes": [a_node("n1", health=each)]} for each in (one, other)], {}, {})
    assert node["health"] == worst

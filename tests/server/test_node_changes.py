"""What is told of a cluster's nodes."""

from __future__ import annotations

import pytest

from proxy.server.node_changes import changes

PRIMARY = {
    "node": "n1",
    "id": "a",
    "address": "h:1",
    "role": "primary",
    "primary": "",
    "slots": [[0, 9]],
    "health": "ok",
}
REPLICA = {"node": "n2", "id": "b", "address": "h:2", "role": "replica", "primary": "n1", "slots": [], "health": "ok"}


def test_the_first_time_all_are_told() -> None:
    assert [*changes([], [PRIMARY, REPLICA])] == [
        "node n1 h:1 is a primary of 10 slots",
        "node n2 h:2 is a replica of n1",
    ]


@pytest.mark.parametrize(
    ("now", "line"),
    [
        ({}, None),
        ({"role": "replica", "primary": "n2", "slots": []}, "node n1 h:1 is a replica of n2"),
        ({"slots": [[0, 8]]}, "node n1 h:1 is a primary of 9 slots, 10 before"),
        ({"health": "failed"}, "node n1 h:1 has failed, most others say"),
        ({"health": "lost"}, "node n1 h:1 cannot be reached"),
        ({"address": "h:3"}, "node n1 h:3 was at h:1 before"),
        ({"address": "", "health": "lost"}, "node n1 without an address cannot be reached"),
    ],
)
def test_a_change_is_a_line(now: dict[str, object], line: str | None) -> None:
    assert [*changes([PRIMARY], [PRIMARY | now])] == ([] if line is None else [line])


def test_a_node_that_has_left() -> None:
    assert [*changes([PRIMARY, REPLICA], [PRIMARY])] == ["node n2 h:2 has left the cluster"]

"""What is told of a cluster's nodes."""

from __future__ import annotations

import pytest

from proxy.server.node_changes import Nodes, changes
from proxy.server.notices import Level

PRIMARY = {
    "node": "n1",
    "id": "a",
    "address": "h:1",
    "role": "primary",
    "primary": "",
    "slots": [[0, 9]],
    "health": "ok",
    "lack": "",
}
REPLICA = {
    "node": "n2",
    "id": "b",
    "address": "h:2",
    "role": "replica",
    "primary": "n1",
    "slots": [],
    "health": "ok",
    "lack": "",
}


def lines(before: Nodes, after: Nodes) -> list[str]:
    return [text for text, _ in changes(before, after)]


def test_trouble_is_a_warning() -> None:
    down = PRIMARY | {"health": "lost"}
    assert [level for _, level in changes([], [down])] == [Level.INFO, Level.WARNING]
    assert [level for _, level in changes([down], [PRIMARY])] == [Level.INFO]


def test_the_first_time_all_are_told() -> None:
    assert lines([], [PRIMARY, REPLICA]) == [
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
        ({"health": "lost", "lack": "no route"}, "node n1 h:1 cannot be reached: no route"),
        ({"health": "silent"}, "node n1 h:1 does not answer"),
        ({"health": "unlinked"}, "node n1 h:1 has lost its primary"),
        ({"address": "h:3"}, "node n1 h:3 was at h:1 before"),
        ({"address": "", "health": "lost"}, "node n1 without an address cannot be reached"),
    ],
)
def test_a_change_is_a_line(now: dict[str, object], line: str | None) -> None:
    assert lines([PRIMARY], [PRIMARY | now]) == ([] if line is None else [line])


def test_a_primary_in_place_of_another() -> None:
    sole = PRIMARY | {"id": "h:1", "slots": []}
    assert lines([], [sole]) == ["node n1 h:1 is the primary"]
    assert lines([sole], [sole | {"health": "lost"}]) == ["node n1 h:1 cannot be reached"]
    assert lines([sole | {"health": "lost"}], [sole | {"id": "h:2", "address": "h:2"}]) == [
        "node n1 h:2 is the primary",
        "node n1 h:1 is not used any more",
    ]


def test_a_node_that_has_left() -> None:
    assert lines([PRIMARY, REPLICA], [PRIMARY]) == ["node n2 h:2 has left the cluster"]

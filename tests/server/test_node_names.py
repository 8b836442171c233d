"""The names of a cluster's nodes, over all workers."""

from __future__ import annotations

from proxy.server.control import NameNodes, WorkerReport
from proxy.server.node_names import GroupNodeNames, NodeNames
from proxy.server.process_figures import ProcessFigures
from tests.server.given_nodes import a_node


def test_the_first_name_stays_in_whichever_order_workers_meet_nodes() -> None:
    names = NodeNames()
    first = [a_node("n1", id="a"), a_node("n2", id="b"), a_node("n3", id="c")]
    later = [a_node("n1", id="a"), a_node("n2", id="c"), a_node("n3", id="b")]
    names.learn([first])
    assert names.fit(first)
    assert not names.fit(later)
    names.learn([later, first])
    assert names.by_id == {"a": "n1", "b": "n2", "c": "n3"}


def test_nodes_that_come_and_go() -> None:
    names = NodeNames()
    names.learn([[a_node("n1", id="a"), a_node("n2", id="b")]])
    names.learn([[a_node("n2", id="b"), a_node("n1", id="c")], [a_node("n1", id="a"), a_node("n2", id="b")]])
    assert names.by_id == {"a": "n1", "b": "n2", "c": "n3"}, "one worker still knows the first"
    names.learn([[a_node("n2", id="b"), a_node("deadbeef", id="deadbeef0")]])
    assert names.by_id == {"b": "n2", "deadbeef0": "n1"}


def test_a_worker_is_told_where_it_calls_a_node_otherwise() -> None:
    process = ProcessFigures(0.0, 0, 0, 0.0)
    one, other = (
        WorkerReport(({}, {"nodes": [a_node("n1", id=first), a_node("n2", id=second)]}), process)
        for first, second in (("a", "b"), ("b", "a"))
    )
    names = GroupNodeNames(2)
    told: list[NameNodes] = []
    names.follow(one, [one], told.append)
    assert told == [NameNodes(1, {"a": "n1", "b": "n2"})]
    names.follow(one, [one], told.append)
    assert len(told) == 1
    names.follow(other, [one, other], told.append)
    assert told[1:] == [NameNodes(1, {"a": "n1", "b": "n2"})]
    assert names.by_id() == ({}, {"a": "n1", "b": "n2"})

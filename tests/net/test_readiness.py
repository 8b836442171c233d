"""A route is ready, or says why not, whatever its connections, its watch and its health checks know."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proxy.net.route.readiness import Readiness


class Servers:
    """The servers of an upstream."""

    def __init__(self, nodes: tuple[str, ...]) -> None:
        self.nodes = nodes
        self.login = SimpleNamespace(sentinels=None, replicas=())

    def address(self, node: str) -> str:
        return f"{node}:6379"


class Nodes(Servers):
    """The nodes of a cluster."""


def readiness(made: type[Servers], state: tuple[Any, ...]) -> Readiness:
    nodes, alive, refusal, settled, problem, lack, silent = state
    supply = SimpleNamespace(alive=lambda node: node in alive, reason=lack)
    liveness = SimpleNamespace(silent_since=silent, reason="it is silent" if silent else "")
    watch = None if settled is None else SimpleNamespace(settled=settled, problem=problem)
    demotions = SimpleNamespace(staying=SimpleNamespace(reason=""))
    return Readiness(
        cast("Any", made(nodes)),
        cast("Any", SimpleNamespace(refusal=refusal)),
        cast("Any", SimpleNamespace(supply=supply, opening=None, demotions=demotions)),
        cast("Any", liveness),
        cast("Any", watch),
        cast("Any", None),
        None,
        asks_replicas=False,
    )


PARTS: list[list[Any]] = [
    [(), ("a",), ("a", "b")],
    [(), ("a",), ("a", "b")],
    [None, "a node of a cluster"],
    [None, True, False],
    ["", "no Sentinel answers"],
    ["", "the connection was lost"],
    [None, 1.0],
]


@pytest.mark.parametrize("made", [Servers, Nodes])
def test_a_route_that_is_not_ready_says_why(made: type[Servers], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.net.route.readiness.Cluster", Nodes)
    seen = {True: 0, False: 0}
    for state in itertools.product(*PARTS):
        route = readiness(made, state)
        seen[route.ready] += 1
        assert route.ready or route.reason, state
    assert min(seen.values()) > 20


def test_connections_that_were_given_up_are_named() -> None:
    assert readiness(Servers, (("a", "b"), ("a",), None, None, "", "", None)).reason == "no connection to b:6379"
    assert readiness(Servers, (("a",), ("a",), None, False, "", "", None)).reason == "the servers are not known yet"
    assert readiness(Servers, (("a",), ("a",), None, True, "", "", None)).reason == ""

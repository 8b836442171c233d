"""PUBLISH with a cluster upstream: one node publishes, and nobody waits for another one that does not count in time."""

from __future__ import annotations

import pytest

from tests.session.clustered import ClusterRoute, Routed
from tests.session.given import call

COUNTED = b"*2\r\n$4\r\nnews\r\n:2\r\n"
ASKED = [b"PUBSUB", b"NUMSUB", b"news"]


def published() -> Routed:
    """A client that has published, and what it sends next."""
    client = Routed(ClusterRoute())
    client.send(call("PUBLISH", "news", "m") + call("PING"))
    assert client.taken() == [[[b"PUBLISH", b"news", b"m"]], [ASKED], [ASKED]]
    return client


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_the_subscribers_of_all_nodes_are_counted(order: tuple[int, ...]) -> None:
    client = published()
    for number in order:
        client.at(number).answer(COUNTED if number else b":1\r\n")
    assert client.heard() == b":5\r\n"
    assert client.route.timers == []
    assert client.taken() == [[[b"PING"]], [], []]


def test_who_counts_late_is_left_out_and_closes_nobody() -> None:
    client = published()
    client.at(1).answer(COUNTED)
    client.at(0).answer(b":1\r\n")
    assert client.heard() == b""
    (act,) = client.route.timers
    act()
    assert client.heard() == b":3\r\n"
    assert client.taken() == [[[b"PING"]], [], []]
    client.at(2).answer(COUNTED)
    client.at(0).answer(b"+PONG\r\n")
    assert client.heard() == b"+PONG\r\n"
    assert client.sender.pending_replies == 0


def test_a_lost_connection_on_which_only_counts_are_awaited_is_nobodys_loss() -> None:
    client = published()
    for number, losers in ((2, []), (1, []), (0, [client])):
        assert [sink.client() for sink in client.at(number).abandon() if sink.client() is not None] == losers


def test_nodes_that_do_not_answer_are_not_asked() -> None:
    client = Routed(ClusterRoute())
    client.nodes.silent = {0, 2}
    client.say("PUBLISH", "news", "m")
    assert client.taken() == [[], [[b"PUBLISH", b"news", b"m"]], []]
    client.at(1).answer(b":1\r\n")
    assert client.heard() == b":1\r\n"


def test_an_error_is_told_at_once() -> None:
    client = published()
    client.at(0).answer(b"-NOPERM no\r\n")
    assert client.heard() == b"-NOPERM no\r\n"
    for number in (1, 2):
        client.at(number).answer(COUNTED)
    assert client.heard() == b""


def test_a_client_that_leaves_meanwhile_is_no_fault() -> None:
    client = published()
    client.at(0).answer(b":1\r\n")
    client.close("client")
    for act in client.route.timers[:]:
        act()
    for number in (1, 2):
        client.at(number).answer(COUNTED)
    assert client.heard() == b""

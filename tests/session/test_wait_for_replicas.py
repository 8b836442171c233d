"""WAIT before a cluster: all primaries are asked on private connections behind a message that covers earlier writes."""

from __future__ import annotations

import pytest

from proxy.commands.slots import slot_of
from proxy.session.state import POOLED
from tests.hotpath.routed import owners
from tests.hotpath.test_split import arguments
from tests.session.given import FakeRoute, call
from tests.session.test_over_nodes import Routed


def waiting(*words: str) -> Routed:
    client = Routed(FakeRoute())
    client.say(*words)
    assert len(client.route.lent) == 3
    for number, lent in enumerate(client.route.lent):
        covering, wait = arguments(lent.taken())
        assert owners(3)[slot_of(covering[1])] == lent.key.node.number == number
        assert (covering[0], wait) == (b"SPUBLISH", [word.encode() for word in words])
    return client


def test_the_least_reply_counts() -> None:
    client = waiting("WAIT", "1", "0")
    client.send(call("GET", "a"))
    for number, lent in enumerate(list(client.route.lent)):
        assert client.heard() == b""
        lent.answer(b":0\r\n", b":%d\r\n" % (3 - number))
    assert client.heard() == b":1\r\n"
    assert client.route.lent == []
    assert client.taken() == [[], [], [[b"GET", b"a"]]], "the next command waited"


def test_of_two_numbers_each() -> None:
    client = waiting("WAITAOF", "1", "0", "0")
    for number, lent in enumerate(list(client.route.lent)):
        lent.answer(b":0\r\n", b"*2\r\n:%d\r\n:%d\r\n" % (number, 3 - number))
    assert client.heard() == b"*2\r\n:0\r\n:1\r\n"


def test_who_leaves_meanwhile_leaves_no_connection_that_waits() -> None:
    client = waiting("WAIT", "1", "0")
    client.route.lent[0].answer(b":0\r\n", b":1\r\n")
    assert not client.end_of_stream()
    client.connection_lost()
    assert len(client.route.discarded) == 2
    assert client.route.lent == []


@pytest.mark.parametrize(
    ("covering", "reply"),
    [
        (b"-NOPERM no\r\n", b"-ERR Keyrail: WAIT can't be answered truthfully"),
        (b"-MOVED 5 127.0.0.1:7001\r\n", b"-CLUSTERDOWN keyrail: "),
    ],
)
def test_what_does_not_cover_the_writes_proves_nothing(
    covering: bytes, reply: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeRoute, "any_command_covers", lambda _: False)
    client = waiting("WAIT", "1", "0")
    for lent in list(client.route.lent):
        lent.answer(covering, b":1\r\n")
    assert client.heard().startswith(reply)


def test_it_needs_a_client_without_state_on_one_node() -> None:
    client = Routed(FakeRoute())
    client.say("WATCH", "c")
    client.own.answer(b"+OK\r\n")
    client.heard()
    client.say("WAIT", "1", "0")
    assert client.heard().startswith(b"-ERR keyrail: this connection has state on one node")


def test_it_waits_for_its_connections() -> None:
    route = FakeRoute()
    client = Routed(route)
    route.starving = True
    client.say("WAIT", "0", "0")
    assert client.state is POOLED
    assert route.lent == []
    route.feed()
    client.arrived()
    assert len(route.lent) == 3

"""With a cluster upstream, too, commands that end what others wait for, and those of administrators, wait behind
nobody.

Each has a connection to each of its nodes on which nothing is pending.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import pytest

from proxy.commands.over_nodes import Destination
from proxy.commands.table import STANDARD, ConnectionState, Lane
from proxy.session.commands.switching import HELD_SECONDS
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.pool_key import Node, PoolKey
from tests.hotpath.test_split import arguments
from tests.session.clustered import NODES, Routed
from tests.session.given import HOME, FakeRoute, call

OK = b"+OK\r\n"
UNPAUSE = ("CLIENT", "UNPAUSE")
KILL = ("SCRIPT", "KILL")
SEVERAL = {Destination.ALL_PRIMARIES, Destination.ALL_NODES}
EVERYWHERE = [
    tuple(spec.name.split("|")) + ("x",) * (abs(spec.arity) - spec.name.count("|") - 1)
    for spec in STANDARD.specs
    if spec.state in (ConnectionState.IDLE, ConnectionState.ADMIN)
    and spec.over_nodes.destination in SEVERAL
    and spec.lane is Lane.FAST
]


class Busy:
    """A route on whose shared connections another client's writes are pending, and a client."""

    def __init__(self, route: FakeRoute | None = None) -> None:
        self.route = route or FakeRoute()
        self.other = Routed(self.route)
        self.other.send(call("SET", "a", 1) + call("SET", "b", 1) + call("SET", "c", 1))
        self.other.taken()
        self.client = Routed(self.route)

    def lent(self) -> list[list[list[bytes]]]:
        """What each node has been sent on connections of one client alone, since."""
        sent: list[list[list[bytes]]] = [[], [], []]
        for upstream in self.route.lent:
            sent[upstream.key.node.number] += arguments(upstream.taken())
        return sent

    def answer(self, *replies: bytes) -> None:
        """The connections of one client alone, in the order of their nodes."""
        lent = sorted(self.route.lent, key=lambda upstream: upstream.key.node.number)
        for upstream, reply in zip(lent, replies, strict=True):
            upstream.answer(reply)


def words(*argv: str) -> list[bytes]:
    return [word.encode() for word in argv]


@pytest.mark.parametrize("argv", EVERYWHERE, ids=" ".join)
def test_none_of_them_waits_behind_another_client(argv: Sequence[str]) -> None:
    busy = Busy()
    busy.client.send(call(*argv) + call("PING"))
    assert busy.lent() == [[words(*argv)]] * 3
    assert busy.client.taken() == [[], [], []], "what comes behind it waits for its reply"
    busy.answer(OK, OK, OK)
    assert busy.client.heard() in (OK, b"-ERR keyrail: the nodes' replies to LATENCY RESET do not fit each other\r\n")
    assert busy.route.lent == []
    assert [*chain(*busy.client.taken())] == [words("PING")]


@pytest.mark.parametrize("argv", [UNPAUSE, KILL, ("CONFIG", "GET", "x"), ("SLOWLOG", "RESET")])
def test_nor_does_one_for_a_named_node(argv: Sequence[str]) -> None:
    busy = Busy()
    busy.client.say("KEYRAIL", "NODE", "n2", *argv)
    assert busy.lent() == [[], [words(*argv)], []]
    busy.answer(OK)
    assert (busy.client.heard(), busy.route.lent) == (OK, [])


def test_those_of_administrators_share_connections_on_which_nothing_is_pending() -> None:
    client = Routed(FakeRoute())
    client.send(call("CONFIG", "SET", "a", "b") + call("PING"))
    assert (client.taken(), client.route.lent) == ([[words("CONFIG", "SET", "a", "b")]] * 3, [])
    for number in range(3):
        client.at(number).answer(OK)
    assert client.heard() == OK
    assert [*chain(*client.taken())] == [words("PING")]


def test_reads_of_the_client_itself_are_overtaken_and_all_replies_keep_their_places() -> None:
    busy = Busy()
    reads = call("GET", "a") + call("GET", "b")
    busy.client.send(reads + call("SLOWLOG", "RESET") + call("GET", "c") + call(*UNPAUSE) + call("GET", "a"))
    assert busy.client.taken() == [[words("GET", "b")], [], [words("GET", "a")]]
    assert busy.lent() == [[words("SLOWLOG", "RESET")]] * 3
    busy.answer(OK, OK, OK)
    assert busy.client.taken() == [[], [words("GET", "c")], []]
    assert busy.lent() == [[words(*UNPAUSE)]] * 3
    busy.answer(OK, OK, OK)
    assert busy.client.heard() == b""
    for number in (0, 1, 2):
        busy.client.at(number).answer(OK, b"+%d\r\n" % number)
    assert busy.client.heard() == b"+2\r\n+0\r\n" + OK + b"+1\r\n" + OK
    assert busy.client.taken() == [[], [], [words("GET", "a")]]


def test_on_a_connection_of_its_own_a_client_waits_for_its_own_replies() -> None:
    busy = Busy()
    busy.client.say("WATCH", "c")
    own = busy.client.own
    own.answer(OK)
    own.taken()
    busy.client.send(call("GET", "c") + call(*UNPAUSE) + call("GET", "c"))
    assert arguments(own.taken()) == [words("GET", "c")]
    own.answer(b"+1\r\n")
    lent = [upstream for upstream in busy.route.lent if upstream is not own]
    assert [arguments(upstream.taken()) for upstream in lent] == [[words(*UNPAUSE)]] * 3
    for upstream in lent:
        upstream.answer(OK)
    assert arguments(own.taken()) == [words("GET", "c")]
    assert busy.client.heard() == OK + b"+1\r\n" + OK


def test_nothing_overtakes_a_write_of_the_client_itself() -> None:
    busy = Busy()
    busy.client.send(call("SET", "c", 2) + call(*UNPAUSE))
    assert busy.lent() == [[], [], []]
    busy.client.at(1).answer(OK, OK)
    assert busy.lent() == [[words(*UNPAUSE)]] * 3


def test_what_ends_waits_goes_to_the_nodes_that_answer() -> None:
    busy = Busy()
    busy.client.nodes.silent = {1}
    busy.client.say(*KILL)
    assert busy.lent() == [[words(*KILL)], [], [words(*KILL)]]
    busy.answer(b"-NOTBUSY No scripts in execution right now.\r\n", OK)
    assert busy.client.heard() == OK
    busy.client.say(*UNPAUSE)
    busy.answer(OK, OK)
    error = b"-CLUSTERDOWN keyrail: no connection to n2 (CLIENT UNPAUSE ran on n1, n3, and not on n2)\r\n"
    assert busy.client.heard() == error
    busy.client.nodes.silent = {0, 1, 2}
    busy.client.say(*UNPAUSE)
    assert busy.client.heard() == b"-CLUSTERDOWN keyrail: no connection to n1\r\n"


def test_it_waits_for_connections_for_a_while_and_then_does_without_them() -> None:
    busy = Busy()
    busy.route.starving = True
    busy.client.send(call(*KILL) + call("GET", "a"))
    busy.route.feed()
    assert busy.lent() == [[words(*KILL)]] * 3
    busy.answer(OK, OK, OK)
    assert busy.client.heard() == OK
    busy.client.at(2).answer(OK, b"+1\r\n")
    busy.client.heard()
    busy.route.starving = True
    busy.client.send(call(*KILL) + call("PING"))
    busy.route.moment += HELD_SECONDS + 1
    for act in busy.route.timers[:]:
        act()
    assert busy.client.heard().startswith(b"-CLUSTERDOWN keyrail: no connection to n1\r\n")
    assert not busy.client.gone


class Stingy(FakeRoute):
    """Gives no connections to `withheld` nodes for one client alone."""

    withheld: frozenset[Node] = frozenset()

    def private_anywhere(self, key: PoolKey) -> PrivatePipeline | None:
        return None if key.node in self.withheld else super().private_anywhere(key)


def test_connections_that_have_come_go_back_while_another_one_is_missing() -> None:
    route = Stingy()
    busy = Busy(route)
    route.withheld = frozenset({NODES[2]})
    busy.client.say(*UNPAUSE)
    assert (busy.route.lent, len(set(busy.route.released))) == ([], 2)
    assert busy.lent() == [[], [], []]
    route.withheld = frozenset()
    busy.route.feed()
    assert busy.lent() == [[words(*UNPAUSE)]] * 3


def test_a_user_of_its_own_without_a_further_connection_waits_behind_others() -> None:
    busy = Busy()
    client = busy.client
    client.enter(HOME._replace(user="app"))
    busy.route.private_connections = 0
    shared = [busy.route.upstream(client.key._replace(node=node)) for node in NODES]
    client.say("GET", "a")
    client.send(call("CONFIG", "SET", "a", "b"))
    assert [arguments(each.taken()) for each in shared] == [[], [], [words("GET", "a")]]
    shared[2].answer(OK)
    assert [arguments(each.taken()) for each in shared] == [[words("CONFIG", "SET", "a", "b")]] * 3


@pytest.mark.parametrize("argv", [KILL, ("CONFIG", "SET", "a", "b")])
def test_a_client_that_leaves_meanwhile_leaves_nothing_behind(argv: Sequence[str]) -> None:
    busy = Busy()
    busy.client.say(*argv)
    busy.client.close("client")
    busy.answer(OK, OK, OK)
    assert busy.route.lent == []
    assert len(busy.route.released) == 3
    assert busy.client.heard() == b""


@pytest.mark.parametrize("state", [(), ("SUBSCRIBE", "x")], ids=" ".join)
@pytest.mark.parametrize("argv", [("CLIENT", "UNBLOCK", "7"), ("CLIENT", "LIST"), ("CLIENT", "KILL", "ID", "7"), KILL])
def test_a_node_that_gives_no_connection_closes_nobody(argv: Sequence[str], state: Sequence[str]) -> None:
    busy = Busy()
    if state:
        busy.client.enter(busy.client.key._replace(protocol=3))
        busy.client.say(*state)
        for upstream in busy.route.lent:
            upstream.answer(b">3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n")
        busy.client.heard()
    busy.route.starving = True
    busy.client.send(call(*argv) + call("PING"))
    for _ in range(3):
        busy.route.moment += HELD_SECONDS
        for waiter in busy.route.waiting[:]:
            busy.route.waiting.remove(waiter)
            if not waiter.gone:
                waiter.close("no_upstream")
        for waiter in busy.client.nodes.looking[:]:
            busy.client.nodes.looking.remove(waiter)
            waiter.arrived()
    assert busy.client.heard().startswith(b"-CLUSTERDOWN")
    assert not busy.client.gone


@pytest.mark.parametrize("argv", EVERYWHERE)
def test_where_no_primary_is_known_the_client_gets_an_error_and_stays(argv: Sequence[str]) -> None:
    client = Routed(FakeRoute())
    client.nodes.lost = {0, 1, 2}
    client.send(call(*argv))
    assert client.heard() == b"", "one may come"
    client.route.moment += HELD_SECONDS + 1
    client.nodes.looking.pop().arrived()
    assert client.heard() == b"-CLUSTERDOWN Hash slot not served\r\n"
    assert not client.gone

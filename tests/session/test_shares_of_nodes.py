"""A client of one of several addresses of Keyrail: commands without keys concern the nodes of this address."""

from __future__ import annotations

import pytest

from proxy.cluster.cluster_answers import Presented
from proxy.cluster.shares import Advertised, shared_out
from proxy.session.state import POOLED
from tests.hotpath.routed import owners
from tests.hotpath.test_split import arguments
from tests.session.clustered import NODES, Routed
from tests.session.given import FakeRoute, call

ADDRESSES = [Advertised("a", 1), Advertised("b", 2)]
OF_ONE_NODE = [
    ("ACL", "GETUSER", "u"),
    ("ACL", "LIST"),
    ("ACL", "LOG"),
    ("CLIENT", "ID"),
    ("CLIENT", "LIST"),
    ("CLIENT", "UNBLOCK", "7"),
    ("CONFIG", "GET", "hz"),
    ("EVAL", "return 1", "0"),
    ("EVALSHA", "0" * 40, "0"),
    ("FCALL", "f", "0"),
    ("FT.SEARCH", "i", "*"),
    ("FUNCTION", "DUMP"),
    ("FUNCTION", "STATS"),
    ("INFO",),
    ("LATENCY", "LATEST"),
    ("MEMORY", "DOCTOR"),
    ("MEMORY", "STATS"),
    ("MODULE", "LIST"),
    ("PING",),
    ("SLOWLOG", "GET"),
    ("EVAL", "x" * 200, "0"),
]


class ChosenRoute(FakeRoute):
    """Its random number is chosen."""

    def __init__(self, chosen: float) -> None:
        super().__init__()
        self.chosen = chosen

    def chance(self) -> float:
        return self.chosen


def of_address(number: int, route: FakeRoute | None = None) -> Routed:
    """A client of one of two addresses: the first stands for n1, the second for n2 and n3."""
    client = Routed(route or FakeRoute())
    client.nodes.shown = Presented(ADDRESSES[number], shared_out(owners(3), ADDRESSES))
    return client


def sent(client: Routed) -> list[tuple[int, list[bytes]]]:
    """What was sent since, each with the number of the node."""
    return [
        (upstream.key.node.number, argv)
        for upstream in client.route.all_upstreams()
        for argv in arguments(upstream.taken())
    ]


def answer_all(client: Routed) -> None:
    for upstream in client.route.all_upstreams():
        while upstream.head is not None:
            upstream.answer(b"+OK\r\n")


@pytest.mark.parametrize("words", OF_ONE_NODE, ids=lambda words: " ".join(words)[:20])
@pytest.mark.parametrize("before", ["nothing", "a reply", "a pending reply", "a pending reply of its own node"])
def test_what_any_node_can_do_a_node_of_the_address_does(words: tuple[str, ...], before: str) -> None:
    client = of_address(1)
    if before != "nothing":
        client.say("GET", "c" if before.endswith("own node") else "b")
        assert len(sent(client)) == 1
    if before == "a reply":
        answer_all(client)
    client.say(*words)
    got = sent(client)
    while client.sender.pending_replies > 0:
        answer_all(client)
        got += sent(client)
    assert {number for number, argv in got if argv != [b"MULTI"] and argv != [b"EXEC"]} == {1}
    client.say("GET", "b")
    assert sent(client) == [(0, [b"GET", b"b"])], "keys are served wherever they are"


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("words", [("CONFIG", "GET", "hz"), ("FCALL", "f", "0"), ("ACL", "LIST")], ids=" ".join)
def test_a_transaction_without_keys_runs_on_a_node_of_the_address(words: tuple[str, ...], whole: bool) -> None:
    client = of_address(1)
    client.say("GET", "b")
    answer_all(client)
    sent(client)
    calls, got = [call("MULTI"), call(*words), call("EXEC")], []
    for data in [b"".join(calls)] if whole else calls:
        client.send(data)
        got += sent(client)
        answer_all(client)
    assert {number for number, _ in got} == {1}
    assert [word.encode() for word in words] in [argv for _, argv in got]


def test_the_node_that_the_client_uses_will_do_if_it_is_of_the_address() -> None:
    client = of_address(1)
    client.say("GET", "a")
    client.say("ECHO", "x")
    assert sent(client) == [(2, [b"GET", b"a"]), (2, [b"ECHO", b"x"])]


def test_what_is_of_the_first_node_does_not_follow_the_client() -> None:
    client = of_address(1)
    client.say("GET", "a")
    answer_all(client)
    sent(client)
    for words in (("INFO",), ("CONFIG", "GET", "hz"), ("SLOWLOG", "LEN")):
        client.say(*words)
        assert sent(client) == [(1, [word.encode() for word in words])]
        answer_all(client)


def test_without_a_node_of_the_address_any_other_does_it() -> None:
    client = of_address(0)
    client.nodes.lost = {0}
    for words in (("CONFIG", "GET", "hz"), ("ECHO", "x")):
        client.say(*words)
        assert sent(client) == [(1, [word.encode() for word in words])]
        answer_all(client)


def test_replicas_of_the_other_nodes_get_nothing() -> None:
    client = of_address(1)
    client.nodes.replicas = True
    client.say("CONFIG", "SET", "hz", "20")
    assert {number for number, _ in sent(client)} == {1, 2}
    answer_all(client)
    ((argv, _),) = client.nodes.asked
    assert (argv, client.nodes.asked_of) == ([b"CONFIG", b"SET", b"hz", b"20"], [NODES[1:]])


def test_after_a_transaction_without_keys_all_nodes_are_served() -> None:
    client = of_address(1)
    client.send(call("MULTI") + call("CONFIG", "GET", "hz") + call("EXEC"))
    answer_all(client)
    sent(client)
    client.say("GET", "b")
    assert client.state is POOLED
    assert sent(client) == [(0, [b"GET", b"b"])]


@pytest.mark.parametrize("number", [0, 1])
def test_subscriptions_are_on_nodes_of_the_address_and_a_message_goes_where_patterns_are(number: int) -> None:
    own = [{0}, {1, 2}][number]
    for chance in (0.0, 0.4, 0.99):
        client = of_address(number, ChosenRoute(chance))
        client.say("SUBSCRIBE", "news")
        ((node, argv),) = sent(client)
        assert (node in own, argv) == (True, [b"SUBSCRIBE", b"news"])
    client = of_address(number)
    client.say("PSUBSCRIBE", "n?")
    assert sent(client) == [(min(own), [b"PSUBSCRIBE", b"n?"])]
    client = of_address(number)
    client.say("PUBLISH", "news", "hello")
    assert [node for node, argv in sent(client) if argv[0] == b"PUBLISH"] == [min(own)]


def test_without_a_node_of_the_address_another_one_has_the_subscription() -> None:
    client = of_address(0)
    client.nodes.lost = {0}
    client.say("PSUBSCRIBE", "n?")
    assert sent(client) == [(1, [b"PSUBSCRIBE", b"n?"])]

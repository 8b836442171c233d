"""A rule's questions with a cluster upstream: to the nodes of their keys, over all nodes, and no address in any
answer."""

from __future__ import annotations

import pytest

from proxy.cluster.cluster_answers import Presented
from proxy.cluster.shares import Advertised, shared_out
from proxy.session.policy.node_questions import KEYS_LOST, NodeQuestions
from proxy.session.ports.pool_key import ANY_NODE, Node, PoolKey
from tests.hotpath.routed import owners
from tests.session.clustered import NODES, Routed
from tests.session.given import HOME, route_with

WALK = "defaults: {mode: enforce}\nrules: {walk: {keys_by_scan: {keys: 5}}}\n"
WHOLE = "defaults: {mode: enforce}\nrules: {small: {whole_collections: {max: 3}}}\n"
NEXT = b"*2\r\n$1\r\n7\r\n*1\r\n$1\r\na\r\n"


def page(*keys: str) -> bytes:
    """The last page of a node."""
    return b"*2\r\n$1\r\n0\r\n*%d\r\n" % len(keys) + b"".join(b"$%d\r\n%b\r\n" % (len(k), k.encode()) for k in keys)


def tell(client: Routed, *frames: bytes) -> tuple[PoolKey, list[bytes]]:
    """Redis answers the oldest question, which is returned."""
    key, questions, answered = client.route.asked.pop(0)
    answered(frames)
    return key, [b" ".join(question) for question in questions]


def test_keys_are_those_of_all_nodes() -> None:
    client = Routed(route_with(WALK))
    client.say("KEYS", "*")
    told = [tell(client, frame) for frame in (NEXT, page("b"), page(), page("c", "a"))]
    assert [key.node for key, _ in told] == [NODES[0], NODES[0], NODES[1], NODES[2]]
    assert [question[:6] for _, (question,) in told] == [b"SCAN 0", b"SCAN 7", b"SCAN 0", b"SCAN 0"]
    assert client.heard() == b"*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n"
    assert client.taken() == [[], [], []]


def test_the_budget_is_for_all_of_them() -> None:
    client = Routed(route_with(WALK))
    client.say("KEYS", "*")
    tell(client, page("1", "2", "3"))
    tell(client, page("4", "5", "6"))
    assert b"more than 5 keys match" in client.heard()


def test_one_name_is_looked_up_where_it_is() -> None:
    client = Routed(route_with(WALK))
    client.say("KEYS", "c")
    key, _ = tell(client, b":1\r\n")
    assert key == HOME._replace(node=NODES[1])
    assert client.heard() == b"*1\r\n$1\r\nc\r\n"


@pytest.mark.parametrize("word", [b"MOVED", b"ASK"])
def test_a_key_that_has_moved_is_looked_up_where_it_is_and_no_node_is_named(word: bytes) -> None:
    client = Routed(route_with(WALK))
    client.say("KEYS", "c")
    asked, before = ([b"EXISTS c"], []) if word == b"MOVED" else ([b"ASKING", b"EXISTS c"], [b"+OK\r\n"])
    assert tell(client, b"-%b 1 127.0.0.1:7000\r\n" % word)[0].node is NODES[1]
    for number, then in ((0, 2), (2, 1)):
        told = tell(client, *before, b"-%b 1 127.0.0.1:700%d\r\n" % (word, then))
        assert told == (HOME._replace(node=NODES[number]), asked)
    told = tell(client, *before, b"-%b 1 127.0.0.1:7000\r\n" % word)
    assert told == (HOME._replace(node=NODES[1]), asked), "the last of three times"
    assert client.heard().startswith(b"-CLUSTERDOWN keyrail: ")


def test_sizes_of_keys_that_go_to_several_nodes() -> None:
    client = Routed(route_with(WHOLE))
    client.say("SUNION", "{c}1", "{c}2", "{c}3")
    key, questions = tell(client, b":1\r\n", b"-ASK 1 127.0.0.1:7000\r\n", b"-MOVED 1 127.0.0.1:7002\r\n")
    assert (key.node, questions) == (NODES[1], [b"SCARD {c}1", b"SCARD {c}2", b"SCARD {c}3"])
    assert tell(client, b"+OK\r\n", b":1\r\n") == (HOME._replace(node=NODES[0]), [b"ASKING", b"SCARD {c}2"])
    assert tell(client, b":2\r\n") == (HOME._replace(node=NODES[2]), [b"SCARD {c}3"])
    assert client.heard().startswith(b"-DENIED keyrail/small: SUNION would read 4 members")


def test_slots_that_move_meanwhile_are_told() -> None:
    client = Routed(route_with(WALK))
    client.say("KEYS", "*")
    tell(client, page("b"))
    router = client.intake.config.router
    assert router is not None
    router.version += 1
    tell(client, page("c"))
    assert client.heard() == b"-CLUSTERDOWN keyrail: slots have moved meanwhile: try again\r\n"


def test_a_node_that_cannot_be_asked() -> None:
    client = Routed(route_with(WALK))
    client.say("KEYS", "*")
    tell(client, page("b"))
    _, _, answered = client.route.asked.pop()
    answered(None)
    assert b"no connection to Redis could be had for it" in client.heard()


def test_an_address_stands_for_its_nodes() -> None:
    client = Routed(route_with(WALK))
    addresses = [Advertised("a", 1), Advertised("b", 2)]
    client.nodes.shown = Presented(addresses[1], shared_out(owners(3), addresses))
    client.say("KEYS", "*")
    told = [tell(client, page("c")), tell(client, page("a"))]
    assert [key.node for key, _ in told] == NODES[1:]
    assert client.heard() == b"*2\r\n$1\r\nc\r\n$1\r\na\r\n"


def test_a_walk_fails_while_a_primary_with_slots_has_failed() -> None:
    client = Routed(route_with(WALK))
    client.say("KEYS", "*")
    tell(client, page("b"))
    client.nodes.slots_lost = [(0, 9)]
    tell(client, page("c"))
    assert client.heard() == KEYS_LOST


@pytest.mark.parametrize(
    ("of", "walked", "asked"),
    [(ANY_NODE, NODES[1:], NODES[1]), (ANY_NODE, [], NODES[0]), (NODES[2], NODES[:1], NODES[2])],
)
def test_what_has_no_key_is_asked_of_a_node_of_the_address(of: Node, walked: list[Node], asked: Node) -> None:
    client = Routed(route_with(WALK))
    ports, router = client.route.ports, client.intake.config.router
    assert router is not None
    key, table = HOME._replace(node=of), client.effective_policy.table
    questions = NodeQuestions(ports.queries, client.nodes, router, table, key, walked, lambda: False)
    questions.ask([[b"FUNCTION", b"LIST"]], lambda _: None)
    assert [key.node for key, _, _ in client.route.asked] == [asked]


def test_the_size_of_a_key_is_asked_where_it_is() -> None:
    client = Routed(route_with(WHOLE))
    client.say("HGETALL", "c")
    key, questions = tell(client, b":3\r\n")
    assert (key.node, questions) == (NODES[1], [b"HLEN c"])
    assert client.taken()[1] == [[b"HGETALL", b"c"]]


def test_sizes_of_keys_on_several_nodes_come_together() -> None:
    client = Routed(route_with(WHOLE))
    client.say("SUNION", "{a}1", "{b}1")
    assert [key.node for key, _, _ in client.route.asked] == [NODES[2], NODES[0]]
    assert tell(client, b":9\r\n")[1] == [b"SCARD {a}1"]
    assert client.heard() == b""
    tell(client, b":1\r\n")
    assert client.heard().startswith(b"-DENIED keyrail/small: SUNION would read")

"""With a cluster upstream, a command with a large argument goes where it would go if it had arrived whole.

Each command of the table is sent twice, with each of its arguments made large in turn: whole, and so that the large
argument arrives in two pieces. The same nodes have to get the same commands, and the client the same replies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from proxy.commands.table import STANDARD
from proxy.hotpath.cluster.router import Router
from tests.cluster.test_every_command import invocations
from tests.hotpath.routed import owners
from tests.hotpath.test_split import arguments
from tests.session.clustered import ClusterRoute, Routed
from tests.session.given import LARGE, FakeRoute, Upstream, call, route_with

ROUTER = Router(owners(3))
BIG = b"x" * (2 * LARGE)
REPLIES = {b"INFO": b"$15\r\ntcp_port:7000\r\n\r\n", b"SCAN": b"*2\r\n$1\r\n0\r\n*0\r\n", b"CLUSTER": b"-ERR no\r\n"}
OK = b"+OK\r\n"
ROUNDS = 4
"""How often the nodes are let answer: some commands ask them in turns."""
Sent = dict[int, list[list[bytes]]]


def large_forms() -> Iterator[tuple[tuple[bytes, ...], int]]:
    """Each command with one large argument, and the place of that."""
    for argv in invocations():
        words = STANDARD.spec_of(list(argv)).name.count("|") + 1
        for place in range(words, len(argv)):
            yield (*argv[:place], argv[place] + BIG, *argv[place + 1 :]), place


def served(client: Routed) -> Sent:
    """What the nodes get, which they answer."""
    sent: Sent = {}
    for _ in range(ROUNDS):
        for upstream in client.route.all_upstreams():
            for argv in arguments(upstream.taken()):
                sent.setdefault(upstream.key.node.number, []).append(argv)
                if upstream.head is not None:
                    upstream.answer(REPLIES.get(argv[0], b":1\r\n"))
    return sent


def whole(argv: Sequence[bytes]) -> tuple[Sent, bytes]:
    client = Routed(FakeRoute(), ROUTER)
    client.send(call(*argv))
    return served(client), client.heard()


def in_pieces(argv: Sequence[bytes], place: int) -> tuple[Sent, bytes, list[Upstream]]:
    """The same, and the connections on which something left before all of it was there."""
    client = Routed(FakeRoute(), ROUTER)
    data = call(*argv)
    cut = len(call(*argv[: place + 1])) - LARGE
    client.send(data[:cut])
    early = [upstream for upstream in client.route.all_upstreams() if upstream.partial is not None]
    client.send(data[cut:])
    return served(client), client.heard(), early


def test_it_reaches_the_same_nodes_and_brings_the_same_reply() -> None:
    unlike, streamed = {}, set()
    for argv, place in large_forms():
        expected = whole(argv)
        sent, heard, early = in_pieces(argv, place)
        if (sent, heard) != expected:
            unlike[b" ".join(argv)[:60], place] = expected, (sent, heard)
        for upstream in early:
            spec = STANDARD.spec_of(list(argv))
            streamed.add(spec.name)
            assert [*expected[0]] == [upstream.key.node.number], "only the owner of a key gets pieces"
            assert not spec.own_errors, "its errors would be taken for the node's"
    assert unlike == {}
    assert {"SET", "APPEND", "RPUSH", "HSET", "XADD"} <= streamed


@pytest.mark.parametrize(
    "argv",
    [
        (b"INFO", b"everything", BIG),
        (b"FUNCTION", b"LOAD", BIG),
        (b"PUBLISH", b"c", BIG),
        (b"EVAL", BIG, b"1", b"b"),
        (b"GET", b"{b}" + BIG),
        (b"SCAN", b"0", b"MATCH", BIG),
    ],
)
def test_without_a_key_before_it_nothing_leaves_before_all_has_arrived(argv: Sequence[bytes]) -> None:
    place = max(range(len(argv)), key=lambda index: len(argv[index]))
    sent, heard, early = in_pieces(argv, place)
    assert early == []
    assert (sent, heard) == whole(argv)
    assert b"7000" not in heard


def test_a_large_value_for_a_slot_that_has_moved_is_an_error_and_the_cluster_is_looked_at() -> None:
    client = Routed(ClusterRoute(), ROUTER)
    data = call("SET", "a", BIG)
    client.send(data[:-LARGE])
    client.send(data[-LARGE:])
    client.own.taken()
    client.own.answer(b"-MOVED 15495 127.0.0.1:7000\r\n")
    assert client.heard() == b"-CLUSTERDOWN keyrail: the slot is on its way to another node: try again\r\n"
    assert client.nodes.named == [b"-MOVED 15495 127.0.0.1:7000\r\n"]
    assert not client.gone


@pytest.mark.parametrize(
    "argv", [("HSET", "a", "f", BIG), ("ZADD", "a", "1", BIG), ("SADD", "a", BIG), ("APPEND", "a", BIG)]
)
def test_what_a_node_does_not_queue_beside_hidden_commands_is_answered_without_its_name(
    argv: Sequence[str | bytes],
) -> None:
    """The error is that of the client's command, although no client awaits the reply to be queued."""
    client = Routed(route_with("rules: {ttl: {lifetime: {default: 5m}, mode: enforce}}"), ROUTER)
    data = call(*argv)
    client.send(data[:-LARGE])
    (upstream,) = (each for each in client.route.all_upstreams() if each.partial is not None)
    client.send(data[-LARGE:])
    sent = arguments(upstream.taken())
    assert sent[0] == [b"MULTI"]
    assert sent[-1] == [b"EXEC"]
    for words in sent:
        mine = words[0].decode() == argv[0]
        upstream.answer(b"-MOVED 1 10.0.0.3:6379\r\n" if mine else b"-EXECABORT no\r\n" if words == [b"EXEC"] else OK)
    assert client.heard().startswith(b"-CLUSTERDOWN keyrail: the slot is on its way")

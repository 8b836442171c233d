"""WAIT with a cluster upstream: the primaries that the client has written to are asked, on private connections, behind
a message that covers earlier writes."""

from __future__ import annotations

import pytest

from proxy.commands.slots import SLOTS, slot_of
from proxy.commands.table import STANDARD
from proxy.hotpath.cluster.router import UNOWNED
from proxy.hotpath.upstream.sender_listener import ReplyRecipient
from proxy.session.cluster import wait_for_replicas
from proxy.session.cluster.node_connections import CLUSTERDOWN
from proxy.session.commands.switching import HELD_SECONDS
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.pool_key import Node, PoolKey
from proxy.session.state import POOLED
from tests.commands.invocations import INVOCATIONS, split
from tests.hotpath.test_split import arguments
from tests.session.clustered import NODES, Routed
from tests.session.given import FakeRoute, Upstream, call


def lose(upstream: Upstream) -> list[ReplyRecipient]:
    """The connection is lost: who is closed with it."""
    return [client for sink in upstream.abandon() if (client := sink.client()) is not None]


NODE_OF = {"b": 0, "c": 1, "a": 2}


def written(*keys: str, route: FakeRoute | None = None) -> Routed:
    """A client that has written to the nodes of these keys, and read from all."""
    client = Routed(route or FakeRoute())
    client.send(b"".join(call("GET", key) for key in NODE_OF) + b"".join(call("SET", key, "x") for key in keys))
    for key, number in NODE_OF.items():
        client.at(number).answer(b"$-1\r\n" + b"+OK\r\n" * keys.count(key))
    client.taken()
    client.heard()
    return client


def asked(client: Routed, *words: str) -> list[int]:
    """The nodes that are asked for this, each behind a message to a channel of its own."""
    for lent in client.route.lent:
        covering, wait = arguments(lent.taken())
        router = client.intake.config.router
        assert router is not None
        assert router.owner(slot_of(covering[1])) == lent.key.node.number
        assert (covering[0], wait) == (b"SPUBLISH", [word.encode() for word in words])
    return [lent.key.node.number for lent in client.route.lent]


def waiting(*words: str) -> Routed:
    client = written(*NODE_OF)
    client.say(*words)
    assert asked(client, *words) == [0, 1, 2]
    return client


@pytest.mark.parametrize("keys", [("a",), ("b",), ("a", "c", "a"), ("a", "b", "c")])
def test_only_nodes_that_were_written_to_are_asked(keys: tuple[str, ...]) -> None:
    client = written(*keys)
    client.say("WAIT", "1", "0")
    assert asked(client, "WAIT", "1", "0") == sorted({NODE_OF[key] for key in keys})


def test_who_has_not_written_asks_one() -> None:
    client = written()
    client.say("WAIT", "1", "0")
    assert asked(client, "WAIT", "1", "0") == [0]


@pytest.mark.parametrize("words", [("WAIT",), ("WAIT", "1"), ("WAIT", "1", "2", "3"), ("WAITAOF", "1")])
def test_a_wrong_number_of_arguments_has_the_engines_own_error(words: tuple[str, ...]) -> None:
    client = written("a")
    client.say(*words)
    (own,) = client.route.lent
    assert own.taken() == call(*words)
    own.answer(b"-ERR wrong number of arguments\r\n")
    assert client.heard() == b"-ERR wrong number of arguments\r\n"
    assert client.route.lent == []


def test_when_the_map_has_changed_since_the_first_write_all_are_asked() -> None:
    client = written("a")
    router = client.intake.config.router
    assert router is not None
    router.version += 1
    client.say("WAIT", "1", "0")
    assert asked(client, "WAIT", "1", "0") == [0, 1, 2]


def test_all_slots_are_looked_through_once_for_each_map(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def counted(most: int) -> range:
        looks.append(most)
        return range(most)

    monkeypatch.setattr(wait_for_replicas, "range", counted, raising=False)
    for changes in (1, 2):
        client = written("a", "b", "c")
        router = client.intake.config.router
        assert router is not None
        for _ in range(3):
            client.say("WAIT", "1", "0")
            assert asked(client, "WAIT", "1", "0") == [0, 1, 2]
            for lent in list(client.route.lent):
                lent.answer(b":0\r\n", b":1\r\n")
            assert client.heard() == b":1\r\n"
        assert looks.count(SLOTS) == changes
        assert len(looks) == changes * (1 + len(NODES))


def test_when_slots_have_no_owner_nobody_knows_where_the_writes_are() -> None:
    client = written("a")
    router = client.intake.config.router
    assert router is not None
    router.version += 1
    router.own(0, 0, UNOWNED)
    client.say("WAIT", "1", "0")
    (waiter,) = client.nodes.looking
    client.nodes.looking.clear()
    client.route.moment += HELD_SECONDS + 1
    waiter.arrived()
    assert client.heard() == CLUSTERDOWN
    assert not client.gone


@pytest.mark.parametrize(
    "error",
    [
        b"-UNBLOCKED force unblock from blocking operation\r\n",
        b"-ERR WAIT cannot be used with replica instances.\r\n",
        b"-CLUSTERDOWN The cluster is down\r\n",
    ],
)
def test_a_node_that_is_demoted_is_no_answer(error: bytes) -> None:
    client = written("a")
    client.send(call("WAIT", "1", "5000") + call("GET", "a"))
    assert asked(client, "WAIT", "1", "5000") == [2]
    client.route.moment += 2
    client.route.lent[0].answer(b":0\r\n", error)
    assert client.heard() == b""
    assert client.route.lent == []
    router = client.intake.config.router
    assert router is not None
    router.own(0, SLOTS - 1, 1)
    router.version += 1
    client.nodes.looking.pop().arrived()
    assert asked(client, "WAIT", "1", "3000") == [1]
    client.route.lent[0].answer(b":0\r\n", b":1\r\n")
    assert client.heard() == b":1\r\n"
    assert client.taken() == [[], [[b"GET", b"a"]], []], "the next command waited"


def test_the_loss_of_a_node_is_no_reason_to_close_the_client() -> None:
    client = written("a", "c")
    client.say("WAIT", "1", "0")
    lost, other = sorted(client.route.lent, key=lambda lent: lent.key.node.number)[::-1]
    other.answer(b":0\r\n", b":1\r\n")
    lost.answer(b":0\r\n")
    assert lose(lost) == []
    (conclude,) = client.route.timers
    conclude()
    assert client.heard() == b""
    client.nodes.looking.pop().arrived()
    again = [lent for lent in client.route.lent if lent is not lost]
    assert [lent.key.node.number for lent in again] == [1, 2]
    for lent in again:
        lent.answer(b":0\r\n", b":1\r\n")
    assert client.heard() == b":1\r\n"


WRITES = [
    argv
    for argv in (split(line) for line, _ in INVOCATIONS)
    for spec in [STANDARD.spec_of(argv)]
    if spec.may_replicate and not spec.over_nodes.destination.refusal
]


@pytest.mark.parametrize("argv", WRITES, ids=lambda argv: argv[0].decode())
def test_each_command_that_may_write_is_known_to_have_gone_to_its_nodes(argv: list[bytes]) -> None:
    client = Routed(FakeRoute())
    client.say(*argv)
    reached = 0
    for upstream in client.route.all_upstreams():
        if upstream.taken():
            reached |= upstream.node_bit
    assert client.sender.written_nodes == reached
    assert reached or client.heard().startswith(b"-")


@pytest.mark.parametrize("argv", WRITES, ids=lambda argv: argv[0].decode())
def test_so_is_one_in_a_transaction_also_if_a_later_command_names_the_node(argv: list[bytes]) -> None:
    client = Routed(FakeRoute())
    client.say("MULTI")
    client.say(*argv)
    if client.state.upstream is None:
        client.say("GET", "c")
    reached = client.own.node_bit if argv[0] in client.own.taken() else 0
    assert client.sender.written_nodes == reached
    assert reached or b"-" in client.heard()


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
        (b"-ASKING 5 127.0.0.1:7001\r\n", b"-ASKING"),
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
    client = written(*NODE_OF)
    route = client.route
    route.starving = True
    client.say("WAIT", "0", "0")
    assert client.state is POOLED
    assert route.lent == []
    route.feed()
    client.arrived()
    assert len(route.lent) == 3


class Serving(FakeRoute):
    """Gives no connections to `withheld` nodes, and calls whoever waits when one is given back."""

    withheld: frozenset[Node] = frozenset()

    def private_anywhere(self, key: PoolKey) -> PrivatePipeline | None:
        return None if key.node in self.withheld else super().private_anywhere(key)

    def release(self, upstream: PrivatePipeline) -> None:
        super().release(upstream)
        self.feed()


def test_a_call_in_the_middle_of_its_own_command_brings_the_client_on() -> None:
    """It gives back the connections that it has while another one is missing, and may be the one who waits for them."""
    client = written(*NODE_OF, route=Serving())
    route = client.route
    assert isinstance(route, Serving)
    route.withheld = frozenset({NODES[2]})
    client.say("WAIT", "1", "0")
    assert route.lent == []
    route.withheld = frozenset()
    timers, route.timers = route.timers, []
    for act in timers:
        act()
    assert asked(client, "WAIT", "1", "0") == [0, 1, 2]

"""A session with a cluster upstream: commands of several nodes, answers in their place, and no node's address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from proxy.cluster.cluster_answers import Presented
from proxy.cluster.scan_cursor import MOST_RESTARTS, ScanCursor
from proxy.cluster.shares import Advertised, shared_out
from proxy.commands.slots import slot_of
from proxy.commands.table import Lane
from proxy.session.cluster.node_connections import CLUSTERDOWN
from proxy.session.commands.switching import HELD_SECONDS
from proxy.session.dispatcher.dispatcher import Dispatcher
from proxy.session.policy.node_questions import KEYS_LOST
from proxy.session.state import POOLED
from tests.cluster.test_scan_walk import KEYS, Model, page
from tests.hotpath.routed import owners
from tests.hotpath.test_split import arguments
from tests.session.clustered import NODES, Routed
from tests.session.given import HOME, Client, FakeRoute, call, route_with


def test_a_read_over_slots_is_split_and_the_next_command_waits() -> None:
    client = Routed(FakeRoute())
    client.send(call("MGET", "{a}1", "{b}1", "{c}1") + call("MGET", "{a}1", "{b}1"))
    assert client.taken() == [[[b"MGET", b"{b}1"]], [[b"MGET", b"{c}1"]], [[b"MGET", b"{a}1"]]]
    for number in (2, 1, 0):
        client.at(number).answer(b"*1\r\n$1\r\n%d\r\n" % number)
    assert client.heard() == b"*3\r\n$1\r\n2\r\n$1\r\n0\r\n$1\r\n1\r\n"
    assert client.taken() == [[[b"MGET", b"{b}1"]], [], [[b"MGET", b"{a}1"]]]
    client.at(0).answer(b"*1\r\n$-1\r\n")
    client.at(2).answer(b"-LOADING later\r\n")
    assert client.heard() == b"-LOADING later\r\n"
    assert client.sender.pending_replies == 0


def test_a_rewrite_and_an_edit_are_about_the_whole_command() -> None:
    client = Routed(FakeRoute())
    client.say("DEL", "a", "b", "c")
    assert client.taken() == [[[b"DEL", b"b"]], [[b"DEL", b"c"]], [[b"DEL", b"a"]]]
    client.at(0).answer(b":1\r\n")
    client.at(1).answer(b":0\r\n")
    client.at(2).answer(b"-OOM no\r\n")
    assert client.heard() == b"-OOM no (DEL ran for 2 of 3 keys, and not for arguments 1)\r\n"


@pytest.mark.parametrize("words", [("MSET", "a", "1", "b", "2"), ("RENAME", "a", "b"), ("MSETNX", "a", "1", "b", "2")])
def test_other_commands_over_slots_are_refused(words: tuple[str, ...]) -> None:
    client = Routed(FakeRoute())
    client.say(*words)
    assert client.heard() == b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"
    assert client.taken() == [[], [], []]


def test_a_slot_without_a_node_is_waited_for() -> None:
    client = Routed(FakeRoute())
    client.nodes.lost = {2}
    client.say("EXISTS", "a", "b")
    assert len(client.nodes.looking) == 1
    assert client.taken() == [[], [], []]
    client.nodes.lost = set()
    client.arrived()
    assert client.taken() == [[[b"EXISTS", b"b"]], [], [[b"EXISTS", b"a"]]]


def test_all_nodes_get_it_on_their_slow_lane_and_nothing_overtakes() -> None:
    client = Routed(FakeRoute())
    client.send(call("DBSIZE") + call("FLUSHALL") + call("DBSIZE"))
    assert client.taken() == [[[b"DBSIZE"]]] * 3
    assert client.taken(Lane.SLOW) == [[], [], []]
    for number in range(3):
        client.at(number).answer(b":2\r\n")
    assert client.heard() == b":6\r\n"
    assert client.taken(Lane.SLOW) == [[[b"FLUSHALL"]]] * 3
    for number in range(3):
        client.at(number, Lane.SLOW).answer(b"-OOM no\r\n" if number == 1 else b"+OK\r\n")
    assert client.heard() == b"-OOM no (FLUSHALL ran on n1, n3, and not on n2)\r\n"
    assert client.taken() == [[[b"DBSIZE"]]] * 3


@pytest.mark.parametrize(
    "words",
    [
        ("GET", "a"),
        ("MGET", "a", "b", "c"),
        ("EXISTS", "a", "b"),
        ("DEL", "a", "b"),
        ("DBSIZE",),
        ("KEYS", "*"),
        ("SCAN", "0"),
        ("PUBLISH", "news", "x"),
        ("SPUBLISH", "a", "x"),
        ("KEYRAIL", "NODE", "n1", "GET", "b"),
        ("EVAL", "return 2", "1", "a"),
        ("FLUSHALL",),
        ("BLPOP", "a", "0"),
        ("MULTI",),
        ("WATCH", "a"),
        ("WAIT", "0", "0"),
    ],
)
def test_nothing_overtakes_a_command_of_the_slow_lane(words: tuple[str, ...]) -> None:
    """On another connection to its node it might run before."""
    client = Routed(FakeRoute())
    script = [[b"MULTI"], [b"EVAL", b"return 1", b"1", b"a"], [b"EXEC"]]
    client.send(call("EVAL", "return 1", "1", "a") + call(*words) + call("GET", "a"))
    assert (client.taken(), client.taken(Lane.SLOW)) == ([[], [], []], [[], [], script])
    assert not any(each.taken() for each in client.route.lent)
    client.at(2, Lane.SLOW).answer(b"+OK\r\n", b"+QUEUED\r\n", b"*1\r\n:1\r\n")
    assert client.heard().startswith(b":1\r\n")
    went = [*client.taken(), *client.taken(Lane.SLOW), *(each.taken() for each in client.route.lent)]
    assert any(went) or words == ("MULTI",)


def test_it_waits_for_a_connection_to_each() -> None:
    route = FakeRoute()
    client = Routed(route)
    route.starving = True
    client.say("DBSIZE")
    assert client.taken() == [[], [], []]
    route.feed()
    assert client.taken() == [[[b"DBSIZE"]]] * 3


def test_a_walk() -> None:
    client, model = Routed(FakeRoute()), Model(KEYS)
    cursor = b"0"
    seen: set[bytes] = set()
    while not seen or cursor != b"0":
        client.say("SCAN", cursor)
        while client.sender.pending_replies > 0:
            for number, commands in enumerate(client.taken()):
                client.at(number).answer(*(model.answer(number, argv) for argv in commands))
        cursor, keys = page(client.heard())
        seen.update(keys)
    assert seen == set(KEYS)
    client.say("SCAN", "x")
    assert client.heard() == b"-ERR invalid cursor\r\n"


@pytest.mark.parametrize("apart", [False, True])
def test_nothing_more_is_asked_for_a_client_that_leaves_in_mid_walk(*, apart: bool) -> None:
    client, model = Routed(FakeRoute()), Model(KEYS)
    if apart:
        client.enter(HOME._replace(user="app"))
    client.say("SCAN", "0")
    asked: list[Any] = drain(client.route.asked) if apart else [*enumerate(client.taken())]
    client.close("client")
    if apart:
        for key, questions, answered in asked:
            answered([model.answer(key.node.number, list(argv)) for argv in questions])
    else:
        for number, commands in asked:
            client.at(number).answer(*(model.answer(number, argv) for argv in commands))
    assert client.taken() == [[], [], []]
    assert [each.taken() for each in client.route.all_upstreams()] == [b""] * len(client.route.all_upstreams())
    assert client.route.asked == []
    assert client.sender.pending_replies == 0


def test_for_a_user_of_its_own_a_walk_asks_only_scan_and_the_rest_goes_as_keyrails_user() -> None:
    route, model = FakeRoute(), Model(KEYS)
    client = Routed(route)
    theirs = HOME._replace(user="app")
    client.key = theirs
    ups = [route.upstream(theirs._replace(node=node)) for node in NODES]
    cursor = b"0"
    seen: set[bytes] = set()
    while not seen or cursor != b"0":
        client.say("SCAN", cursor)
        while client.sender.pending_replies > 0:
            for key, questions, answered in drain(route.asked):
                assert key.user is None
                answered([model.answer(key.node.number, list(argv)) for argv in questions])
            for number, upstream in enumerate(ups):
                for argv in arguments(upstream.taken()):
                    assert argv[0] == b"SCAN"
                    upstream.answer(model.answer(number, argv))
        cursor, keys = page(client.heard())
        seen.update(keys)
    assert seen == set(KEYS)
    client.say("SCAN", "0")
    for _, _, answered in drain(route.asked):
        answered(None)
    assert client.heard() == b"-CLUSTERDOWN keyrail: a node of the cluster is not connected\r\n"


def test_a_walk_by_slots_shows_nothing_to_a_user_who_may_not_scan() -> None:
    route = FakeRoute()
    client = Routed(route)
    client.key = theirs = HOME._replace(user="app")
    client.say("SCAN", ScanCursor(restarts=MOST_RESTARTS).encoded())
    assert route.asked == [], "of Keyrail's own user nothing is asked before Redis has let the client's scan"
    (asked,) = arguments(route.upstream(theirs._replace(node=NODES[0])).taken())
    assert asked[0] == b"SCAN"
    route.upstream(theirs._replace(node=NODES[0])).answer(b"-NOPERM no SCAN\r\n")
    assert client.heard() == b"-NOPERM no SCAN\r\n"
    assert route.asked == []


@pytest.mark.parametrize(("mode", "refused"), [("enforce", True), ("audit", False)])
def test_a_page_by_slots_has_no_more_keys_than_the_policy_allows(mode: str, refused: bool) -> None:
    rules = f"defaults: {{mode: {mode}}}\nrules: {{small-steps: {{scan_counts: {{max: 10, over: refuse}}}}}}\n"
    client, model = Routed(route_with(rules)), Model([b"{t}%d" % number for number in range(300)])
    client.say("SCAN", ScanCursor(MOST_RESTARTS, own=slot_of(b"{t}")).encoded(), "COUNT", "10")
    while client.sender.pending_replies > 0:
        for number in range(3):
            upstream = client.at(number)
            for argv in arguments(upstream.taken()):
                upstream.answer(model.answer(number, argv))
    assert client.heard().startswith(b"-ERR keyrail: slot " if refused else b"*2\r\n")


def test_what_keyrails_user_is_asked_for_a_walk_has_the_bound_of_any_joined_reply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proxy.cluster.sending.MOST_JOINED", 1000)
    route = FakeRoute()
    client = Routed(route)
    client.key = HOME._replace(user="app")
    client.say("SCAN", "0")
    first, *others = drain(route.asked)
    first[2]([b"$1100\r\n" + b"x" * 1100 + b"\r\n"])
    assert client.heard() == b"-ERR keyrail: the reply is larger than 1000 bytes: ask for less at a time\r\n"
    for _, _, answered in others:
        answered([b"$1\r\nx\r\n"])
    assert (client.heard(), route.asked, client.sender.pending_replies) == (b"", [], 0)


def drain(things: list[Any]) -> list[Any]:
    """All of them; the list is empty then."""
    taken, things[:] = things[:], []
    return taken


def test_answers_in_place_of_nodes() -> None:
    client = Routed(FakeRoute())
    client.say("CLUSTER", "SLOTS")
    assert client.heard() == b"-ERR This instance has cluster support disabled\r\n"
    client.say("REPLICAOF", "no", "one")
    assert client.heard().startswith(b"-ERR keyrail: REPLICAOF is not available with a cluster upstream")
    client.say("CLIENT", "MAINT_NOTIFICATIONS", "ON")
    assert client.heard() == b"-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.\r\n"
    assert client.taken() == [[], [], []]


def test_without_a_cluster_nothing_is_split_or_answered() -> None:
    route = FakeRoute()
    client = Client(route)
    client.send(call("MGET", "a", "b") + call("CLUSTER", "SLOTS"))
    assert arguments(route.upstream().taken()) == [[b"MGET", b"a", b"b"], [b"CLUSTER", b"SLOTS"]]


@pytest.mark.parametrize("words", [("DBSIZE",), ("CLUSTER", "SLOTS"), ("MGET", "a", "b"), ("SCAN", "0"), ("SHUTDOWN",)])
def test_inside_multi_they_abort_the_transaction(words: tuple[str, ...]) -> None:
    client = Routed(FakeRoute())
    client.say("MULTI")
    client.say("SET", "c", "1")
    client.own.answer(b"+OK\r\n", b"+QUEUED\r\n")
    client.own.taken()
    client.heard()
    client.say(*words)
    (sent,) = arguments(client.own.taken())
    assert sent != [word.encode() for word in words], "what Redis itself refuses is sent in its place"
    client.own.answer(b"-ERR unknown\r\n")
    assert client.heard().startswith((b"-ERR keyrail: ", b"-CROSSSLOT ", b"-ERR This instance"))


def test_replies_of_one_node_do_not_name_it() -> None:
    client = Routed(FakeRoute())
    client.say("CONFIG", "GET", "port")
    upstream = next(each for each in client.route.all_upstreams() if each.head is not None)
    upstream.answer(b"*2\r\n$4\r\nport\r\n$4\r\n7000\r\n")
    assert client.heard() == b"*2\r\n$4\r\nport\r\n$4\r\n6379\r\n"


# Commands of one node


def place(*keys: str) -> list[int]:
    return [owners(3)[slot_of(key.encode())] for key in keys]


def test_each_command_goes_to_the_node_of_its_key() -> None:
    client = Routed(FakeRoute())
    client.send(call("GET", "a") + call("GET", "b") + call("GET", "c") + call("GET", "{a}2"))
    assert place("a", "b", "c") == [2, 0, 1]
    assert client.taken() == [[[b"GET", b"b"]], [[b"GET", b"c"]], [[b"GET", b"a"], [b"GET", b"{a}2"]]]
    client.at(1).answer(b"$1\r\nc\r\n")
    client.at(0).answer(b"$1\r\nb\r\n")
    assert client.heard() == b""
    client.at(2).answer(b"$1\r\na\r\n", b"$1\r\nd\r\n")
    assert client.heard() == b"$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n"
    assert (client.sender.pending_replies, client.sender.order) == (0, None)


@pytest.mark.parametrize("first", [call("GET", "a") + call("GET", "b"), call("MGET", "a", "b")])
def test_plain_commands_take_their_first_connections_without_being_judged(
    first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Routed(FakeRoute())
    client.at(0), client.at(2)  # connections of the pools

    def handle(*_: object) -> int:
        raise AssertionError("judged")

    with monkeypatch.context() as patched:
        patched.setattr(Dispatcher, "handle", handle)
        client.send(first)
    assert [len(each) for each in client.taken()] == [1, 0, 1]
    client.say("GET", "c")
    assert client.taken() == [[], [[b"GET", b"c"]], []], "one that has none yet is the session's"


def test_a_command_waits_while_its_node_has_replies_on_a_connection_that_takes_no_more() -> None:
    client = Routed(FakeRoute())
    client.send(call("GET", "a") + call("GET", "b"))
    old = client.at(2)
    client.taken()
    old.usable = False
    client.send(call("GET", "a"))
    client.route.pools.pop((HOME._replace(node=NODES[2]), Lane.FAST))
    assert client.taken() == [[], [], []]
    old.answer(b"$1\r\na\r\n")
    client.at(0).answer(b"$1\r\nb\r\n")
    assert client.taken() == [[], [], [[b"GET", b"a"]]]
    assert client.at(2) is not old


def test_a_slot_without_a_node_is_answered_after_a_while_and_the_client_stays() -> None:
    client = Routed(FakeRoute())
    client.nodes.lost = {2}
    client.send(call("GET", "a") + call("GET", "b"))
    (waiter,) = client.nodes.looking
    assert client.heard() == b""
    client.route.moment += HELD_SECONDS + 1
    waiter.arrived()
    assert client.heard() == CLUSTERDOWN
    assert client.taken() == [[[b"GET", b"b"]], [], []]
    waiter.arrived()
    assert not client.gone


OF_ALL_KEYS = [
    ("DBSIZE",),
    ("KEYS", "*"),
    ("FLUSHALL",),
    ("FLUSHDB", "ASYNC"),
    ("FUNCTION", "LOAD", "text"),
    ("FUNCTION", "DELETE", "library"),
    ("FUNCTION", "FLUSH"),
    ("FUNCTION", "RESTORE", "dump"),
]


@pytest.mark.parametrize("words", OF_ALL_KEYS)
def test_what_is_about_all_keys_waits_for_those_of_a_primary_that_has_failed(words: tuple[str, ...]) -> None:
    client = Routed(FakeRoute())
    client.nodes.slots_lost = [(0, 9)]
    client.send(call(*words) * 2)
    (waiter,) = client.nodes.looking
    assert (client.heard(), client.taken(), client.taken(Lane.SLOW)) == (b"", [[], [], []], [[], [], []])
    client.route.moment += HELD_SECONDS + 1
    waiter.arrived()
    assert client.heard() == KEYS_LOST
    client.nodes.slots_lost = []
    client.nodes.looking[-1].arrived()
    sent = [fast + slow for fast, slow in zip(client.taken(), client.taken(Lane.SLOW), strict=True)]
    assert sent == [[[word.encode() for word in words]]] * 3


@pytest.mark.parametrize("words", [("RANDOMKEY",), ("SCRIPT", "LOAD", "return 1"), ("CONFIG", "SET", "hz", "9")])
def test_other_commands_of_all_nodes_go_to_those_that_are_left(words: tuple[str, ...]) -> None:
    client = Routed(FakeRoute())
    client.nodes.slots_lost = [(0, 9)]
    client.say(*words)
    assert [sent[:1] for sent in client.taken()] == [[[word.encode() for word in words]]] * 3


def test_a_node_without_a_connection_closes_nobody() -> None:
    client = Routed(FakeRoute())
    client.route.starving = True
    client.say("GET", "a")
    (waiter,) = client.route.waiting
    waiter.close("no_upstream")
    assert not client.gone
    client.route.starving = False
    client.nodes.looking[0].arrived()
    assert client.taken() == [[], [], [[b"GET", b"a"]]]


def test_each_command_has_its_own_time_to_wait_for_a_private_connection() -> None:
    client = Routed(FakeRoute())
    for _ in range(2):
        client.route.starving = True
        client.say("BLPOP", "a", "1")
        client.route.waiting.pop().close("no_upstream")
        client.route.starving = False
        client.nodes.looking.pop().arrived()
        client.own.answer(b"*-1\r\n")
        client.route.moment += HELD_SECONDS + 1
    assert client.heard() == b"*-1\r\n" * 2


def test_a_refused_watch_leaves_nothing_behind() -> None:
    client = Routed(FakeRoute())
    client.say("WATCH", "a")
    client.own.answer(b"-CLUSTERDOWN The cluster is down\r\n")
    assert client.heard().startswith(b"-CLUSTERDOWN")
    assert client.state is POOLED
    client.say("GET", "b")
    assert client.taken() == [[[b"GET", b"b"]], [], []]


def test_a_refused_watch_leaves_an_earlier_one() -> None:
    client = Routed(FakeRoute())
    client.say("WATCH", "a")
    client.own.answer(b"+OK\r\n")
    client.say("WATCH", "{a}2")
    client.own.answer(b"-TRYAGAIN later\r\n")
    client.heard()
    client.say("GET", "b")
    assert b"CROSSSLOT" in client.heard()


def test_a_whole_transaction_goes_to_the_node_of_its_first_key() -> None:
    client = Routed(FakeRoute())
    client.send(call("MULTI") + call("PING") + call("SET", "c", "1") + call("EXEC") + call("GET", "a"))
    unit = [[b"MULTI"], [b"PING"], [b"SET", b"c", b"1"], [b"EXEC"]]
    assert client.taken() == [[], unit, [[b"GET", b"a"]]]


def test_another_slot_in_a_transaction_is_refused_when_it_is_queued() -> None:
    client = Routed(FakeRoute())
    same_node = next(str(i) for i in range(100) if place(str(i)) == [1] and slot_of(str(i).encode()) != slot_of(b"c"))
    for other in ("a", same_node):
        client.send(call("MULTI") + call("SET", "c", "1") + call("SET", other, "1") + call("EXEC"))
        client.at(1).answer(b"+OK\r\n", b"+QUEUED\r\n", b"-ERR arity\r\n", b"-EXECABORT\r\n")
        assert client.heard().split(b"\r\n")[2].startswith(b"-CROSSSLOT")
        assert all(words[:2] != [b"SET", other.encode()] for node in client.taken() for words in node)


def test_a_private_connection_is_one_to_the_node_of_the_key() -> None:
    client = Routed(FakeRoute())
    client.say("BLPOP", "c", "0")
    (lent,) = client.route.lent
    assert lent.key.node is NODES[1]
    assert arguments(lent.taken()) == [[b"BLPOP", b"c", b"0"]]
    lent.answer(b"*-1\r\n")
    client.say("GET", "a")
    assert client.taken() == [[], [], [[b"GET", b"a"]]]


def test_a_key_of_another_node_than_the_state_of_the_connection_is_refused() -> None:
    client = Routed(FakeRoute())
    client.say("WATCH", "c")
    (lent,) = client.route.lent
    lent.answer(b"+OK\r\n")
    assert client.heard() == b"+OK\r\n"
    client.say("GET", "a")
    assert client.heard().startswith(b"-CROSSSLOT keyrail: this key is on another node")
    client.say("GET", "c")
    assert arguments(lent.taken())[-1] == [b"GET", b"c"]


def test_shard_channels_are_hashed_as_keys_are() -> None:
    client = Routed(FakeRoute())
    client.say("SPUBLISH", "c", "m")
    assert client.taken() == [[], [[b"SPUBLISH", b"c", b"m"]], []]


@pytest.mark.parametrize("words", [("CLIENT", "ID"), ("CLIENT", "INFO"), ("CLIENT", "CAPA", "redirect")])
def test_what_tells_of_the_connection_ties_no_client_to_a_node(words: tuple[str, ...]) -> None:
    client = Routed(FakeRoute())
    client.say(*words)
    assert client.taken() == [[[word.encode() for word in words]], [], []]
    client.at(0).answer(b":5\r\n")
    client.send(call("GET", "a") + call("GET", "c"))
    assert client.taken() == [[], [[b"GET", b"c"]], [[b"GET", b"a"]]]


@pytest.mark.parametrize("words", [("CLIENT", "ID"), ("CLIENT", "INFO"), ("CLIENT", "TRACKINGINFO")])
@pytest.mark.parametrize("before", [("AUTH", "u", "secret"), ("WATCH", "c")])
def test_nor_behind_a_login_or_between_watch_and_exec(before: tuple[str, ...], words: tuple[str, ...]) -> None:
    client = Routed(FakeRoute())
    client.say(*before)
    client.own.answer(b"+OK\r\n")
    client.say(*words)
    _answer_all(client, b":5\r\n")
    client.say("UNWATCH")
    _answer_all(client, b"+OK\r\n")
    assert client.heard() == b"+OK\r\n:5\r\n+OK\r\n"
    assert _is_free(client)


@pytest.mark.parametrize(
    "words",
    [
        ("CLIENT", "REPLY"),
        ("CLIENT", "REPLY", "OFF", "now"),
        ("MONITOR", "all"),
        ("HELLO", "3", "SETUP"),
        ("HELLO", "3", "SETNAME", "me", "AUTH", "u", "wrong"),
        ("NEW.COMMAND", "a"),
    ],
)
def test_nor_by_a_command_that_is_refused_or_that_only_redis_knows(words: tuple[str, ...]) -> None:
    client = Routed(FakeRoute())
    client.say(*words)
    _answer_all(client, b"-ERR no\r\n")
    for timer in client.route.lingering:
        timer()
    assert client.heard() == b"-ERR no\r\n"
    assert _is_free(client)
    assert client.route.released == [], "what it may have left behind is nobody else's"


def _answer_all(client: Routed, frame: bytes) -> None:
    for upstream in client.route.all_upstreams():
        upstream.taken()
        if upstream.head is not None:
            upstream.answer(frame)


def _is_free(client: Routed) -> bool:
    client.send(call("GET", "a") + call("GET", "b") + call("GET", "c"))
    nodes = [client.route.upstream(client.key._replace(node=node)) for node in NODES]
    return [arguments(node.taken()) for node in nodes] == [[[b"GET", b"b"]], [[b"GET", b"c"]], [[b"GET", b"a"]]]


@pytest.mark.parametrize("words", [("CLIENT", "TRACKING", "ON"), ("CLIENT", "REPLY", "OFF"), ("SCRIPT", "DEBUG", "NO")])
def test_what_changes_one_connection_is_refused(words: tuple[str, ...]) -> None:
    client = Routed(FakeRoute())
    client.say(*words)
    assert b"it is about one connection to Redis" in client.heard()
    assert not client.is_pinned()


@pytest.mark.parametrize("words", [("SCAN",), ("PUBLISH", "a"), ("SCRIPT", "EXISTS")])
def test_missing_arguments_are_for_any_node_to_complain_of(words: tuple[str, ...]) -> None:
    client = Routed(FakeRoute())
    client.say(*words)
    assert client.taken() == [[[word.encode() for word in words]], [], []]


def test_a_large_value_inside_a_transaction_is_collected_and_goes_to_its_node() -> None:
    client = Routed(FakeRoute())
    client.say("MULTI")
    client.send(call("SET", "c", "x" * 3_000_000))
    assert client.own.key.node is NODES[1]
    assert arguments(client.own.taken())[0] == [b"MULTI"]


# As a cluster of Keyrails


@pytest.fixture
def shown() -> Routed:
    """A client of the second of two addresses, which stands for the last two nodes."""
    client = Routed(FakeRoute())
    addresses = [Advertised("a", 1), Advertised("b", 2)]
    client.nodes.shown = Presented(addresses[1], shared_out(owners(3), addresses))
    return client


def test_shard_channels_of_several_slots_are_refused_as_nodes_do(shown: Routed) -> None:
    shown.say("SSUBSCRIBE", "a", "b")
    assert shown.heard().startswith(b"-CROSSSLOT Keys")


def test_one_address_speaks_of_its_nodes_alone(shown: Routed) -> None:
    shown.say("DBSIZE")
    assert shown.taken() == [[], [[b"DBSIZE"]], [[b"DBSIZE"]]]
    shown.at(1).answer(b":2\r\n")
    shown.at(2).answer(b":3\r\n")
    assert shown.heard() == b":5\r\n"


@pytest.mark.parametrize(("lost", "waits"), [((0, 5462), True), ((16383, 16383), True), ((0, 99), False)])
def test_and_of_the_keys_of_its_slots_alone(shown: Routed, lost: tuple[int, int], *, waits: bool) -> None:
    shown.nodes.slots_lost = [lost]
    shown.say("DBSIZE")
    assert shown.taken() == [[], *([[], []] if waits else [[[b"DBSIZE"]]] * 2)]


@pytest.mark.parametrize(
    "words", [("EVALSHA", "a" * 40, "0"), ("CONFIG", "GET", "maxmemory"), ("INFO",), ("CLIENT", "ID"), ("PING",)]
)
def test_so_does_what_any_node_can_do_behind_a_login(shown: Routed, words: tuple[str, ...]) -> None:
    shown.say("AUTH", "u", "secret")
    shown.own.answer(b"+OK\r\n")
    shown.say(*words)
    sent = {u.key.node for u in shown.route.all_upstreams() if call(*words) in u.taken()}
    assert sent == {NODES[1]}


def test_who_publishes_at_one_address_reaches_and_counts_the_subscribers_of_all(shown: Routed) -> None:
    shown.say("PUBLISH", "news", "m")
    asked = [b"PUBSUB", b"NUMSUB", b"news"]
    assert shown.taken() == [[asked], [[b"PUBLISH", b"news", b"m"]], [asked]]
    shown.at(1).answer(b":1\r\n")
    for number in (0, 2):
        shown.at(number).answer(b"*2\r\n$4\r\nnews\r\n:2\r\n")
    assert shown.heard() == b":5\r\n"


def test_keys_of_other_addresses_are_served_all_the_same(shown: Routed) -> None:
    shown.say("GET", "b")
    assert shown.taken() == [[[b"GET", b"b"]], [], []]


@pytest.mark.parametrize("slot", ["0", "6000", "16383"])
def test_what_names_a_slot_goes_to_its_node(shown: Routed, slot: str) -> None:
    shown.say("CLUSTER", "COUNTKEYSINSLOT", slot)
    sent = shown.taken()
    assert sent[owners(3)[int(slot)]] == [[b"CLUSTER", b"COUNTKEYSINSLOT", slot.encode()]]
    assert sum(map(len, sent)) == 1


@pytest.mark.parametrize("slot", ["16384", "x", "-1"])
def test_of_a_slot_that_is_none_any_node_says_so(shown: Routed, slot: str) -> None:
    shown.say("CLUSTER", "COUNTKEYSINSLOT", slot)
    assert sum(map(len, shown.taken())) == 1


def test_it_answers_as_a_node_does(shown: Routed) -> None:
    shown.say("READONLY")
    shown.say("ASKING")
    shown.say("CLUSTER", "MYID")
    shown.say("CLUSTER", "MEET", "h", "1")
    own = Advertised("b", 2).id.encode()
    refused = b"-ERR keyrail: CLUSTER MEET is not available with a cluster upstream: run it on the nodes\r\n"
    assert shown.heard() == b"+OK\r\n+OK\r\n$40\r\n%b\r\n" % own + refused
    shown.say("INFO", "cluster")
    upstream = next(each for each in shown.route.all_upstreams() if each.head is not None)
    upstream.answer(b"$19\r\ncluster_enabled:1\r\n\r\n")
    assert shown.heard() == b"$19\r\ncluster_enabled:1\r\n\r\n"


# MSET, where the policy lets it be split

SPLIT = "cross_slot: split\nrules: {}\n"


def test_a_policy_lets_mset_be_split() -> None:
    client = Routed(route_with(SPLIT))
    client.say("MSET", "a", "1", "b", "2")
    assert client.taken() == [[[b"MSET", b"b", b"2"]], [], [[b"MSET", b"a", b"1"]]]
    client.at(0).answer(b"+OK\r\n")
    assert client.heard() == b""
    client.at(2).answer(b"+OK\r\n")
    assert client.heard() == b"+OK\r\n"


def test_an_mset_that_ran_by_halves_says_so() -> None:
    client = Routed(route_with(SPLIT))
    client.say("MSET", "a", "1", "b", "2")
    client.at(0).answer(b"-OOM no\r\n")
    client.at(2).answer(b"+OK\r\n")
    assert client.heard() == b"-OOM no (MSET ran for 1 of 2 keys, and not for arguments 3)\r\n"


@pytest.mark.parametrize(
    "words", [("MSETNX", "a", "1", "b", "2"), ("RENAME", "a", "b"), ("MSETEX", "2", "a", "1", "b", "2")]
)
def test_it_lets_no_other_write_be_split(words: tuple[str, ...]) -> None:
    client = Routed(route_with(SPLIT))
    client.say(*words)
    assert client.heard().startswith(b"-CROSSSLOT")


def test_inside_multi_it_is_not_split() -> None:
    client = Routed(route_with(SPLIT))
    client.say("MULTI")
    client.heard()
    client.say("MSET", "a", "1", "b", "2")
    assert client.heard().startswith(b"-CROSSSLOT")


def test_a_large_one_is_collected_and_split() -> None:
    client = Routed(route_with(SPLIT))
    client.send(call("MSET", "a", "x" * 2_000_000, "b", "y" * 2_000_000))
    sent = client.taken()
    assert [len(commands) for commands in sent] == [1, 0, 1]
    assert sent[0][0][:2] == [b"MSET", b"b"]


# Replicas

EVERYWHERE = [
    ("CONFIG", "SET", "maxmemory", "0"),
    ("CONFIG", "REWRITE"),
    ("ACL", "SETUSER", "u"),
    ("ACL", "DELUSER", "u"),
    ("ACL", "LOAD"),
    ("SCRIPT", "LOAD", "return 1"),
    ("SCRIPT", "FLUSH"),
    ("MODULE", "UNLOAD", "m"),
]


def asked_replicas(*words: str, replies: Sequence[bytes] = (b"+OK\r\n",) * 3) -> Routed:
    """A client whose command the primaries have answered so."""
    client = Routed(FakeRoute())
    client.nodes.replicas = True
    client.send(call(*words) + call("ECHO", "x"))
    for reply, lane_of_node in zip(replies, range(3), strict=True):
        for lane in Lane:
            if client.at(lane_of_node, lane).taken():
                client.at(lane_of_node, lane).answer(reply)
    return client


@pytest.mark.parametrize("words", EVERYWHERE, ids=" ".join)
def test_what_is_not_replicated_goes_to_replicas_behind_the_primaries(words: tuple[str, ...]) -> None:
    client = asked_replicas(*words)
    assert client.heard() == b""
    ((argv, answered),) = client.nodes.asked
    assert argv == [word.encode() for word in words]
    assert client.taken() == [[], [], []], "the next command waits"
    answered([("n4", b"+OK\r\n"), ("n5", b"+OK\r\n")])
    assert client.heard() == b"+OK\r\n"
    assert client.taken() == [[[b"ECHO", b"x"]], [], []]
    client.at(0).answer(b"$1\r\nx\r\n")
    assert client.heard() == b"$1\r\nx\r\n"
    assert client.sender.pending_replies == 0


def test_a_replica_that_fails_is_named() -> None:
    client = asked_replicas("ACL", "SETUSER", "u")
    ((_, answered),) = client.nodes.asked
    answered([("n4", b"+OK\r\n"), ("n5", b"-ERR no\r\n")])
    assert client.heard() == b"-ERR no (ACL SETUSER ran on n1, n2, n3, n4, and not on n5)\r\n"


def test_where_a_primary_fails_no_replica_is_asked() -> None:
    client = asked_replicas("ACL", "SETUSER", "u", replies=(b"+OK\r\n", b"-NOPERM no\r\n", b"+OK\r\n"))
    assert client.nodes.asked == []
    assert client.heard() == b"-NOPERM no (ACL SETUSER ran on n1, n3, and not on n2)\r\n"


def test_a_client_that_has_left_meanwhile_is_no_fault() -> None:
    client = asked_replicas("ACL", "SETUSER", "u")
    ((_, answered),) = client.nodes.asked
    client.connection_lost()
    answered([("n4", b"+OK\r\n")])
    assert client.heard() == b""


@pytest.mark.parametrize("words", [("FLUSHALL",), ("LASTSAVE",), ("DBSIZE",), ("FUNCTION", "FLUSH")], ids=" ".join)
def test_other_commands_do_not_go_to_replicas(words: tuple[str, ...]) -> None:
    client = asked_replicas(*words, replies=(b":1\r\n",) * 3)
    assert client.nodes.asked == []
    assert client.heard()

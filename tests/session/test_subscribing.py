"""A subscribed client with a cluster upstream: what it is told, what it may do, and what becomes of it."""

from __future__ import annotations

import pytest

from proxy.net.downstream.idle_clients import rests
from proxy.session.cluster.node_connections import CLUSTERDOWN
from proxy.session.cluster.subscriber import Subscriber
from proxy.session.commands.switching import HELD_SECONDS
from proxy.session.item import Change
from tests.hotpath.test_split import arguments
from tests.session.clustered import NODES, Routed
from tests.session.given import HOME, LARGE, FakeRoute, Upstream, call

PROTOCOLS = pytest.mark.parametrize("protocol", [2, 3])


def client_of(protocol: int) -> Routed:
    client = Routed(FakeRoute())
    client.key = HOME._replace(protocol=protocol)
    return client


def push(protocol: int, *words: bytes | int) -> bytes:
    parts = [b":%d\r\n" % word if isinstance(word, int) else b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return (b"*" if protocol == 2 else b">") + b"%d\r\n" % len(parts) + b"".join(parts)


def link(client: Routed, number: int) -> Upstream:
    """The connection of this client to that node."""
    (found,) = [each for each in client.route.lent if each.key.node.number == number and not each.closed]
    return found


def shared(client: Routed, number: int) -> Upstream:
    """The connection to that node that RESP3 clients share."""
    return client.route.upstream(HOME._replace(protocol=3, node=NODES[number]))


def subscribed(protocol: int, verb: str = "SUBSCRIBE", name: str = "x") -> tuple[Routed, Upstream]:
    client = client_of(protocol)
    client.say(verb, name)
    (upstream,) = client.route.lent
    upstream.taken()
    upstream.answer(push(protocol, verb.lower().encode(), name.encode(), 7))
    assert client.heard() == push(protocol, verb.lower().encode(), name.encode(), 1)
    return client, upstream


def pass_time(client: Routed, seconds: float) -> None:
    client.route.moment += seconds
    timers, client.route.timers = client.route.timers, []
    for act in timers:
        act()


@PROTOCOLS
def test_what_no_node_takes_in_time_is_refused_and_the_client_stays(protocol: int) -> None:
    client = client_of(protocol)
    client.nodes.lost = {2}
    client.send(call("SSUBSCRIBE", "a") + call("SSUBSCRIBE", "b"))
    assert client.heard() == b""
    pass_time(client, HELD_SECONDS + 1)
    assert client.heard() == CLUSTERDOWN
    link(client, 0).answer(push(protocol, b"ssubscribe", b"b", 1))
    assert client.heard() == push(protocol, b"ssubscribe", b"b", 1)
    assert not client.gone


@PROTOCOLS
def test_what_one_node_refuses_is_taken_back_on_the_others(protocol: int) -> None:
    client = client_of(protocol)
    client.say("SUBSCRIBE", "__keyevent@0__:set")
    for number in (0, 1):
        link(client, number).answer(push(protocol, b"subscribe", b"__keyevent@0__:set", 1))
    link(client, 2).answer(b"-NOPERM No permissions to access a channel\r\n")
    assert client.heard() == b"-NOPERM No permissions to access a channel\r\n"
    for number in (0, 1):
        assert arguments(link(client, number).taken())[-1] == [b"UNSUBSCRIBE", b"__keyevent@0__:set"]
        link(client, number).answer(push(protocol, b"unsubscribe", b"__keyevent@0__:set", 0))
    assert client.subscriber is None
    assert len(client.route.released) == 3


@PROTOCOLS
@pytest.mark.parametrize(
    ("verb", "name", "cause"), [("SSUBSCRIBE", "a", "slot_moved"), ("SUBSCRIBE", "x", "upstream_lost")]
)
def test_what_finds_no_node_again_in_time_closes_the_client(protocol: int, verb: str, name: str, cause: str) -> None:
    client, upstream = subscribed(protocol, verb, name)
    client.nodes.lost = {0, 1, 2}
    client.route.lent.remove(upstream)
    upstream.closed = True
    assert upstream.owner is not None
    recipient = upstream.owner.client()
    assert recipient is not None
    assert recipient.let_go()
    causes = []
    for seconds in (HELD_SECONDS / 2, HELD_SECONDS):
        pass_time(client, seconds)
        causes.append(client.cause)
    assert causes == [None, cause]
    assert client.route.events["subscription_gaps"] == 1


@pytest.mark.parametrize("split", range(1, 30))
def test_a_message_does_not_break_a_reply(split: int) -> None:
    client, upstream = subscribed(3)
    client.send(call("GET", "b") + call("GET", "b"))
    replies = b"$10\r\n0123456789\r\n" + b"$5\r\nabcde\r\n"
    shared(client, 0).answer(replies[:split])
    upstream.answer(push(3, b"message", b"x", b"1"))
    shared(client, 0).answer(replies[split:])
    message = push(3, b"message", b"x", b"1")
    first, second = replies[:17], replies[17:]
    if split < 5:  # nothing of the first one has left
        assert client.heard() == message + replies
    else:
        assert client.heard() == (first + message + second if split < 21 else replies + message)
    assert client.sender.pending_replies == 0


def test_a_message_does_not_break_a_reply_that_waits_for_others() -> None:
    client, upstream = subscribed(3)
    client.send(call("GET", "a") + call("GET", "b") + call("GET", "c"))
    message = push(3, b"message", b"x", b"1")
    shared(client, 0).answer(b"$3\r\nb")
    upstream.answer(message)
    assert client.heard() == message
    shared(client, 2).answer(b"$1\r\na\r\n")
    assert client.heard() == b"$1\r\na\r\n$3\r\nb"
    upstream.answer(message)
    assert client.heard() == b""
    order = client.sender.order
    assert order is not None
    assert order.first is not None
    assert (order.first.asked, order.first.pending_replies, order.beyond) == (2, 2, 3)
    shared(client, 0).answer(b"bb\r\n")
    assert client.heard() == b"bb\r\n" + message
    shared(client, 1).answer(b"$1\r\nc\r\n")
    assert client.heard() == b"$1\r\nc\r\n"
    assert client.sender.pending_replies == 0


def test_messages_behind_a_reply_stay_in_their_order() -> None:
    messages = [push(3, b"message", b"x", b"%d" % number) for number in range(4)]
    client, upstream = subscribed(3)
    client.send(call("GET", "b") + call("GET", "b"))
    shared(client, 0).answer(b"$3\r\nb")
    upstream.answer(messages[0])
    upstream.answer(messages[1])
    shared(client, 0).answer(b"bb\r\n$1")
    assert client.heard() == b"$3\r\nbbb\r\n" + messages[0] + messages[1]
    client.send(call("GET", "a"))
    shared(client, 2).answer(b"$3\r\na")
    shared(client, 0).answer(b"\r\nb\r\n")
    upstream.answer(messages[2])
    upstream.answer(messages[3])
    shared(client, 2).answer(b"aa\r\n")
    assert client.heard() == b"$1\r\nb\r\n$3\r\naaa\r\n" + messages[2] + messages[3]
    assert client.sender.pending_replies == 0


def test_messages_behind_a_transaction_stay_in_their_order() -> None:
    messages = [push(3, b"message", b"x", b"%d" % number) for number in range(2)]
    client, upstream = subscribed(3)
    client.send(call("MULTI") + call("GET", "b") + call("CONFIG", "GET", "port"))
    client.own.answer(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n")
    client.send(call("EXEC"))
    client.own.answer(b"*2\r\n$1\r\nv\r\n")
    client.heard()
    for each in messages:
        upstream.answer(each)
    client.own.answer(b"%0\r\n")
    assert client.heard() == b"%0\r\n" + b"".join(messages)


def test_a_message_does_not_come_between_the_replies_of_a_transaction() -> None:
    client, upstream = subscribed(3)
    client.send(call("MULTI") + call("GET", "b") + call("CONFIG", "GET", "port"))
    client.own.answer(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n")
    client.send(call("EXEC"))
    client.heard()
    message = push(3, b"message", b"x", b"1")
    client.own.answer(b"*2\r\n$1\r\nv\r\n")
    upstream.answer(message)
    assert client.heard() == b"*2\r\n$1\r\nv\r\n"
    client.own.answer(b"%0\r\n")
    assert client.heard() == b"%0\r\n" + message
    upstream.answer(message)
    assert client.heard() == message


def test_a_link_is_not_read_while_many_messages_wait_for_a_reply() -> None:
    client, upstream = subscribed(3)
    client.say("GET", "b")
    shared(client, 0).answer(b"$3\r\nb")
    upstream.answer(push(3, b"message", b"x", b"m" * (1 << 20)))
    sink = upstream.owner
    assert sink is not None
    assert [sink.full] == [True]
    shared(client, 0).answer(b"bb\r\n")
    upstream.answer(push(3, b"message", b"x", b"1"))
    assert [sink.full] == [False]
    client.pause_writing()
    upstream.answer(push(3, b"message", b"x", b"2"))
    assert [sink.full] == [True]


def test_messages_that_wait_count_until_they_have_left() -> None:
    client, upstream = subscribed(3)
    client.send(call("GET", "b") + call("GET", "a"))
    shared(client, 0).answer(b"$3\r\nb")
    upstream.answer(push(3, b"message", b"x", b"m" * (1 << 19)))
    shared(client, 2).answer(b"$1\r\na\r\n")
    upstream.answer(push(3, b"message", b"x", b"m" * (1 << 19)))
    sink = upstream.owner
    assert sink is not None
    assert [sink.full] == [True]
    shared(client, 0).answer(b"bb\r\n")
    upstream.answer(push(3, b"message", b"x", b"1"))
    assert [sink.full] == [False]


def test_messages_wait_while_commands_are_sent_again() -> None:
    client, upstream = subscribed(3)
    client.say("GET", "b")
    client.sender.redirecting = True
    upstream.answer(push(3, b"message", b"x", b"1"))
    assert client.heard() == b""
    client.sender.redirecting = False
    client.on_resume()
    assert client.heard() == push(3, b"message", b"x", b"1")


@PROTOCOLS
def test_reset_ends_subscriptions(protocol: int) -> None:
    client, upstream = subscribed(protocol)
    client.say("RESET")
    assert client.heard() == b"+RESET\r\n"
    assert upstream in client.route.discarded
    client.say("GET", "b")
    assert arguments(client.at(0).taken()) == [[b"GET", b"b"]]


def test_a_subscribed_resp2_client_may_do_little_else() -> None:
    client, upstream = subscribed(2)
    for words in (("GET", "a"), ("CLUSTER", "INFO"), ("PUBLISH", "x", "1"), ("MULTI",), ("SET", "a", "v" * 2 * LARGE)):
        client.say(*words)
        heard = client.heard()
        assert heard.startswith(b"-ERR Can't execute '%b" % words[0].lower().encode()), heard
    client.say("PING", "hello")
    upstream.answer(push(2, b"pong", b"hello"))
    assert client.heard() == push(2, b"pong", b"hello")
    assert not rests(client)
    client.say("UNSUBSCRIBE")
    upstream.answer(push(2, b"unsubscribe", b"x", 0))
    client.heard()
    client.say("GET", "b")
    assert [b"GET", b"b"] in arguments(client.at(0).taken())
    assert rests(client) is False


@pytest.mark.parametrize("words", [("GET", "a"), ("PING",)])
def test_what_it_is_told_at_once_is_traced_like_all_else(words: tuple[str, ...]) -> None:
    client = Routed(FakeRoute(traces=1_000_000))
    client.say("SUBSCRIBE", "x")
    (upstream,) = client.route.lent
    upstream.answer(push(2, b"subscribe", b"x", 1))
    client.route.observed.clear()
    client.say(*words)
    assert len(client.route.observed) == 1


def test_another_protocol_is_for_messages_too() -> None:
    client, upstream = subscribed(3)
    pool = client.route.upstream(HOME)
    client.say("HELLO", "2")
    pool.answer(b"*0\r\n")
    assert client.heard() == b"*0\r\n"
    upstream.answer(push(3, b"message", b"x", b"1"))
    assert client.heard() == push(2, b"message", b"x", b"1")
    client.say("GET", "a")
    assert client.heard().startswith(b"-ERR Can't execute 'get'")


def test_the_node_complains_of_missing_arguments() -> None:
    client = client_of(2)
    client.say("SUBSCRIBE")
    client.own.answer(b"-ERR wrong number of arguments for 'subscribe' command\r\n")
    assert client.heard() == b"-ERR wrong number of arguments for 'subscribe' command\r\n"
    assert not client.is_pinned()


@pytest.mark.parametrize("behind", [("PING",), ("RESET",)])
def test_a_pong_comes_behind_the_messages_before_it(behind: tuple[str]) -> None:
    client, upstream = subscribed(2)
    client.send(call("PING") + call(*behind))
    first, later = (push(2, b"message", b"x", each) for each in (b"1", b"2"))
    upstream.answer(first + push(2, b"pong", b"") + later)
    heard = first + push(2, b"pong", b"")
    assert client.heard() == heard + (b"+RESET\r\n" if behind == ("RESET",) else later)


def test_the_error_that_answers_a_ping_is_no_answer_to_another_command() -> None:
    client, upstream = subscribed(2)
    client.say("PING")
    upstream.answer(b"-LOADING Redis is loading the dataset in memory\r\n")
    assert client.heard() == b"-LOADING Redis is loading the dataset in memory\r\n"
    assert not upstream.closed


def test_a_ping_is_not_mixed_up_with_the_end_of_a_subscription() -> None:
    client, upstream = subscribed(2, "SSUBSCRIBE", "b")
    client.say("PING")
    upstream.answer(push(2, b"sunsubscribe", b"b", 0), push(2, b"pong", b""))
    assert client.heard() == push(2, b"pong", b"")
    assert upstream.complaints == []
    assert arguments(upstream.taken())[-1] == [b"SSUBSCRIBE", b"b"]


def test_a_ping_that_is_lost_with_its_link_is_sent_again() -> None:
    client, upstream = subscribed(2)
    client.say("PING")
    assert arguments(upstream.taken())[-1] == [b"PING"]
    client.route.lent.remove(upstream)
    upstream.closed = True
    assert upstream.owner is not None
    recipient = upstream.owner.client()
    assert recipient is not None
    assert recipient.let_go()
    pass_time(client, 0.0)
    client.at(0).answer(b"+PONG\r\n")
    assert client.heard() == push(2, b"pong", b"")


def test_what_is_new_after_a_login_is_asked_for_as_that_user() -> None:
    client, upstream = subscribed(3)
    client.route.known_users.add("app")
    client.key = client.key._replace(user="app")
    client.say("SUBSCRIBE", "y")
    assert upstream in client.route.discarded
    pass_time(client, 0.0)
    (other,) = client.route.lent
    assert other.key.user == "app"
    assert sorted(arguments(other.taken())) == [[b"SUBSCRIBE", b"x"], [b"SUBSCRIBE", b"y"]]
    other.answer(push(3, b"subscribe", b"y", 1), push(3, b"subscribe", b"x", 2))
    assert client.heard() == push(3, b"subscribe", b"y", 2)
    assert gaps(client) == 1


def test_a_login_as_the_same_user_interrupts_nothing() -> None:
    client, upstream = subscribed(3)
    client.key = client.key._replace(database=1)
    client.say("SUBSCRIBE", "y")
    assert arguments(upstream.taken()) == [[b"SUBSCRIBE", b"y"]]
    assert client.route.lent == [upstream]
    assert gaps(client) == 0


@PROTOCOLS
def test_each_confirmation_is_looked_at_once(protocol: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [b"%d" % number for number in range(500)]
    looked: list[bytes] = []
    settled = Subscriber._is_settled

    def look(subscriber: Subscriber, change: Change, name: bytes) -> bool:
        looked.append(name)
        return settled(subscriber, change, name)

    monkeypatch.setattr(Subscriber, "_is_settled", look)
    client = client_of(protocol)
    for verb in ("SSUBSCRIBE", "SUNSUBSCRIBE"):
        looked.clear()
        client.say(verb, *names)
        for upstream in list(client.route.lent):
            for words in arguments(upstream.taken()):
                upstream.answer(*(push(protocol, words[0].lower(), name, 1) for name in words[1:]))
        assert client.heard().count(verb.lower().encode()) == len(names)
        assert len(looked) < 5 * len(names)


def lose(client: Routed, upstream: Upstream) -> None:
    client.route.lent.remove(upstream)
    upstream.closed = True
    assert upstream.owner is not None
    recipient = upstream.owner.client()
    assert recipient is not None
    assert recipient.let_go()
    pass_time(client, 0.0)


def gaps(client: Routed) -> int:
    return client.route.events["subscription_gaps"]


@PROTOCOLS
def test_what_has_come_over_one_node_does_not_come_over_another_one_again(protocol: int) -> None:
    client = client_of(protocol)
    client.say("PSUBSCRIBE", "*")
    links = [link(client, number) for number in range(3)]
    for each in links:
        each.answer(push(protocol, b"psubscribe", b"*", 1))
    client.heard()
    messages = [push(protocol, b"pmessage", b"*", b"x", b"%d" % number) for number in range(2)]
    links[0].answer(messages[0])
    assert client.heard() == messages[0]
    client.nodes.lost = {0}
    lose(client, links[0])
    assert arguments(links[1].taken())[-1][0] == b"UNSUBSCRIBE"
    links[1].answer(messages[0])
    assert client.heard() == b""
    fence = b"\0keyrail:fence"
    links[1].answer(push(protocol, b"unsubscribe", fence, 1) + messages[1])
    links[2].answer(messages[1])
    assert client.heard() == messages[1]


@PROTOCOLS
def test_a_shard_message_of_a_node_that_is_not_its_slots_any_more_is_dropped(protocol: int) -> None:
    client, upstream = subscribed(protocol, "SSUBSCRIBE", "a")
    client.nodes.owners = [0] * len(client.nodes.owners)
    (follower,) = client.nodes.followers
    follower.changed(came=False)
    message = push(protocol, b"smessage", b"a", b"1")
    link(client, 0).answer(push(protocol, b"ssubscribe", b"a", 1) + message)
    upstream.answer(message)
    assert client.heard() == message


@PROTOCOLS
@pytest.mark.parametrize("frame", [(b"ssubscribe", b"z", 1), (b"subscribe", b"x", 1)])
def test_what_nobody_has_asked_for_ends_the_link(protocol: int, frame: tuple[bytes | int, ...]) -> None:
    client, upstream = subscribed(protocol)
    upstream.answer(push(protocol, *frame))
    assert upstream in client.route.discarded
    pass_time(client, 0.0)
    (other,) = client.route.lent
    assert arguments(other.taken()) == [[b"SUBSCRIBE", b"x"]]


@PROTOCOLS
def test_what_is_over_is_not_missed(protocol: int) -> None:
    client, _ = subscribed(protocol)
    for verb, name in (("SUBSCRIBE", "__keyevent@0__:set"), ("PSUBSCRIBE", "__key*"), ("SSUBSCRIBE", "b")):
        for each in (verb, verb.replace("SUB", "UNSUB")):
            client.say(each, name)
            _confirm_all(client, protocol)
    client.heard()
    client.nodes.owners = [2] * len(client.nodes.owners)
    (follower,) = client.nodes.followers
    follower.changed(came=True)
    client.say("SSUBSCRIBE", "b")
    _confirm_all(client, protocol)
    assert client.heard() == push(protocol, b"ssubscribe", b"b", 1)
    assert gaps(client) == 0


def _confirm_all(client: Routed, protocol: int) -> None:
    for each in list(client.route.lent):
        for words in arguments(each.taken()):
            each.answer(*(push(protocol, words[0].lower(), name, 1) for name in words[1:]))


@PROTOCOLS
def test_what_was_on_a_lost_link_is_asked_of_a_node_that_has_one(protocol: int) -> None:
    client, upstream = subscribed(protocol)
    number = upstream.key.node.number
    client.say("SSUBSCRIBE", "bca"[(number + 1) % 3])
    _confirm_all(client, protocol)
    lose(client, upstream)
    other = link(client, (number + 1) % 3)
    assert arguments(other.taken()) == [[b"SUBSCRIBE", b"x"]]
    assert gaps(client) == 1


@PROTOCOLS
def test_a_slot_that_moves_from_a_lost_link_is_one_gap(protocol: int) -> None:
    client, upstream = subscribed(protocol, "SSUBSCRIBE", "a")
    client.nodes.owners = [0] * len(client.nodes.owners)
    lose(client, upstream)
    assert arguments(link(client, 0).taken()) == [[b"SSUBSCRIBE", b"a"]]
    assert gaps(client) == 1


@PROTOCOLS
@pytest.mark.parametrize("error", [b"-MOVED 15495 127.0.0.1:7001", b"-CLUSTERDOWN Hash slot not served"])
def test_the_end_of_a_subscription_may_meet_sunsubscribe(protocol: int, error: bytes) -> None:
    client, upstream = subscribed(protocol)
    client.nodes.owners = [upstream.key.node.number] * len(client.nodes.owners)
    client.say("SSUBSCRIBE", "a")
    _confirm_all(client, protocol)
    client.send(call("SUNSUBSCRIBE", "a") + call("SUBSCRIBE", "y"))
    guard = arguments(upstream.taken())[1][1]
    answers = [push(protocol, *each) for each in ((b"unsubscribe", guard, 1), (b"subscribe", b"y", 1))]
    upstream.answer(push(protocol, b"sunsubscribe", b"a", 0), error + b"\r\n", *answers)
    confirmed = [(b"ssubscribe", b"a", 1), (b"sunsubscribe", b"a", 0), (b"subscribe", b"y", 2)]
    assert client.heard() == b"".join(push(protocol, *each) for each in confirmed)
    assert upstream.complaints == []
    assert client.route.lent == [upstream]
    assert gaps(client) == 0


@PROTOCOLS
def test_a_user_who_may_not_unsubscribe_may_sunsubscribe(protocol: int) -> None:
    client, upstream = subscribed(protocol, "SSUBSCRIBE", "a")
    client.say("SUNSUBSCRIBE", "a")
    upstream.answer(push(protocol, b"sunsubscribe", b"a", 0), b"-NOPERM no\r\n")
    assert client.heard() == push(protocol, b"sunsubscribe", b"a", 0)
    assert upstream in client.route.released


@PROTOCOLS
@pytest.mark.parametrize(("verb", "name"), [("SUBSCRIBE", "x"), ("PSUBSCRIBE", "x*")])
def test_what_any_node_can_have_goes_to_another_one_than_that_of_a_lost_link(
    protocol: int, verb: str, name: str
) -> None:
    client, upstream = subscribed(protocol, verb, name)
    lose(client, upstream)
    (other,) = client.route.lent
    assert other.key.node is not upstream.key.node
    assert arguments(other.taken()) == [[verb.encode(), name.encode()]]

"""Subscriptions: pinned while they last, in both protocols, with any other commands between them."""

from __future__ import annotations

import pytest

from proxy.session.ports.pool_key import PoolKey
from tests.hotpath.bench import confirmation, message
from tests.session.given import Client, FakeRoute, call

PROTOCOLS = pytest.mark.parametrize("protocol", [2, 3])


def client_of(protocol: int) -> tuple[FakeRoute, Client]:
    route = FakeRoute()
    return route, Client(route, PoolKey(None, 0, protocol))


@PROTOCOLS
def test_a_client_is_pinned_until_its_last_subscription_ends(protocol: int) -> None:
    route, client = client_of(protocol)
    client.say("SUBSCRIBE", "a", "b")
    own = client.own
    first, second = (confirmation(b"subscribe", name, n, protocol) for n, name in ((1, b"a"), (2, b"b")))
    own.answer(first)
    own.answer(second + message(b"1", protocol))
    client.say("UNSUBSCRIBE", "a")
    ended = confirmation(b"unsubscribe", b"a", 1, protocol)
    own.answer(message(b"2", protocol) + ended)
    assert client.own is own
    client.say("UNSUBSCRIBE")
    over = confirmation(b"unsubscribe", b"b", 0, protocol)
    own.answer(over)
    assert client.heard() == first + second + message(b"1", protocol) + message(b"2", protocol) + ended + over
    assert not client.is_pinned()
    assert (route.released, own.subscriptions, own.arrays) == ([own], None, False)


@PROTOCOLS
def test_it_begins_when_nothing_is_owed(protocol: int) -> None:
    route, client = client_of(protocol)
    client.send(call("GET", "a") + call("SUBSCRIBE", "a"))
    shared = route.upstream(client.key)
    assert (shared.taken(), route.lent) == (call("GET", "a"), [])
    shared.answer(b"+a\r\n")
    assert client.own.taken() == call("SUBSCRIBE", "a")


@PROTOCOLS
def test_a_refused_subscription_pins_nobody(protocol: int) -> None:
    route, client = client_of(protocol)
    client.say("SUBSCRIBE", "a", "b")
    client.own.answer(b"-NOPERM\r\n")
    assert (client.heard(), client.state.upstream, client.sender.pending_replies) == (b"-NOPERM\r\n", None, 0)
    assert len(route.released) == 1


@PROTOCOLS
def test_a_bare_unsubscribe_of_nothing_is_one_null(protocol: int) -> None:
    route, client = client_of(protocol)
    client.say("UNSUBSCRIBE")
    frame = confirmation(b"unsubscribe", None, 0, protocol)
    client.own.answer(frame)
    assert (client.heard(), client.state.upstream, len(route.released)) == (frame, None, 1)


@PROTOCOLS
def test_commands_behind_the_last_unsubscribe_are_answered(protocol: int) -> None:
    _, client = client_of(protocol)
    client.send(call("SUBSCRIBE", "a") + call("UNSUBSCRIBE", "a") + call("LRANGE", "none", 0, -1) + call("PING"))
    own = client.own
    assert own.taken().endswith(call("PING"))
    said = confirmation(b"subscribe", b"a", 1, protocol) + confirmation(b"unsubscribe", b"a", 0, protocol)
    own.answer(said)
    own.answer(b"*0\r\n")
    assert client.heard() == said + b"*0\r\n"
    own.answer(b"+PONG\r\n")
    assert client.heard() == b"+PONG\r\n"


def test_resp3_subscribers_go_on_as_before() -> None:
    _, client = client_of(3)
    client.send(call("SUBSCRIBE", "a") + call("PUBLISH", "a", "x") + call("GET", "a"))
    own = client.own
    said = confirmation(b"subscribe", b"a", 1, 3) + message(b"x", 3) + b":1\r\n" + b"_\r\n"
    own.answer(said)
    assert (client.heard(), client.sender.pending_replies) == (said, 0)


def test_patterns_and_shard_channels_hold_the_upstream_too() -> None:
    for opening, closing in ((b"psubscribe", b"punsubscribe"), (b"ssubscribe", b"sunsubscribe")):
        route, client = client_of(2)
        client.say(opening, "a")
        client.own.answer(confirmation(opening, b"a", 1))
        assert client.state.upstream is not None
        client.say(closing, "a")
        client.own.answer(confirmation(closing, b"a", 0))
        assert len(route.released) == 1


@PROTOCOLS
@pytest.mark.parametrize("mode", ["OFF", "SKIP"])
def test_confirmations_come_even_when_replies_are_off(protocol: int, mode: str) -> None:
    _, client = client_of(protocol)
    client.set_reply_mode(mode)
    client.say("SUBSCRIBE", "a")
    own = client.own
    frame = confirmation(b"subscribe", b"a", 1, protocol)
    own.answer(frame)
    assert (client.heard(), own.complaints) == (frame, [])
    client.say("PING")
    if mode == "SKIP":
        own.answer(b"*2\r\n$4\r\npong\r\n$0\r\n\r\n" if protocol == 2 else b"+PONG\r\n")
        assert client.heard()
    assert (client.sender.pending_replies, own.complaints) == (0, [])

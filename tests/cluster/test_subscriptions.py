"""Subscriptions before a real cluster: they follow slots and nodes, and notifications come from all primaries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import cycle
from typing import Any

import pytest
import redis

from tests.cluster.conftest import KINDS
from tests.cluster.nodes import RealCluster
from tests.conftest import kind_named
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Closed, Wire, decode, eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")
PROTOCOLS = pytest.mark.parametrize("protocol", [2, 3])
TAGS = [b"b", b"c", b"a"]
"""A hash tag of each primary."""
CHANNELS = ["news", "sport"]
"""Six clients subscribe to each: PUBSUB NUMSUB of Valkey 9.1.2 is wrong while its table of a channel's subscribers is
resized, which begins with the eighth."""


@pytest.fixture(scope="module", params=KINDS)
def notifying(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    started = RealCluster(kind_named(request.param), {"notify-keyspace-events": "AKE"})
    yield started
    started.close()


@pytest.fixture(scope="module")
def keyrail(notifying: RealCluster) -> Iterator[Keyrail]:
    started = before(notifying, Keyrail)
    yield started
    started.close()


def before(cluster: RealCluster, new_keyrail: Callable[..., Keyrail]) -> Keyrail:
    started = new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: started.http("/readyz")[0] == 200)
    return started


def gaps(keyrail: Keyrail) -> int:
    found = re.search(r'event="subscription_gaps".* (\d+)', keyrail.http("/metrics")[1])
    return 0 if found is None else int(found[1])


def hear(wire: Wire) -> list[Any]:
    """The next message or confirmation."""
    heard = decode(wire.frame())
    assert isinstance(heard, list), heard
    return heard


def subscribe(wire: Wire, verb: str, *names: str) -> list[list[Any]]:
    wire.say(verb, *names)
    return [hear(wire) for _ in names]


@PROTOCOLS
def test_channels_of_all_kinds_on_one_connection(keyrail: Keyrail, protocol: int) -> None:
    with keyrail.wire(protocol) as wire, keyrail.wire() as other:
        assert subscribe(wire, "SSUBSCRIBE", "a", "b", "c") == [
            [b"ssubscribe", b"a", 1],
            [b"ssubscribe", b"b", 2],
            [b"ssubscribe", b"c", 3],
        ]
        assert subscribe(wire, "SUBSCRIBE", "x") == [[b"subscribe", b"x", 1]]
        assert subscribe(wire, "PSUBSCRIBE", "*") == [[b"psubscribe", b"*", 2]]
        for name in "abc":
            assert other.ask("SPUBLISH", name, "1") == b":1\r\n"
            assert hear(wire) == [b"smessage", name.encode(), b"1"]
        assert other.ask("PUBLISH", "x", "2") == b":2\r\n"
        assert sorted([hear(wire), hear(wire)]) == [[b"message", b"x", b"2"], [b"pmessage", b"*", b"x", b"2"]]
        assert subscribe(wire, "SUNSUBSCRIBE", "b") == [[b"sunsubscribe", b"b", 2]]
        assert wire.ask("PING") == (b"*2\r\n$4\r\npong\r\n$0\r\n\r\n" if protocol == 2 else b"+PONG\r\n")
        if protocol == 2:
            assert b"ERR Can't execute 'get'" in wire.ask("GET", "a")
            return
        assert subscribe(wire, "PUNSUBSCRIBE", "*") == [[b"punsubscribe", b"*", 1]]
        for tag in TAGS:
            assert wire.ask("SET", tag, tag) == b"+OK\r\n"
            assert wire.ask("GET", tag) == b"$1\r\n%b\r\n" % tag


@PROTOCOLS
@pytest.mark.parametrize(
    ("verb", "name", "word"),
    [
        ("SUBSCRIBE", "__keyevent@0__:set", b"message"),
        ("PSUBSCRIBE", "__keyspace@0__:*", b"pmessage"),
        ("PSUBSCRIBE", "*", b"pmessage"),
    ],
)
def test_notifications_come_from_all_primaries_once(
    keyrail: Keyrail, notifying: RealCluster, protocol: int, verb: str, name: str, word: bytes
) -> None:
    with keyrail.wire(protocol) as wire, keyrail.wire() as other:
        assert subscribe(wire, verb, name) == [[verb.lower().encode(), name.encode(), 1]]
        for tag in TAGS:
            other.ask("SET", tag, "1")
        for primary in notifying.primaries():
            assert primary.do("WAIT", 1, 5000) == 1  # replicas have sent theirs
        got = [hear(wire) for _ in range(6 if name == "*" else 3)]
        assert {each[0] for each in got} == {word}
        assert len({tuple(each) for each in got}) == len(got)
        subscribe(wire, "SUBSCRIBE", "__end")  # behind which nothing stands
        counted = decode(other.ask("PUBSUB", "NUMSUB", "__keyevent@0__:set"))
        assert counted == [b"__keyevent@0__:set", int(verb == "SUBSCRIBE")]
        assert other.ask("PUBLISH", "__end", "2") == (b":2\r\n" if name == "*" else b":1\r\n")


def test_subscribers_follow_the_nodes(
    cluster_name: str, new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail]
) -> None:
    cluster = new_cluster(cluster_name, {"notify-keyspace-events": "AKE"})
    keyrail = before(cluster, new_keyrail)
    with ExitStack() as stack:
        listener = stack.enter_context(keyrail.wire(3))
        subscribers = [stack.enter_context(keyrail.wire(2 + number % 2)) for number in range(12)]
        subscribe(listener, "SUBSCRIBE", "__keyevent@0__:set")
        for wire, channel in zip(subscribers, cycle(CHANNELS)):
            subscribe(wire, "SUBSCRIBE", channel)
        demoted = cluster.primaries()[0]
        cluster.failover(cluster.replicas_of(demoted)[0])
        eventually(lambda: heard_of_all(keyrail, listener))
        publish(keyrail, subscribers, "kept")
        cluster.settle()
        cluster.forget(demoted)
        eventually(lambda: published(keyrail, "reached") == [b":6\r\n"] * 2)
        publish(keyrail, subscribers, "forgotten")
        cluster.primaries()[0].kill()
        eventually(lambda: published(keyrail, "reached") == [b":6\r\n"] * 2)
        publish(keyrail, subscribers, "killed")
        eventually(lambda: heard_of_all(keyrail, listener))
        eventually(lambda: gaps(keyrail) > 0)
    assert "Exception" not in keyrail.stderr


def published(keyrail: Keyrail, message: str) -> list[bytes]:
    with suppress(Closed), keyrail.wire() as wire:
        return [wire.ask("PUBLISH", channel, message) for channel in CHANNELS]
    return []


def publish(keyrail: Keyrail, subscribers: list[Wire], message: str) -> None:
    """All of them get it."""
    published(keyrail, message)
    for wire, channel in zip(subscribers, cycle(CHANNELS)):
        while (heard := hear(wire)) != [b"message", channel.encode(), message.encode()]:
            assert heard[2] == b"reached"


def heard_of_all(keyrail: Keyrail, listener: Wire) -> bool:
    """Whether the listener gets one notification of each primary."""
    with suppress(Closed), keyrail.wire() as wire:
        for tag in TAGS:
            wire.ask("SET", tag, "1")
    listener.say("PING")
    heard = []
    while (frame := listener.frame()) != b"+PONG\r\n":
        heard.append(decode(frame))
    keys = [each[2] for each in heard if isinstance(each, list)]
    assert len(set(map(str, keys))) == len(keys)
    return len(keys) == len(TAGS)


@PROTOCOLS
def test_redis_py_listens_to_everything(keyrail: Keyrail, protocol: int) -> None:
    client: Any
    with redis.Redis(port=keyrail.address.port, protocol=protocol) as client, client.pubsub() as heard:
        heard.subscribe("channel", "__keyevent@0__:del")
        heard.psubscribe("chan*")
        heard.ssubscribe("a", "b", "c")
        for _ in range(6):
            assert "subscribe" in heard.get_message(timeout=30)["type"]
        for tag in TAGS:
            client.set(tag, 1)
            client.delete(tag)
            assert heard.get_message(timeout=30)["data"] == tag
        client.spublish("c", "1")
        assert heard.get_message(timeout=30)["data"] == b"1"
        assert client.publish("channel", "2") == 2
        assert {heard.get_message(timeout=30)["type"] for _ in range(2)} == {"message", "pmessage"}

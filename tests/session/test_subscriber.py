"""Subscriptions over the nodes of a cluster, against nodes that answer in any order, in any pieces, and fail."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import cast

import pytest

from proxy.cluster.key_pattern import KeyPattern
from proxy.cluster.notifications import is_notification
from proxy.commands.slots import SLOTS, slot_of
from proxy.hotpath.replicas.client_reads import ClientReads
from proxy.hotpath.replicas.reader_place import ReplicaGroup
from proxy.session.cluster.subscription_link import CLOSING, OPENING
from tests.conftest import seeds
from tests.resp import FrameReader, decode
from tests.session.clustered import NODES, Routed
from tests.session.given import HOME, FakeRoute, Upstream

PROTOCOLS = pytest.mark.parametrize("protocol", [2, 3])
NAMES = (
    ["x", "y", "__keyevent@0__:set", "__keyspace@0__:k"],
    ["*", "x*", "__key*", "[xy]"],
    ["a", "b", "c"],
)
VALUE = b"v" * 300
"""What GET answers: messages may come while it is on its way."""


class PubSubNode:
    """One connection to a node, as the node sees it."""

    def __init__(self, nodes: PubSubCluster, upstream: Upstream) -> None:
        self.nodes = nodes
        self.upstream = upstream
        self.number = upstream.key.node.number
        self.sets: tuple[set[bytes], set[bytes], set[bytes]] = (set(), set(), set())
        self.requests = FrameReader()
        self.replies = b""

    def send(self, *words: bytes | int) -> None:
        parts = [b":%d\r\n" % word if isinstance(word, int) else b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
        self.replies += (b"*" if self.upstream.key.protocol == 2 else b">") + b"%d\r\n" % len(parts) + b"".join(parts)

    def step(self) -> bool:
        """Answer one more command, if there is one."""
        self.requests.feed(self.upstream.taken())
        frame = self.requests.frame()
        if frame is None:
            return False
        verb, *names = cast("list[bytes]", decode(frame))
        verb = verb.lower()
        if verb == b"get":
            self.replies += b"$%d\r\n%b\r\n" % (len(VALUE), VALUE)
        elif verb == b"ping" and self.upstream.key.protocol == 2 and any(self.sets):
            self.send(b"pong", b"")
        elif verb == b"ping":
            self.replies += b"+PONG\r\n"
        else:
            self._change(verb, names)
        return True

    def _change(self, verb: bytes, names: Sequence[bytes]) -> None:
        kind = (OPENING if verb in OPENING else CLOSING).index(verb)
        owners = {self.nodes.owners[slot_of(name)] for name in names} if kind == 2 else set()
        if len({slot_of(name) for name in names}) > 1 and kind == 2 and len(owners) > 1:
            self.replies += b"-CROSSSLOT\r\n"
        elif owners and owners != {self.number}:
            self.replies += b"-MOVED %d 127.0.0.1:700%d\r\n" % (slot_of(names[0]), owners.pop())
        else:
            for name in names:
                (self.sets[kind].add if verb in OPENING else self.sets[kind].discard)(name)
                self.send(verb, name, len(self.sets[kind]))

    def get(self, channel: bytes, message: bytes) -> None:
        """A message of PUBLISH, or a notification of this node, has come."""
        if channel in self.sets[0]:
            self.send(b"message", channel, message)
        for pattern in self.sets[1]:
            if KeyPattern(pattern).fits(channel):
                self.send(b"pmessage", pattern, channel, message)

    def arrive(self, most: int) -> bool:
        """Some bytes of what it has sent reach Keyrail."""
        piece, self.replies = self.replies[:most], self.replies[most:]
        if piece:
            self.upstream.answer(piece)
        assert self.upstream.complaints == []
        return bool(piece)


class PubSubCluster:
    """Three nodes and a client of all of them; what nodes are told they do when the test says so."""

    def __init__(self, protocol: int) -> None:
        self.route = FakeRoute()
        self.client = Routed(self.route)
        self.client.key = HOME._replace(protocol=protocol)
        self.owners = list(self.client.nodes.owners)
        self.served: dict[Upstream, PubSubNode] = {}
        self.heard = FrameReader()
        self.replies: list[object] = []
        self.messages: list[tuple[bytes, ...]] = []
        self.subscribed: tuple[set[bytes], set[bytes], set[bytes]] = (set(), set(), set())
        self.sent = 0
        self.replicas: set[int] = set()

    def connections(self) -> list[PubSubNode]:
        for upstream in self.route.all_upstreams():
            if upstream not in self.served:
                self.served[upstream] = PubSubNode(self, upstream)
        return [self.served[upstream] for upstream in self.route.all_upstreams() if not upstream.closed]

    def listen(self) -> None:
        """Read what the client has got: a message is of a subscription that it has been told of."""
        self.heard.feed(self.client.heard())
        while (frame := self.heard.frame()) is not None:
            value = decode(frame)
            words = cast("list[bytes]", value) if isinstance(value, list) else [b""]
            if words[0] in (b"message", b"pmessage", b"smessage"):
                kind = (b"message", b"pmessage", b"smessage").index(words[0])
                assert words[1] in self.subscribed[kind], words
                self.messages.append(tuple(words))
                continue
            self.replies.append(value)
            if words[0] in OPENING:
                self.subscribed[OPENING.index(words[0])].add(words[1])
            elif words[0] in CLOSING:
                self.subscribed[CLOSING.index(words[0])].discard(words[1])

    def finish(self) -> None:
        """Let all happen that is to happen."""
        for _ in range(1000):
            moved = [connection.step() or connection.arrive(1 << 20) for connection in self.connections()]
            self.listen()
            if not any(moved) and not self.look() and not self.time():
                return
        raise AssertionError("it comes to no end")

    def time(self) -> bool:
        timers, self.route.timers = self.route.timers, []
        kept = [act for act in timers if "check" in repr(act) or "_look_again" in repr(act)]
        for act in timers:
            if act not in kept:
                act()
        self.route.timers += kept
        return len(timers) > len(kept)

    def look(self) -> bool:
        waiting, self.client.nodes.looking = self.client.nodes.looking, []
        self.client.nodes.owners = list(self.owners)
        for waiter in waiting:
            if not waiter.gone:
                waiter.arrived()
        return bool(waiting)

    # What happens

    def publish(self, channel: bytes) -> bytes:
        self.sent += 1
        message = b"%d" % self.sent
        for connection in self.connections():
            connection.get(channel, message)
        return message

    def publish_to_shard(self, channel: bytes) -> bytes:
        self.sent += 1
        for connection in self.connections():
            if connection.number == self.owners[slot_of(channel)] and channel in connection.sets[2]:
                connection.send(b"smessage", channel, b"%d" % self.sent)
        return b"%d" % self.sent

    def notify(self, number: int, channel: bytes) -> bytes:
        self.sent += 1
        for connection in self.connections():
            if connection.number == number or connection.number in self.replicas:
                connection.get(channel, b"%d" % self.sent)
        return b"%d" % self.sent

    def move(self, slot: int, target: int) -> None:
        source, self.owners[slot] = self.owners[slot], target
        for connection in self.connections():
            if connection.number == source != target:
                for name in [name for name in connection.sets[2] if slot_of(name) == slot]:
                    connection.sets[2].discard(name)
                    connection.send(b"sunsubscribe", name, len(connection.sets[2]))

    def lose(self, connection: PubSubNode) -> None:
        """As ``Connections.lost`` does."""
        upstream = connection.upstream
        upstream.closed = True
        if upstream in self.route.lent:
            self.route.lent.remove(upstream)
        self.route.pools = {key: each for key, each in self.route.pools.items() if each is not upstream}
        owner = None if upstream.owner is None else upstream.owner.client()
        unanswered = {sink.client() for sink in upstream.abandon()}
        if owner is not None and owner not in unanswered and not owner.let_go():
            unanswered.add(owner)
        for each in unanswered:
            if each is not None:
                each.close("upstream_lost")

    def leave(self, number: int, *, demoted: bool = False) -> None:
        """A node has gone, or is a replica now, and another one owns its slots."""
        nodes = self.client.nodes
        nodes.lost.add(number)
        heir = next(each.number for each in NODES if each.number not in nodes.lost)
        self.owners = [heir if owner == number else owner for owner in self.owners]
        self.client.take_over(self.owners)
        if demoted:
            self.replicas.add(number)
        for connection in self.connections():
            if connection.number == number and not (demoted and connection.upstream.subscriptions):
                self.lose(connection)
        self.tell(came=False)

    def come(self, number: int) -> None:
        self.client.nodes.lost.discard(number)
        self.replicas.discard(number)
        self.tell(came=True)

    def tell(self, *, came: bool) -> None:
        for follower in list(self.client.nodes.followers):
            follower.changed(came=came)

    def links(self) -> list[PubSubNode]:
        return [connection for connection in self.connections() if connection.upstream.owner is not None]


class Expected:
    """One plain Redis: what it would answer."""

    def __init__(self, protocol: int) -> None:
        self.protocol = protocol
        self.sets: tuple[set[bytes], set[bytes], set[bytes]] = (set(), set(), set())
        self.replies: list[object] = []

    def run(self, words: Sequence[str]) -> None:
        verb, *names = (word.encode() for word in words)
        verb = verb.lower()
        if verb == b"get":
            self.replies.append(VALUE)
        elif verb == b"ping":
            confined = self.protocol == 2 and any(self.sets)
            self.replies.append([b"pong", b""] if confined else b"PONG")
        else:
            kind = (OPENING if verb in OPENING else CLOSING).index(verb)
            mine = self.sets[kind]
            some: list[bytes | None] = [*(names or mine)]
            for name in some or [None]:
                if name is not None:
                    (mine.add if verb in OPENING else mine.discard)(name)
                counted = (mine,) if kind == 2 else self.sets[:2]
                self.replies.append([verb, name, sum(map(len, counted))])


def expected_messages(
    sets: tuple[set[bytes], set[bytes], set[bytes]], channel: bytes, message: bytes
) -> Counter[tuple[bytes, ...]]:
    matching = [pattern for pattern in sets[1] if KeyPattern(pattern).fits(channel)]
    found: list[tuple[bytes, ...]] = [(b"pmessage", pattern, channel, message) for pattern in matching]
    return Counter(found + [(b"message", channel, message)] * (channel in sets[0]))


@PROTOCOLS
@pytest.mark.parametrize("disturbed", [False, True])
@pytest.mark.parametrize("seed", seeds(20, 60))
def test_any_order_of_events(seed: int, protocol: int, disturbed: bool) -> None:
    chance = random.Random(f"{seed} {protocol} {disturbed}")
    cluster, expected = PubSubCluster(protocol), Expected(protocol)
    due: Counter[tuple[bytes, ...]] = Counter()
    for _ in range(150):
        _happens(chance, cluster, expected, due, disturbed)
        cluster.listen()
    cluster.finish()
    assert not cluster.client.gone, cluster.client.cause
    assert cluster.replies == expected.replies
    assert cluster.subscribed == expected.sets
    assert not [message for message, count in Counter(cluster.messages).items() if count > 1]
    if not disturbed:
        assert not due - Counter(cluster.messages)
        assert cluster.route.events["subscription_gaps"] == 0
        _are_in_order(cluster.messages)
    _all_comes_once(cluster)
    cluster.client.connection_lost()
    assert not cluster.links()
    assert not cluster.client.nodes.followers
    for upstream in cluster.route.idle:
        assert not any(cluster.served[upstream].sets)
        assert upstream.subscriptions is None


def _are_in_order(messages: Sequence[tuple[bytes, ...]]) -> None:
    # Of notifications, each node sends its own.
    found: dict[tuple[bytes, ...], list[int]] = {}
    for message in messages:
        if not is_notification(message[-2]):
            found.setdefault(message[:-1], []).append(int(message[-1]))
    assert all(numbers == sorted(numbers) for numbers in found.values())


def _happens(
    chance: random.Random, cluster: PubSubCluster, expected: Expected, due: Counter[tuple[bytes, ...]], disturbed: bool
) -> None:
    connections = cluster.connections()
    match chance.choice("ccspppkkaaaaaassssltmd"):
        case "c":
            words = _command(chance, cluster.client.key.protocol, expected)
            expected.run(words)
            cluster.client.say(*words)
        case "s" if connections:
            chance.choice(connections).step()
        case "a" if connections:
            chance.choice(connections).arrive(chance.choice([1, 7, 30, 100, 5000]))
        case "p":
            quiet = cluster.replies == expected.replies
            channel = chance.choice([b"x", b"y"])
            message = cluster.publish(channel)
            due.update(expected_messages(cluster.subscribed, channel, message) if quiet else ())
            shard = chance.choice([b"a", b"b", b"c"])
            message = cluster.publish_to_shard(shard)
            due.update([(b"smessage", shard, message)] if quiet and shard in cluster.subscribed[2] else ())
        case "k":
            quiet = cluster.replies == expected.replies
            channel = chance.choice([b"__keyevent@0__:set", b"__keyspace@0__:k"])
            message = cluster.notify(chance.randrange(3), channel)
            due.update(expected_messages(cluster.subscribed, channel, message) if quiet else ())
        case "l":
            cluster.look()
        case "t":
            cluster.time()
        case "m" if disturbed:
            cluster.move(
                slot_of(chance.choice(["a", "b", "c"]).encode()), chance.choice(cluster.client.nodes.primaries()).number
            )
        case "d" if disturbed:
            _disturb(chance, cluster)


def _disturb(chance: random.Random, cluster: PubSubCluster) -> None:
    links, lost = cluster.links(), cluster.client.nodes.lost
    if lost:
        cluster.come(lost.copy().pop())
    elif links and chance.random() < 0.7:
        cluster.lose(chance.choice(links))
    elif not any(each.upstream.head for each in cluster.connections() if each not in links):
        cluster.leave(chance.randrange(3), demoted=chance.random() < 0.5)


def _command(chance: random.Random, protocol: int, expected: Expected) -> list[str]:
    if chance.random() < 0.3:
        return ["PING"] if protocol == 2 or chance.random() < 0.3 else ["GET", chance.choice("abc")]
    kind = chance.randrange(3)
    verb = (OPENING if chance.random() < 0.6 else CLOSING)[kind].decode().upper()
    if verb.encode().lower() in CLOSING and len(expected.sets[kind]) < 2 and chance.random() < 0.3:
        return [verb]
    return [verb, *(chance.choice(NAMES[kind]) for _ in range(chance.choice([1, 1, 2, 3])))]


def _all_comes_once(cluster: PubSubCluster) -> None:
    cluster.messages.clear()
    wanted: Counter[tuple[bytes, ...]] = Counter()
    for channel in (b"x", b"y", b"z"):
        wanted += expected_messages(cluster.subscribed, channel, cluster.publish(channel))
    for node in cluster.client.nodes.primaries():
        for channel in (b"__keyevent@0__:set", b"__keyspace@0__:k", b"__keyevent@0__:del"):
            message = cluster.notify(node.number, channel)
            wanted += expected_messages(cluster.subscribed, channel, message)
            assert is_notification(channel)
    for shard in (b"a", b"b", b"c"):
        message = cluster.publish_to_shard(shard)
        if shard in cluster.subscribed[2]:
            wanted[b"smessage", shard, message] += 1
    cluster.finish()
    assert Counter(cluster.messages) == wanted


@pytest.mark.parametrize("name", [b"x", b"__keyspace@0__:k"], ids=["message", "notification"])
def test_what_a_message_tells_of_may_be_newer_than_what_replicas_have(name: bytes) -> None:
    """A client of one Redis that is subscribed has a connection of its own, and reads from the primary."""
    cluster = PubSubCluster(3)
    client = cluster.client
    reads = client.sender.reads = ClientReads(client.sender, ReplicaGroup(), lambda: 1.0, lambda place: None)
    client.say("SUBSCRIBE", name.decode())
    cluster.finish()
    for number in range(3):
        reads.place(number).marked = False  # replicas have all that it knows
    cluster.notify(0, name) if is_notification(name) else cluster.publish(name)
    cluster.finish()
    assert len(cluster.messages) == 1
    assert all(reads.place(number).marked for number in range(3))


@pytest.mark.parametrize("ends", ["slot moves", "client leaves", "client unsubscribes", "last subscription ends"])
def test_it_waits_for_no_node_that_it_needs_no_more(ends: str) -> None:
    """A client whose wait is over without a connection may be closed."""
    cluster = PubSubCluster(3)
    client, route = cluster.client, cluster.route
    unsubscribes = ends in ("client unsubscribes", "last subscription ends")
    if unsubscribes:
        for name in ("a", "b") if ends == "client unsubscribes" else ("a",):
            client.say("SSUBSCRIBE", name)
        cluster.finish()
        route.starving = True
        cluster.lose(next(each for each in cluster.links() if b"a" in each.sets[2]))
        cluster.finish()
    else:
        route.starving = True
        client.say("SSUBSCRIBE", "a")
    assert len(route.waiting) == 1
    if unsubscribes:
        client.say("SUNSUBSCRIBE", "a")
    elif ends == "client leaves":
        client.connection_lost()
    else:
        route.starving = False
        client.take_over([0] * SLOTS)
        for follower in client.nodes.followers:
            follower.changed(came=False)
    assert route.waiting == []

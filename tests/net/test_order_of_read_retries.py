"""Reads of one client that replicas do not answer, and that several connections answer then: in the client's order.

Proves: whichever replicas fail, refuse reads or miss keys, whoever owns their slots by then, and in whichever order
nodes answer, each reply has its place.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import cast

import pytest

from proxy.commands.slots import slot_of
from proxy.commands.table import Lane
from proxy.compression.frames import STRING, Codec, pack
from tests.conftest import seeds
from tests.net.replica_stage import Stage
from tests.net.test_replicas_of_nodes import POLICY
from tests.net.test_replicas_of_nodes import Stage as NodeStage
from tests.policy.given import policy as policy_of
from tests.resp import Failure, FrameReader, decode
from tests.session.clustered import NODES
from tests.session.given import Upstream, call

COMPRESSING = policy_of("""
defaults: {mode: enforce}
rules:
  shared: {replica_reads: {keys: ["*"], max_lag: 1s}}
  docs: {compress: {keys: ["{a*", "{b*", "{c*"], above: 64B}}
""")
STEPS = 120
NIL = b"$-1\r\n"


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text)


class Server:
    """A node that answers the commands of a connection some time later: with the key, or MOVED if it is not its own."""

    def __init__(self, world: World, number: int, upstream: Upstream, replica: bool = False) -> None:
        self.world, self.number, self.upstream, self.replica = world, number, upstream, replica
        self.requests = FrameReader()
        self.waiting: deque[list[bytes]] = deque()

    def receive(self) -> None:
        self.requests.feed(self.upstream.taken())
        while (frame := self.requests.frame()) is not None:
            self.waiting.append(cast("list[bytes]", decode(frame)))

    def answer(self) -> None:
        if self.waiting and not self.upstream.closed:
            key = self.waiting.popleft()[1]
            owner = self.world.slots[slot_of(key)]
            if owner != self.number:
                self.upstream.answer(b"-MOVED %d 127.0.0.1:700%d\r\n" % (slot_of(key), owner))
            elif self.replica and self.world.random.random() < 0.1:
                self.upstream.answer(NIL if self.upstream.doubts else b"-NOPERM it may not\r\n")
            else:
                self.upstream.answer(bulk(self.world.stored(key)))


class World:
    """Three primaries and their replicas; some slots move between them."""

    def __init__(self, seed: int, compressed: bytes) -> None:
        self.random = Random(seed)
        self.compressed = compressed
        self.stage = NodeStage(POLICY if not compressed else COMPRESSING)
        self.slots = list(self.stage.client.nodes.owners)
        self.keys = [f"{{{tag}{number}}}" for tag in "abc" for number in range(4)]
        for replica in self.stage.replicas:
            replica.doubts = self.random.random() < 0.5
        self.servers = [Server(self, each.number, self.stage.client.at(each.number)) for each in NODES]
        self.servers += [Server(self, number, each, replica=True) for number, each in enumerate(self.stage.replicas)]
        self.expected: list[bytes] = []

    def value(self, key: bytes) -> bytes:
        return key * 20 if key[1:2] in self.compressed else key

    def stored(self, key: bytes) -> bytes:
        return pack(self.value(key), STRING, Codec.LZ4, 0, 10)

    def step(self) -> None:
        chance = self.random.random()
        if chance < 0.3:
            keys = self.random.choices(self.keys, k=self.random.randint(1, 6))
            self.expected += [self.value(key.encode()) for key in keys]
            self.stage.client.send(b"".join(call("GET", key) for key in keys))
        elif chance < 0.4:
            self.slots[slot_of(self.random.choice(self.keys).encode())] = self.random.randrange(3)
        elif chance < 0.45:
            self.stage.client.take_over(self.slots)
        elif chance < 0.47:
            replica = self.random.choice(self.stage.replicas)
            if not replica.closed:
                self.stage.members[replica].lose()
        elif chance < 0.55:
            self.stage.look(200)
        self.serve()

    def serve(self) -> None:
        for server in self.random.sample(self.servers, len(self.servers)):
            server.receive()
            if self.random.random() < 0.5:
                server.answer()
        route, nodes = self.stage.route, self.stage.client.nodes
        route.moment += 0.001
        due = [*route.timers, *(each.arrived for each in (*nodes.looking, *route.waiting))]
        for waiting in (route.timers, nodes.looking, route.waiting):
            waiting.clear()
        for act in due:
            act()


@pytest.mark.parametrize("compressed", [b"", b"a", b"abc"], ids=["plain", "some-compressed", "compressed"])
@pytest.mark.parametrize("seed", seeds(30, 300))
def test_replies_have_their_places(seed: int, compressed: bytes) -> None:
    world = World(seed, compressed)
    for _ in range(STEPS):
        world.step()
    world.stage.client.take_over(world.slots)
    for _ in range(2000):
        if world.stage.client.sender.pending_replies == 0:
            break
        world.serve()
    heard = FrameReader()
    heard.feed(world.stage.client.heard())
    replies = []
    while (frame := heard.frame()) is not None:
        replies.append(decode(frame))
    assert not world.stage.client.gone
    # A read that a later one of its key has overtaken gets the error.
    given_up = sum(isinstance(reply, Failure) and reply.text.startswith(b"CLUSTERDOWN keyrail: ") for reply in replies)
    answers = [pair for pair in zip(replies, world.expected, strict=True) if not isinstance(pair[0], Failure)]
    assert [pair for pair in answers if pair[0] not in (pair[1], None)] == []
    assert len(answers) + given_up == len(replies)
    assert given_up < len(replies) // 20


def test_a_read_that_takes_long_and_those_behind_it_take_one_connection_to_the_primary() -> None:
    stage = Stage()
    client = stage.client()
    commands = call("SUNION", "a:1", "a:2") + call("GET", "a:1")
    client.send(commands)
    assert stage.taken() == (b"", commands)
    stage.members[stage.reader_of(client)].lose()
    primary = stage.route.upstream(lane=Lane.SLOW)
    assert primary.taken() == commands, "or Redis might run the GET first"
    primary.answer(b"*0\r\n", bulk(b"v"))
    assert client.heard() == b"*0\r\n" + bulk(b"v")


def test_the_same_to_the_node_that_owns_their_slot() -> None:
    stage = NodeStage()
    commands = call("SUNION", "{a}1", "{a}2") + call("GET", "{a}1")
    stage.client.send(commands)
    assert stage.replicas[2].taken() == commands
    stage.members[stage.replicas[2]].lose()
    primary = stage.client.at(2, Lane.SLOW)
    assert primary.taken() == commands, "or the node might run the GET first"
    primary.answer(b"*0\r\n", bulk(b"v"))
    assert stage.client.heard() == b"*0\r\n" + bulk(b"v")

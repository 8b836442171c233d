"""Replies of several nodes to one read of a client: in its order, however large, and taken apart at any time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from random import Random

import pytest

from proxy.commands.slots import slot_of
from proxy.hotpath.order.interleaved import Interleaved, Strand
from proxy.hotpath.order.reply_order import MOST_HELD, Segment
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.hotpath.upstream.outgoing import MOST_KEPT
from proxy.hotpath.upstream.sent_unit import follow
from tests.conftest import seeds
from tests.hotpath.gathering import pack
from tests.hotpath.routed import Routed, owners
from tests.hotpath.test_router import Answering

SIZES = [0, 0, 1, 1, 10, 10, 1000, 1000, 40_000, 70_000]
"""A strand keeps no more than 64 KB."""


class Sized(Answering):
    """A node whose replies are as large as their keys say."""

    overflowed = 0

    def overflowing(self, sink: ReplySink) -> None:
        self.overflowed += 1

    def _reply(self, words: list[bytes]) -> bytes:
        assert self.slots[slot_of(words[1])] == self.number, "a command of another node's"
        values = b"".join(map(reply_to, words[1:]))
        return values if words[0] == b"GET" else b"*%d\r\n%b" % (len(words) - 1, values)


def reply_to(key: bytes) -> bytes:
    size = int(key.rpartition(b":")[2])
    return b"$%d\r\n%b\r\n" % (len(key) + size, key + bytes(size))


def started(nodes: int, *, cluster: bool = False) -> tuple[Routed, list[Sized]]:
    slots = owners(nodes)
    answering = [Sized(number, slots) for number in range(nodes)]
    for node in answering:
        node.redirects = follow if cluster else None
    return Routed(answering, slots), answering


def places(client: Routed) -> Iterator[Segment]:
    """The segments from which replies are still to come."""
    segment = None if client.sender.order is None else client.sender.order.first
    while segment is not None:
        if segment.pending_replies > 0:
            yield segment
        segment = segment.next_entry


def asked(random: Random, count: int) -> list[bytes]:
    return [b"%d:%d:%d" % (number, random.randint(0, 99), random.choice(SIZES)) for number in range(count)]


@pytest.mark.parametrize("seed", seeds(20))
def test_replies_come_in_order_and_are_taken_apart_at_any_time(seed: int) -> None:
    random = Random(seed)
    client, nodes = started(3, cluster=seed % 2 == 0)
    keys: list[bytes] = []
    expected = b""
    apart = random.choice([0.0, 0.02, 0.2])
    while len(keys) < 60 or client.sender.pending_replies > 0:
        if len(keys) < 60 and random.random() < 0.3:
            more = asked(random, random.randint(1, 12))
            keys += more
            expected += b"".join(map(reply_to, more))
            client.intake.receive(b"".join(pack("GET", key) for key in more))
        node = random.choice(nodes)
        node.flush()
        node.says(random.choice([10, 50, 5000, 100_000]))
        if client.sender.order is not None and random.random() < apart:
            client.sender.order.take_apart()
            assert not any(isinstance(each, Interleaved) for each in places(client))
        assert expected.startswith(client.heard)
        for each in nodes:
            assert each.kept == sum(entry.size for entry in each.entries()) <= MOST_KEPT
    assert client.heard == expected
    assert (client.sender.order, client.sender.pending_replies) == (None, 0)


@pytest.mark.parametrize("seed", seeds(20))
def test_a_command_is_finished_once_its_reply_has_come_in_its_turn(seed: int) -> None:
    """Also while the client always awaits something, from several nodes, of Keyrail's own and as parts of a reply."""
    random = Random(seed)
    client, nodes = started(3, cluster=seed % 2 == 0)
    expected, positions, sent = b"", [(0, 0)], 0
    while sent < 60 or client.sender.pending_replies > 0:
        if sent < 60:
            for key in asked(random, random.randint(1, 5)):
                sent += 1
                kind = random.random()
                if kind < 0.7:
                    client.intake.receive(pack("GET", key))
                    expected += reply_to(key)
                elif kind < 0.85:
                    client.intake.receive(pack("KEYRAIL", key))
                    expected += b"+%b\r\n" % key
                else:
                    client.intake.receive(pack("MGET", key, "0:7:0", "1:8:0"))
                    expected += b"*3\r\n" + b"".join(map(reply_to, (key, b"0:7:0", b"1:8:0")))
                positions.append((client.sender.requested, len(expected)))
        node = random.choice(nodes)
        node.flush()
        node.says(random.choice([10, 50, 5000, 100_000]))
        if client.sender.order is not None and random.random() < 0.05:
            client.sender.order.take_apart()
        for position, end in positions:
            assert client.sender.finished(position) == (len(client.heard) >= end)
    assert client.heard == expected


def test_a_large_reply_leaves_while_it_comes() -> None:
    client, nodes = started(3)
    keys = [b"%d:200000" % number for number in range(12)]
    client.intake.receive(b"".join(pack("GET", key) for key in keys))
    first = nodes[nodes[0].slots[slot_of(keys[0])]]
    first.flush()
    for _ in range(3):
        first.says(50_000)
    assert len(client.heard) == 150_000


def test_the_replies_to_one_read_leave_in_one_piece() -> None:
    client, nodes = started(3)
    writes: list[bytes] = []
    client.sender.write = writes.append
    keys = [b"%d:10" % number for number in range(12)]
    client.intake.receive(b"".join(pack("GET", key) for key in keys))
    for node in nodes:
        node.flush()
        while node.head is not None:
            node.says(30)
    assert writes == [b"".join(map(reply_to, keys))]


def test_what_is_next_is_read_on_although_much_is_held_back() -> None:
    client, nodes = started(2)
    first, second = (
        [key for key in (b"%d:10" % number for number in range(9)) if nodes[0].slots[slot_of(key)] == number]
        for number in range(2)
    )
    large = b"{%b}:%d" % (second[0], 2 * MOST_HELD)
    client.intake.receive(b"".join(pack("GET", key) for key in (first[0], first[1], second[0])))
    client.intake.receive(pack("GET", large))
    nodes[1].flush()
    nodes[1].says(3 * MOST_HELD)
    assert client.sender.order is not None
    assert (client.sender.order.size > MOST_HELD, nodes[1].overflowed) == (True, 1)
    nodes[0].flush()
    nodes[0].says(20)
    assert nodes[0].overflowed == 0, "the replies that all others wait for must come"
    nodes[0].says(1000)
    assert client.heard == b"".join(map(reply_to, (first[0], first[1], second[0], large)))


def test_what_each_entry_keeps_is_what_its_replies_are_to() -> None:
    client, nodes = started(3, cluster=True)
    keys = [b"%d:0" % number for number in range(40)]
    client.intake.receive(b"".join(pack("GET", key) for key in keys))
    nodes[0].flush()
    nodes[0].says(25)
    assert client.sender.order is not None
    client.sender.order.take_apart()
    for node in nodes:
        left = [key for key in keys if node.slots[slot_of(key)] == node.number][-sum(e.due for e in node.entries()) :]
        sent = b"".join(entry.sent for entry in node.entries())
        assert sent.endswith(b"".join(pack("GET", key) for key in left))
        for entry in node.entries():
            assert entry.sent.count(b"GET") >= entry.due
            assert entry.size == len(entry.sent)


def test_replies_that_come_in_front_of_a_redirect_are_kept() -> None:
    client, nodes = started(2)
    keys = [b"%d:0" % number for number in range(8)]
    client.intake.receive(b"".join(pack("GET", key) for key in keys))
    order = client.sender.order
    assert order is not None

    def refused(*_: object) -> bytes:
        order.take_apart()
        return b"-CLUSTERDOWN\r\n"

    expected = {key: reply_to(key) for key in keys}
    own = [key for key in keys if nodes[0].slots[slot_of(key)] == 0]
    expected[own[1]] = b"-CLUSTERDOWN\r\n"
    for node in nodes:
        node.flush()
    nodes[0].redirects = refused
    nodes[0].under_way = b"".join(reply_to(key) for key in own).replace(reply_to(own[1]), b"-MOVED 1 a:1\r\n")
    for node in nodes:
        node.says(1 << 20)
    assert client.heard == b"".join(expected.values())


@pytest.mark.parametrize("leaves", [False, True])
def test_what_has_left_needs_no_garbage_collector(leaves: bool) -> None:
    client, nodes = started(3)
    gc.collect()
    gc.disable()
    try:
        before = living()
        client.intake.receive(b"".join(pack("GET", b"%d:10" % number) for number in range(12)))
        assert living() > before
        if leaves:
            assert client.sender.order is not None
            client.sender.gone = True
            client.sender.order.abandon()
            client.sender.order, client.sender.ordered = None, False
        for node in nodes:
            node.flush()
            node.says(100_000)
        assert living() == before
    finally:
        gc.enable()


def living() -> int:
    return sum(isinstance(each, Segment | Strand) for each in gc.get_objects())

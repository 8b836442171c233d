"""A client gets its replies in the order of its commands, from any sources, however they are cut.

Two connections stand for two nodes of a topology. A generated client sends to them in turn, in runs, commands with
replies that are edited, replaced or hidden, commands that are sent again to the other node, and commands that each node
answers in part. Keyrail's own answers come in between. The nodes answer in pieces of any size, in any order, and may be
lost at any point.
"""

from __future__ import annotations

import gc
from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.hotpath.order.reply_order import MOST_HELD, Segment
from proxy.hotpath.upstream.in_flight import EDIT, HIDE, NOTE, REPLACE, InFlightEntry
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from tests.conftest import seeds
from tests.hotpath.gathering import Client
from tests.hotpath.listening import Listener, never

REPLIES = [
    b"+OK\r\n",
    b"$-1\r\n",
    b"-ERR no\r\n",
    b"*2\r\n:1\r\n$3\r\nabc\r\n",
    b"$5\r\nab\r\nc\r\n",
    b"%1\r\n+a\r\n:1\r\n",
]
KINDS = ["run", "run of three", "edit", "replace", "hide", "local", "join", "again"]


class Node(UpstreamPipeline):
    """A connection whose replies wait until a test lets some of their bytes come."""

    def __init__(self) -> None:
        self.told = Listener()
        super().__init__(self.told, never)
        self.usable = True
        self.write = lambda _: None
        self.under_way = b""

    @property
    def faults(self) -> list[object]:
        """What must not be: that a client takes its replies slowly may."""
        return [event for event in self.told.events if event[0] != "overflowing"]

    def will_say(self, reply: bytes) -> bytes:
        self.under_way += reply
        return reply

    def says(self, size: int) -> None:
        now, self.under_way = self.under_way[:size], self.under_way[size:]
        self.receive(now)


class Asker(Client):
    """A client that asks two nodes; ``expected`` is what it must hear in the end."""

    def __init__(self) -> None:
        super().__init__()
        self.both = [Node(), Node()]
        self.heard = b""
        self.expected = b""
        self.calls = 0
        self.sender.write = self.hear

    def hear(self, data: bytes) -> None:
        """The bytes that the client is sent."""
        self.heard += data

    def on_idle(self) -> None:
        assert self.sender.pending_replies == 0
        self.calls += 1
        self.sender.notify_when_idle = False

    def ask(self, kind: str, node: Node, reply: bytes) -> None:
        """Ask in the way of a session: the first source is plain, others have a place in the order."""
        if kind in ("join", "again"):
            getattr(self, f"_{kind}")(node, reply)
        elif kind == "local":
            self._local(b"+local %d\r\n" % len(self.expected))
        elif self.sender.order is None and (self.sender.pending_replies == 0 or self.sender.upstream is node):
            self.sender.upstream = node
            self._plain(kind, node, reply)
        else:
            self._ordered(kind, node, reply)

    def _plain(self, kind: str, node: Node, reply: bytes) -> None:
        if kind.startswith("run"):
            count = 3 if kind == "run of three" else 1
            node.send_run(self.sender, b"x", count)
            self.expected += b"".join(node.will_say(reply) for _ in range(count))
        else:
            action, payload, heard = self._fate(kind, reply)
            self.sender.issue(node, b"x", InFlightEntry(self.sender, 1, action, payload))
            node.will_say(reply)
            self.expected += heard

    def _ordered(self, kind: str, node: Node, reply: bytes) -> None:
        order = self.sender.begin_order()
        if kind.startswith("run"):
            count = 3 if kind == "run of three" else 1
            segment = order.segment(node)
            node.send_run(segment, b"x", count)
            order.ask(segment, count)
            self.expected += b"".join(node.will_say(reply) for _ in range(count))
        else:
            action, payload, heard = self._fate(kind, reply)
            self.sender.send_for(order.segment(node), node, b"x", action, payload)
            node.will_say(reply)
            self.expected += heard

    def _fate(self, kind: str, reply: bytes) -> tuple[int, object, bytes]:
        if kind == "edit":
            return EDIT, lambda frame: b"*1\r\n" + frame, b"*1\r\n" + reply
        if kind == "replace":
            return REPLACE, b"-DENIED\r\n", b"-DENIED\r\n"
        return HIDE, None, b""

    def _local(self, answer: bytes) -> None:
        self.expected += answer
        if self.sender.pending_replies == 0:
            self.hear(answer)
        else:
            self.sender.begin_order().answer(answer)

    def _join(self, node: Node, reply: bytes) -> None:
        # MGET over two nodes works like this: one reply of two parts, in the order of the nodes.
        order = self.sender.begin_order()
        place = order.place()
        parts: dict[Node, bytes] = {}

        def came(part: Node, frame: bytes) -> None:
            parts[part] = frame
            if len(parts) == len(self.both):
                order.bring(place, b"*2\r\n" + b"".join(parts[each] for each in self.both))

        for each in self.both:
            self.sender.send_for(place, each, b"x", NOTE, partial(came, each))
            each.will_say(reply)
        self.expected += b"*2\r\n" + reply + reply

    def _again(self, node: Node, reply: bytes) -> None:
        # After MOVED it is like this: the first node's reply is not for the client; the other node's takes its place.
        order = self.sender.begin_order()
        place = order.place()
        other = self.both[1 - self.both.index(node)]

        def came(frame: bytes) -> None:
            order.bring(place, frame)

        def moved(frame: bytes) -> None:
            self.sender.send_for(place, other, b"x", NOTE, came)
            other.will_say(reply)

        self.sender.send_for(place, node, b"x", NOTE, moved)
        node.will_say(b"-MOVED 1 host:1\r\n")
        self.expected += reply

    def check(self) -> None:
        assert self.expected.startswith(self.heard)
        assert [node.faults for node in self.both] == [[], []]

    def finish(self) -> None:
        """All that is under way comes."""
        while any(node.under_way for node in self.both):
            for node in self.both:
                node.says(len(node.under_way))
        self.check()
        assert self.heard == self.expected
        assert (self.sender.pending_replies, self.sender.order, self.sender.ordered) == (0, None, False)
        assert all(node.head is None for node in self.both)


steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(KINDS), st.integers(0, 1), st.sampled_from(REPLIES)),
        st.tuples(st.just("come"), st.integers(0, 1), st.integers(1, 40)),
        st.tuples(st.just("listen"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=400)
@given(steps)
def test_replies_come_in_the_order_of_the_commands(program: list[tuple[str, int, bytes | int]]) -> None:
    client = Asker()
    for kind, which, what in program:
        if isinstance(what, bytes):
            client.ask(kind, client.both[which], what)
        elif kind == "come":
            client.both[which].says(what)
        else:
            client.sender.notify_when_idle = client.sender.pending_replies > 0
        client.check()
    waits = client.sender.notify_when_idle
    calls = client.calls
    client.finish()
    assert client.calls == calls + waits, "who waits until no reply is pending is told once"


def thousand(random: Random) -> Asker:
    """1,000 commands to nodes in turn, of which no reply has come."""
    client = Asker()
    for number in range(1000):
        kind = random.choice(KINDS) if number % 10 == 0 else "run"
        client.ask(kind, client.both[number % 2], random.choice(REPLIES))
    return client


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 4096])
def test_a_thousand_commands_to_two_nodes(size: int) -> None:
    random = Random(size)
    client = thousand(random)
    while any(node.under_way for node in client.both):
        random.choice(client.both).says(random.randint(1, size))
        client.check()
    client.finish()


@pytest.mark.parametrize("seed", seeds(20))
def test_a_node_is_lost(seed: int) -> None:
    random = Random(seed)
    client = thousand(random)
    for _ in range(random.randint(0, 200)):
        random.choice(client.both).says(random.randint(1, 64))
    lost, other = random.sample(client.both, 2)
    assert [loser.client() for loser in lost.abandon()].count(client) >= 1, "it is told whose replies are lost"
    client.check()
    client.sender.gone = True
    assert client.sender.order is not None
    client.sender.order.abandon()
    client.sender.order = None
    heard = client.heard
    other.says(len(other.under_way))
    assert client.heard == heard, "one who has gone hears nothing"
    assert other.head is None


def test_nothing_is_left_in_memory() -> None:
    gc.collect()
    gc.disable()
    try:
        client = thousand(Random(1))
        assert segments() > 500
        client.finish()
        assert segments() == 0, "no circle of references is left for the collector"
    finally:
        gc.enable()


def segments() -> int:
    return sum(isinstance(each, Segment) for each in gc.get_objects())


def test_many_bytes_that_wait_stop_the_client() -> None:
    client = Asker()
    first, second = client.both
    client.ask("run", first, b"+first\r\n")
    large = b"$%d\r\n%b\r\n" % (MOST_HELD, b"x" * MOST_HELD)
    client.ask("run", second, large)
    stalled = [client.sender.stalled]
    for node in (second, first):
        node.says(len(node.under_way))
        stalled.append(client.sender.stalled)
    assert stalled == [False, True, False]
    client.finish()

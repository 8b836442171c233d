"""Of which slots of a cluster replies are kept and found: what the map and the nodes themselves must say for that.

``simulation/test_cached_and_replica_reads.py`` looks for what an application could notice. Here is what is promised
beyond that: a node that may have lost a slot answers nothing of it, whether or not anybody could notice.
"""

from __future__ import annotations

import pytest

from proxy.commands.slots import slot_of
from proxy.hotpath.cache.cached_reply import ReplySource
from proxy.hotpath.cache.reply_cache import ReplyCache
from proxy.hotpath.cache.slot_marks import CLOSED
from proxy.local_cache.fills import SILENCE, Fills
from proxy.net.cache.cluster_slots import ClusterSlots
from proxy.net.config.address import UpstreamAddress
from proxy.net.config.endpoint import Endpoint
from proxy.net.topology.cluster import Cluster
from proxy.net.topology.slot_map import ClusterNode, SlotMap, SlotRange
from tests.local_cache.given import BOUNDS, get

KEY = b"k"
SLOT = slot_of(KEY)
OTHER = SLOT + 1


class Node:
    """The tracking connection to one node of two, which owns both slots, and what it says."""

    def __init__(self) -> None:
        self.now = 10.0
        self.cluster = Cluster(UpstreamAddress())
        self.adopt(0)
        self.slots = ClusterSlots(self.cluster)
        self.cache = ReplyCache(self.slots.marks)
        self.sent: list[bytes] = []
        node = self.slots.node_of(KEY)
        assert node is not None
        self.node = node
        source = ReplySource(self.cache)
        self.fills = Fills(self.cache, source, self.sent.append, self.now, self.slots.word_of(node))

    def adopt(self, owner: int) -> None:
        """The map by which commands are sent."""
        slots = (SlotRange(SLOT, OTHER),)
        nodes = [
            ClusterNode(f"{number:x}", Endpoint("127.0.0.1", number), slots=slots if number == owner else ())
            for number in range(2)
        ]
        self.cluster.adopt(SlotMap({node.id: node for node in nodes}))

    def follow(self, owner: int) -> None:
        self.adopt(owner)
        self.slots.follow()

    def says(self, slots: str = f"{SLOT}-{OTHER}", state: str = "ok", role: str = "master") -> None:
        """It answers what it was asked first."""
        info = f"cluster_state:{state}\r\n"
        nodes = f"0 127.0.0.1:1@2 myself,{role} - 0 0 1 connected {slots}\n"
        self.receive("".join(f"${len(text)}\r\n{text}\r\n" for text in (info, nodes)))

    def receive(self, text: str) -> None:
        self.fills.receive(text.encode(), self.now)

    def fill(self, key: bytes = KEY) -> bool:
        """Whether a fill is begun."""
        return self.fills.begin(get(key), BOUNDS, self.now, lambda: None)

    def keep(self) -> None:
        """The reply to GET is kept."""
        assert self.fill()
        self.receive(":-1\r\n$1\r\nv\r\n")

    def finds(self) -> bool:
        return self.cache.find(get(KEY).request, self.now) is not None

    def ask(self) -> None:
        self.fills.ask(self.now)


@pytest.fixture
def node() -> Node:
    """One whose reply is in memory."""
    made = Node()
    assert not made.fill(), "it has not said yet what it owns"
    made.says()
    made.keep()
    assert made.finds()
    return made


WORDS = {
    "it has lost the slot": {"slots": str(OTHER)},
    "it has lost all slots": {"slots": ""},
    "the slot leaves": {"slots": f"{SLOT}-{OTHER} [{SLOT}->-1]"},
    "the slot comes": {"slots": f"{OTHER} [{SLOT}-<-1]"},
    "it is cut off": {"state": "fail"},
    "it is a replica": {"role": "slave", "slots": ""},
}


@pytest.mark.parametrize("word", WORDS)
def test_what_a_node_does_not_own_for_sure_is_not_answered(node: Node, word: str) -> None:
    node.ask()
    node.says(**WORDS[word])
    assert not node.finds()
    assert not node.fill()
    node.ask()
    node.says()
    assert not node.finds(), "it may have changed meanwhile"
    node.keep()
    assert node.finds()


def test_a_slot_that_moves_and_comes_back_is_empty(node: Node) -> None:
    node.follow(1)
    node.follow(0)
    assert not node.fill(), "the node has not said again that it owns the slot"
    node.ask()
    node.says()
    assert not node.finds()
    node.keep()
    assert node.finds()


def test_a_node_that_the_map_does_not_know_as_the_owner_is_not_asked(node: Node) -> None:
    node.follow(1)
    node.ask()
    node.says()
    assert not node.fill()
    assert not node.finds()


def test_a_fill_during_which_the_slot_moves_keeps_nothing(node: Node) -> None:
    node.fills.receive(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n", node.now)
    assert node.fill()
    node.follow(1)
    node.follow(0)
    node.receive(":-1\r\n$1\r\nv\r\n")
    node.ask()
    node.says()
    assert not node.finds()


def test_a_node_that_sends_somebody_elsewhere_is_asked_again(node: Node) -> None:
    node.ask()
    node.fills.doubt(node.now)
    assert not node.finds()
    node.says()
    assert not node.finds(), "it was asked before"
    node.says()
    assert node.finds()


def test_a_node_that_sends_a_fill_elsewhere_is_asked_again(node: Node) -> None:
    assert node.fill(b"{k}2")
    node.receive("-MOVED 1 127.0.0.1:2\r\n-MOVED 1 127.0.0.1:2\r\n")
    assert not node.finds()
    node.says()
    assert node.finds()


@pytest.mark.parametrize("error", ["-ASK 1 127.0.0.1:2", "-TRYAGAIN x", "-CLUSTERDOWN x"])
def test_what_sends_a_fill_elsewhere_is_not_kept(node: Node, error: str) -> None:
    node.fills.receive(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n", node.now)
    assert node.fill()
    node.receive(f":-1\r\n{error}\r\n")
    node.says()
    assert not node.finds()


def test_only_its_word_makes_a_node_trusted(node: Node) -> None:
    node.now += SILENCE - 0.1
    assert node.finds()
    assert node.fill(b"{k}2")
    node.receive(":-1\r\n$1\r\nv\r\n")
    node.now += 0.2
    assert not node.finds(), "fills are answered by nodes that are cut off, too"
    node.ask()
    node.says()
    assert node.finds()


def test_missing_keys_are_not_kept(node: Node) -> None:
    assert node.fill(b"{k}2")
    node.receive(":-2\r\n_\r\n")
    found = node.cache.find(get(b"{k}2").request, node.now)
    assert found is None or found.resp3 is None


def test_a_lost_connection_closes_all_slots_of_the_node(node: Node) -> None:
    node.fills.lost()
    node.slots.leave(node.node)
    assert not node.finds()
    assert node.slots.marks.of(SLOT) == node.slots.marks.of(OTHER) == CLOSED

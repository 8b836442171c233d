"""Which node of a cluster replies of a key can be kept from, and of which slots none are kept.

Two must agree that a node owns a slot: the map by which commands are sent, and the node itself, by what it says on its
tracking connection. Until they do, the slot is closed: nothing of it is kept, and nothing is found. So is one whose
keys are on their way to another node, and all of a node that is cut off from the majority (its state is not ok), is a
replica by now, or has not been asked yet.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

from proxy.commands.slots import SLOTS, slot_of
from proxy.hotpath.cache.slot_marks import SlotMarks
from proxy.local_cache.expected import Word
from proxy.net.topology.cluster import Cluster
from proxy.net.topology.slot_map import OwnSlots, SlotRange, ViewError, read_own_slots
from proxy.session.ports.pool_key import Node
from proxy.wire.decode import read_reply

_OK = b"cluster_state:ok"


class ClusterSlots:
    """Those of one database. ``marks`` are what its cache goes by."""

    def __init__(self, cluster: Cluster) -> None:
        self.marks = SlotMarks()
        self._cluster = cluster
        self._nodes: dict[int, Node] = {}
        self._owners: list[int] = []
        self._told: dict[Node, OwnSlots] = {}
        self._unsettled: set[Node] = set()
        self.follow()

    def node_of(self, name: bytes) -> Node | None:
        """The node that owns the key's slot by the map; None where none does."""
        return self._nodes.get(self._owners[slot_of(name)])

    def by_node(self, names: Iterable[bytes]) -> Iterable[tuple[Node, Sequence[Sequence[bytes]]]]:
        """These keys by the nodes that own them, those of a slot together."""
        found: defaultdict[int, defaultdict[int, list[bytes]]] = defaultdict(lambda: defaultdict(list))
        for name in names:
            slot = slot_of(name)
            found[self._owners[slot]][slot].append(name)
        return [(self._nodes[number], [*slots.values()]) for number, slots in found.items() if number in self._nodes]

    def has(self, node: Node) -> bool:
        """Whether commands go to this node."""
        return node in self._cluster.nodes

    def follow(self) -> None:
        """Another map is in force: what has another owner is closed, until that one says so, too."""
        router = self._cluster.router
        before, self._owners = self._owners, [router.owner(slot) for slot in range(SLOTS)]
        self._nodes = {node.number: node for node in self._cluster.nodes}
        for slot, (old, new) in enumerate(zip(before, self._owners, strict=False)):
            if old != new:
                self.marks.close(slot)
        self._unsettled.update(self._told)

    def word_of(self, node: Node) -> Word:
        """What takes this node's word for which slots it owns."""
        return partial(self._says, node)

    def _says(self, node: Node, info: bytes, nodes: bytes) -> bool:
        own = _read(nodes) if _OK in info else None
        if own is None or not own.slots:
            self.leave(node)
            return False
        before = self._told.get(node)
        if own != before or node in self._unsettled:
            self._told[node] = own
            self._unsettled.discard(node)
            kept = {slot for slot in _each(own.slots) if slot not in own.opened}
            for slot in _each(() if before is None else before.slots):
                if slot not in kept and self._owners[slot] == node.number:
                    self.marks.close(slot)
            for slot in kept:
                if self._owners[slot] == node.number:
                    self.marks.open(slot)
        return True

    def leave(self, node: Node) -> None:
        """Nothing that this node has said counts any more."""
        before = self._told.pop(node, None)
        self._unsettled.discard(node)
        for slot in _each(() if before is None else before.slots):
            if self._owners[slot] == node.number:
                self.marks.close(slot)


def _each(ranges: Iterable[SlotRange]) -> Iterable[int]:
    return (slot for first, last in ranges for slot in range(first, last + 1))


def _read(nodes: bytes) -> OwnSlots | None:
    try:
        return read_own_slots(read_reply(nodes))
    except ViewError:
        return None

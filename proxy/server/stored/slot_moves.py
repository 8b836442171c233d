"""Which nodes of a cluster must be walked, and which must be walked again because slots moved meanwhile.

Nodes are walked side by side. A key that moves from a node that has not come to it yet to one that has passed its place
is shown by neither. So after all walks the cluster is asked again, and a node must be walked again if, since its walk
began,

    it got slots, or another config epoch (slots that it gave away and got back)
    a slot was open towards it, and the walk of the node that gives the slot away ended later
    a slot of its own was open, and is not any more (it was to be given away, and its keys came back)
    another node has shown a key of one of its slots, and said that the key is not there

What was counted before is not asked about again, so such a walk is quick. A slot may stay open for good: so walks that
are needed for that reason alone end after ``MOST_FOR_OPEN``.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from proxy.net.topology.slot_map import ClusterNode, SlotMap

MOST_FOR_OPEN = 5


@dataclass(slots=True)
class _Walked:
    """When a node's last walk began and ended, and what it owned at its beginning, as bits."""

    began: int = 0
    ended: int = 0
    slots: int = 0
    epoch: int = 0
    for_open: int = 0


class SlotMoves:
    """What is known of the walks of a cluster's nodes, by their ids."""

    def __init__(self) -> None:
        self._now = 0
        self._walked: dict[str, _Walked] = {}
        self._open: dict[tuple[int, str, str], int] = {}
        self._moved: dict[int, int] = {}
        self.unsettled = False

    def due(self, seen: SlotMap) -> list[ClusterNode]:
        """The nodes that must be walked now, for the first time or again, by what the cluster says now."""
        self._now += 1
        open_now = self.look(seen)
        targets = {target for _, _, target in open_now}  # one that is new has keys before it has a slot
        return [
            node for node in seen.primaries() if (node.slots or node.id in targets) and self._must_walk(node, open_now)
        ]

    def look(self, seen: SlotMap) -> set[tuple[int, str, str]]:
        """Note the slots that are open, also while nodes are walked: nothing tells later of one that was open for a
        moment, and given back. Return them with their sources and targets."""
        open_now = {(each.slot, each.source, each.target) for each in seen.opened}
        self._open |= dict.fromkeys(open_now, self._now)
        return open_now

    def begin(self, nodes: Iterable[ClusterNode]) -> None:
        """These are walked now; they are as the last look has found them."""
        for node in nodes:
            walked = self._walked.setdefault(node.id, _Walked())
            walked.began, walked.ended = self._now, 0
            walked.slots, walked.epoch = bits(node), node.epoch

    def end(self, node_id: str) -> None:
        """The walk of this node has come to its end."""
        self._now += 1
        self._walked[node_id].ended = self._now

    def moved(self, slot: int) -> None:
        """A key of the slot was shown by a node that does not have it any more, or not yet."""
        self._moved[slot] = self._now

    def _must_walk(self, node: ClusterNode, open_now: set[tuple[int, str, str]]) -> bool:
        walked = self._walked.get(node.id)
        if walked is None or not walked.ended:
            return True
        slots = bits(node)
        if slots & ~walked.slots or node.epoch != walked.epoch:
            return True
        if any(at >= walked.began and slots >> slot & 1 for slot, at in self._moved.items()):
            return True
        if not self._because_of_open(node.id, slots, walked, open_now):
            return False
        walked.for_open += 1
        self.unsettled = self.unsettled or walked.for_open > MOST_FOR_OPEN
        return walked.for_open <= MOST_FOR_OPEN

    def _because_of_open(self, name: str, slots: int, walked: _Walked, now: set[tuple[int, str, str]]) -> bool:
        for (slot, source, target), at in self._open.items():
            if at < walked.began:
                continue
            if target == name and source in self._walked and self._walked[source].ended > walked.began:
                return True
            if (slot, source, target) not in now and slots >> slot & 1:
                return True
        return False


def bits(node: ClusterNode) -> int:
    """The slots of a node, each as a bit of a number."""
    return sum((1 << (last + 1)) - (1 << first) for first, last in node.slots)

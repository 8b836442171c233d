# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""What each node gets of a client's read, where a topology has several nodes.

The commands of one node leave in one piece, in the order in which the client sent them. ``turns`` tells of which node
each command of the read is, by the number of its portion: the replies come back in that order.
"""

from proxy.hotpath.upstream.splice import Splice
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline

_MOST = 255  # a turn is one byte, and one more portion may be on its way


class Portion:
    """What one node gets: ``count`` commands, for this connection, and whether one of them may write."""

    def __init__(self) -> None:
        self.splice = Splice()
        self.count = 0
        self.wrote = False
        self.number = 0
        self.upstream: UpstreamPipeline | None = None


class Portions:
    """The space in which a worker divides one read after the other: it is empty between reads."""

    def __init__(self) -> None:
        self._by_node: list[Portion] = []
        self.used: list[Portion] = []
        self.turns = Splice()
        self.count = 0

    def clear(self) -> None:
        """Forget what was put: a read that broke off is no part of the next one, which may be another client's."""
        for portion in self.used:
            portion.splice.cut(0)
            portion.count = 0
            portion.wrote = False
            portion.upstream = None
        self.used.clear()
        self.turns.cut(0)
        self.count = 0

    def of(self, node: int) -> Portion:
        """The portion of this node."""
        while node >= len(self._by_node):
            self._by_node.append(Portion())
        return self._by_node[node]

    def full(self) -> bool:
        """Whether no further node can get a portion."""
        return len(self.used) >= _MOST

    def add(
        self, portion: Portion, upstream: UpstreamPipeline, p: bytes, start: int, end: int, count: int, wrote: bool
    ) -> None:
        """The next ``count`` commands are this portion's, behind what stands in its ``splice`` already."""
        if portion.upstream is None:
            portion.upstream = upstream
            portion.number = len(self.used)
            self.used.append(portion)
        portion.splice.put(p, start, end)
        portion.count += count
        portion.wrote = portion.wrote or wrote
        self.count += count
        self.turns.fill(portion.number, count)

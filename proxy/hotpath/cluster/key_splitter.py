# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""Splits a command by the slots of its keys as the intake finds them, into what each node gets of it.

It is for commands all of whose arguments are keys, and not too many. ``split`` does the same for the session, for every
command that can be split; both send the same bytes.
"""

from array import array

from proxy.commands.slots import SLOTS
from proxy.hotpath.cluster.portions import Portions
from proxy.hotpath.cluster.router import Router
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.wire.request import Request

_MOST_KEYS = 512
"""Keys of one command; the session splits those with more."""
_MOST_NODES = 255
"""Nodes of a cluster; with more, a turn would not fit into one byte."""

# Under two names: a C integer in here, Python's for everybody else.
_REACHED = -1
REACHED = _REACHED
_NOBODY = 1 << 30


class KeySplitter:
    """The space in which a worker splits one command after the other.

    The keys of one slot are a group, of which ``firsts`` and ``lasts`` have a key each, ``behind`` the key behind each
    key, ``sizes`` how many there are, ``slots`` the slot and ``nodes`` the number of its node. Groups are in the order
    of their first keys.
    """

    def __init__(self) -> None:
        self.groups = 0
        self.keys = 0
        self.slots = array("i", bytes(4 * _MOST_KEYS))
        self.nodes = array("i", bytes(4 * _MOST_KEYS))
        self.firsts = array("i", bytes(4 * _MOST_KEYS))
        self.lasts = array("i", bytes(4 * _MOST_KEYS))
        self.sizes = array("i", bytes(4 * _MOST_KEYS))
        self.behind = array("i", bytes(4 * _MOST_KEYS))
        # The number of a slot's group, from 1 on; all 0 between commands.
        self._group_of = array("H", bytes(2 * SLOTS))

    def group(self, request: Request, p: bytes, router: Router) -> int:
        """Group the keys of a command, which are all its arguments; how many groups there are, 0 if too many keys."""
        self.groups = 0
        self.keys = request.argc - 1
        if self.keys > _MOST_KEYS:
            return 0
        groups = 0
        key = 0
        while key < self.keys:
            slot = router.slot(p, request.starts[key + 1], request.ends[key + 1], 0)
            group = self._group_of[slot] - 1
            if group < 0:
                group = groups
                self.slots[group] = slot
                self.nodes[group] = router.owner(slot)
                self.firsts[group] = key
                self.sizes[group] = 0
                groups += 1
                self._group_of[slot] = groups
            else:
                self.behind[self.lasts[group]] = key
            self.lasts[group] = key
            self.sizes[group] += 1
            key += 1
        group = 0
        while group < groups:
            self._group_of[self.slots[group]] = 0
            group += 1
        self.groups = groups
        return groups

    def unreached(self, nodes: list[UpstreamPipeline | None]) -> int:
        """A node that owns one of the slots and to which the client has no connection that it can use; a number that no
        node has where there is no such node, or nobody could tell them apart; REACHED if there is none."""
        if len(nodes) > _MOST_NODES:
            return _NOBODY
        group = 0
        while group < self.groups:
            node = self.nodes[group]
            if node < 0 or node >= len(nodes):
                return _NOBODY
            upstream = nodes[node]
            if upstream is None or not upstream.usable:
                return node
            group += 1
        return _REACHED

    def put(
        self,
        portions: Portions,
        nodes: list[UpstreamPipeline | None],
        request: Request,
        p: bytes,
        name: bytes,
        wrote: bool,
    ) -> None:
        """Put a command for each group into the portion of its node, under the new ``name`` if there is one."""
        if not name:
            name = p[request.header_end : request.ends[0] + 2]
        alone = b"*2\r\n" + name
        group = 0
        while group < self.groups:
            node = self.nodes[group]
            portion = portions.of(node)
            key = self.firsts[group]
            if self.sizes[group] == 1:
                portion.splice.put(alone, 0, len(alone))
            else:
                begin = b"*%d\r\n%b" % (1 + self.sizes[group], name)
                portion.splice.put(begin, 0, len(begin))
                while key != self.lasts[group]:
                    portion.splice.put(p, request.ends[key] + 2, request.ends[key + 1] + 2)
                    key = self.behind[key]
            upstream = nodes[node]
            assert upstream is not None, "all nodes are reached"
            portions.add(portion, upstream, p, request.ends[key] + 2, request.ends[key + 1] + 2, 1, wrote)
            group += 1

    def grouped(self) -> list[list[int]] | None:
        """The keys of each group; None where each has one."""
        if self.groups == self.keys:
            return None
        found = []
        group = 0
        while group < self.groups:
            key = self.firsts[group]
            keys = [key]
            while key != self.lasts[group]:
                key = self.behind[key]
                keys.append(key)
            found.append(keys)
            group += 1
        return found

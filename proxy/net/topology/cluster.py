"""A cluster as the topology of a route: its nodes have numbers while they live, and the router knows who owns a slot.

``ClusterWatch`` brings the maps that a majority of the nodes agrees on; ``adopt`` takes one over, in place, and says
what has changed for the connections.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from proxy.commands.slots import SLOTS
from proxy.hotpath.cluster.router import UNOWNED, Router
from proxy.net.config.address import UpstreamAddress
from proxy.net.config.endpoint import Endpoint
from proxy.net.topology.slot_map import ClusterNode, SlotMap
from proxy.net.topology.topology import Change, KnownServer
from proxy.session.ports.pool_key import ANY_NODE, Node

_SHORT_ID = 8


class _Place(NamedTuple):
    """A node of the cluster: what commands are sent to, and what is known of it."""

    node: Node
    known: ClusterNode


class Cluster:
    """The topology of a cluster whose ``login`` names the seeds. Its ``map`` is empty until its nodes have been asked.

    ``version`` counts the maps that were different. ``serves``: a majority of the primaries says that its state is ok,
    as far as they have been asked.
    """

    home = ANY_NODE
    fails_over = False

    def __init__(self, login: UpstreamAddress) -> None:
        self.login = login
        self.last_known: Sequence[KnownServer] = ()
        self.router = Router([UNOWNED] * SLOTS)
        self.map = SlotMap()
        self.version = 0
        self._owned: set[tuple[int, int, int, str]] = set()
        self.serves = True
        self.nodes: Sequence[Node] = ()
        self.doubted = asyncio.Event()
        self._places: dict[str, _Place] = {}
        self._by_node: dict[Node, str] = {}
        self._connected: set[Node] = set()
        self._lost: set[Node] = set()
        self._late: set[Node] = set()
        self._aliases: Mapping[str, str] = {}

    @property
    def servers(self) -> Sequence[KnownServer]:
        """All members that have an address."""
        return tuple(KnownServer(each.endpoint) for each in self.map.nodes.values() if each.endpoint is not None)

    def address(self, node: Node) -> UpstreamAddress:
        """Where this node is; for none in particular: the seeds."""
        place = self._places.get(self._by_node.get(node, ""))
        if place is None or place.known.endpoint is None:
            return self.login
        return self.login.at(self.reachable(place.known.endpoint))

    def reachable(self, announced: Endpoint) -> Endpoint:
        """Where to connect for an address that nodes announce."""
        return self.login.reach(announced)

    def place(self, node: Node) -> Node:
        """The first of the nodes stands for any: of those with a connection, if there are any."""
        return (self.first_connected(self.nodes) or node) if node is ANY_NODE else node

    def first_connected(self, among: Sequence[Node]) -> Node | None:
        """The first of these nodes that answers on its connection; if there is none, one that may do so soon."""
        ready = (each for each in among if each in self._connected and each not in self._late)
        soon = (each for each in among if self.reaches(each))
        return next(ready, None) or next(soon, None) or next(iter(among), None)

    def reaches(self, node: Node) -> bool:
        """Whether it answers, as far as is known: it has not lost its connection, and is not late."""
        return node not in self._lost and node not in self._late

    def connected(self, node: Node) -> None:
        """It may stand for any."""
        self._lost.discard(node)
        self._connected.add(node)

    def disconnected(self, node: Node) -> None:
        """What any node can do, another one does."""
        self._connected.discard(node)
        self._lost.add(node)

    def hesitates(self, node: Node, *, late: bool) -> None:
        """What any node can do, another one does meanwhile."""
        (self._late.add if late else self._late.discard)(node)

    def doubt(self) -> None:
        """A node is missing or lost: find out soon whether all is as it was."""
        self.doubted.set()

    def node(self, number: int) -> Node | None:
        """The node with this number; None where it has left."""
        return next((place.node for place in self._places.values() if place.node.number == number), None)

    def node_at(self, announced: Endpoint) -> Node | None:
        """The node that announces this address and that commands go to: others may have failed there before it."""
        return next((node for node in self.nodes if self._known(node).endpoint == announced), None)

    def _known(self, node: Node) -> ClusterNode:
        return self._places[self._by_node[node]].known

    def known(self) -> Iterator[tuple[str, Node, ClusterNode]]:
        """All members: alias, node, and what the map says."""
        for place in sorted(self._places.values(), key=lambda place: place.node.number):
            yield self._alias(place), place.node, place.known

    def member(self, name: str) -> Node | None:
        """The node with this id."""
        return self._places[name].node if name in self._places else None

    def identity(self, node: Node) -> str:
        """Its id in the cluster; empty once it has left."""
        return self._by_node.get(node, "")

    def replicas_of(self, primary: Node) -> Mapping[Endpoint, Node]:
        """The replicas of this node that have not failed, by where to connect."""
        name = self._by_node.get(primary, "")
        return {
            self.reachable(known.endpoint): node
            for node, known in self._places.values()
            if known.primary_id == name and not known.is_primary and not known.failed and known.endpoint is not None
        }

    # What operators call the nodes

    def alias(self, node: Node) -> str:
        """The name of a node for operators: n1, n2, …"""
        place = self._places.get(self._by_node.get(node, ""))
        return _own_alias(node) if place is None else self._alias(place)

    def rename(self, aliases: Mapping[str, str]) -> None:
        """What all workers call the nodes, by id: each has met them in an order of its own."""
        self._aliases = aliases

    def _alias(self, place: _Place) -> str:
        known, own = self._aliases.get(place.known.id), _own_alias(place.node)
        if known is None and own in self._aliases.values():
            return place.known.id[:_SHORT_ID]
        return known or own

    # A new map

    def adopt(self, found: SlotMap) -> Change:
        """Take a map over."""
        change = Change()
        if found == self.map:
            return change
        self.map = found
        self.version += 1
        change.new = True
        old = self._places
        self._places = self._numbered(found, old)
        self._by_node = {place.node: name for name, place in self._places.items()}
        serving = [self._places[known.id].node for known in found.primaries() if known.endpoint is not None]
        change.came = [node for node in serving if node not in self.nodes]
        change.left = [node for node in self.nodes if node not in serving]
        replicas = [known for known in found.nodes.values() if not known.is_primary and not known.failed]
        demoted = {self._places[known.id].node for known in replicas}
        change.demoted = [node for node in change.left if node in demoted]
        change.gone = [place.node for name, place in old.items() if name not in found.nodes or found.nodes[name].failed]
        for name, place in old.items():
            # Its connections lead to where it was.
            moved = name in self._places and self._places[name].known.endpoint != place.known.endpoint
            if moved and place.node in serving and place.node in self.nodes:
                change.left.append(place.node)
                change.came.append(place.node)
                for some in (self._connected, self._lost, self._late):
                    some.discard(place.node)
        self.nodes = sorted(serving, key=lambda node: node.number)
        for some in (self._connected, self._lost, self._late):
            some.intersection_update(self.nodes)
        self._assign()
        return change

    def _numbered(self, found: SlotMap, old: dict[str, _Place]) -> dict[str, _Place]:
        # Who stays keeps its number, and who comes gets the lowest that is free: primaries first, in order of slots.
        kept = {name: _Place(place.node, found.nodes[name]) for name, place in old.items() if name in found.nodes}
        taken = {place.node.number for place in kept.values()}
        free = (number for number in count() if number not in taken)
        order = [known.id for known in found.primaries()]
        order += sorted(found.nodes.keys() - set(order), key=lambda name: (str(found.nodes[name].endpoint), name))
        for name in order:
            if name not in kept:
                kept[name] = _Place(Node(next(free)), found.nodes[name])
        return kept

    def _assign(self) -> None:
        # What happens to replicas, or the start of a migration, changes nothing about where commands go.
        owned = {
            (first, last, self._places[known.id].node.number, known.id)
            for known in self.map.primaries()
            if known.endpoint is not None
            for first, last in known.slots
        }
        if owned == self._owned:
            return
        self._owned = owned
        self.router.version += 1
        self.router.own(0, SLOTS - 1, UNOWNED)
        for first, last, number, _ in owned:
            self.router.own(first, last, number)


def _own_alias(node: Node) -> str:
    return f"n{node.number + 1}"

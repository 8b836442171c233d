"""Simulated nodes of a cluster that answer a session: they own slots, and pass them on key by key.

The number of a command is its last argument (MGET has none). A script (EVAL) writes as RPUSH does, and returns what
its text says. ``Routed`` is a client whose session knows the cluster by a map that can be older.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from proxy.cluster.cluster_answers import Presented
from proxy.cluster.own_slots import KnownMarks
from proxy.cluster.split_commands import split_commands
from proxy.commands.slots import slot_of
from proxy.commands.table import STANDARD, Lane
from proxy.hotpath.cluster.router import UNOWNED, Router
from proxy.hotpath.upstream.sent_unit import follow
from proxy.session.ports.node_port import NodeFollower, NodePort
from proxy.session.ports.pool_key import Node, PoolKey
from proxy.session.ports.pool_waiter import PoolWaiter
from tests.cluster.test_scan_walk import IDS
from tests.hotpath.routed import owners, reassign
from tests.hotpath.test_split import arguments
from tests.session.given import HOME, Client, FakeRoute, Upstream
from tests.session.served import Served, network
from tests.simulation.cluster import Cluster as SimulatedCluster
from tests.simulation.connection import Connection
from tests.simulation.engine import Server
from tests.simulation.node import Node as SimulatedNode
from tests.simulation.replies import Raw
from tests.simulation.table import Row

NODES = [Node(number) for number in range(3)]
TAGS = "abc"
"""One tag of keys for each node: a is of the third, b of the first, c of the second one."""


class Cluster(SimulatedCluster):
    """Three nodes, which all know at once who owns a slot. ``ran`` has the numbers of commands, in their order."""

    def __init__(self) -> None:
        super().__init__(network(), 3, 0, [("127.0.0.1", 7000 + number) for number in range(3)])
        self.ran: list[tuple[int, str]] = []

    @property
    def owners(self) -> list[int]:
        """The number of each slot's node."""
        numbers: dict[SimulatedNode | None, int] = {node: number for number, node in enumerate(self.nodes)}
        return [numbers.get(node, UNOWNED) for node in self.nodes[0].owner]

    def give(self, slot: int, to: SimulatedNode | None) -> None:
        """Another node owns a slot, or nobody."""
        for each in self.nodes:
            each.assign(slot, to)

    def open_slot(self, slot: int, target: SimulatedNode) -> None:
        source = self.owner(slot)
        if source is not target and slot not in source.migrating:
            self.open([slot], source, target)

    def move_key(self, key: bytes) -> None:
        source = self.owner(slot_of(key))
        target = source.migrating.get(slot_of(key))
        if target is not None and source.holds(key):
            self.migrate([key], source, target)

    def close_slot(self, slot: int) -> None:
        source = self.owner(slot)
        if (target := source.migrating.pop(slot, None)) is not None:
            self.migrate(source.keys_in({slot}), source, target)
            target.importing.pop(slot, None)
            self.give(slot, target)

    def serve(self, upstream: Upstream) -> Served:
        """A connection to the node that this one leads to."""
        return Served(upstream, Recorded(self.nodes[max(0, upstream.key.node.number)].server, self.ran))


class Recorded(Connection):
    """A connection to a node: RPUSH, MSET and EVAL keep the number, all else reads."""

    def __init__(self, server: Server, ran: list[tuple[int, str]]) -> None:
        super().__init__(server)
        self._ran = ran

    def call(self, row: Row, argv: Sequence[bytes]) -> Any:
        if row.name not in ("rpush", "mset", "eval", "lrange", "mget", "echo"):
            return super().call(row, argv)
        keys, held = row.keys_of(argv), self.db.values
        if row.name != "mget":
            self._ran.append((int(argv[-1]), row.name))
        if row.name in ("rpush", "mset", "eval"):
            for key in keys:
                held.setdefault(key, []).append(argv[-1])
            return Raw(argv[1] + b"\r\n") if row.name == "eval" else len(held[keys[0]])
        return argv[1] if row.name == "echo" else [b",".join(held.get(key, [])) for key in keys]


class FakeNodes(NodePort):
    """What Keyrail takes the cluster for: three nodes, n1 to n3. ``lost`` are the numbers of nodes that commands do not
    go to, ``silent`` of those that do not answer; ``named`` are the errors that name nodes, ``asked`` is what
    ``replicas`` are asked, ``asked_of`` whose they are, and ``looking`` who waits for a look at the cluster."""

    def __init__(self) -> None:
        self.known_marks = KnownMarks()
        self.owners = owners(3)
        self.lost: set[int] = set()
        self.silent: set[int] = set()
        self.slots_lost: list[tuple[int, int]] = []
        self.looking: list[PoolWaiter] = []
        self.shown: Presented | None = None
        self.replicas = False
        self.asked: list[tuple[Sequence[bytes], Callable[[Sequence[tuple[str, bytes]]], None]]] = []
        self.asked_of: list[Sequence[Node] | None] = []
        self.followers: list[NodeFollower] = []
        self.named: list[bytes] = []

    def presented(self, listener: str) -> Presented | None:
        return self.shown

    def primaries(self) -> Sequence[Node]:
        return [node for node in NODES if node.number not in self.lost]

    def any(self, among: Sequence[Node]) -> Node | None:
        return next((node for node in among if self.reachable(node)), next(iter(among), None))

    def reachable(self, node: Node) -> bool:
        return node.number not in self.silent

    def lost_slots(self) -> Sequence[tuple[int, int]]:
        return self.slots_lost

    def size(self) -> int:
        return len(NODES)

    def node(self, number: int) -> Node | None:
        return None if number in self.lost else NODES[number]

    def alias(self, node: Node) -> str:
        return f"n{node.number + 1}"

    def identity(self, node: Node) -> str:
        return IDS[node.number]

    def owner(self, slot: int) -> Node | None:
        return self.node(self.owners[slot])

    def redirected(self, error: bytes, by: Node) -> Node | None:
        self.named.append(error)
        found = re.fullmatch(rb"-(?:MOVED|ASK) \d+ 127.0.0.1:700(\d)\r\n", error)
        return None if found is None else self.node(int(found[1]))

    def ask_replicas(
        self,
        argv: Sequence[bytes],
        of: Sequence[Node] | None,
        answered: Callable[[Sequence[tuple[str, bytes]]], None],
    ) -> bool:
        if self.replicas:
            self.asked_of.append(of)
            self.asked.append((argv, answered))
        return self.replicas

    def follow(self, follower: NodeFollower) -> None:
        self.followers.append(follower)

    def unfollow(self, follower: NodeFollower) -> None:
        self.followers.remove(follower)

    def await_look(self, waiter: PoolWaiter) -> None:
        self.looking.append(waiter)


class ClusterRoute(FakeRoute):
    """A route whose connections lead to the nodes."""

    def connect(self, key: PoolKey) -> Upstream:
        made = super().connect(key)
        made.redirects = follow
        return made


SPLIT_COMMANDS = split_commands(STANDARD)


class Routed(Client):
    """A client of the three nodes. Clients whose nodes keep their slots may share a ``router``."""

    __slots__ = ("_routed", "nodes")

    def __init__(self, route: FakeRoute, router: Router | None = None) -> None:
        self.nodes = FakeNodes()
        route.ports = replace(route.ports, nodes=self.nodes)
        super().__init__(route)
        self._routed = owners(3)
        self.intake.config.router = router or Router(self._routed)
        self.intake.config.split_commands = SPLIT_COMMANDS

    def check(self) -> None:
        """Several nodes send replies."""

    def at(self, number: int, lane: Lane = Lane.FAST) -> Upstream:
        return self.route.upstream(HOME._replace(node=NODES[number]), lane)

    def taken(self, lane: Lane = Lane.FAST) -> list[list[list[bytes]]]:
        """What each node has been sent since."""
        return [arguments(self.at(number, lane).taken()) for number in range(3)]

    def learn(self, cluster: Cluster) -> None:
        """Keyrail has asked the nodes."""
        self.take_over(cluster.owners)

    def take_over(self, owned: Sequence[int]) -> None:
        """Other nodes own the slots."""
        router = self.intake.config.router
        assert router is not None
        router.version += 1
        self.nodes.owners = list(owned)
        reassign(router, self._routed, self.nodes.owners)
        self._routed = list(owned)

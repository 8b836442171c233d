"""Nodes of a cluster that answer a session: they own slots, pass them on key by key, and run what they are sent.

What they ran is in ``ran``, in order, with the number of each command, which is its last argument (MGET has none).
A script (EVAL) writes as RPUSH does, and returns what its text says.
``Routed`` is a client whose session knows the cluster by a map that can be older.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from proxy.cluster.cluster_answers import Presented
from proxy.cluster.own_slots import KnownMarks
from proxy.cluster.split_commands import split_commands
from proxy.commands.slots import slot_of
from proxy.commands.table import STANDARD, Lane
from proxy.hotpath.cluster.router import Router
from proxy.hotpath.intake.command_sender import follow
from proxy.session.ports.node_port import NodeFollower, NodePort
from proxy.session.ports.pool_key import Node, PoolKey
from proxy.session.ports.pool_waiter import PoolWaiter
from proxy.wire.encode import encode_array, encode_bulk
from tests.cluster.test_scan_walk import IDS
from tests.hotpath.routed import owners, reassign
from tests.hotpath.test_split import arguments
from tests.resp import FrameReader, decode
from tests.session.given import HOME, Client, FakeRoute, Upstream

NODES = [Node(number) for number in range(3)]
TAGS = "abc"
"""One tag of keys for each node: a is of the third, b of the first, c of the second one."""


class Cluster:
    """Three nodes. ``down`` are those that say CLUSTERDOWN."""

    def __init__(self) -> None:
        self.owners = owners(3)
        self.opened: dict[int, int] = {}
        self.held: list[dict[bytes, list[bytes]]] = [{} for _ in NODES]
        self.down: set[int] = set()
        self.allows_multi = True
        self.ran: list[tuple[int, bytes]] = []

    def open_slot(self, slot: int, target: int) -> None:
        if self.owners[slot] != target:
            self.opened.setdefault(slot, target)

    def move_key(self, key: bytes) -> None:
        slot = slot_of(key)
        source = self.held[self.owners[slot]]
        if slot in self.opened and key in source:
            self.held[self.opened[slot]][key] = source.pop(key)

    def close_slot(self, slot: int) -> None:
        if slot in self.opened:
            for key in [key for key in self.held[self.owners[slot]] if slot_of(key) == slot]:
                self.move_key(key)
            self.owners[slot] = self.opened.pop(slot)

    def refusal(self, node: int, keys: Sequence[bytes], asking: bool) -> bytes:
        """Why this node does not run a command with these keys; empty if it does."""
        if not keys:
            return b""
        slot = slot_of(keys[0])
        if any(slot_of(key) != slot for key in keys):
            return b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"
        if node in self.down:
            return b"-CLUSTERDOWN The cluster is down\r\n"
        target = self.opened.get(slot)
        missing = [key not in self.held[node] for key in keys]
        if self.owners[slot] == node:
            if target is None or not any(missing):
                return b""
            return b"-ASK %d 127.0.0.1:700%d\r\n" % (slot, target) if all(missing) else _TRYAGAIN
        if target == node and asking:
            return _TRYAGAIN if len(keys) > 1 and any(missing) else b""
        return b"-MOVED %d 127.0.0.1:700%d\r\n" % (slot, self.owners[slot])

    def run(self, node: int, argv: Sequence[bytes]) -> bytes:
        """RPUSH and MSET keep the number, all else reads."""
        held, name, keys = self.held[node], argv[0], keys_of(argv)
        if name != b"MGET":
            self.ran.append((int(argv[-1]), name))
        if name in (b"RPUSH", b"MSET", b"EVAL"):
            for key in keys:
                held.setdefault(key, []).append(argv[-1])
            if name == b"EVAL":
                return argv[1] + b"\r\n"
            return b":%d\r\n" % len(held[keys[0]]) if name == b"RPUSH" else b"+OK\r\n"
        if name == b"ECHO":
            return encode_bulk(argv[1])
        return encode_array([b",".join(held.get(key, [])) for key in keys])


_TRYAGAIN = b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n"


def keys_of(argv: Sequence[bytes]) -> Sequence[bytes]:
    """RPUSH key number · MSET key number … · MGET key … · LRANGE key 0 number · EVAL text 1 key number · ECHO number"""
    match argv[0]:
        case b"RPUSH" | b"LRANGE":
            return argv[1:2]
        case b"EVAL":
            return argv[3:4]
        case b"MSET":
            return argv[1::2]
        case b"MGET":
            return argv[1:]
    return ()


class Served:
    """One connection to a node: what it has been sent, what it has answered and what of that has arrived."""

    def __init__(self, cluster: Cluster, node: int, upstream: Upstream) -> None:
        self.cluster = cluster
        self.node = node
        self.upstream = upstream
        self.requests = FrameReader()
        self.replies = b""
        self.queued: list[list[bytes]] | None = None
        self.asking = self.spoiled = False

    def step(self) -> bool:
        """Answer one more command, if there is one."""
        self.requests.feed(self.upstream.taken())
        frame = self.requests.frame()
        if frame is None:
            return False
        self.replies += self.answer(cast("list[bytes]", decode(frame)))
        return True

    def arrive(self, most: int) -> bool:
        """Some bytes of what it has answered reach Keyrail."""
        piece, self.replies = self.replies[:most], self.replies[most:]
        if piece:
            self.upstream.answer(piece)
        return bool(piece)

    def answer(self, argv: list[bytes]) -> bytes:
        asking, self.asking = self.asking, argv[0] == b"ASKING"
        if self.asking:
            return b"+OK\r\n"
        if argv[0] == b"MULTI" and not self.cluster.allows_multi:
            return b"-NOPERM no MULTI\r\n"
        if argv[0] == b"EXEC" and self.queued is None:
            return b"-ERR EXEC without MULTI\r\n"
        if argv[0] == b"MULTI":
            self.queued, self.spoiled, self.asking = [], False, asking
            return b"+OK\r\n"
        if self.queued is None:
            return self.cluster.refusal(self.node, keys_of(argv), asking) or self.cluster.run(self.node, argv)
        if argv[0] == b"EXEC":
            return self._exec(asking)
        self.asking = asking
        error = self.cluster.refusal(self.node, keys_of(argv), asking)
        if error:
            self.spoiled = True
            return error
        self.queued.append(argv)
        return b"+QUEUED\r\n"

    def _exec(self, asking: bool) -> bytes:
        queued, self.queued = self.queued, None
        assert queued is not None
        keys = [key for argv in queued for key in keys_of(argv)]
        error = self.cluster.refusal(self.node, keys, asking)  # also if a command was refused before
        if self.spoiled and not error:
            return b"-EXECABORT Transaction discarded because of previous errors.\r\n"
        return error or b"*%d\r\n" % len(queued) + b"".join(self.cluster.run(self.node, argv) for argv in queued)


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

"""Simulated nodes of a cluster that keep no data: a reply follows from its command alone, so that one in another's
place shows.

What the nodes refuse changes under a test's hands: slots move, whole or key by key, nobody owns a slot, users lack
rights.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from proxy.commands.slots import slot_of
from proxy.commands.table import Lane
from proxy.hotpath.cluster.router import UNOWNED
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.pool_key import Node, PoolKey
from tests.session.clustered import NODES, TAGS, Cluster, ClusterRoute, FakeNodes
from tests.session.given import HOME, Upstream
from tests.session.served import Served
from tests.simulation.connection import Connection
from tests.simulation.engine import Server
from tests.simulation.node import Node as SimulatedNode
from tests.simulation.replies import Refusal
from tests.simulation.table import Row

SLOTS_OF_TAGS = [slot_of(tag.encode()) for tag in TAGS]
USER = "u"
CLIENT_ID = 77


class KnownNodes(FakeNodes):
    """What Keyrail takes the cluster for, where a slot may have no owner."""

    def node(self, number: int) -> Node | None:
        return None if number == UNOWNED else super().node(number)


class AnsweringRoute(ClusterRoute):
    """A route whose connections all lead to nodes: to the first one where a session does not say to which."""

    def upstream(self, key: PoolKey = HOME, lane: Lane = Lane.FAST) -> Upstream:
        return super().upstream(_placed(key), lane)

    def shared(self, key: PoolKey, lane: Lane) -> UpstreamPipeline | None:
        return super().shared(_placed(key), lane)

    def has_pool(self, key: PoolKey) -> bool:
        return super().has_pool(_placed(key))

    def private(self, key: PoolKey) -> PrivatePipeline | None:
        return super().private(_placed(key))

    def release(self, upstream: PrivatePipeline) -> None:
        # As the pools do with one that is lost, or on which replies are pending.
        if upstream.closed or upstream.head is not None:
            self.discard(upstream)
        else:
            super().release(upstream)
            self._serve()

    def _serve(self) -> None:
        # Whoever waits is called at once, in the middle of what the client does that gives the connection back.
        for _ in range(0 if self.starving else len(self.waiting)):
            if self.waiting:
                waiter = self.waiting.pop(0)
                if not waiter.gone:
                    waiter.arrived()

    def lose(self, upstream: Upstream) -> None:
        """The connection is lost: nothing more is read from it, and its clients are told."""
        upstream.usable = False
        self.pools = {key: each for key, each in self.pools.items() if each is not upstream}
        self.lent = [each for each in self.lent if each is not upstream]
        self.idle = [each for each in self.idle if each is not upstream]
        owner = None if upstream.owner is None else upstream.owner.client()
        unanswered = list(dict.fromkeys(sink.client() for sink in upstream.abandon()))
        if owner is not None and owner not in unanswered and not owner.let_go():
            unanswered.append(owner)
        for client in unanswered:
            if client is not None and not client.gone:
                client.close("upstream_lost")


def _placed(key: PoolKey) -> PoolKey:
    return key if key.node in NODES else key._replace(node=NODES[0])


class HalfMoved(SimulatedNode):
    """A node whose slots that move key by key have lost their keys with odd numbers."""

    def holds(self, key: bytes) -> bool:
        return (key[-1] % 2 == 0) == (self.owner[slot_of(key)] is self)


class Answering(Cluster):
    """The nodes, all of which forbid the user some commands. ``chance`` decides whether what may block does."""

    kind = HalfMoved

    def __init__(self, chance: random.Random, forbidden: Sequence[str] = ()) -> None:
        super().__init__()
        self.chance = chance
        valkey = chance.random() < 0.5
        for node in self.nodes:
            node.server.valkey = valkey
            node.server.forbidden |= {*forbidden}
            node.server.users[USER.encode()] = "p"

    def open_or_close(self, slot: int, to: SimulatedNode) -> None:
        """A slot begins to move key by key, or has moved."""
        owner = self.nodes[0].owner[slot]
        if owner is not None and slot in owner.migrating:
            self.close_slot(slot)
        elif owner is not None:
            self.open_slot(slot, to)

    def calm(self) -> None:
        """Each slot has an owner, and moves no more."""
        for node in self.nodes:
            node.migrating.clear()
            node.importing.clear()
        for slot in SLOTS_OF_TAGS:
            self.give(slot, self.nodes[0].owner[slot] or self.nodes[0])


class AnsweringConnection(Connection):
    """One connection to a node."""

    def __init__(self, server: Server, chance: random.Random) -> None:
        super().__init__(server)
        self.id = CLIENT_ID
        self._chance = chance

    def call(self, row: Row, argv: Sequence[bytes]) -> Any:
        """The reply is the command's key or message, where Redis's own says less."""
        match row.name:
            case "get" | "set" | "incr":
                return argv[1]
            case "eval":
                return argv[-1]
            case "mget":
                return list(argv[1:])
            case "del" | "unlink":
                return len(argv) - 1
            case "blpop":
                waits = self.queue is None and self._chance.random() < 0.7
                return self.block(argv, argv[1:-1], 0.0) if waits else [argv[1], b"v"]
        return super().call(row, argv)


class Answered(Served):
    """A session's connection to a node."""

    connection: AnsweringConnection

    def __init__(self, answering: Answering, upstream: Upstream) -> None:
        self.node = answering.nodes[upstream.key.node.number]
        super().__init__(upstream, AnsweringConnection(self.node.server, answering.chance))

    def unblock(self, *, by_force: bool = False) -> None:
        """What the blocking command waits for is there."""
        blocked = self.connection.blocked
        if blocked is not None:
            key = blocked.argv[1]
            error = self.node.refusal([key], asking=False)
            error = error or "UNBLOCKED client unblocked via CLIENT UNBLOCK" * by_force
            self.connection.unblock(Refusal(error) if error else [key, b"v"])

"""Nodes of a cluster that keep no data: a reply follows from its command alone, so that one in another's place shows.

What the nodes refuse changes under a test's hands: slots move, whole or key by key, TRYAGAIN, nobody owns a slot, users
lack rights. A slot that moves key by key has lost its keys with odd numbers.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import cast

from proxy.commands.slots import slot_of
from proxy.commands.table import Lane
from proxy.hotpath.cluster.router import UNOWNED
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.pool_key import Node, PoolKey
from proxy.wire.encode import encode_array, encode_bulk
from tests.hotpath.routed import owners
from tests.resp import FrameReader, decode
from tests.session.clustered import NODES, TAGS, ClusterRoute, FakeNodes
from tests.session.given import HOME, Upstream

SLOTS_OF_TAGS = [slot_of(tag.encode()) for tag in TAGS]
CLIENT_ID = b":77\r\n"
ONE_KEY = frozenset({b"GET", b"SET", b"INCR", b"BLPOP", b"WATCH", b"EXPIRE", b"EXISTS", b"TTL"})
ALL_KEYS = frozenset({b"MGET", b"DEL", b"UNLINK"})
NUMBER = frozenset({b"EXPIRE", b"EXISTS", b"TTL", b"PTTL", b"MSETEX", b"DBSIZE", b"PUBLISH", b"SPUBLISH", b"WAIT"})
SUBSCRIBING = frozenset(
    prefix + verb for prefix in (b"", b"S", b"P") for verb in (b"SUBSCRIBE", b"UNSUBSCRIBE")
)  # fmt: skip


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


class Answering:
    """What all nodes know. ``opened`` are slots that move key by key, and where to; ``forbidden`` the commands that the
    user may not run; ``chance`` decides whether a command that may block does."""

    def __init__(self, chance: random.Random, forbidden: frozenset[bytes] = frozenset()) -> None:
        self.chance = chance
        self.forbidden = forbidden
        self.owners = owners(len(NODES))
        self.opened: dict[int, int] = {}
        self.trying_again: set[int] = set()

    def calm(self) -> None:
        """Each slot has an owner, and moves no more."""
        self.opened.clear()
        self.trying_again.clear()
        for slot in SLOTS_OF_TAGS:
            self.owners[slot] = max(0, self.owners[slot])

    def refusal(self, node: int, argv: Sequence[bytes], asking: bool) -> bytes:
        """Why this node does not run the command; empty if it does."""
        keys = keys_of(argv)
        if not keys:
            return b""
        slot = slot_of(keys[0])
        owner = self.owners[slot]
        if owner == node:
            target = self.opened.get(slot, node)
            if slot in self.trying_again:
                return b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n"
            return b"-ASK %d 127.0.0.1:700%d\r\n" % (slot, target) if target != node and keys[0][-1] % 2 else b""
        if owner == UNOWNED:
            return b"-CLUSTERDOWN Hash slot not served\r\n"
        return b"" if asking else b"-MOVED %d 127.0.0.1:700%d\r\n" % (slot, owner)


def keys_of(argv: Sequence[bytes]) -> Sequence[bytes]:
    """The keys by which a node refuses a command."""
    match argv[0].upper():
        case b"EVAL":
            return argv[3 : 3 + int(argv[2])]
        case b"MSET":
            return argv[1::2]
        case name if name in ONE_KEY:
            return argv[1:2]
        case name if name in ALL_KEYS:
            return argv[1:]
    return ()


class AnsweringConnection:
    """One connection to a node: ``replies`` have not arrived yet, and ``blocked`` is the command that waits."""

    def __init__(self, nodes: Answering, upstream: Upstream) -> None:
        self.nodes = nodes
        self.upstream = upstream
        self.requests = FrameReader()
        self.replies = b""
        self.queued: list[list[bytes]] | None = None
        self.asking = self.spoiled = False
        self.blocked: list[bytes] | None = None

    @property
    def node(self) -> int:
        return self.upstream.key.node.number

    def step(self) -> list[bytes] | None:
        """Answer one more command, which is returned, if there is one."""
        if self.blocked is not None:
            return None
        self.requests.feed(self.upstream.taken())
        frame = self.requests.frame()
        if frame is None:
            return None
        argv = cast("list[bytes]", decode(frame))
        asking, self.asking = self.asking, False
        self.replies += self.answer(argv, asking)
        return argv

    def unblock(self, *, by_force: bool = False) -> None:
        """What the blocking command waits for is there."""
        argv, self.blocked = self.blocked, None
        if argv is not None:
            reply = b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n" if by_force else self.run(argv)
            self.replies += self.nodes.refusal(self.node, argv, asking=False) or reply

    def arrive(self, most: int) -> bool:
        """Some bytes of what it has answered reach Keyrail."""
        piece, self.replies = self.replies[:most], self.replies[most:]
        if piece:
            self.upstream.answer(piece)
        assert not self.upstream.complaints, self.upstream.complaints
        return bool(piece)

    def answer(self, argv: list[bytes], asking: bool) -> bytes:
        name = argv[0].upper()
        if name == b"ASKING":
            self.asking = True
            return b"+OK\r\n"
        if name in self.nodes.forbidden:
            self.spoiled = True
            return b"-NOPERM this user has no permissions to run the command\r\n"
        if argv == [b"GET"]:  # so Keyrail spoils a transaction
            self.spoiled = True
            return b"-ERR wrong number of arguments for 'get' command\r\n"
        if name in (b"MULTI", b"EXEC", b"DISCARD"):
            return self._transaction(argv, asking)
        if self.queued is not None and name != b"RESET":
            return self._queue(argv, asking)
        refused = self.nodes.refusal(self.node, argv, asking)
        if not refused and name == b"BLPOP" and self.nodes.chance.random() < 0.7:
            self.blocked = argv
            return b""
        return refused or self.run(argv)

    def _transaction(self, argv: list[bytes], asking: bool) -> bytes:
        name, queued = argv[0].upper(), self.queued
        if name == b"MULTI":
            if queued is not None:
                return b"-ERR MULTI calls can not be nested\r\n"
            self.queued, self.spoiled = [], False
            return b"+OK\r\n"
        if queued is None:
            return b"-ERR %b without MULTI\r\n" % name
        self.queued = None
        if name == b"DISCARD":
            return b"+OK\r\n"
        if self.spoiled or len(argv) > 1:
            return b"-EXECABORT Transaction discarded because of previous errors.\r\n"
        refused = next(filter(None, (self.nodes.refusal(self.node, each, asking) for each in queued)), b"")
        return refused or b"*%d\r\n" % len(queued) + b"".join(map(self.run, queued))

    def _queue(self, argv: list[bytes], asking: bool) -> bytes:
        assert self.queued is not None
        if argv[0].upper() == b"WATCH":
            return b"-ERR WATCH inside MULTI is not allowed\r\n"
        refused = self.nodes.refusal(self.node, argv, asking)
        if refused:
            self.spoiled = True
            return refused
        self.queued.append(argv)
        return b"+QUEUED\r\n"

    def run(self, argv: list[bytes]) -> bytes:
        """The reply to a command that is not refused: its key or message, where Redis's own says less."""
        name = argv[0].upper()
        if name in NUMBER:
            return b":1\r\n"
        if name in SUBSCRIBING:
            kind = b">" if self.upstream.key.protocol == 3 else b"*"
            head = kind + b"3\r\n" + encode_bulk(name.lower())
            return b"".join(head + encode_bulk(channel) + b":1\r\n" for channel in argv[1:])
        match name:
            case b"GET" | b"SET" | b"INCR" | b"ECHO":
                return encode_bulk(argv[1])
            case b"EVAL":
                return encode_bulk(argv[-1])
            case b"PING":
                return encode_bulk(argv[1]) if len(argv) > 1 else b"+PONG\r\n"
            case b"MGET":
                return encode_array(argv[1:])
            case b"DEL" | b"UNLINK":
                return b":%d\r\n" % (len(argv) - 1)
            case b"BLPOP":
                return encode_array([argv[1], b"v"])
            case b"PUBSUB":
                return b"*2\r\n" + encode_bulk(argv[2]) + b":0\r\n"
            case b"HELLO":
                return b"%1\r\n+a\r\n+b\r\n" if argv[1:2] == [b"3"] else b"*2\r\n+a\r\n+b\r\n"
            case b"RESET":
                self.queued = None
                return b"+RESET\r\n"
            case b"CLIENT" if argv[1] == b"ID":
                return CLIENT_ID
        return b"+OK\r\n"

"""A model of a cluster whose slots move, and of a worker whose clients read and write through one reply cache.

As in ``model.py``, each step is one event somewhere. A slot moves in one of three ways: its keys leave one by one, as
both nodes have it open; or another node has it all at once, and the former one learns so a little later, deletes its
keys, and tells of that; or another node has it, as the former one was cut off: that one tells of nothing when it is
back. Until a node has learned what it has lost, it answers reads from what it had, but takes no writes. One of them
answers reads also while it is cut off, as ``cluster-allow-reads-when-down`` has it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from itertools import count

from proxy.commands.slots import slot_of
from proxy.hotpath.cache.cached_reply import ReplySource
from proxy.hotpath.cache.reply_cache import ReplyCache
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.local_cache.barrier import Barrier
from proxy.local_cache.fills import Fills
from proxy.net.cache.cluster_slots import ClusterSlots
from proxy.net.config.address import UpstreamAddress
from proxy.net.config.endpoint import Endpoint
from proxy.net.topology.cluster import Cluster
from proxy.net.topology.slot_map import ClusterNode, SlotMap, SlotRange
from proxy.session.ports.pool_key import Node
from tests.local_cache.model import BOUNDS, MOST_STALE, Applications, ModelRedis, Noticed, Sent, Value, get

CLUSTER_KEYS = (b"{1}a", b"{1}b", b"{2}c")
SLOTS_OF_KEYS = sorted({slot_of(key) for key in CLUSTER_KEYS})
LEARNS_WITHIN = 0.3
"""Seconds until a node learns that another one has a slot."""


@dataclass(frozen=True)
class Redirect:
    """A command that this node does not run, but another one; or nobody."""

    to: int
    asking: bool


NOWHERE = Redirect(-1, asking=False)


@dataclass
class ModelNode(ModelRedis):
    """A node, as it sees itself. ``open_to`` and ``opened_from`` have slots that are on their way, with the other
    node's number; ``lost`` those that it does not know to be another's, with that one's number; ``untold`` those that
    it has lost and has not told of."""

    number: int = 0
    others: list[ModelNode] = field(default_factory=list)
    slots: set[int] = field(default_factory=set)
    open_to: dict[int, int] = field(default_factory=dict)
    opened_from: dict[int, int] = field(default_factory=dict)
    lost: dict[int, int] = field(default_factory=dict)
    untold: set[int] = field(default_factory=set)
    lost_at: float = 0.0
    ok: bool = True
    reads_when_down: bool = False

    def redirected(self, key: bytes, *, reads: bool, asking: bool = False) -> Redirect | None:
        """Where it sends a command of this key; None if it runs it."""
        slot = slot_of(key)
        if not self.ok and not (self.reads_when_down and reads):
            return NOWHERE
        if slot in self.slots:
            gone = slot in self.open_to and not self.look(key)
            return Redirect(self.open_to[slot], asking=True) if gone else None
        if asking and slot in self.opened_from:
            return None
        owner = next((each.number for each in self.others if slot in each.slots and slot not in each.lost), self.number)
        return Redirect(owner, asking=False)

    def run_asked(self) -> None:
        if not self.asked:
            return
        name, *arguments = self.asked[0]
        if name == b"CLUSTER":
            self.asked.popleft()
            told = self._state() if arguments[0] == b"INFO" else self._line()
            self.to_worker += b"$%d\r\n%b\r\n" % (len(told), told)
        elif (redirect := self.redirected(arguments[0], reads=True)) is not None:
            self.asked.popleft()
            error = b"-CLUSTERDOWN" if redirect is NOWHERE else b"-ASK" if redirect.asking else b"-MOVED"
            self.to_worker += error + b" %d 127.0.0.1:%d\r\n" % (slot_of(arguments[0]), redirect.to)
        else:
            super().run_asked()

    def _state(self) -> bytes:
        return b"cluster_state:%b\r\n" % (b"ok" if self.ok else b"fail")

    def _line(self) -> bytes:
        words = [b"%d" % slot for slot in sorted(self.slots)]
        words += [b"[%d->-%x]" % (slot, number) for slot, number in self.open_to.items()]
        words += [b"[%d-<-%x]" % (slot, number) for slot, number in self.opened_from.items()]
        return b"%x 127.0.0.1:1@2 myself,master - 0 0 1 connected %b\n" % (self.number, b" ".join(words))

    def gives_up(self, key: bytes) -> bool:
        """Whether it takes no writes of the key any more."""
        slot = slot_of(key)
        return slot in self.lost and slot not in self.open_to

    def remove_expired(self, key: bytes) -> bool:
        if slot_of(key) not in self.lost:
            return super().remove_expired(key)
        return False  # what happens to its copy is no history of the key

    def learn(self, *, silently: bool = False) -> None:
        """It learns which slots another node has."""
        for slot in self.lost:
            self.open_to.pop(slot, None)
            self.slots.discard(slot)
            for key in [key for key in self.values if slot_of(key) == slot]:
                del self.values[key]
                if not silently:
                    self.invalidate(key)
        if silently:
            self.untold |= self.lost.keys()
        self.lost.clear()


class ClusterWorld:
    """A worker with two clients, each with a connection of its own to each of three nodes."""

    def __init__(self) -> None:
        self.now = 100.0
        self.history: dict[bytes, list[Value]] = {}
        versions = count(1)
        self.nodes = [
            ModelNode(self.now, history=self.history, versions=versions, number=number) for number in range(3)
        ]
        for node in self.nodes:
            node.others = [other for other in self.nodes if other is not node]
        for node, slot in zip(self.nodes, SLOTS_OF_KEYS, strict=False):
            node.slots.add(slot)
        self.nodes[0].reads_when_down = True
        self.sent_away: set[tuple[int, int]] = set()
        self.cluster = Cluster(UpstreamAddress())
        self.cluster.adopt(self._true_map())
        self.slots = ClusterSlots(self.cluster)
        self.cache = ReplyCache(self.slots.marks)
        self.sources = [ReplySource(self.cache) for _ in self.nodes]
        self.fills: dict[int, Fills] = {}
        self.barrier = Barrier(self.cache, lambda: list(self.fills.values()))
        self.clients = (ReplySink(), ReplySink())
        self.sent: dict[ReplySink, deque[Sent]] = {client: deque() for client in self.clients}
        self.done: set[int] = set()
        self.to_node: dict[tuple[ReplySink, int], deque[tuple[Sent, bool]]] = {
            (client, node.number): deque() for client in self.clients for node in self.nodes
        }
        self.to_client: dict[ReplySink, deque[tuple[Sent, int, Redirect | None]]] = {
            client: deque() for client in self.clients
        }
        self.applications = Applications(self.history, MOST_STALE + LEARNS_WITHIN)
        self._connect_all()

    # The cluster

    def owner(self, key: bytes) -> ModelNode:
        """The node that has the key's value now."""
        slot = slot_of(key)
        node = next(each for each in self.nodes if slot in each.slots and slot not in each.lost)
        moves_to = node.open_to.get(slot)
        return node if moves_to is None or node.look(key) else self.nodes[moves_to]

    def open(self, slot: int, to: int) -> None:
        """The keys of a slot begin to leave one by one."""
        source = self._settled_owner(slot)
        if source is not None and source.number != to and slot not in self.nodes[to].slots:
            self.nodes[to].opened_from[slot] = source.number
            source.open_to[slot] = to

    def move(self, key: bytes) -> None:
        """A key leaves."""
        slot = slot_of(key)
        for source in self.nodes:
            if slot in source.open_to and source.look(key):
                self.nodes[source.open_to[slot]].values[key] = source.values.pop(key)
                source.invalidate(key)

    def close(self, slot: int) -> None:
        """All of them have left: the new node owns the slot, and the other one will learn that."""
        for source in self.nodes:
            if slot in source.open_to and not any(source.look(key) for key in CLUSTER_KEYS if slot_of(key) == slot):
                self._take(slot, source, self.nodes[source.open_to[slot]])

    def jump(self, slot: int, to: int) -> None:
        """A node has the slot at once."""
        source = self._settled_owner(slot)
        if source is not None and source.number != to and slot not in self.nodes[to].slots:
            self.nodes[to].values |= {
                key: replace(value) for key, value in source.values.items() if slot_of(key) == slot
            }
            self._take(slot, source, self.nodes[to])

    def _settled_owner(self, slot: int) -> ModelNode | None:
        owner = next(each for each in self.nodes if slot in each.slots and slot not in each.lost)
        return None if slot in owner.open_to else owner

    def _take(self, slot: int, source: ModelNode, target: ModelNode) -> None:
        source.lost[slot] = target.number
        source.lost_at = self.now
        target.opened_from.pop(slot, None)
        target.slots.add(slot)
        target.untold.discard(slot)
        self.sent_away.discard((target.number, slot))

    def fail(self, node: ModelNode) -> None:
        """The node is cut off from the others, and so its slots are another one's soon."""
        node.ok = False

    def heal(self, node: ModelNode) -> None:
        """It is back, and learns what it has lost before it takes commands again."""
        node.learn(silently=True)
        node.ok = True

    def flush(self, node: ModelNode) -> None:
        """FLUSHALL."""
        keys = [key for key in CLUSTER_KEYS if self.owner(key) is node and key in node.values]
        if node.lost:
            return
        for key in keys:
            node.write(key, None, delete=True, silent=True)
        node.tracked.clear()
        node.tell_all(keys)

    # The worker

    def _true_map(self) -> SlotMap:
        owned = {
            node.number: tuple(SlotRange(slot, slot) for slot in sorted(node.slots - node.lost.keys()))
            for node in self.nodes
        }
        found = [ClusterNode(f"{number:x}", Endpoint("127.0.0.1", number), slots=owned[number]) for number in owned]
        return SlotMap({node.id: node for node in found})

    def node_of(self, number: int) -> Node:
        """The topology's name of a node."""
        node = self.cluster.member(f"{number:x}")
        assert node is not None
        return node

    def follow(self) -> None:
        """The worker gets the map of this moment."""
        if self.cluster.adopt(self._true_map()).new:
            self.slots.follow()

    def _connect_all(self) -> None:
        for node in self.nodes:
            self._connect(node)

    def _connect(self, node: ModelNode) -> None:
        node.disconnect()
        word = self.slots.word_of(self.node_of(node.number))
        self.fills[node.number] = Fills(self.cache, self.sources[node.number], node.ask, self.now, word)

    def read(self, key: bytes) -> None:
        """A client reads. Without a reply in memory, a fill is begun."""
        read = get(key)
        reply = self.cache.find(read.request, self.now)
        if reply is None:
            number = self._number_of(key)
            if number is not None:
                self.fills[number].begin(read, BOUNDS, self.now, lambda: None)
        elif reply.resp3 is not None:
            owner = self.owner(key)
            source, slot = self.nodes[self.sources.index(reply.source)], slot_of(key)
            if (source.number, slot) in self.sent_away:
                raise Noticed(f"{key!r} came from a node that has sent a client elsewhere, as it has lost the slot")
            told = source.told(key) or slot in source.lost or slot in source.untold
            self.applications.read(key, reply.resp3, owner.look(key), self.now, told=told)

    def _number_of(self, key: bytes) -> int | None:
        node = self.slots.node_of(key)
        return next((each.number for each in self.nodes if self.node_of(each.number) is node), None)

    def send(self, client: ReplySink, kind: str, key: bytes, expires: float | None = None) -> None:
        """A client's command is forwarded to the node that owns the key by the map."""
        number = self._number_of(key)
        if number is None:
            return
        client.requested += 1
        client.pending_replies += 1
        if kind == "script":
            self.cache.hold_back(client, client.requested)
        else:
            self.cache.hold(key, client, client.requested)
        sent = Sent(client, kind, key, expires)
        self.sent[client].append(sent)
        self.to_node[client, number].append((sent, False))

    def run(self, client: ReplySink, node: ModelNode) -> None:
        """A node runs the next command of a client."""
        waiting = self.to_node[client, node.number]
        if not waiting or (node.ok and waiting[0][0].kind != "look" and node.gives_up(waiting[0][0].key)):
            return
        sent, asking = waiting.popleft()
        redirect = node.redirected(sent.key, reads=sent.kind == "look", asking=asking)
        if redirect is None:
            sent.run(node)
        self.to_client[client].append((sent, node.number, redirect))

    def answer(self, client: ReplySink) -> None:
        """The worker gets a reply. The client gets those that are next, and knows what it has done or seen."""
        if not self.to_client[client]:
            return
        sent, number, redirect = self.to_client[client].popleft()
        if redirect is not None:
            self.doubt(number)
            if redirect is not NOWHERE and not redirect.asking:
                slot = slot_of(sent.key)
                self.sent_away |= {(number, slot)} if slot not in self.nodes[number].slots else set()
        if redirect is None or redirect is NOWHERE:
            self.done.add(id(sent))
        else:
            self.to_node[client, redirect.to].append((sent, redirect.asking))
        while self.sent[client] and id(self.sent[client][0]) in self.done:
            answered = self.sent[client].popleft()
            self.done.discard(id(answered))
            client.pending_replies -= 1
            for key, version in answered.result.items():
                self.applications.learn(key, version)

    def doubt(self, number: int) -> None:
        """The worker has seen that this node sends commands elsewhere."""
        self.fills[number].doubt(self.now)

    def deliver(self, node: ModelNode, size: int) -> None:
        """The worker reads so many bytes of a tracking connection."""
        self.fills[node.number].receive(node.deliver(size), self.now)

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds
        for node in self.nodes:
            node.now = self.now
            if node.ok and node.lost and self.now - node.lost_at > LEARNS_WITHIN:
                node.learn()

    def tick(self) -> None:
        for node in self.nodes:
            if not self.fills[node.number].tick(self.now):
                self.lose(node)
        self.barrier.settle(self.now)

    def lose(self, node: ModelNode) -> None:
        """A tracking connection is lost."""
        lost = self.fills[node.number]
        lost.lost()
        self.slots.leave(self.node_of(node.number))
        self._connect(node)
        self.barrier.passed(lost, self.now)

    def settle(self) -> None:
        """Everything that is under way comes to an end."""
        for node in self.nodes:
            self.heal(node)
        self.follow()
        for _ in range(5):
            for client in self.clients:
                for node in self.nodes:
                    while self.to_node[client, node.number]:
                        self.run(client, node)
                while self.to_client[client]:
                    self.answer(client)
            self.tick()
            for node in self.nodes:
                while node.asked:
                    node.run_asked()
                self.deliver(node, len(node.to_worker))

"""A node of a cluster: what it believes of the others, and which commands it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.simulation.network import Path
from tests.simulation.replies import SYNTAX, Push, Refusal, Text
from tests.simulation.slots import SLOTS, slot_of

if TYPE_CHECKING:
    from tests.simulation.connection import Connection
    from tests.simulation.engine import Server

CROSS_SLOT = "CROSSSLOT Keys in request don't hash to the same slot"
TRY_AGAIN = "TRYAGAIN Multiple keys request during rehashing of slot"


class Claim(NamedTuple):
    """What a node tells of itself."""

    by: Node
    version: int
    epoch: int
    slots: frozenset[int]
    primary: Node | None


class Node:
    """``ok`` is the state of the cluster as it sees it, ``failed`` are the nodes that a majority takes for lost."""

    def __init__(self, server: Server, number: int) -> None:
        self.server, self.id, self.shard = server, f"{number + 1:x}" * 40, f"{number + 1:x}0" * 20
        server.node = self
        self.peers: dict[Node, Path] = {}
        self.owner: list[Node | None] = [None] * SLOTS
        self.slots: dict[Node, set[int]] = {self: set()}
        self.epochs: dict[Node, int] = {self: number + 1}
        self.primaries: dict[Node, Node | None] = {self: None}
        self.heard: dict[Node, int] = {}
        self.failed: set[Node] = set()
        self.migrating: dict[int, Node] = {}
        self.importing: dict[int, Node] = {}
        self.ok = True
        self.version = 0
        self._ranges: tuple[int, list[tuple[int, int, Node]]] = (-1, [])
        self._changes = 0

    def meet(self, other: Node) -> None:
        """Know another node."""
        self.peers[other] = Path(self.server.network, self.server.address[0], other.server.address[0], other.hear)
        self.slots[other], self.epochs[other], self.primaries[other] = set(), 0, None

    # What it runs

    def refusal(
        self,
        keys: Sequence[bytes],
        *,
        asking: bool,
        reads: bool = False,
        readonly: bool = False,
        channels: bool = False,
        queues: bool = False,
    ) -> str:
        """Why it does not run a command with these keys or ``channels``, nor ``queues`` it; empty if it does
        (``getNodeByQuery``). The connection is ``readonly``, and the command only ``reads``, too."""
        if not keys:
            return ""
        slot = slot_of(keys[0])
        owner = self.owner[slot]
        if owner is None:
            return "CLUSTERDOWN Hash slot not served"
        if any(slot_of(key) != slot for key in keys):
            return CROSS_SLOT
        if not self.ok:
            return "CLUSTERDOWN The cluster is down"
        mine = self.moving() if readonly else self
        looks = not channels and not (queues and self.server.valkey)  # which looks when all of a transaction runs
        moves = looks and (slot in mine.migrating or slot in mine.importing)
        missing = [not self.holds(key) for key in keys] if moves else []
        if owner is mine and slot in mine.migrating and any(missing):
            return self.redirect("ASK", slot, mine.migrating[slot]) if all(missing) else TRY_AGAIN
        if asking and slot in mine.importing:
            return TRY_AGAIN if len({*keys}) > 1 and any(missing) else ""
        if owner is self or ((reads or channels) and self.primaries[self] is owner):
            return ""
        return self.redirect("MOVED", slot, owner)

    def moving(self) -> Node:
        """The node whose slots that move it knows of: Valkey's replicas hear of SETSLOT."""
        return (self.primaries[self] if self.server.valkey else None) or self

    @staticmethod
    def redirect(word: str, slot: int, to: Node) -> str:
        host, port = to.server.address
        return f"{word} {slot} {host}:{port}"

    def holds(self, key: bytes) -> bool:
        db = self.server.databases[0]
        return key in db.values and db.expires.get(key, 1 << 62) > self.server.clock()

    def keys_in(self, slots: frozenset[int] | set[int]) -> list[bytes]:
        """Its keys in these slots."""
        return [key for key in self.server.databases[0].values if slot_of(key) in slots]

    # What it tells

    def command(self, words: Sequence[str]) -> Any:
        """CLUSTER …"""
        match [words[0].upper(), *words[1:]]:
            case ["MYID"]:
                return self.id.encode()
            case ["INFO"]:
                return self._info()
            case ["NODES"]:
                return Text("".join(f"{self._line(each)}\n" for each in (self, *self.peers)).encode())
            case ["SLOTS"]:
                return [[first, last, *map(_shown, self._serving(node))] for first, last, node in self._ranges_of()]
            case ["SHARDS"]:
                return [self._shard(each) for each, primary in self.primaries.items() if primary is None]
            case ["KEYSLOT", key]:
                return slot_of(key.encode())
            case ["COUNTKEYSINSLOT", slot]:
                return len(self.keys_in({int(slot)}))
            case ["GETKEYSINSLOT", slot, most]:
                return self.keys_in({int(slot)})[: int(most)]
        raise Refusal(SYNTAX)

    def _info(self) -> Text:
        serving = [node for node, slots in self.slots.items() if slots]
        epoch = max(self.epochs.values())
        lines = (
            *(
                f"cluster_state:{'ok' if self.ok else 'fail'}",
                f"cluster_slots_assigned:{SLOTS - self.owner.count(None)}",
            ),
            *(f"cluster_known_nodes:{len(self.peers) + 1}", f"cluster_size:{len(serving)}"),
            *(f"cluster_current_epoch:{epoch}", f"cluster_my_epoch:{self.epochs[self]}"),
        )
        return Text(b"".join(b"%b\r\n" % line.encode() for line in lines))

    def _shard(self, primary: Node) -> dict[bytes, Any]:
        nodes = [each for each, of in self.primaries.items() if primary in (each, of)]
        shown: dict[bytes, Any] = {
            b"slots": [slot for first, last, owner in self._ranges_of() if owner is primary for slot in (first, last)],
            b"nodes": [self._member(each) for each in nodes],
        }
        return shown | {b"id": primary.shard.encode()} if self.server.valkey else shown

    def _member(self, node: Node) -> dict[bytes, Any]:
        host, port = node.server.address
        return {
            b"id": node.id.encode(),
            b"port": port,
            b"ip": host.encode(),
            b"endpoint": host.encode(),
            b"role": b"master" if self.primaries[node] is None else b"replica",
            b"replication-offset": node.server.offset,
            b"health": b"fail" if node in self.failed else b"online",
        }

    def _ranges_of(self) -> list[tuple[int, int, Node]]:
        if self._ranges[0] != self._changes:
            found, first = [], 0
            for owner, group in groupby(self.owner):
                behind = first + sum(1 for _ in group)
                if owner is not None:
                    found.append((first, behind - 1, owner))
                first = behind
            self._ranges = self._changes, found
        return self._ranges[1]

    def _serving(self, primary: Node) -> Iterator[Node]:
        yield primary
        yield from (each for each, of in self.primaries.items() if of is primary and each not in self.failed)

    def _line(self, node: Node) -> str:
        host, port = node.server.address
        primary = self.primaries[node]
        flags = ("myself," if node is self else "") + ("master" if primary is None else "slave")
        flags += ",fail" if node in self.failed else ""
        words = [node.id, f"{host}:{port}@{port + 10000}", flags, "-" if primary is None else primary.id, "0", "0"]
        words += [str(self.epochs[node if primary is None else primary]), "connected"]
        words += [str(a) if a == b else f"{a}-{b}" for a, b, owner in self._ranges_of() if owner is node]
        if node is self:
            words += [f"[{slot}->-{to.id}]" for slot, to in self.moving().migrating.items()]
            words += [f"[{slot}-<-{source.id}]" for slot, source in self.moving().importing.items()]
        return " ".join(words)

    def publish(self, channel: bytes, message: bytes) -> None:
        """To the subscribers of all other nodes."""
        for path in self.peers.values():
            path.send((channel, message))

    # What it hears

    def announce(self, to: Iterable[Node] | None = None) -> None:
        """Tell the others what it owns, and whom it replicates."""
        claim = Claim(self, self.version, self.epochs[self], frozenset(self.slots[self]), self.primaries[self])
        for each in self.peers if to is None else to:
            self.peers[each].send(claim)

    def changed(self) -> None:
        """It has something new to tell."""
        self.version += 1
        self._changes += 1
        self.announce()

    def hear(self, items: Sequence[Any]) -> None:
        """What has come over the bus. A process that stands still does not hear it; it is told again."""
        if not self.server.alive or self.server.frozen:
            return
        for item in items:
            if isinstance(item, Claim):
                self._hear(item)
            else:
                self.server.publish(*item)
                self.server.after_command()

    def _hear(self, claim: Claim) -> None:
        by, before = claim.by, self.primaries[claim.by]
        self.heard[by], self.primaries[by], self.epochs[by] = claim.version, claim.primary, claim.epoch
        self._changes += before is not claim.primary
        mine = self.primaries[self] or self
        lost, gained = set(), claim.slots - self.slots[by]
        for slot in gained:
            owner = self.owner[slot]
            if owner is None or self.epochs[owner] < claim.epoch:
                self.assign(slot, by)
                lost |= {slot} if owner is mine else set()
        if lost:
            if not self.slots[mine] and by is not self and len(lost) == len(claim.slots):
                self.follow(by)
            elif mine is self:
                self.lose(lost)
            else:
                self._end_channels(lost)
        if self.primaries[self] is not None and self.primaries[self] is not self.server_of_primary():
            self.follow(self.primaries[self])

    def server_of_primary(self) -> Node | None:
        """The node whose data it really has."""
        return None if self.server.primary is None else self.server.primary.node

    def assign(self, slot: int, to: Node | None) -> None:
        """Believe that a slot is this node's, or nobody's."""
        owner = self.owner[slot]
        if owner is not None:
            self.slots[owner].discard(slot)
        self.owner[slot] = to
        if to is not None:
            self.slots[to].add(slot)
        self._changes += 1

    def lose(self, slots: set[int]) -> None:
        """Slots are another node's: so are their keys, and whoever waits for them."""
        for slot in slots:
            self.migrating.pop(slot, None)
        server = self.server
        for key in self.keys_in(slots):
            server.databases[0].drop(key)
            server.changed(0, key, None)
        server.unblock_all(self._moved)
        self._end_channels(slots)
        server.after_command()
        self.version += 1

    def _end_channels(self, slots: set[int]) -> None:
        for each in list(self.server.connections):
            for channel in [name for name in each.subscriptions["s"] if slot_of(name) in slots]:
                del each.subscriptions["s"][channel]
                each.say(Push([b"sunsubscribe", channel, len(each.subscriptions["s"])]))

    def _moved(self, connection: Connection) -> Refusal | None:
        assert connection.blocked is not None
        keys = [key for _, key in connection.blocked.places]
        error = self.refusal(keys, asking=True)
        return Refusal(error) if error.startswith("MOVED") else None

    def follow(self, primary: Node | None) -> None:
        """Become the replica of a node."""
        assert primary is not None
        was_primary = self.server.primary is None
        self.migrating.clear()
        self.importing.clear()
        self.primaries[self] = primary
        self.server.replicate(primary.server)
        if was_primary:
            self.server.unblock_all(self._moved)
            self.server.end_pause()
        self.changed()

    def take_over(self, slots: Iterable[int]) -> None:
        """Become the primary of these slots."""
        self.server.promote()
        self.primaries[self] = None
        self.epochs[self] = max(self.epochs.values()) + 1
        for slot in slots:
            self.assign(slot, self)
        self.changed()


def _shown(node: Node) -> list[Any]:
    host, port = node.server.address
    return [host.encode(), port, node.id.encode(), {}]

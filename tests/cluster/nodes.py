"""A real cluster: three primaries with a replica each, started in about two seconds, and what happens to clusters.

Nodes are `Engine`s, so they can be killed, frozen, cut off and started again. Their cluster bus is on the port 10,000
above their own, which `tests.engines` keeps free. What a method changes has reached the node that was asked when it
returns; `settle` waits until all living nodes tell the same.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import combinations
from typing import Any, cast

from tests.cluster.bus import Bus
from tests.engines import Engine, Kind
from tests.resp import PATIENCE_SECONDS, Wire, eventually, pack

SLOTS = 16384
MOST_AT_ONCE = 400
"""Slots that are open at the same time while all of them move."""
NODE_TIMEOUT_MS = 1500
FAILOVER_SECONDS = 6.0
"""After these, a planned failover has come to an end: ``CLUSTER_MF_TIMEOUT`` of the engines is five seconds."""
ELECTIONS = 4.5
"""For so many times its ``cluster-node-timeout``, a replica remembers its last election (``auth_retry_time`` is four
times). Until then Redis 7.0 begins no other: it counts the old votes once more, in vain, or waits. If it has waited for
as long as its primary does, it takes the place of one that acknowledges writes again, and those are lost."""
STEADY = {"cluster-replica-no-failover": "yes"}
"""No replica takes the place of a primary unless it is told to, or allowed: on a busy machine the others take one for
lost that is only slow, and what it has acknowledged is lost."""
_OPTIONS = {
    "cluster-enabled": "yes",
    "cluster-node-timeout": str(NODE_TIMEOUT_MS),
    "cluster-allow-replica-migration": "no",
    "repl-diskless-sync-delay": "0",
    "repl-ping-replica-period": "1",  # with it comes the first byte, without which Redis 7.0 shows no replica
}


class RealCluster:
    """`primaries` nodes with `replicas` of each. `nodes` has the primaries of the start first, then their replicas.

    Nodes of a `divisible` cluster can be cut off.
    """

    def __init__(
        self,
        kind: Kind,
        options: dict[str, str] | None = None,
        *,
        primaries: int = 3,
        replicas: int = 1,
        divisible: bool = False,
    ) -> None:
        self.kind = kind
        self.options = _OPTIONS | (options or {})
        self.nodes: list[Engine] = []
        self.forgotten: list[Engine] = []
        self._elected: dict[Engine, float] = {}
        self._bus = Bus() if divisible else None
        try:
            self._start(primaries, replicas)
        except BaseException:
            self.close()
            raise

    def _start(self, primaries: int, replicas: int) -> None:
        with ThreadPoolExecutor() as pool:
            starting = [pool.submit(Engine, self.kind, self.options) for _ in range(primaries * (1 + replicas))]
            self.nodes = [each.result() for each in starting]
        for engine in self.nodes:
            self._join_bus(engine)
        for number, engine in enumerate(self.nodes):
            engine.do("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for number, engine in enumerate(self.nodes[:primaries]):
            first, behind = number * SLOTS // primaries, (number + 1) * SLOTS // primaries
            if self.kind.version >= (7, 0):
                engine.do("CLUSTER", "ADDSLOTSRANGE", first, behind - 1)
            else:
                engine.do("CLUSTER", "ADDSLOTS", *range(first, behind))
        for one, other in combinations(self.nodes, 2):
            self._meet(one, other)
        eventually(lambda: all(len(self.table(each)) == len(self.nodes) for each in self.nodes))
        for number, replica in enumerate(self.nodes[primaries:]):
            replica.do("CLUSTER", "REPLICATE", self.id(self.nodes[number % primaries]))
        self.settle()

    def _join_bus(self, node: Engine) -> None:
        if self._bus is not None:
            port = str(self._bus.lead_to(self.id(node), node.port + 10_000))
            node.do("CONFIG", "SET", "cluster-announce-bus-port", port)
            node.options["cluster-announce-bus-port"] = port  # for when it starts again

    def _meet(self, one: Engine, other: Engine) -> None:
        port = other.options.get("cluster-announce-bus-port", other.port + 10_000)
        one.do("CLUSTER", "MEET", "127.0.0.1", other.port, port)

    # What nodes tell

    def id(self, node: Engine) -> str:
        """The node's id."""
        return cast("bytes", node.do("CLUSTER", "MYID")).decode()

    def table(self, of: Engine) -> list[list[str]]:
        """CLUSTER NODES of a node: the words of each line, without nodes in handshake."""
        lines = cast("bytes", of.do("CLUSTER", "NODES")).decode().splitlines()
        return [words for line in lines if "handshake" not in (words := line.split())[2]]

    def listed(self, by: Engine) -> set[str]:
        """The ids of all nodes that a node knows, living or not."""
        return {words[0] for words in self.table(by)}

    def _shown(self, by: Engine) -> set[str]:
        ranges = cast("list[list[Any]]", by.do("CLUSTER", "SLOTS"))
        return {shown[2].decode() for _, _, *nodes in ranges for shown in nodes}

    def silence(self, node_id: str, by: Engine) -> float:
        """For how many seconds a node has waited for the pong of the node with this id."""
        sent = next(int(words[4]) for words in self.table(by) if words[0] == node_id)
        seconds, microseconds = map(int, cast("list[bytes]", by.do("TIME")))
        return seconds + microseconds / 1e6 - sent / 1000 if sent else 0.0

    def node_of(self, node_id: str) -> Engine:
        """The node with this id."""
        return next(each for each in self.living() if self.id(each) == node_id)

    def living(self) -> list[Engine]:
        """The cluster's nodes whose process has not been killed."""
        return [each for each in self.nodes if each.process is not None and each not in self.forgotten]

    def primaries(self) -> list[Engine]:
        """The nodes that are primaries now, by their own word; frozen ones can't be asked."""
        return [each for each in self.living() if self.role(each) == "master"]

    def role(self, node: Engine) -> str:
        """`master` or `slave`."""
        return cast("bytes", cast("list[Any]", node.do("ROLE"))[0]).decode()

    def owner(self, slot: int) -> Engine:
        """The node that says of itself that it owns this slot."""
        for node in self.primaries():
            if self.owns(node, slot):
                return node
        raise AssertionError(f"nobody owns slot {slot}")

    def owns(self, node: Engine, slot: int) -> bool:
        """Whether the node says of itself that it owns this slot. For a moment of its move, nobody may."""
        mine = next(words for words in self.table(node) if "myself" in words[2])
        return any(_covers(word, slot) for word in mine[8:])

    def replicas_of(self, primary: Engine) -> list[Engine]:
        """The replicas of a primary, as it knows them."""
        name = self.id(primary)
        ids = [words[0] for words in self.table(primary) if words[3] == name]
        return [each for each in self.living() if self.id(each) in ids]

    def settle(self, among: Sequence[Engine] | None = None, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until the nodes (all living ones) say `ok` and tell the same, and replicas follow their primaries."""
        asked = self.living() if among is None else among
        eventually(lambda: self._is_settled(asked), seconds)

    def _is_settled(self, asked: Sequence[Engine]) -> bool:
        told = set()
        for node in asked:
            if node.info("replication").get("master_link_status", "up") != "up":
                return False
            with node.wire() as wire:
                if b"cluster_state:ok" not in wire.ask("CLUSTER", "INFO"):
                    return False
            rows = self.table(node)
            if any("?" in words[2] for words in rows):
                return False
            served = {words[0] for words in rows if words[3] != "-" or words[8:]}
            if "fail" not in str([words[2] for words in rows]) and self._shown(node) != served:
                return False  # Redis 7.0 shows a replica in CLUSTER SLOTS once it has heard its offset
            told.add(
                frozenset(
                    (words[0], words[2].removeprefix("myself,"), words[3], *(w for w in words[8:] if w[0] != "["))
                    for words in rows
                )
            )
        return len(told) == 1

    def replicas(self) -> list[Engine]:
        """The nodes that are replicas now, by their own word."""
        return [each for each in self.living() if self.role(each) == "slave"]

    def keys_in(self, slot: int, node: Engine, most: int = 1_000_000) -> list[bytes]:
        """Keys of a slot that this node holds."""
        return cast("list[bytes]", node.do("CLUSTER", "GETKEYSINSLOT", slot, most))

    # What happens to clusters

    def rest(self, replica: Engine) -> float:
        """For how many seconds this replica can't be elected yet."""
        pause = max(ELECTIONS * int(self.options["cluster-node-timeout"]) / 1000, FAILOVER_SECONDS)
        return max(self._elected.get(replica, 0.0) + pause - time.monotonic(), 0.0)

    def failover(self, replica: Engine, how: str = "") -> None:
        """Make a replica the primary as soon as it can be elected: planned, or with FORCE or TAKEOVER."""

        def has_taken_over() -> bool:
            if self.role(replica) == "master":
                return True
            if self.rest(replica) == 0.0:  # again, too: nodes give up where they are too busy, and tell nobody
                self._elected[replica] = time.monotonic()
                replica.do("CLUSTER", "FAILOVER", *([how] if how else []))
            return False

        eventually(has_taken_over, self.rest(replica) + PATIENCE_SECONDS)
        self._elected[replica] = time.monotonic()

    @contextmanager
    def replaceable(self, replica: Engine) -> Iterator[Callable[[], None]]:
        """In this block, the replica may take the place of its primary; what is given waits until it has done so."""

        def has_taken_over() -> None:
            eventually(lambda: self.role(replica) == "master")
            self._elected[replica] = time.monotonic()

        replica.do("CONFIG", "SET", "cluster-replica-no-failover", "no")
        try:
            yield has_taken_over
        finally:
            replica.do("CONFIG", "SET", "cluster-replica-no-failover", "yes")

    def open_slot(self, slot: int, source: Engine, target: Engine) -> None:
        """Begin to move a slot as redis-cli does: from now on the source answers ASK for keys that it has not."""
        target.do("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id(source))
        source.do("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id(target))

    def move_keys(self, slot: int, source: Engine, target: Engine, keys: Iterable[bytes] | None = None) -> None:
        """Move these keys of an open slot, or all."""
        wanted = self.keys_in(slot, source) if keys is None else list(keys)
        if wanted:
            source.do("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *wanted)

    def close_slot(self, slot: int, target: Engine) -> None:
        """Give the slot to its new owner everywhere: there first, then at each primary."""
        name = self.id(target)
        for node in (target, *(each for each in self.primaries() if each is not target)):
            node.do("CLUSTER", "SETSLOT", slot, "NODE", name)

    def move_slots(self, slots: Iterable[int], source: Engine, target: Engine) -> None:
        """Move slots with their keys, one by one, as redis-cli does."""
        for slot in slots:
            self.open_slot(slot, source, target)
            self.move_keys(slot, source, target)
            self.close_slot(slot, target)

    def move_slots_atomically(self, first: int, last: int, source: Engine, target: Engine) -> None:
        """Move slots as Valkey 9 does by itself."""
        source.do("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", first, last, "NODE", self.id(target))
        eventually(lambda: self.owns(target, first) and self.owns(target, last))

    @contextmanager
    def cut_off(self, *nodes: Engine) -> Iterator[None]:
        """In this block, these nodes and the others do not reach each other, but clients reach all."""
        assert self._bus is not None, "this cluster is not divisible"
        self._bus.cut_off(*map(self.id, nodes))
        try:
            yield
        finally:
            self._bus.mend()

    def reshard_all(self) -> None:
        """Move each slot to the next primary: many at a time, by MIGRATESLOTS or as redis-cli does."""
        primaries = self.primaries()
        owned = {each.port: self.slots_of(each) for each in primaries}
        for source, target in zip(primaries, [*primaries[1:], primaries[0]], strict=True):
            self.reshard(owned[source.port], source, target)

    def reshard(self, slots: Sequence[int], source: Engine, target: Engine) -> None:
        """Move slots, many at a time: by MIGRATESLOTS or as redis-cli does."""
        if self.kind.is_valkey:
            self._migrate_ranges(slots, source, target)
        else:
            for first in range(0, len(slots), MOST_AT_ONCE):
                self._move_many(slots[first : first + MOST_AT_ONCE], source, target)

    def slots_of(self, node: Engine) -> list[int]:
        """The slots that this node says it owns, in order."""
        mine = next(words for words in self.table(node) if "myself" in words[2])
        bounds = [re.fullmatch(r"(\d+)(?:-(\d+))?", word) for word in mine[8:]]
        return [slot for found in bounds if found for slot in range(int(found[1]), int(found[2] or found[1]) + 1)]

    def _migrate_ranges(self, slots: Sequence[int], source: Engine, target: Engine) -> None:
        owned = set(slots)
        firsts = [slot for slot in slots if slot - 1 not in owned]
        ends = [slot for slot in slots if slot + 1 not in owned]
        for first, last in zip(firsts, ends, strict=True):
            self.move_slots_atomically(first, last, source, target)

    def _move_many(self, slots: Sequence[int], source: Engine, target: Engine) -> None:
        """As `move_slots`, with the commands of many slots in one pipeline each."""
        to, away = self.id(target), self.id(source)
        with ExitStack() as stack:
            ask = {each: stack.enter_context(each.wire()) for each in self.primaries()}
            pipelined(ask[target], [("CLUSTER", "SETSLOT", slot, "IMPORTING", away) for slot in slots])
            pipelined(ask[source], [("CLUSTER", "SETSLOT", slot, "MIGRATING", to) for slot in slots])
            held = pipelined(ask[source], [("CLUSTER", "COUNTKEYSINSLOT", slot) for slot in slots])
            for slot, count in zip(slots, held, strict=True):
                while count != b":0\r\n" and self.keys_in(slot, source, 1):
                    self.move_keys(slot, source, target)
            for each in (target, *(other for other in ask if other is not target)):
                pipelined(ask[each], [("CLUSTER", "SETSLOT", slot, "NODE", to) for slot in slots])

    def forget(self, gone: Engine) -> None:
        """Let all other nodes forget one, which goes on by itself."""
        name = self.id(gone)
        self.forgotten.append(gone)
        for node in self.living():
            node.do("CLUSTER", "FORGET", name)

    def add(self, kind: Kind | None = None) -> Engine:
        """Start one more node, of another engine perhaps: a primary without slots, that all know."""
        node = Engine(kind or self.kind, self.options)
        self.nodes.append(node)
        self._join_bus(node)
        for other in self.living():
            if other is not node:
                self._meet(node, other)
        names = {self.id(each) for each in self.living()}
        eventually(lambda: all(names <= self.listed(each) for each in self.living()))
        return node

    def close(self) -> None:
        """End all nodes."""
        for node in self.nodes:
            node.close()
        if self._bus is not None:
            self._bus.close()


def pipelined(wire: Wire, commands: Sequence[tuple[str | int, ...]]) -> list[bytes]:
    """Replies to commands that are sent in one piece; none may be an error."""
    wire.send(b"".join(pack(*words) for words in commands))
    replies = wire.frames(len(commands))
    assert not any(reply.startswith(b"-") for reply in replies), replies
    return replies


def _covers(word: str, slot: int) -> bool:
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
    return found is not None and int(found[1]) <= slot <= int(found[2] or found[1])

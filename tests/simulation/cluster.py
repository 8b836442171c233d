"""A cluster, and what happens to it: slots that move, and primaries that are replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import permutations

from tests.simulation.engine import Server
from tests.simulation.loop import until
from tests.simulation.network import Address, Network
from tests.simulation.node import Node
from tests.simulation.slots import SLOTS

TIMEOUT = 1.5
"""Seconds of silence after which a majority takes a node for lost."""
_TICK = 0.1


class Cluster:
    """So many primaries, each with so many replicas, at these ``places``: the primaries come first. ``elects`` is
    whether replicas take the place of the lost, and ``kind`` what nodes are."""

    kind: type[Node] = Node

    def __init__(
        self, network: Network, primaries: int = 3, replicas: int = 1, places: Sequence[Address] | None = None
    ) -> None:
        self.network, self.loop = network, network.loop
        hosts = places or [(f"10.0.0.{number + 1}", 6379) for number in range(primaries * (1 + replicas))]
        self.nodes = [self.kind(Server(network, each, databases=1), number) for number, each in enumerate(hosts)]
        self.elects = True
        for one, other in permutations(self.nodes, 2):
            one.meet(other)
        for number, node in enumerate(self.nodes):
            primary = self.nodes[number % primaries]
            if number >= primaries:
                node.primaries[node] = primary
                node.server.replicate(primary.server)
            for each in self.nodes:
                each.primaries[node], each.epochs[node] = node.primaries[node], node.epochs[node]
                each.heard[node] = 0
        for number, node in enumerate(self.nodes[:primaries]):
            owned = range(number * SLOTS // primaries, (number + 1) * SLOTS // primaries)
            for each in self.nodes:
                each.owner[owned.start : owned.stop] = [node] * len(owned)
                each.slots[node] = set(owned)
        self._since: dict[tuple[Node, Node], float] = {}

    @property
    def seeds(self) -> str:
        """The URL of the first nodes."""
        return "redis+cluster://" + ",".join(
            f"{host}:{port}" for host, port in (each.server.address for each in self.nodes[:3])
        )

    def primaries(self) -> list[Node]:
        """The nodes that own slots by their own word."""
        return [each for each in self.nodes if each.server.alive and each.slots[each] and each.primaries[each] is None]

    def owner(self, slot: int) -> Node:
        """By the word of the owner with the latest epoch."""
        own = [each for each in self.primaries() if slot in each.slots[each]]
        return max(own, key=lambda each: each.epochs[each])

    def replicas_of(self, primary: Node) -> list[Node]:
        """Those that have its data."""
        return [each for each in self.nodes if each.server.primary is primary.server and each.server.alive]

    # Slots that move

    def open(self, slots: Sequence[int], source: Node, target: Node) -> None:
        """SETSLOT … IMPORTING and MIGRATING."""
        for slot in slots:
            target.importing[slot] = source
            source.migrating[slot] = target

    def move_keys(self, slots: Sequence[int], source: Node, target: Node, most: int = 1 << 30) -> int:
        """So many keys at once; the number of those that were there."""
        keys = source.keys_in(set(slots))[:most]
        self.migrate(keys, source, target)
        return len(keys)

    def migrate(self, keys: Sequence[bytes], source: Node, target: Node) -> None:
        """MIGRATE."""
        for key in keys:
            target.server.databases[0].put(key, *source.server.databases[0].snapshot(key))
            target.server.changed(0, key, None)
            source.server.databases[0].drop(key)
            source.server.changed(0, key, None)
        for each in (source, target):
            each.server.after_command()

    def close(self, slots: Sequence[int], source: Node, target: Node) -> None:
        """SETSLOT … NODE at the new owner, and at the old one."""
        target.epochs[target] = max(each.epochs[each] for each in self.nodes) + 1
        for slot in slots:
            target.importing.pop(slot, None)
            target.assign(slot, target)
        target.changed()
        for slot in slots:
            source.assign(slot, target)
        source.epochs[target] = target.epochs[target]
        source.lose(set(slots))
        source.changed()

    async def move_somewhere(self, slot: int, meanwhile: Callable[[], Awaitable[None]]) -> None:
        """Move it to another primary, by chance, and let something happen while it is open."""
        source = self.owner(slot)
        target = self.network.chance.choice([each for each in self.primaries() if each is not source])
        self.open([slot], source, target)
        await meanwhile()
        self.move_keys([slot], source, target)
        self.close([slot], source, target)

    async def reshard(
        self, slots: Sequence[int], source: Node, target: Node, at_once: int = 400, *, atomic: bool = False
    ) -> None:
        """Move slots with their keys: many at a time, a key at a time, or, ``atomic``, as Valkey 9 does by itself."""
        for first in range(0, len(slots), at_once):
            part = slots[first : first + at_once]
            if not atomic:
                self.open(part, source, target)
                await asyncio.sleep(self._pause())
                await until(partial(self._moved_some, part, source, target), self._pause())
            self.move_keys(part, source, target)
            self.close(part, source, target)
            await asyncio.sleep(self._pause())

    async def reshard_all(self, at_once: int = 400, *, atomic: bool = False) -> None:
        """Move each slot to the next primary."""
        there = self.primaries()
        owned = {each: sorted(each.slots[each]) for each in there}
        for source, target in zip(there, [*there[1:], there[0]], strict=True):
            await self.reshard(owned[source], source, target, at_once, atomic=atomic)

    def _moved_some(self, slots: Sequence[int], source: Node, target: Node) -> bool:
        return not self.move_keys(slots, source, target, 1 + self.network.chance.randrange(4))

    def _pause(self) -> float:
        return 0.001 * self.network.chance.random()

    # Primaries that are replaced

    async def failover(self, replica: Node) -> None:
        """CLUSTER FAILOVER: the primary holds writes back until the replica has all of them."""
        primary = replica.primaries[replica]
        assert primary is not None
        primary.server.pause_writes(5.0)
        await until(lambda: replica.server.offset == primary.server.offset, 0.001)
        replica.take_over(list(primary.slots[primary]))

    def reaches(self, one: Node, other: Node) -> bool:
        """Whether both run, and reach each other."""
        servers = one.server, other.server
        running = all(each.alive and not each.frozen for each in servers)
        return running and self.network.reaches(*(each.address[0] for each in servers))

    async def watch(self) -> None:
        """What the bus does: nodes hear what they have missed, miss each other, and replicas are elected."""
        while True:
            await asyncio.sleep(_TICK)
            for one, other in permutations(self.nodes, 2):
                if not self.reaches(one, other):
                    self._since.setdefault((one, other), self.loop.now)
                    continue
                self._since.pop((one, other), None)
                if other.heard[one] != one.version:
                    one.announce([other])
            for node in self.nodes:
                if node.server.alive and not node.server.frozen:
                    self._judge(node)
            self._elect()

    def _misses(self, one: Node, other: Node) -> bool:
        return self.loop.now - self._since.get((one, other), self.loop.now) > TIMEOUT

    def _judge(self, node: Node) -> None:
        voters = [each for each, slots in node.slots.items() if slots]
        there = [each for each in voters if each is node or not self._misses(node, each)]
        majority = 2 * len(there) > len(voters)
        failed = {
            each
            for each in node.peers
            if majority and 2 * sum(self._misses(voter, each) for voter in there if voter is not each) > len(voters)
        }
        node._changes += node.failed != failed
        node.failed = failed if majority else node.failed
        node.ok = majority and not any(each in failed for each in voters)

    def _elect(self) -> None:
        for primary in [each for each in self.nodes if self.elects and each.primaries[each] is None]:
            ready = [each for each in self.nodes if each.primaries[each] is primary and primary in each.failed]
            if ready and not any(primary not in each.slots or not each.slots[primary] for each in ready):
                best = max(ready, key=lambda each: each.server.offset)
                best.take_over(list(best.slots[primary]))

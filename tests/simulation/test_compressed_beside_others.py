"""Histories of clients whose values are compressed, beside a server with plain values: each reply is that server's, or
a refusal that was foreseen, whatever else the policy says, and what is stored reads as the same values.

Each client has keys of its own, and sends several writes, each cut anywhere: transactions, WATCH, silenced commands,
scripts, what blocks, other protocols. Values are long enough for pieces (``LARGE``) and for several turns.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from proxy.compression.frames import FIELD, STRING, unpack
from proxy.net.policy.plan_compiler import PlanCompiler
from proxy.policy.model import Policy
from tests.conftest import seeds
from tests.policy.given import policy
from tests.resp import pack as request
from tests.simulation.cluster import Cluster
from tests.simulation.compressed_histories import FIRST, LARGE, MARK, SECOND, Argv, Historian, Part
from tests.simulation.engine import Server
from tests.simulation.network import Weather
from tests.simulation.sentinel import Group
from tests.simulation.slots import slot_of
from tests.simulation.test_compressed_replies import Turns
from tests.simulation.world import Client, Door, World, run

POLICY = """
apps: {acme: {match: {listener: "*:2"}}, plain: {match: {listener: "*:3"}}}
cross_slot: split
tenants: {prefix: "{app}:", apps: [acme]}
rules:
  docs: {compress: {keys: ["k:*", "acme:k:*"], MORE}}
  others: {compress: {keys: ["o:*"], above: 64B, codec: lz4}}
  OTHERS
rollout: {docs: {default: enforce, plain: audit}, others: enforce, ROLLOUT}
"""
DICTIONARIES = {each.name: each for each in (FIRST, SECOND)}
FORMS = (
    "above: 64B, also_read: [first.zdict, second.zdict]",
    "above: 64B, codec: lz4, also_read: [first.zdict, second.zdict]",
    "above: 64B, dictionary: first.zdict, also_read: second.zdict",
    "above: 64B, dictionary: second.zdict, level: 6, also_read: first.zdict",
    "above: 512MB, also_read: [first.zdict, second.zdict]",
)
OTHERS = {
    "memory": 'memory: {local_cache: {keys: ["*"], when: always, max_age: 30s}}',
    "replicas": 'replicas: {replica_reads: {keys: ["*"], max_lag: 1s}}',
    "lifetime": 'lifetime: {lifetime: {default: 100000s, keys: ["*"]}}',
    "sliding": 'sliding: {lifetime: {default: 100000s, sliding: true, keys: ["*"]}}',
    "unlink": "unlink: {replace: {DEL: UNLINK}}",
    "limits": "limits: {limits: {per: app, rate: 100000/s, burst: 100000, bytes: 50MB/s}}",
}


def policies(chance: random.Random, kind: str) -> list[Policy]:
    files = {"first.zdict": FIRST.content, "second.zdict": SECOND.content}
    others = [each for each in kind.split() if each in OTHERS]
    others += [
        each
        for each in ("unlink", "limits", *(() if "sliding" in others else ("lifetime",)))
        if chance.random() < 0.3 and each not in others
    ]
    text = POLICY.replace("OTHERS", "\n  ".join(OTHERS[each] for each in others))
    text = text.replace("ROLLOUT", ", ".join(f"{each}: enforce" for each in others))
    return [policy(text.replace("MORE", more), files) for more in FORMS]


class Wire(Client):
    """Whose frames are kept as they come, but for pushes."""

    def __init__(self, world: World, address: Any) -> None:
        super().__init__(world, address)
        self.frames: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        self._frames.feed(data)
        while (frame := self._frames.frame()) is not None:
            if frame[:1] != b">":
                self.frames.append(frame)


class Compared:
    """A client, and the same one beside the plain server."""

    def __init__(self, world: World, door: Door, plain: Server, historian: Historian, prefix: bytes) -> None:
        self.world, self.door, self.plain, self.historian, self.prefix = world, door, plain, historian, prefix
        self.chance = world.chance
        self.right = 0
        self.wire: Wire | None = None
        self.direct: Wire | None = None

    async def work(self, over: Callable[[], bool]) -> None:
        while not over():
            if self.wire is None or self.wire.closed:
                self.historian.anew()
                self.wire, self.direct = Wire(self.world, self.door.address), Wire(self.world, self.plain.address)
                try:
                    await self.wire.connect()
                    await self.direct.connect()
                except ConnectionRefusedError:
                    self.wire = None
                    await asyncio.sleep(0.01)
                    continue
            await self.play(self.historian.part())
            if self.chance.random() < 0.03:
                self.leave()
            await asyncio.sleep(0.005 * self.chance.random())

    def leave(self) -> None:
        if self.wire is not None:
            self.wire.close()
        self.wire = None

    async def play(self, part: Part) -> None:
        assert self.wire is not None
        assert self.direct is not None
        told = await self.tell(self.wire, part.commands, slow=True)
        if told is None:
            assert self.historian.kind.endswith("lost"), f"{self.historian.number} was closed: {part.commands}"
            self.wire = None
            return
        refused = zip(part.commands, part.refused, strict=True)
        expected = await self.tell(self.direct, [[b"NOSUCH"] if each else words for words, each in refused], slow=False)
        assert expected is not None
        for one, other in zip(told, expected, strict=True):
            if one.startswith(b"-CLUSTERDOWN keyrail") and self.historian.kind == "cluster moves":
                self.leave()  # pieces do not go to another node: now its keys have other values
                return
            is_refusal = other.startswith(b"-ERR unknown command 'NOSUCH'")
            fits = one.startswith(b"-DENIED keyrail/") if is_refusal else one == other or b"version" in other
            assert fits, f"client {self.historian.number}: {one!r} is not {other!r} in {part.commands}"
            self.right += 1

    async def tell(self, wire: Wire, commands: Sequence[Argv], slow: bool) -> list[bytes] | None:
        data = b"".join(request(*words) for words in commands)
        wire.frames.clear()
        last = b"+OK\r\n"
        if commands[-1] != [b"QUIT"]:
            last = b"$%d\r\n%b\r\n" % (len(commands[-1][1]), commands[-1][1])
        cuts = sorted(self.chance.choices(range(len(data)), k=self.chance.choice((0, 1, 3)))) if slow else []
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            if wire.closed:
                return None
            wire.transport.write(data[start:end])
            if end < len(data) and self.chance.random() < 0.7:
                await asyncio.sleep(0.003 * self.chance.random())
            if slow and self.chance.random() < 0.02:
                wire.transport.pause_reading()
                await asyncio.sleep(0.02)
                wire.transport.resume_reading()
        quits = commands[-1] == [b"QUIT"]
        async with asyncio.timeout(30):
            while wire.frames[-1:] != [last] or (quits and not wire.closed):
                if wire.closed:
                    return None
                await asyncio.sleep(0.0005)
        return None if quits and MARK[:7] not in wire.frames[-2] else list(wire.frames)

    def check(self, stored: Callable[[bytes], Any]) -> None:
        """What is stored now are the values of the plain server."""
        for name, value in self.plain.databases[0].values.items():
            if self.historian.tag in name:
                found = stored(self.prefix + name)
                if isinstance(found, dict) and not name.startswith(b"p:"):
                    found = {each: unpack(one, FIELD, DICTIONARIES) for each, one in found.items()}
                elif isinstance(found, bytes) and not name.startswith(b"p:"):
                    found = unpack(found, STRING, DICTIONARIES)
                assert found == value, name


KINDS = (
    "cluster moves",
    "lifetime",
    "sliding",
    "replicas are lost",
    "cluster is lost",
    "one server",
    "memory",
    "replicas",
    "cluster",
    "reloads",
    "connection is lost",
)


class Upstream:
    """What is behind Keyrail: its ``servers``, and which of them has a key."""

    def __init__(self, world: World, kind: str) -> None:
        self.cluster: Cluster | None = None
        self.group: Group | None = None
        if kind.startswith("cluster"):
            self.cluster = world.cluster(replicas=0 if kind == "cluster moves" else 1)
            self.url, self.servers = self.cluster.seeds, [each.server for each in self.cluster.nodes]
        elif kind.startswith("replicas"):
            self.group = world.group()
            self.url, self.servers = self.group.url, self.group.servers
        else:
            self.url, self.servers = "redis://10.0.3.1:6379", [world.server()]

    def stored(self, name: bytes) -> Any:
        """What a key holds."""
        server = self.servers[0] if self.group is None else self.group.primary
        if self.cluster is not None:
            server = self.cluster.owner(slot_of(name)).server
        return server.databases[0].values.get(name)

    def lose(self, chance: random.Random) -> None:
        """A connection breaks."""
        there = [one for each in self.servers for one in each.connections if one.transport is not None]
        for each in chance.sample(there, min(1, len(there))):
            each.transport.abort()


async def play(world: World, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, kind = world.chance, KINDS[seed % len(KINDS)]
    world.network.weather = Weather(most=chance.choice((0.0003, 0.002)))
    forms = policies(chance, kind)
    if large := chance.random() < 0.8:
        monkeypatch.setattr("proxy.wire.limits.LARGE", LARGE)
    turns = Turns(world, monkeypatch)
    upstream, plain = Upstream(world, kind), Server(world.network, ("10.0.9.1", 6379))
    keyrail = await world.keyrail(upstream.url, forms[0], traces=chance.choice((0, 50)))
    doors: dict[int, Door] = {1: keyrail, 2: keyrail.door(2), 3: keyrail.door(3)}
    has_ttls = any(each.name in ("lifetime", "sliding") for each in forms[0].rules)
    clients = []
    for number, port in enumerate((1, 1, 2, 3, 1, 2)):
        historian = Historian(random.Random(f"{seed} {number}"), number, kind, large, has_ttls)
        clients.append(Compared(world, doors[port], plain, historian, b"acme:" if port == 2 else b""))
    if kind == "cluster moves":
        assert upstream.cluster is not None
        world.start(upstream.cluster.reshard_all(atomic=chance.random() < 0.5))
    over = False
    tasks = [world.start(each.work(lambda: over)) for each in clients]
    for generation in range(2, 20):
        await asyncio.sleep(0.03)
        world.check()
        if kind.endswith("lost") and chance.random() < 0.3:
            upstream.lose(chance)
        if kind == "reloads" and chance.random() < 0.5:
            form = chance.choice(forms)
            await keyrail.route.prepare(form, generation, PlanCompiler(form).find)
            await keyrail.route.commit()
            await keyrail.route.pause(chance.random() < 0.2)
    over = True
    await asyncio.gather(*tasks)
    world.check()
    for each in clients:
        if each.wire is not None and not each.wire.closed:
            each.check(upstream.stored)
    assert sum(each.right for each in clients) > 100
    await world.until(lambda: turns.waiting == 0, 0.5)


@pytest.mark.parametrize("seed", seeds(2, 110))
def test_replies_are_those_of_plain_values(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run(lambda world: play(world, seed, monkeypatch), seed)

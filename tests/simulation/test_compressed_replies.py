"""Replies that are decompressed in portions, in simulated worlds: each client gets exactly its replies in their order,
and no turn of the event loop makes more than a portion.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from proxy.compression.budget import PlainBudget
from proxy.hotpath.upstream import late_replies
from proxy.net.policy.plan_compiler import PlanCompiler
from tests.conftest import seeds
from tests.policy.given import policy
from tests.simulation.network import Weather
from tests.simulation.world import Client, ClosedError, Keyrail, World, run

COMPRESSED = """
    rules:
      docs: {compress: {keys: ["k:*"], above: 64B}, mode: enforce}
"""
CACHED = """
      cached: {local_cache: {keys: ["k:*"], when: always, max_age: 30s}, mode: enforce}
"""
SHARED = """
      shared: {replica_reads: {keys: ["k:*"], max_lag: 1s}, mode: enforce}
"""
PORTION = 8 << 10
LARGEST = 6000
KEYS = 12
FIELDS = 40
MESSAGE = b">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$4\r\ntext\r\n"


def value(name: object) -> bytes:
    """What stands there: small or large, compressed or not."""
    r = random.Random(str(name))
    size = r.choice((5, 60, 200, 1000, LARGEST - 10))
    return (b"%b " % str(name).encode() * size)[:size]


def bulk(plain: bytes | None) -> bytes:
    return b"$-1\r\n" if plain is None else b"$%d\r\n%b\r\n" % (len(plain), plain)


class Asker:
    """A client that reads what nobody changes, and knows each reply."""

    confirmed = (b">3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n",)

    def __init__(self, world: World, keyrail: Keyrail, number: int, may_be_closed: bool) -> None:
        self.world, self.keyrail, self.number = world, keyrail, number
        self.chance = world.chance
        self.protocol = 2
        self.asked = 0
        self.closes = False
        self.may_be_closed = may_be_closed

    def any(self) -> tuple[tuple[Any, ...], bytes]:
        """A command and its reply."""
        chance = self.chance
        kind = chance.randrange(6)
        if kind == 0:
            self.asked += 1
            word = b"%d-%d" % (self.number, self.asked)
            return ("ECHO", word), bulk(word)
        if kind in (1, 2):
            key = f"k:{chance.randrange(KEYS)}"
            return ("GET", key), bulk(value(key))
        if kind == 3:
            keys = [f"k:{chance.randrange(KEYS)}" for _ in range(chance.choice((1, 3, 30)))]
            return ("MGET", *keys), b"*%d\r\n" % len(keys) + b"".join(bulk(value(key)) for key in keys)
        if kind == 4:
            fields = [f"f{chance.randrange(FIELDS + 2)}" for _ in range(chance.choice((1, 20)))]
            values = [value(field) if int(field[1:]) < FIELDS else None for field in fields]
            nulls = [b"_\r\n" if each is None and self.protocol == 3 else bulk(each) for each in values]
            return ("HMGET", "k:hash", *fields), b"*%d\r\n" % len(fields) + b"".join(nulls)
        pairs = b"".join(bulk(f"f{n}".encode()) + bulk(value(f"f{n}")) for n in range(FIELDS))
        return ("HGETALL", "k:hash"), (
            b"%%%d\r\n" % FIELDS if self.protocol == 3 else b"*%d\r\n" % (2 * FIELDS)
        ) + pairs

    def pipeline(self) -> list[tuple[tuple[Any, ...], bytes]]:
        """Some of them, perhaps in a transaction."""
        each = [self.any() for _ in range(self.chance.choice((1, 1, 2, 5)))]
        if self.chance.random() < 0.3:
            members = b"*%d\r\n" % len(each) + b"".join(reply for _, reply in each)
            queued = [(words, b"+QUEUED\r\n") for words, _ in each]
            each = [(("MULTI",), b"+OK\r\n"), *queued, (("EXEC",), members)]
            if self.chance.random() < 0.5:
                each.append(self.any())
        return each

    async def work(self, over: Callable[[], bool], transactions: bool = True) -> int:
        """Ask until it is over; how many replies were right."""
        client: Client | None = None
        right = 0
        while not over():
            try:
                if client is None:
                    client = await self._come()
                asked = self.pipeline() if transactions else [self.any() for _ in range(self.chance.choice((1, 2, 5)))]
                told = client.send(*(words for words, _ in asked), cut=self.chance.choice((0, 9)))
                await self._disturb(client)
                for (words, expected), reply in zip(asked, told, strict=True):
                    assert await reply == expected, words
                    right += 1
                assert all(each == MESSAGE or each in self.confirmed for each in client.pushes), "others are no replies"
            except (ClosedError, ConnectionRefusedError):
                assert self.closes or self.may_be_closed
                client, self.closes = None, False
            await asyncio.sleep(0.01 * self.chance.random())
        return right

    async def _come(self) -> Client:
        self.protocol = self.chance.choice((2, 3))
        client = await self.keyrail.client("HELLO", self.protocol)
        if self.protocol == 3 and self.number % 2:
            client.send(("SUBSCRIBE", "news"))[0].cancel()  # its confirmation is a push
            client._pending.clear()
        return client

    async def _disturb(self, client: Client) -> None:
        what = self.chance.random()
        if what < 0.05:
            self.closes = True
            client.close()
        elif what < 0.1:
            client.transport.pause_reading()
            await asyncio.sleep(0.02)
            client.transport.resume_reading()


class Turns:
    """What is made in each turn. A turn takes some time, in which other things happen."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(late_replies, "PORTION", PORTION)
        monkeypatch.setattr(late_replies, "_SHARE", PORTION // 2)
        monkeypatch.setattr(late_replies, "_PIECE", 1000)
        monkeypatch.setattr("proxy.compression.budget._EACH", 0)
        self.most = self.now = self.turns = self.waiting = self.late = 0
        self.world = world
        unpack = PlainBudget.unpack

        def counted(budget: PlainBudget, stored: bytes, *how: Any) -> bytes:
            plain = unpack(budget, stored, *how)
            self.now += len(plain)
            self.most = max(self.most, self.now)
            return plain

        monkeypatch.setattr(PlainBudget, "unpack", counted)
        append = late_replies._Unfinished.__init__

        def begun(unfinished: Any, *arguments: Any) -> None:
            self.late += 1
            append(unfinished, *arguments)

        monkeypatch.setattr(late_replies._Unfinished, "__init__", begun)
        run_by = late_replies.Portions.run_by
        monkeypatch.setattr(late_replies.Portions, "run_by", lambda each, _, fault: run_by(each, self.soon, fault))

    def soon(self, act: Callable[[], object]) -> None:
        def turn() -> None:
            self.now = 0
            self.turns += 1
            self.waiting -= 1
            act()

        self.waiting += 1
        self.world.loop.call_later(self.world.chance.random() * 0.002, turn)


async def stored(keyrail: Keyrail) -> None:
    client = await keyrail.client()
    for n in range(KEYS):
        await client.ask("SET", f"k:{n}", value(f"k:{n}"))
    await client.ask("HSET", "k:hash", *(word for n in range(FIELDS) for word in (f"f{n}", value(f"f{n}"))))
    client.close()


KINDS = {
    "one server": COMPRESSED,
    "cluster": COMPRESSED,
    "connections are lost": COMPRESSED,
    "memory": COMPRESSED + CACHED,
    "replicas": COMPRESSED + SHARED,
    "reloads": COMPRESSED,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(4, 100))
def test_each_client_gets_its_replies_in_order(seed: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(world: World) -> None:
        chosen = policy(KINDS[kind])
        world.network.weather = Weather(most=0.0005)
        server = world.server()
        url = "redis://10.0.3.1:6379"
        if kind in ("cluster", "replicas"):
            url = world.cluster().seeds if kind == "cluster" else world.group().url
        turns = Turns(world, monkeypatch)
        keyrail = await world.keyrail(url, chosen, traces=world.chance.choice((0, 50)))
        await stored(keyrail)
        over = False
        askers = [Asker(world, keyrail, number, kind == "connections are lost") for number in range(5)]
        tasks = [world.start(each.work(lambda: over, kind != "cluster")) for each in askers]
        publisher = await keyrail.client()
        for _ in range(50):
            await asyncio.sleep(0.02)
            publisher.send(("PUBLISH", "news", "text"))
            if kind == "connections are lost" and world.chance.random() < 0.2:
                for each in world.chance.sample([*server.connections], min(1, len(server.connections))):
                    each.transport.abort()
                if publisher.closed:
                    publisher = await keyrail.client()
            if kind == "reloads" and world.chance.random() < 0.2:
                route = keyrail.route
                await route.prepare(chosen, route._policies.generation + 1, PlanCompiler(chosen).find)
                await route.commit()
        over = True
        right = await asyncio.gather(*tasks)
        world.check()
        assert min(right) > 0
        assert turns.late > 20, "replies took several turns"
        assert turns.most < PORTION + LARGEST + 1
        await asyncio.sleep(0.5)
        assert turns.waiting == 0

    run(play, seed)

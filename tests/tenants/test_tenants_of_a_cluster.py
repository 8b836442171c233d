"""Two tenants of a simulated cluster whose slots move: each has its own keys and channels, nothing that it wrote is
lost, and what it is told is its own."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from proxy.session.cluster import node_of_keys, over_nodes
from proxy.session.policy import tenancy
from proxy.wire.encode import encode_command
from tests.conftest import seeds
from tests.policy.given import policy
from tests.resp import decode
from tests.simulation.cluster import Cluster
from tests.simulation.engine import Server
from tests.simulation.network import Weather
from tests.simulation.slots import slot_of
from tests.simulation.world import Client, Keyrail, World, run
from tests.simulation.writers import Writer

TENANTS = policy("""
apps:
  acme: {match: {user: acme}}
  globex: {match: {user: globex}}
tenants: {prefix: "{app}:", apps: [acme, globex]}
cross_slot: split
defaults: {mode: enforce}
rules:
  lazy: {replace: {DEL: UNLINK}}
  lifetimes: {lifetime: {default: 1h, keys: "t:*"}}
  small: {whole_collections: {max: 50}}
""")
NAMES = ("acme", "globex")
KEYS = ["a", "b", "t:1", "t:2", "globex:a", "acme:a", "acme:", "", "*", "{a}", "{a}1", "{a}2", "{b}1", "l", "h"]
LINES = """
GET {k}|SET {k} {v}|SET {k} {v} EX 100|SETNX {k} {v}|GETSET {k} {v}|GETDEL {k}|APPEND {k} {v}|STRLEN {k}|INCR {k}
MGET {k} {k} {k}|MGET {k} {k}|MSET {k} {v} {k} {v}|DEL {k} {k}|UNLINK {k} {k} {k}|EXISTS {k} {k}|TOUCH {k} {k}|TYPE {k}
RENAME {t} {t}|MSETNX {t} 1 {t} 2|HSET {k} f {v}|HGETALL {k}|LPUSH {k} {v}|RPUSH {k} 1 2|LPOP {k}|LRANGE {k} 0 -1
SADD {k} {v}|SMEMBERS {k}|BLPOP {t} {t} 0.01|BRPOP {k} 0.01|PING|ECHO {k}|PUBLISH {k} x|SPUBLISH {k} x
""".replace("\n", "|").strip("|")
UNSURE = frozenset({"PUBLISH", "SPUBLISH", "SMEMBERS"})


class Tenant:
    """Clients of a tenant, each of which also sends to the tenant's own Redis what it sends to the cluster."""

    def __init__(self, world: World, name: str, server: Server) -> None:
        self.world, self.name, self.server = world, name, server
        self.chance = random.Random(world.chance.random())
        self.protocol = self.chance.choice((2, 3))
        self.pairs: list[tuple[Client, Client]] = []

    async def begin(self, keyrail: Keyrail) -> None:
        hello = ("HELLO", self.protocol, "AUTH", self.name, "secret")
        for _ in range(2):
            own = Client(self.world, self.server.address)
            await own.connect()
            await own.ask(*hello)
            self.pairs.append((await keyrail.client(*hello), own))

    def words(self) -> list[str]:
        made = {"{k}": KEYS, "{t}": ("{a}1", "{a}2", "{a}"), "{v}": [str(number) for number in range(99)]}
        line = self.chance.choice(LINES.split("|"))
        return [self.chance.choice(made.get(word, (word,))) for word in line.split(" ")]

    async def step(self) -> None:
        through, own = self.chance.choice(self.pairs)
        lines = [self.words() for _ in range(self.chance.choice((1, 1, 2, 5)))]
        told, expected = await through.pipe(*lines), await own.pipe(*lines)
        for words, reply, alone in zip(lines, told, expected, strict=True):
            if words[0] not in UNSURE:
                assert reply == alone, (self.name, words)
            assert not reply.startswith(b"-") or alone.startswith(b"-"), (words, reply)

    async def walk(self) -> None:
        """SCAN tells all keys of the tenant, and no others."""
        through, own = self.pairs[0]
        found: set[bytes] = set()
        cursor: Any = b"0"
        while True:
            page: Any = decode(await through.ask("SCAN", cursor, "COUNT", 5000))
            cursor = page[0]
            found.update(page[1])
            if cursor == b"0":
                break
        alone: Any = decode(await own.ask("KEYS", "*"))
        assert found == {*alone}

    async def play(self, steps: int) -> None:
        for number in range(steps):
            await self.step()
            if number == steps // 3:
                await self.walk()


def stored(servers: list[Server]) -> dict[bytes, object]:
    return {key: value for server in servers for key, value in server.databases[0].values.items()}


async def begin(world: World, replicas: int = 0) -> tuple[Cluster, Keyrail]:
    cluster = world.cluster(replicas=replicas)
    for node in cluster.nodes:
        node.server.users |= {name.encode(): "secret" for name in NAMES}
    return cluster, await world.keyrail(cluster.seeds, TENANTS)


def play(steps: int) -> Callable[[World], Awaitable[None]]:
    async def played(world: World) -> None:
        world.network.weather = Weather(most=world.network.weather.most, lost=0.0)
        cluster, keyrail = await begin(world)
        tenants = [Tenant(world, name, world.server(number)) for number, name in enumerate(NAMES, 1)]
        for tenant in tenants:
            tenant.server.users[tenant.name.encode()] = "secret"
            await tenant.begin(keyrail)
        playing = [world.start(tenant.play(steps)) for tenant in tenants]
        moving = world.start(cluster.reshard_all(atomic=world.chance.random() < 0.3))
        for each in (*playing, moving):
            await each
        expected = {
            tenant.name.encode() + b":" + key: value
            for tenant in tenants
            for key, value in stored([tenant.server]).items()
        }
        assert stored([node.server for node in cluster.nodes]) == expected

    return played


@pytest.mark.parametrize("seed", seeds(4, 300))
def test_each_is_answered_as_if_it_were_alone(seed: int) -> None:
    run(play(100), seed)


class TenantWriter(Writer):
    """A writer that is a client of a tenant."""

    def __init__(self, world: World, keyrail: Keyrail, number: int, tenant: str) -> None:
        super().__init__(world, keyrail, number, 2 + number % 2)
        self.tenant = tenant

    def first(self) -> tuple[str | int, ...]:
        return *super().first(), "AUTH", self.tenant, "secret"


def log_of(cluster: Cluster, writer: TenantWriter) -> list[bytes]:
    name = writer.tenant.encode() + b":" + writer.log
    found: list[bytes] = cluster.owner(slot_of(name)).server.do("LRANGE", name, 0, -1)
    return found


async def write_while_slots_move(world: World) -> None:
    cluster, keyrail = await begin(world)
    over: list[bool] = []
    # Both tenants' writers have the same names for their keys.
    writers = [TenantWriter(world, keyrail, number, name) for name in NAMES for number in range(3)]
    writing = [world.start(each.work(lambda: bool(over), 0.05)) for each in writers]
    await asyncio.sleep(0.2)
    assert not any(each.errors for each in writers)
    await cluster.reshard_all(atomic=world.chance.random() < 0.3)
    await asyncio.sleep(0.5)
    over.append(True)
    await asyncio.gather(*writing)
    for each in writers:
        assert each.answered > 10
        each.check(log_of(cluster, each))
        assert each.errors.keys() <= {"EXECABORT Transaction", "CLUSTERDOWN keyrail:"}  # of MULTI and WATCH
    assert all(key.startswith((b"acme:", b"globex:")) for key in stored([node.server for node in cluster.nodes]))


@pytest.mark.parametrize("seed", seeds(3, 100))
def test_no_write_is_lost_while_slots_move(seed: int) -> None:
    run(write_while_slots_move, seed)


async def write_while_a_primary_is_replaced(world: World) -> None:
    cluster, keyrail = await begin(world, replicas=1)
    over: list[bool] = []
    writers = [TenantWriter(world, keyrail, number, name) for name in NAMES for number in range(3)]
    writing = [world.start(each.work(lambda: bool(over), 0.05)) for each in writers]
    await asyncio.sleep(world.chance.random())
    before = world.chance.choice(cluster.primaries())
    if world.chance.random() < 0.5:
        before.server.kill()
    else:
        await cluster.failover(cluster.replicas_of(before)[0])
    await world.until(lambda: before not in cluster.primaries() and len(cluster.primaries()) == 3)
    answered = [each.answered for each in writers]
    await world.until(lambda: all(each.answered > some + 10 for each, some in zip(writers, answered, strict=True)))
    over.append(True)
    await asyncio.gather(*writing)
    for each in writers:
        each.check(log_of(cluster, each))


@pytest.mark.parametrize("seed", seeds(2, 50))
def test_no_write_is_lost_while_a_primary_is_replaced(seed: int) -> None:
    run(write_while_a_primary_is_replaced, seed)


class Subscriber:
    """A client that is subscribed to channels, patterns and shard channels of its tenant."""

    def __init__(self, tenant: str, client: Client) -> None:
        self.tenant, self.client = tenant, client

    async def begin(self) -> None:
        told = await self.client.pipe(("SUBSCRIBE", "c"), ("PSUBSCRIBE", "c*"), ("SSUBSCRIBE", "s"))
        assert told == [
            b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
            b"*3\r\n$10\r\npsubscribe\r\n$2\r\nc*\r\n:2\r\n",
            b"*3\r\n$10\r\nssubscribe\r\n$1\r\ns\r\n:1\r\n",
        ]

    def heard(self) -> list[list[bytes]]:
        return [cast("list[bytes]", decode(frame)) for frame in self.client.pushes]

    async def end(self) -> None:
        self.client.pushes.clear()
        told = await self.client.pipe(("UNSUBSCRIBE",), ("PUNSUBSCRIBE",), ("SUNSUBSCRIBE",))
        assert told == [
            b"*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:1\r\n",
            b"*3\r\n$12\r\npunsubscribe\r\n$2\r\nc*\r\n:0\r\n",
            b"*3\r\n$12\r\nsunsubscribe\r\n$1\r\ns\r\n:0\r\n",
        ]


async def publish_while_slots_move(world: World) -> None:
    world.network.weather = Weather(most=world.network.weather.most, lost=0.0)
    cluster, keyrail = await begin(world)
    clients = {name: await keyrail.client("HELLO", 2, "AUTH", name, "secret") for name in NAMES}
    subscribers = []
    for name in NAMES:
        subscribers.append(Subscriber(name, await keyrail.client("HELLO", 2, "AUTH", name, "secret")))
        await subscribers[-1].begin()
    moving = world.start(cluster.reshard_all())
    while not moving.done():
        for name, client in clients.items():
            for channel, verb in (("c", "PUBLISH"), ("cc", "PUBLISH"), ("s", "SPUBLISH")):
                assert not (await client.ask(verb, channel, name)).startswith(b"-")
    await asyncio.sleep(1.0)
    for each in subscribers:
        assert {words[-1] for words in each.heard()} == {each.tenant.encode()}
        each.client.pushes.clear()
        assert await clients[each.tenant].ask("PUBLISH", "c", "last") == b":2\r\n"
        assert await clients[each.tenant].ask("SPUBLISH", "s", "last") == b":1\r\n"
        numbers = await clients[each.tenant].ask("PUBSUB", "NUMSUB", "c", "acme:c")
        assert numbers == b"*4\r\n$1\r\nc\r\n:1\r\n$6\r\nacme:c\r\n:0\r\n"
        assert await clients[each.tenant].ask("PUBSUB", "CHANNELS") == b"*1\r\n$1\r\nc\r\n"
        await asyncio.sleep(0.5)
        assert sorted(each.heard()) == [
            [b"message", b"c", b"last"],
            [b"pmessage", b"c*", b"c", b"last"],
            [b"smessage", b"s", b"last"],
        ]
        await each.end()


@pytest.mark.parametrize("seed", seeds(2, 50))
def test_messages_are_those_of_the_tenant_while_slots_move(seed: int) -> None:
    run(publish_while_slots_move, seed)


located = node_of_keys.locate
BREAKS: dict[str, tuple[Any, str, Any, Callable[[World], Awaitable[None]]]] = {
    "a transaction goes to the node of the tenant's own names": (
        tenancy,
        "raw_for_redis",
        lambda tenant, command: encode_command(command.argv),
        write_while_slots_move,
    ),
    "messages keep the prefix": (tenancy, "message_edit", lambda tenant: None, publish_while_slots_move),
    "nodes are found by the tenant's own names": (
        over_nodes,
        "locate",
        lambda session, nodes, spec, raw: located(session, nodes, spec, raw.replace(b"acme:", b"")),
        write_while_slots_move,
    ),
}


@pytest.mark.parametrize("broken", BREAKS)
def test_a_fault_is_found(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, instead, history = BREAKS[broken]
    monkeypatch.setattr(place, name, instead)
    with pytest.raises((AssertionError, TimeoutError)):
        run(history, 1)

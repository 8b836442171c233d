"""Clients of one user in many databases and protocols, who have fewer connections than kinds of connection: each gets
one when one is free."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from tests.conftest import seeds
from tests.policy.given import policy
from tests.resp import decode
from tests.simulation.engine import Server
from tests.simulation.network import Weather
from tests.simulation.world import Client, ClosedError, Keyrail, World, run

POLICY = policy("""
apps: {app: {match: {user: app}}}
tenants: {prefix: "{app}:", apps: [app]}
rules: {}
""")
"""KEYS and DBSIZE are walks of Keyrail's own, which use a connection of the user beside those of its clients."""
OTHERS = "GET k|SET {other} x|BLPOP none 0.01|MULTI;GET {other};EXEC|WATCH {other};UNWATCH|KEYS *|KEYS *|DBSIZE|DBSIZE"

NONE_IS_FREE = b"no connection to Redis could be had for it"
"""A walk does not wait for those that clients have for themselves."""


class One:
    """A client that goes from database to database, also in the middle of a pipeline."""

    steps = 100

    def __init__(self, world: World, number: int, client: Client) -> None:
        self.chance = random.Random(world.chance.random())
        self.number, self.client, self.database = number, client, 0
        self.stored: dict[int, bytes] = {}

    def some(self) -> list[tuple[list[str], Callable[[bytes], bool]]]:
        """A few commands, and whether a reply is the right one."""
        kind = self.chance.randrange(6)
        if kind == 0:
            self.database = self.chance.randrange(3)
            return [(["SELECT", str(self.database)], b"+OK\r\n".__eq__)]
        if kind == 1:
            return [(["HELLO", self.chance.choice("23")], lambda told: told[:1] in b"*%")]
        if kind == 2:
            self.stored[self.database] = value = str(self.chance.random()).encode()
            return [(["SET", f"of:{self.number}", value.decode()], b"+OK\r\n".__eq__)]
        if kind == 3:
            value = self.stored.get(self.database, b"")
            return [(["GET", f"of:{self.number}"], lambda told: (decode(told) or b"") == value)]
        line = self.chance.choice(OTHERS.split("|")).format(other=f"other:{self.number}")
        return [
            (each.split(" "), lambda told: not told.startswith(b"-") or NONE_IS_FREE in told)
            for each in line.split(";")
        ]

    async def play(self) -> None:
        for _ in range(self.steps):
            sent = [each for _ in range(self.chance.choice((1, 2, 3))) for each in self.some()]
            told = await self.client.pipe(*(words for words, _ in sent))
            for (words, is_right), reply in zip(sent, told, strict=True):
                assert is_right(reply), (self.number, words, reply)


async def begin(world: World) -> tuple[Server, Keyrail]:
    world.network.weather = Weather(most=world.network.weather.most, lost=0.0)
    server = world.server()
    server.users[b"app"] = "secret"
    return server, await world.keyrail(f"redis://{server.address[0]}:6379", POLICY)


async def logged_in(world: World, keyrail: Keyrail) -> Client:
    return await keyrail.client("HELLO", world.chance.choice((2, 3)), "AUTH", "app", "secret")


@pytest.mark.parametrize("seed", seeds(20, 400))
def test_each_gets_a_connection_when_one_is_free(seed: int) -> None:
    async def played(world: World) -> None:
        _, keyrail = await begin(world)
        clients = [One(world, number, await logged_in(world, keyrail)) for number in range(world.chance.choice((2, 3)))]
        for each in [world.start(one.play()) for one in clients]:
            await each

    run(played, seed)


# Whose connections have been lost


async def lose(server: Server, left: int) -> None:
    """All connections of the user but so many."""
    await asyncio.sleep(0.1)
    for each in [each for each in server.connections if each.user == "app"][left:]:
        each.transport.abort()
    await asyncio.sleep(0.1)


def is_at_rest(keyrail: Keyrail) -> bool:
    """Whether nobody waits for a connection of the user, or has one."""
    every = keyrail.route._connections.all
    theirs = [upstream for upstream in every.members.values() if upstream.key.user == "app"]
    pooled = [upstream for pool in every.pools for upstream in pool.connections()]
    ready = all(upstream in pooled and upstream.is_free() and upstream.pipeline.usable for upstream in theirs)
    return ready and not any(pool.awaited() for pool in every.pools)


async def keep_busy(world: World, client: Client) -> None:
    """Always have replies pending."""
    pending = client.send(["GET", "k"])
    while True:
        pending = [*pending[-20:], *client.send(["GET", "k"])]
        await asyncio.sleep(0.001 * world.chance.random())
        await pending[0]


async def hold(world: World, client: Client) -> None:
    """Have a connection, again and again."""
    while True:
        await client.pipe(["WATCH", "k"], ["GET", "k"])
        await asyncio.sleep(0.01 * world.chance.random())
        await client.pipe(["UNWATCH"])


async def ask(_: World, client: Client) -> None:
    """Have Keyrail ask."""
    while True:
        await client.ask("KEYS", "*")


@pytest.mark.parametrize("seed", seeds(5, 300))
def test_nobody_waits_while_others_are_served_again_and_again(seed: int) -> None:
    async def played(world: World) -> None:
        server, keyrail = await begin(world)
        chance = world.chance
        clients = [await logged_in(world, keyrail) for _ in range(7)]
        for each in clients:
            await each.pipe(["SELECT", chance.randrange(3)], ["GET", "k"])
        await lose(server, chance.choice((1, 1, 2)))
        first, *others = clients
        busy = chance.choice(([keep_busy], [hold], [keep_busy, hold, ask]))
        tasks = [world.start(chance.choice(busy)(world, each)) for each in others]
        await asyncio.sleep(0.1)
        for _ in range(5):
            async with asyncio.timeout(1.5):
                await first.pipe(
                    *chance.choice(([["GET", "k"]], [["BLPOP", "none", "0.001"]], [["SELECT", "4"], ["GET", "k"]]))
                )
        for task in tasks:
            task.cancel()

    run(played, seed)


class Returning(One):
    """One that leaves in the middle, and comes back, also where its connection was lost."""

    steps = 15

    def __init__(self, world: World, number: int, client: Client, keyrail: Keyrail) -> None:
        super().__init__(world, number, client)
        self.world, self.keyrail = world, keyrail

    async def play(self) -> None:
        for _ in range(5):
            leaving = self.world.loop.call_later(0.5 * self.chance.random(), self.client.close)
            try:
                await super().play()
            except ClosedError:
                self.client = await logged_in(self.world, self.keyrail)
                self.number += 100  # what it sent before may run now
                self.database, self.stored = 0, {}
            leaving.cancel()
        self.client.close()


@pytest.mark.parametrize("seed", seeds(2, 300))
def test_nothing_is_left_behind(seed: int) -> None:
    async def played(world: World) -> None:
        server, keyrail = await begin(world)
        number = world.chance.choice((2, 4))
        clients = [Returning(world, each, await logged_in(world, keyrail), keyrail) for each in range(number)]
        tasks = [world.start(each.play()) for each in clients]
        while not all(task.done() for task in tasks):
            await lose(server, world.chance.choice((1, 2, 100)))
        for task in tasks:
            await task
        await world.until(lambda: is_at_rest(keyrail), 5.0)

    run(played, seed)


def test_who_waits_for_a_connection_that_redis_refuses_to_switch_is_told_why() -> None:
    async def played(world: World) -> None:
        server, keyrail = await begin(world)
        clients = [await logged_in(world, keyrail) for _ in range(3)]
        for number, each in enumerate(clients):
            await each.pipe(["SELECT", number], ["GET", "k"])
        await lose(server, 1)
        server.forbidden.add("select")
        told = [
            await each.ask(*words)
            for each, words in zip(clients, (["GET", "k"], ["WATCH", "k"], ["GET", "k"]), strict=True)
        ]
        assert [each.startswith(b"-NOPERM") for each in told] == [False, True, True]

    run(played)


def test_connections_of_a_user_whose_clients_have_left_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.net.pool.pool._IDLE_SECONDS", 6.0)

    async def played(world: World) -> None:
        server, keyrail = await begin(world)

        def theirs() -> int:
            return sum(each.user == "app" for each in server.connections)

        clients = [await logged_in(world, keyrail) for _ in range(4)]
        for number, each in enumerate(clients):
            await each.pipe(["SELECT", number], ["GET", "k"])
        for each in clients[1:]:
            each.close()
        await asyncio.sleep(12.0)
        assert await clients[0].ask("SET", "k", "v") == b"+OK\r\n"
        clients[0].close()
        await asyncio.sleep(4.0)
        assert theirs() > 0  # the next client may come soon
        await world.until(lambda: theirs() == 0, 10.0)
        await (await logged_in(world, keyrail)).ask("GET", "k")

    run(played)

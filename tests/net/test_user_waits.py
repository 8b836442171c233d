"""Clients of one user in many databases and protocols, who have fewer connections than kinds of connection: each gets
one when one is free."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.conftest import seeds
from tests.policy.given import policy
from tests.resp import decode
from tests.simulation.network import Weather
from tests.simulation.world import Client, World, run

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
        for _ in range(100):
            sent = [each for _ in range(self.chance.choice((1, 2, 3))) for each in self.some()]
            told = await self.client.pipe(*(words for words, _ in sent))
            for (words, is_right), reply in zip(sent, told, strict=True):
                assert is_right(reply), (self.number, words, reply)


@pytest.mark.parametrize("seed", seeds(20, 400))
def test_each_gets_a_connection_when_one_is_free(seed: int) -> None:
    async def played(world: World) -> None:
        world.network.weather = Weather(most=world.network.weather.most, lost=0.0)
        server = world.server()
        server.users[b"app"] = "secret"
        keyrail = await world.keyrail(f"redis://{server.address[0]}:6379", POLICY)
        clients = [
            One(world, number, await keyrail.client("HELLO", world.chance.choice((2, 3)), "AUTH", "app", "secret"))
            for number in range(world.chance.choice((2, 3)))
        ]

        for each in [world.start(one.play()) for one in clients]:
            await each

    run(played, seed)

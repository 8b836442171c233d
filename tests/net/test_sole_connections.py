"""Users whom clients log in as, each with one connection: no client loses it by what Keyrail itself asks there.

With a single server, a user's clients are closed when the last connection of the user is lost. Keyrail asks on shared
connections whether all before has been answered, and whether the server answers at all. A client may have taken one for
itself since it was chosen: then nothing is asked, or it would be part of that client's transaction. The server is
simulated, and each history is made from a seed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from proxy.net.connection.own_commands import UnitOpenError
from tests.conftest import seeds
from tests.policy.given import policy
from tests.simulation.network import Weather
from tests.simulation.world import Client, Words, World, run

LIFETIMES = policy("""
defaults: {mode: enforce}
rules: {lifetimes: {lifetime: {default: 1h, keys: "*"}}}
""")
USERS = (b"acme", b"globex", b"hooli")
UNITS: Sequence[Sequence[Words]] = [
    [("SET", "k", 1), ("GET", "k")],
    [("WATCH", "w"), ("UNWATCH",)],
    [("WATCH", "w"), ("INCR", "n"), ("UNWATCH",)],
    [("WATCH", "w"), ("INCR", "n"), ("MULTI",), ("INCR", "n"), ("RPUSH", "l", 1), ("EXEC",)],
    [("BLPOP", "l", "0.01"), ("INCR", "n")],
    [("WATCH", "w"), ("MULTI",), ("SET", "k", 1), ("EXEC",)],
    [("MULTI",), ("SET", "k", 1), ("DISCARD",)],
    [("BLPOP", "nothing", "0.01"), ("GET", "k")],
    [("SET", "k", "x" * 1_200_000), ("GET", "w")],
]


async def writing(world: World, client: Client, steps: int) -> None:
    for _ in range(steps):
        commands = world.chance.choice(UNITS)
        replies = client.send(*commands, cut=world.chance.choice((0, 0, 10, 40)))
        for reply in replies:
            assert not (await reply).startswith(b"-")
        await asyncio.sleep(0.02 * world.chance.random())


async def play(world: World) -> None:
    world.network.weather = Weather(most=0.01, lost=0.0)
    server = world.server()
    server.users |= dict.fromkeys(USERS, "secret")
    keyrail = await world.keyrail(f"redis://{server.address[0]}:6379", LIFETIMES)
    clients = [await keyrail.client("AUTH", user.decode(), "secret") for user in USERS]
    writers = [world.start(writing(world, client, 40)) for client in clients]
    while not all(each.done() for each in writers):
        connections = [each for each in keyrail.route._connections.all.members.values() if each.shared]
        await asyncio.sleep(0.01 * world.chance.random())
        told = await asyncio.gather(*(each.ask(["PING"]) for each in connections), return_exceptions=True)
        answers = [each for each in told if not isinstance(each, UnitOpenError)]
        assert set(answers) <= {b"+PONG\r\n"}
        world.check()
    for each in writers:
        await each


@pytest.mark.parametrize("seed", seeds(4, 200))
def test_keyrail_asks_nothing_on_one_that_a_client_has_taken(seed: int) -> None:
    run(play, seed)

"""Each tenant has channels of its own: what it publishes reaches its own subscribers, under names that they know."""

from __future__ import annotations

import pytest

from tests.resp import decode
from tests.simulation.network import Weather
from tests.simulation.world import Client, Keyrail, World, run
from tests.tenants.test_two_tenants import WITHOUT_RULES


async def begin(world: World) -> Keyrail:
    world.network.weather = Weather(most=world.network.weather.most, lost=0.0)
    server = world.server(1)
    server.users |= {b"acme": "secret", b"globex": "secret"}
    return await world.keyrail(f"redis://{server.address[0]}:6379", WITHOUT_RULES)


async def heard(world: World, client: Client, count: int) -> list[object]:
    """So many pushes, in plain values."""
    await world.until(lambda: len(client.pushes) >= count)
    pushes, client.pushes = client.pushes, []
    return [decode(b"*" + frame[1:]) for frame in pushes]


@pytest.mark.parametrize("protocol", [2, 3])
def test_messages_reach_the_tenants_own_subscribers(protocol: int) -> None:
    async def played(world: World) -> None:
        keyrail = await begin(world)
        hello = ("HELLO", protocol, "AUTH")
        acme, globex = [await keyrail.client(*hello, name, "secret") for name in ("acme", "globex")]
        says, other = [await keyrail.client(*hello, name, "secret") for name in ("acme", "globex")]
        for client in (acme, globex):
            for words in (("SUBSCRIBE", "news", "acme:news"), ("PSUBSCRIBE", "n*"), ("SSUBSCRIBE", "shard")):
                client.send(words)
            confirmed = [[b"subscribe", b"news", 1], [b"subscribe", b"acme:news", 2], [b"psubscribe", b"n*", 3]]
            confirmed.append([b"ssubscribe", b"shard", 1])
            frames = [*client._pending]
            pushes = await heard(world, client, 4 if protocol == 3 else 1)
            told = pushes if protocol == 3 else [*[decode(await each) for each in frames], *pushes]
            assert sorted(map(str, told)) == sorted(map(str, confirmed))
        assert decode(await says.ask("PUBSUB", "CHANNELS")) == [b"news", b"acme:news"]
        assert decode(await says.ask("PUBSUB", "NUMSUB", "news", "globex:news")) == [b"news", 1, b"globex:news", 0]
        assert await says.ask("PUBLISH", "news", "acme:text") == b":2\r\n"
        assert await says.ask("PUBLISH", "globex:news", "x") == b":0\r\n"
        assert await says.ask("SPUBLISH", "shard", "x") == b":1\r\n"
        assert await heard(world, acme, 3) == [
            [b"message", b"news", b"acme:text"],
            [b"pmessage", b"n*", b"news", b"acme:text"],
            [b"smessage", b"shard", b"x"],
        ]
        assert await other.ask("PUBLISH", "acme:news", "y") == b":1\r\n"
        assert await heard(world, globex, 1) == [[b"message", b"acme:news", b"y"]]
        assert acme.pushes == []
        acme.send(("UNSUBSCRIBE",))
        assert globex.pushes == []

    run(played)

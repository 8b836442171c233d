"""A pause of writes that is set around Keyrail, in simulated worlds: it holds up nobody's reads for long.

Proves, with one server, a group of Sentinel and a cluster, with and without a local cache and reads from replicas, and
while connections are lost: who only reads is answered within a moment while the writes of others on the same shared
connections are held back; each write runs once; and nobody goes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from proxy.policy.model import TRANSPARENT
from tests.conftest import seeds
from tests.policy.given import policy
from tests.simulation.counting import Counters
from tests.simulation.engine import Server
from tests.simulation.network import Weather
from tests.simulation.test_cached_and_replica_reads import CACHED, SHARED, Crowd
from tests.simulation.world import ClosedError, Keyrail, World, run

A_MOMENT = 0.8
"""Seconds: three looks, an unanswered question, and a new connection."""
LONGER = 2.0
"""The same, where the new connection may be lost."""
PAUSE = 3.0
COMPRESSED = policy('rules:\n  small: {compress: {keys: ["k:*", "w:*"]}, mode: enforce}\n')
REFUSING = policy("rules:\n  no: {refuse: [DBSIZE], mode: enforce}\n")


async def read(world: World, keyrail: Keyrail, most: float, over: Callable[[], bool]) -> int:
    """A client that only reads, until it is over; how many replies it got."""
    chance, client, replies = world.chance, None, 0
    while not over():
        reads = [("GET", f"k:{chance.randrange(9)}"), ("MGET", *(f"k:{n}" for n in range(3))), ("PING",), ("TIME",)]
        reads += [("INFO", "replication"), ("EXISTS", f"w:{chance.randrange(5)}"), ("ECHO", "x"), ("DBSIZE",)]
        try:
            client = client or await keyrail.client("HELLO", chance.choice((2, 3)))
            commands = [chance.choice(reads) for _ in range(chance.choice((1, 1, 2, 6)))]
            begun = world.loop.now
            for words, asked in zip(commands, client.send(*commands), strict=True):
                reply, took = await asked, world.loop.now - begun
                assert took < most, f"{words} took {took:.2f} s"
                expected = {"ECHO": b"$1\r\nx\r\n", "PING": b"+PONG\r\n"}.get(words[0])
                assert reply == expected or (expected is None and reply[:1] in b"$*:-_="), (words, reply)
                replies += 1
        except (ClosedError, ConnectionRefusedError):
            client = None
        await asyncio.sleep(0.05 * chance.random())
    return replies


async def write(world: World, keyrail: Keyrail, number: int, over: Callable[[], bool]) -> tuple[int, int]:
    """A client that counts, and reads behind; how many of its writes were answered, and how many it has sent."""
    client, key = await keyrail.client(), f"w:{number}"
    sent = answered = 0
    while not over():
        sent += 1
        try:
            reply, *behind = await client.pipe(("INCR", key), ("GET", key), ("PING",))
        except ClosedError:
            client = await keyrail.client()
            continue
        answered += 1
        count = int(reply[1:])
        assert answered <= count <= sent, f"{answered} of {sent} were answered, and {count} have run"
        assert behind[0] == b"$%d\r\n%d\r\n" % (len(str(count)), count)
        await asyncio.sleep(0.1 * world.chance.random())
    return answered, sent


@pytest.mark.parametrize("loses", [False, True], ids=["", "connections are lost"])
@pytest.mark.parametrize("seed", seeds(6, 120))
def test_reads_wait_for_no_pause(seed: int, loses: bool) -> None:
    async def play(world: World) -> None:
        world.network.weather = Weather(most=world.chance.choice((0.0003, 0.005)))
        servers: Callable[[], list[Server]]
        if seed % 3 == 0:
            one = world.server()
            url, servers = "redis://10.0.3.1:6379", lambda: [one]
        elif seed % 3 == 1:
            group = world.group()
            url, servers = group.url, lambda: [group.primary]
        else:
            cluster = world.cluster(replicas=world.chance.choice((0, 1)))
            url, servers = cluster.seeds, lambda: [each.server for each in cluster.primaries()]
        rules = world.chance.choice((TRANSPARENT, CACHED, SHARED, REFUSING, COMPRESSED))
        keyrail = await world.keyrail(url, rules, traces=world.chance.choice((0, 50)))

        def truth(key: bytes) -> int:
            return max(int(each.databases[0].values.get(key, 0)) for each in servers())

        counters = Counters(world, truth, stale=PAUSE + 2.0, others=True, together=rules is not SHARED)
        crowd = Crowd(counters, keyrail)
        over = False
        readers = [world.start(read(world, keyrail, LONGER if loses else A_MOMENT, lambda: over)) for _ in range(4)]
        writers = [world.start(write(world, keyrail, number, lambda: over)) for number in range(5)]
        await asyncio.sleep(1.5)  # by then the health checks have a connection
        for _ in range(4):
            await asyncio.sleep(0.3 * world.chance.random())
            for server in world.chance.sample(servers(), world.chance.randint(1, len(servers()))):
                server.pause_writes(PAUSE)
            for _ in range(world.chance.randrange(3) if loses else 0):
                await asyncio.sleep(0.5 * world.chance.random())
                found = [*world.chance.choice(servers()).connections]
                for each in world.chance.sample(found, min(1, len(found))):
                    each.transport.abort()
            await asyncio.sleep(PAUSE + 0.2)
            world.check()
        over = True
        for number, writer in enumerate(writers):
            answered, sent = await writer
            ran = truth(f"w:{number}".encode())
            assert answered <= ran <= sent
            assert loses or ran == sent
        assert min([await each for each in readers]) > 40
        await crowd.end()

    run(play, seed)

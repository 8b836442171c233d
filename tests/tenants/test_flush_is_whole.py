"""FLUSHDB of a tenant, and commands of which no reply tells that they have run: none of them is half gone.

Clients write two keys with each command, without waiting for a reply: it is silenced, or they leave. The servers are
simulated, and tell their keys in several pages; two Keyrails stand for two workers of one.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.conftest import seeds
from tests.policy.given import policy
from tests.simulation.network import Weather
from tests.simulation.table import TABLE
from tests.simulation.world import Client, ClosedError, Door, World, run
from tests.tenants.test_flush_and_reads import FLUSHING, two_workers

LONG = FLUSHING.replace("only_keyrail: yes", "only_keyrail: yes, walk: {time: 30s}")
POLICY = policy(LONG.replace("RULE", "lazy: {replace: {DEL: UNLINK}}"))
OFF = ("CLIENT", "REPLY", "OFF")
PAGES = 8


def scan(c: Any, argv: Sequence[bytes]) -> list[Any]:
    """Keys are in one of some pages, by their names."""
    page, prefix = int(argv[1]), argv[3].removesuffix(b"*")
    names = [key for key in c.all_keys() if zlib.crc32(key) % PAGES == page and key.startswith(prefix)]
    return [b"%d" % ((page + 1) % PAGES), names]


def mset(number: int) -> tuple[Any, ...]:
    return "MSET", f"{number}:a", 1, f"{number}:b", 2


async def silent(client: Client, number: int) -> bool:
    """It wants no replies any more."""
    client.send(*([OFF] if number < 5 else []), mset(number))
    return True


async def leaving(client: Client, number: int) -> bool:
    """It leaves the connection of its own."""
    assert not (await client.ask("WATCH", "w")).startswith(b"-")
    client.send(("MULTI",), ("SET", f"{number}:a", 1), ("SET", f"{number}:b", 2), ("EXEC",))
    await asyncio.sleep(0.003)
    return False


Way = Callable[[Client, int], Any]
WAYS: list[Way] = [silent, leaving]


class Writers:
    """Clients that write in one way until they are told."""

    def __init__(self, world: World, doors: list[Door], way: Way) -> None:
        self.over, self.written = False, 0
        self._world, self._way = world, way
        self._tasks = [world.start(self._work(door)) for door in doors]

    async def _work(self, door: Door) -> None:
        client, number = None, 0
        while not self.over:
            try:
                client = client or await door.client("HELLO", 2)
                number = self.written
                self.written += 1
                if not await self._way(client, number):
                    client.close()
                    client = None
            except (ClosedError, ConnectionRefusedError):
                client = None
            await asyncio.sleep(0.01 * self._world.chance.random())

    async def end(self) -> None:
        self.over = True
        await asyncio.gather(*self._tasks)
        self._world.check()


async def play(world: World, way: Way) -> None:
    server = world.server()
    world.network.weather = Weather(most=0.01, lost=0.1)
    workers = await two_workers(world, "redis://10.0.3.1:6379", POLICY)
    doors = [each.door(2) for each in workers]
    writers, done = Writers(world, (doors * 3)[:5], way), 0
    flusher = await doors[0].client("HELLO", 2)
    for _ in range(15):
        await asyncio.sleep(0.05 * world.chance.random())
        if await flusher.ask("FLUSHDB") != b"+OK\r\n":
            continue  # it has not been completed
        done += 1
        names = set(server.databases[0].values)
        halves = [{name[:-2] for name in names if name.endswith(end)} for end in (b":a", b":b")]
        assert halves[0] == halves[1]
    await writers.end()
    assert done > 2
    assert writers.written > 20


@pytest.mark.parametrize("seed", seeds(3, 40))
@pytest.mark.parametrize("way", WAYS)
def test_no_command_is_half_gone(way: Way, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLE, b"SCAN", TABLE[b"SCAN"]._replace(run=scan))
    run(lambda world: play(world, way), seed)

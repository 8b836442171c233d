"""What clients may rely on, whatever happens behind Keyrail, in simulated worlds: by seed, in virtual time.

No reply is another client's, each client is answered in order, nothing runs twice, what was refused has not run, what
was acknowledged is there, and who has written reads what was written.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.conftest import seeds
from tests.simulation.cluster import Cluster
from tests.simulation.slots import slot_of
from tests.simulation.world import Keyrail, World, run
from tests.simulation.writers import Writer


class Crowd:
    """Writers that go on until they are told."""

    def __init__(self, world: World, keyrail: Keyrail, count: int, pause: float = 0.05) -> None:
        self.world = world
        self._over = False
        self.writers = [Writer(world, keyrail, number, 2 + number % 2) for number in range(count)]
        self._tasks = [world.start(each.work(lambda: self._over, pause)) for each in self.writers]

    async def goes_on(self, seconds: float) -> None:
        """Raises what a writer has found."""
        await asyncio.sleep(seconds)
        self.world.check()

    async def end(self) -> None:
        self._over = True
        await asyncio.gather(*self._tasks)

    def answered(self) -> int:
        return sum(each.answered for each in self.writers)


@pytest.mark.parametrize("seed", seeds(2, 100))
def test_a_primary_dies_and_sentinels_replace_it(seed: int) -> None:
    async def play(world: World) -> None:
        group = world.group()
        crowd = Crowd(world, await world.keyrail(group.url), 6)
        await crowd.goes_on(world.chance.random())
        before = group.primary
        before.kill()
        await world.until(lambda: group.primary is not before)
        answered = crowd.answered()
        await world.until(lambda: crowd.answered() > answered + 10)
        await crowd.end()
        for each in crowd.writers:
            each.check(group.primary.do("LRANGE", each.log, 0, -1))

    run(play, seed)


@pytest.mark.parametrize("seed", seeds(2, 100))
def test_a_primary_of_a_cluster_is_replaced(seed: int) -> None:
    async def play(world: World) -> None:
        cluster = world.cluster()
        crowd = Crowd(world, await world.keyrail(cluster.seeds), 6)
        await crowd.goes_on(world.chance.random())
        before = world.chance.choice(cluster.primaries())
        if seed % 2:
            before.server.kill()
        else:
            await cluster.failover(cluster.replicas_of(before)[0])
        await world.until(lambda: before not in cluster.primaries() and len(cluster.primaries()) == 3)
        answered = crowd.answered()
        await world.until(lambda: crowd.answered() > answered + 10)
        await crowd.end()
        for each in crowd.writers:
            each.check(cluster.owner(slot_of(each.log)).server.do("LRANGE", each.log, 0, -1))

    run(play, seed)


async def lose_connections(world: World, cluster: Cluster) -> None:
    """Now and then a node closes one."""
    while True:
        await asyncio.sleep(0.1 * world.chance.random())
        there = [each for node in cluster.nodes for each in node.server.connections]
        world.chance.choice(there).transport.abort()


@pytest.mark.parametrize("seed", seeds(2, 100))
def test_all_slots_move(seed: int) -> None:
    async def play(world: World) -> None:
        cluster = world.cluster(replicas=0)
        crowd = Crowd(world, await world.keyrail(cluster.seeds), 6)
        await crowd.goes_on(0.2)
        if seed % 3 == 1:
            world.start(lose_connections(world, cluster))
        await cluster.reshard_all(atomic=seed % 3 == 2)
        await crowd.goes_on(0.5)
        await crowd.end()
        for each in crowd.writers:
            each.check(cluster.owner(slot_of(each.log)).server.do("LRANGE", each.log, 0, -1))
            assert each.lost == 0 or seed % 3 == 1
            assert each.errors.keys() <= {"EXECABORT Transaction", "CLUSTERDOWN keyrail:"}  # of MULTI and WATCH

    run(play, seed)


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_a_thousand_clients(seed: int) -> None:
    async def play(world: World) -> None:
        server = world.server()
        keyrail = await world.keyrail("redis://10.0.3.1:6379")
        writers = [Writer(world, keyrail, number, shared=True) for number in range(1000)]
        rounds = [iter((False, True)) for _ in writers]
        await asyncio.gather(*(each.work(left.__next__) for each, left in zip(writers, rounds, strict=True)))
        for each in writers:
            assert each.answered >= 1
            assert each.lost == 0
            assert each.errors == {}
            each.check(server.do("LRANGE", each.log, 0, -1))

    run(play, seed)


def test_a_seed_is_a_history() -> None:
    async def play(world: World) -> Any:
        group = world.group()
        crowd = Crowd(world, await world.keyrail(group.url), 3)
        await crowd.goes_on(0.1)
        group.primary.kill()
        await crowd.goes_on(2.0)
        await crowd.end()
        return world.loop.turns, world.loop.now, [(each.acknowledged, each.errors) for each in crowd.writers]

    assert run(play, 1) == run(play, 1)
    assert run(play, 1) != run(play, 2)

"""Reads that memory or a replica answers, in simulated worlds: nobody sees that it was not the primary.

Who has written reads that, and nobody goes back, also where connections are lost, slots move, replicas fall behind or
are promoted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.conftest import seeds
from tests.policy.given import policy
from tests.simulation.counting import Counters, CountingClient
from tests.simulation.engine import LOADING, Server
from tests.simulation.network import Weather
from tests.simulation.replication import Snapshot
from tests.simulation.sentinel import Group
from tests.simulation.slots import slot_of
from tests.simulation.world import Keyrail, World, run

CACHED = policy("""
    rules:
      cached: {local_cache: {keys: ["k:*"], when: always, max_age: 30s}, mode: enforce}
""")
SHARED = policy("""
    rules:
      shared: {replica_reads: {keys: ["k:*"], max_lag: 1s}, mode: enforce}
""")


EXCUSES = (LOADING, "MASTERDOWN Link with MASTER is down.", "NOPERM No permissions to access a key")


class Crowd:
    """Clients that count until they are told."""

    def __init__(
        self, counters: Counters, keyrail: Keyrail, count: int = 5, pause: float = 0.05, *, reads_only: bool = False
    ) -> None:
        self._world, self._counters = counters.world, counters
        self._over = False
        writes = [0 if reads_only else number % 3 for number in range(count)]
        self.clients = [CountingClient(counters, keyrail, number, share) for number, share in enumerate(writes)]
        self._world.start(counters.watch())
        self._tasks = [self._world.start(each.work(lambda: self._over, pause)) for each in self.clients]

    async def goes_on(self, seconds: float) -> None:
        """Raises what a client has found."""
        await asyncio.sleep(seconds)
        self._world.check()

    async def end(self) -> None:
        self._over = True
        await asyncio.gather(*self._tasks)
        self._world.check()


def moved_away(world: World) -> None:
    """Clients are near to Keyrail, and servers are far, so that one connection tells long before another one."""
    world.network.weather = Weather(most=0.02)
    for pair in (("app", "keyrail"), ("keyrail", "app")):
        world.network.there[pair] = Weather(0.00005, 0.0001)


async def disturbed(world: World, seconds: float, pause: float, *acts: Callable[[], object]) -> None:
    """One of these happens now and then."""
    until = world.loop.now + seconds
    while world.loop.now < until:
        await asyncio.sleep(pause * world.chance.random())
        world.chance.choice(acts)()


@pytest.mark.parametrize("seed", seeds(6, 100))
def test_one_server_is_cached(seed: int) -> None:
    async def play(world: World) -> None:
        server = world.server()
        keyrail = await world.keyrail("redis://10.0.3.1:6379", CACHED)
        values = server.databases[0].values
        counters = Counters(world, lambda key: int(values.get(key, 0)), others=True, undeclared=True)
        crowd = Crowd(counters, keyrail)

        def cut() -> None:
            world.network.cut(["keyrail"], [server.address[0]])
            world.loop.call_later(0.5 * world.chance.random(), world.network.heal)

        def lose() -> None:
            for each in world.chance.sample([*server.connections], min(1, len(server.connections))):
                each.transport.abort()

        def restart() -> None:
            server.kill()
            world.loop.call_later(0.2, server.start)

        def count() -> None:
            server.do("INCR", world.chance.choice(counters.keys))

        def renew() -> None:
            counters.renew(server)

        await disturbed(world, 3.0, 0.1, *3 * (count, count, count, renew), lose, *((cut, restart) if seed % 2 else ()))
        await crowd.goes_on(2.0)
        await crowd.end()
        assert keyrail.route.snapshot()["local_cache"]["hits"] > 20

    run(play, seed)


@pytest.mark.parametrize("seed", seeds(4, 100))
def test_a_server_that_is_far_is_cached(seed: int) -> None:
    async def play(world: World) -> None:
        moved_away(world)
        server = world.server()
        keyrail = await world.keyrail("redis://10.0.3.1:6379", CACHED)
        values = server.databases[0].values
        counters = Counters(world, lambda key: int(values.get(key, 0)), keys=2, undeclared=True)
        crowd = Crowd(counters, keyrail, 9, 0.01)
        await disturbed(world, 4.0, 0.05, lambda: counters.renew(server))
        await crowd.end()
        assert keyrail.route.snapshot()["local_cache"]["hits"] > 20

    run(play, seed)


@pytest.mark.parametrize("seed", seeds(4, 100))
def test_a_cluster_is_cached_while_slots_move(seed: int) -> None:
    async def play(world: World) -> None:
        is_far = seed % 2
        if is_far:
            moved_away(world)
        cluster = world.cluster(replicas=0)
        keyrail = await world.keyrail(cluster.seeds, CACHED)

        def truth(key: bytes) -> int:
            return max(int(each.server.databases[0].values.get(key, 0)) for each in cluster.nodes)

        counters = Counters(world, truth, keys=2 if is_far else 4)
        crowd = Crowd(counters, keyrail, *((9, 0.01) if is_far else (5, 0.05)))
        slots = [slot_of(key) for key in counters.keys]
        for _ in range(8):
            await crowd.goes_on(0.3 * world.chance.random())
            slot = world.chance.choice(slots)
            source = cluster.owner(slot)
            target = world.chance.choice([each for each in cluster.nodes if each is not source])
            cluster.open([slot], source, target)
            await crowd.goes_on(0.1 * world.chance.random())
            cluster.move_keys([slot], source, target)
            await crowd.goes_on(0.1 * world.chance.random())
            cluster.move_keys([slot], source, target)
            cluster.close([slot], source, target)
        await crowd.goes_on(1.0)
        await crowd.end()
        assert is_far or keyrail.route.snapshot()["local_cache"]["hits"] > 20

    run(play, seed)


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_nobody_goes_back_while_nodes_of_a_cluster_fail(seed: int) -> None:
    async def play(world: World) -> None:
        moved_away(world)
        cluster = world.cluster()
        keyrail = await world.keyrail(cluster.seeds, CACHED)
        counters = Counters(world, lambda _: 0, keys=3, together=False)
        crowd = Crowd(counters, keyrail, 20, 0.005, reads_only=True)
        holds_still = False

        def count() -> None:
            owner = cluster.owner(slot_of(key := world.chance.choice(counters.keys)))
            if not owner.server.frozen and not holds_still:
                owner.server.do("INCR", key)

        def down() -> None:
            world.chance.choice(cluster.nodes).ok = False  # until it looks again

        async def depose() -> None:
            nonlocal holds_still
            primary = world.chance.choice(cluster.primaries())
            holds_still = True  # or what the replica does not have yet is lost
            await asyncio.sleep(0.5)
            primary.server.freeze()
            holds_still = False
            others = [each for each in cluster.nodes if each is not primary]
            await world.until(lambda: not any(each.slots[primary] for each in others))
            await asyncio.sleep(0.5 * world.chance.random())
            primary.server.thaw()

        for _ in range(3):
            await disturbed(world, 1.5, 0.2, count)  # memory answers
            deposed = world.start(depose())
            await disturbed(world, 4.5, 0.005, count, count, count, down)
            await deposed
        await crowd.goes_on(1.0)
        await crowd.end()
        assert keyrail.route.snapshot()["local_cache"]["hits"] > 20

    run(play, seed)


def disturbances(world: World, group: Group) -> tuple[Callable[[], None], Callable[[], None], Callable[[], None]]:
    """Replicas fall behind or catch up, connections are lost, and a replica refuses the next reads."""
    pick = world.chance.choice

    def lag() -> None:
        for link in group.primary.links:
            link.lag = pick((0.0, 0.0, 0.05, 0.5, 3.5))

    def lose() -> None:
        for each in list(pick(group.servers).connections)[:2]:
            each.transport.abort()

    def refuse() -> None:
        replica = pick(group.servers[1:])
        replica.unable, replica.excuse = pick((1, 1, 3)), pick(EXCUSES)

    return lag, lose, refuse


@pytest.mark.parametrize("seed", seeds(6, 100))
def test_replicas_answer(seed: int) -> None:
    async def play(world: World) -> None:
        group = world.group()
        keyrail = await world.keyrail(group.url, SHARED)
        counters = Counters(
            world,
            lambda key: int(group.primary.databases[0].values.get(key, 0)),
            stale=2.3,
            keys=2,
            together=False,
            others=True,
        )
        crowd = Crowd(counters, keyrail, 6, 0.03)
        pick = world.chance.choice
        lag, lose, refuse = disturbances(world, group)

        def count() -> None:
            group.primary.do("INCR", pick(counters.keys))

        await disturbed(world, 5.0, 0.1, lag, lose, lose, *5 * [refuse], *14 * [count])
        if seed % 3 == 2:
            for link in group.primary.links:
                link.lag = 0.0
            await crowd.goes_on(3.6)  # the replicas have all, and get what is written from now on at once
            before = group.primary
            before.kill()
            await world.until(lambda: group.primary is not before)
        await crowd.goes_on(1.0)
        await crowd.end()
        assert sum(each.calls.get("get", 0) for each in group.servers if each is not group.servers[0]) > 0

    run(play, seed)


@pytest.mark.parametrize("seed", seeds(6, 100))
def test_replicas_that_are_behind_answer_only_what_is_new_enough(seed: int) -> None:
    async def play(world: World) -> None:
        group = world.group()
        keyrail = await world.keyrail(group.url, SHARED)
        primary, replicas = group.primary, group.servers[1:]
        values, pick = primary.databases[0].values, world.chance.choice
        counters = Counters(world, lambda key: int(values.get(key, 0)), stale=2.3, keys=2, together=False)
        crowd = Crowd(counters, keyrail, 6, 0.03)
        before: list[tuple[Server, Snapshot]] = []

        def count() -> None:
            primary.do("INCR", pick(counters.keys))

        def lag() -> None:
            seconds = pick((0.0, 0.05, 0.5, 4.0))
            for link in primary.links:
                link.lag = seconds

        def remember() -> None:
            before.extend((each, each.snapshot()) for each in replicas[: 1 + pick((0, 1))] if each.link_is_up)

        def restart() -> None:
            if before:
                server, snapshot = before.pop(0)
                server.kill()
                server.restore(snapshot)
                server.start()

        await disturbed(world, 2.0, 0.04, count)
        if seed % 2:
            # Nobody looks at the primary, whose replicas fall behind.
            for link in primary.links:
                link.lag = 4.0
            world.network.cut(["keyrail"], [primary.address[0]])
            world.loop.call_later(3.5, world.network.heal)
            await disturbed(world, 5.0, 0.04, count)
        else:
            await disturbed(world, 5.0, 0.04, lag, remember, restart, *8 * [count])
        await crowd.goes_on(1.0)
        await crowd.end()
        assert sum(each.calls.get(name, 0) for each in replicas for name in ("get", "mget")) > 0

    run(play, seed)

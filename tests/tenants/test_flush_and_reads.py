"""FLUSHDB of a tenant, and reads that memory or a replica answers: nobody who knows that it is over reads a value from
before. The servers are simulated; two Keyrails stand for two workers of one.

Each value is written once. Behind a FLUSHDB no value is there whose write had been answered when it began. Clients tell
each other which are gone, unless replicas answer reads: then each knows only of its own.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from proxy.net.cache.local_caches import LocalCaches
from proxy.net.pool.tenant_holds import TenantHolds
from proxy.policy.model import Policy
from proxy.session.commands import tenant_flush
from proxy.session.replicas import replica_reads
from tests.conftest import seeds
from tests.policy.given import policy
from tests.resp import decode
from tests.simulation.network import Weather
from tests.simulation.slots import slot_of
from tests.simulation.world import Client, ClosedError, Door, Keyrail, World, run
from tests.simulation.writers import Wrong
from tests.tenants.test_cached_and_replica_reads import TENANTS, hits, reads_of_replicas

FLUSHING = TENANTS.replace("globex]", "globex], flush: walk, only_keyrail: yes")
MEMORY = 'cached: {local_cache: {keys: ["k:*"], when: always, max_age: 30s}, mode: enforce}'
REPLICAS = 'shared: {replica_reads: {keys: ["k:*"], max_lag: 1s}, mode: enforce}'
CACHED = policy(FLUSHING.replace("RULE", MEMORY))
SHARED = policy(FLUSHING.replace("RULE", REPLICAS))
BOTH = policy(FLUSHING.replace("RULE", MEMORY.replace("k:*", "k:0") + "\n  " + REPLICAS))
KEYS = [f"k:{number}" for number in range(3)]


class Crowd:
    """Clients of one tenant that write, read and flush until they are told."""

    def __init__(self, world: World, doors: list[Door], *, together: bool) -> None:
        self.world, self.together = world, together
        self.flushes = self.reads = 0
        self.errors: set[bytes] = set()
        self._sent = self._known = 0
        self._answered: dict[int, int] = {}
        self._over = False
        self._tasks = [world.start(self._client(door, number)) for number, door in enumerate(doors * 3)]

    async def _client(self, door: Door, number: int) -> None:
        chance, client, known = self.world.chance, None, 0
        while not self._over:
            try:
                client = client or await door.client("HELLO", 2 + number % 2)
                known = await self._act(client, max(known, self._known), number)
            except (ClosedError, ConnectionRefusedError):
                client, known = None, 0
            if self.together:
                self._known = max(self._known, known)
            await asyncio.sleep(0.05 * chance.random())

    async def _act(self, client: Client, known: int, number: int) -> int:
        """One or several commands; how many of the writes that were answered first the client knows to be gone."""
        chance, act = self.world.chance, self.world.chance.randrange(30)
        if act < 4 and number % 3:
            self._sent += 1
            value = self._sent
            await client.pipe(*(("SET", key, value) for key in chance.sample(KEYS, 2)))
            self._answered[value] = len(self._answered)
        elif act < 6 and number % 3 == 1:
            gone = len(self._answered)
            told, *behind = await client.pipe(("FLUSHDB",), *(("GET", key) for key in KEYS))
            if told != b"+OK\r\n":
                self.errors.add(told)
                return known
            self.flushes += 1
            known = max(known, gone)
            self._check(behind, known)
        else:
            self._check(await client.pipe(*(("GET", chance.choice(KEYS)) for _ in range(chance.choice((1, 4))))), known)
        return known

    def _check(self, replies: list[bytes], gone: int) -> None:
        for value in map(decode, replies):
            self.reads += 1
            if isinstance(value, bytes) and self._answered.get(int(value), gone) < gone:
                raise Wrong(f"value {value!r} was read behind a FLUSHDB that deleted it")

    async def goes_on(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.world.check()

    async def end(self) -> None:
        self._over = True
        await asyncio.gather(*self._tasks)
        self.world.check()


def paired(one: Keyrail, other: Keyrail) -> None:
    """They are workers of one Keyrail: what one holds, the other does, too."""
    for each, another in ((one, other), (other, one)):
        holds, others = (keyrail.route.pauses.tenants for keyrail in (each, another))
        assert isinstance(holds, TenantHolds)
        holds.hold_others = others.hold

        async def end(token: str, prefix: bytes, others: TenantHolds = others) -> str:
            return others.end(token, prefix)

        holds.end_others = end


async def two_workers(world: World, url: str, loaded: Policy) -> list[Keyrail]:
    workers = [await world.keyrail(url, loaded) for _ in range(2)]
    paired(*workers)
    return workers


async def play_cached(world: World) -> None:
    server = world.server()
    world.network.weather = Weather(most=0.01, lost=0.02)
    workers = await two_workers(world, "redis://10.0.3.1:6379", CACHED)
    crowd = Crowd(world, [each.door(2) for each in workers], together=True)
    for _ in range(60):
        await crowd.goes_on(0.2 * world.chance.random())
        if world.chance.random() < 0.1:
            for each in world.chance.sample([*server.connections], min(1, len(server.connections))):
                each.transport.abort()
    answered = sum((hits(each) for each in workers), hits(workers[0]))
    await crowd.end()
    assert crowd.flushes > 1, crowd.errors
    assert answered[b"acme:"] > 10


@pytest.mark.parametrize("seed", seeds(4, 150))
def test_memory_has_nothing_that_is_gone(seed: int) -> None:
    run(play_cached, seed)


async def play_replicas(world: World, loaded: Policy = SHARED) -> None:
    group = world.group()
    workers = await two_workers(world, group.url, loaded)
    crowd = Crowd(world, [each.door(2) for each in workers], together=False)
    await crowd.goes_on(1.0)
    for _ in range(30):
        await crowd.goes_on(0.2 * world.chance.random())
        for link in group.primary.links:
            link.lag = world.chance.choice((0.0, 0.05, 0.5))
    moved = reads_of_replicas(group)
    await crowd.end()
    assert crowd.flushes > 1, crowd.errors
    assert moved > 10


@pytest.mark.parametrize("seed", seeds(3, 60))
@pytest.mark.parametrize("loaded", [SHARED, BOTH], ids=["replicas", "both"])
def test_replicas_answer_the_flusher_with_nothing_that_is_gone(seed: int, loaded: Policy) -> None:
    run(lambda world: play_replicas(world, loaded), seed)


@pytest.mark.parametrize("seed", seeds(2, 60))
@pytest.mark.parametrize("loaded", [CACHED, SHARED, BOTH], ids=["memory", "replicas", "both"])
def test_in_a_cluster(seed: int, loaded: Policy) -> None:
    async def play(world: World) -> None:
        cluster = world.cluster(replicas=loaded is not CACHED)
        workers = await two_workers(world, cluster.seeds, loaded)
        crowd = Crowd(world, [each.door(2) for each in workers], together=loaded is CACHED)
        await crowd.goes_on(2.0)
        slots = [slot_of(f"acme:{key}".encode()) for key in KEYS]
        for _ in range(5):
            await crowd.goes_on(0.6 * world.chance.random())
            shortly = partial(crowd.goes_on, 0.1 * world.chance.random())
            await cluster.move_somewhere(world.chance.choice(slots), shortly)
        await crowd.goes_on(2.0)
        await crowd.end()
        assert crowd.flushes > 1, crowd.errors

    run(play, seed)


BREAKS: dict[str, tuple[list[tuple[Any, str]], Any]] = {
    "memory is not held back": ([(LocalCaches, "keys_deleted")], play_cached),
    "replicas are asked at once": ([(tenant_flush, "_note_written"), (replica_reads, "told")], play_replicas),
}


@pytest.mark.parametrize("broken", BREAKS)
def test_a_read_of_what_is_gone_is_found(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    places, play = BREAKS[broken]
    for place, name in places:
        monkeypatch.setattr(place, name, lambda *_: None)
    for seed in range(40):
        try:
            run(play, seed)
        except (AssertionError, Wrong):
            return
    pytest.fail("nobody noticed")

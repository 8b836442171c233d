"""Reads of tenants that memory or a replica answers: nobody sees that it was not the primary, or a value of others.

Two tenants have counters of the same names, and a client of no tenant has these names, too, and counts what is the
first tenant's under the names that Redis has. Each counts in a range of its own. The servers are simulated.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from proxy.hotpath.cache.cached_reads import CachedReads
from proxy.net.cache import cache_uses, local_caches
from proxy.net.policy import cache_scope
from proxy.policy.model import Policy
from proxy.rules.key_globs import none_fits
from tests.conftest import seeds
from tests.policy.given import policy
from tests.resp import Failure
from tests.simulation.counting import Counters, CountingClient
from tests.simulation.engine import Server
from tests.simulation.sentinel import Group
from tests.simulation.slots import slot_of
from tests.simulation.test_cached_and_replica_reads import disturbances
from tests.simulation.world import Door, Keyrail, World, run
from tests.simulation.writers import Wrong

TENANTS = """
apps: {acme: {match: {listener: "*:2"}}, globex: {match: {listener: "*:3"}}}
tenants: {prefix: "{app}:", apps: [acme, globex], scripts: trusted}
rules:
  RULE
"""
CACHED = policy(
    TENANTS.replace("RULE", 'cached: {local_cache: {keys: ["k:*"], when: always, max_age: 30s}, mode: enforce}')
)
SHARED = policy(TENANTS.replace("RULE", 'shared: {replica_reads: {keys: ["k:*"], max_lag: 1s}, mode: enforce}'))
BOTH = policy(
    TENANTS.replace(
        "RULE",
        'cached: {local_cache: {keys: ["k:0"], when: always, max_age: 30s}, mode: enforce}\n'
        '  shared: {replica_reads: {keys: ["k:*"], max_lag: 1s}, mode: enforce}',
    )
)
RANGE = 1_000_000
PLACES = {b"acme:": (2, b""), b"globex:": (3, b""), b"": (1, b"")}
"""Of each prefix in Redis: the listener of the clients behind it, and what they put before their names."""
OUTSIDE = (1, b"acme:")


class TenantsClient(CountingClient):
    """A client of this listener, which puts something before the names of its counters."""

    def __init__(self, counters: Counters, door: Door, number: int, writes: int, space: int, before: bytes) -> None:
        super().__init__(counters, door, number, writes)
        self._space, self._before = space, before

    def _commands(self) -> list[tuple[tuple[Any, ...], bytes]]:
        return [
            (tuple(self._before + word if word == key else word for word in words), key)
            for words, key in super()._commands()
        ]

    def _answered(self, words: tuple[Any, ...], key: bytes, least: dict[bytes, int], reply: Any) -> None:
        shared = self._counters.known[key]
        super()._answered(words, key, least, reply)
        if self._before and words[0] in ("GET", "MGET"):
            # No rule is about this client, so it reads Redis itself, which others' writes reach before invalidations.
            self._counters.known[key] = shared
        if isinstance(reply, Failure) or reply in (b"OK", b"QUEUED"):
            return
        if any(int(each or 0) // RANGE != self._space for each in (reply if isinstance(reply, list) else [reply])):
            raise Wrong(f"{words} was answered {reply!r}, of others")


def _truth_of(truth: Callable[[bytes], int], prefix: bytes, key: bytes) -> int:
    return truth(prefix + key)


class Spaces:
    """The counters of both tenants and of nobody, and clients that count them until they are told."""

    def __init__(self, world: World, truth: Callable[[bytes], int], **options: Any) -> None:
        self.world = world
        self.counters = {prefix: Counters(world, partial(_truth_of, truth, prefix), **options) for prefix in PLACES}
        self.names = [prefix + key for prefix, each in self.counters.items() for key in each.keys]
        self._over = False
        self._tasks: list[asyncio.Task[None]] = []

    def fill(self, do: Callable[..., object]) -> None:
        """Let each begin in its range."""
        for name in self.names:
            do("SET", name, (1 + self._number(name)) * RANGE)

    def _number(self, name: bytes) -> int:
        return [name.startswith(prefix) for prefix in PLACES].index(True)

    def begin(self, keyrail: Keyrail, pause: float) -> None:
        doors = {1: keyrail, **{port: keyrail.door(port) for port in (2, 3)}}
        for space, (prefix, place) in enumerate(PLACES.items(), 1):
            counters = self.counters[prefix]
            self.world.start(counters.watch())
            places = [place, place, place, *([OUTSIDE] if prefix == b"acme:" else [])]
            for number, (listener, before) in enumerate(places):
                writes = 2 if before else number % 3
                client = TenantsClient(counters, doors[listener], number, writes, space, before)
                self._tasks.append(self.world.start(client.work(lambda: self._over, pause)))

    async def goes_on(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.world.check()

    async def end(self) -> None:
        self._over = True
        await asyncio.gather(*self._tasks)
        self.world.check()

    async def disturbed(self, seconds: float, pause: float, *acts: Callable[[], object]) -> None:
        until = self.world.loop.now + seconds
        while self.world.loop.now < until:
            await asyncio.sleep(pause * self.world.chance.random())
            self.world.chance.choice(acts)()
            self.world.check()


def value(server: Server, name: bytes) -> int:
    return int(server.databases[0].values.get(name, 0))


def hits(keyrail: Keyrail) -> Counter[bytes]:
    """How much memory has answered clients that are there now, by their prefix."""
    found: Counter[bytes] = Counter()
    for client in keyrail.route._caches._clients:
        found[client.intake.prefix] += client.sender.remembered
    return found


async def play_cached(world: World, loaded: Policy = CACHED) -> None:
    server = world.server()
    keyrail = await world.keyrail("redis://10.0.3.1:6379", loaded)
    spaces = Spaces(world, lambda name: value(server, name), keys=3)
    spaces.fill(server.do)
    spaces.begin(keyrail, 0.05)

    def lose() -> None:
        for each in world.chance.sample([*server.connections], min(1, len(server.connections))):
            each.transport.abort()

    def count() -> None:
        server.do("INCR", world.chance.choice(spaces.names))

    await spaces.disturbed(3.0, 0.1, *8 * (count,), lose)
    await spaces.goes_on(1.0)
    answered = hits(keyrail)
    await spaces.end()
    assert all(answered[prefix] > 3 for prefix in PLACES), answered


@pytest.mark.parametrize("seed", seeds(4, 100))
def test_what_memory_answers_is_new_and_the_clients_own(seed: int) -> None:
    run(play_cached, seed)


BREAKS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "memory knows a tenant's own names": (local_caches, "CachedReads", lambda *given: CachedReads(*given[:-1])),
    "others' writes of a tenant's keys hold nothing": (cache_scope, "none_fits", lambda globs, _: none_fits(globs)),
    "rules about a tenant's keys have names as Redis has them": (
        cache_uses.PolicyUses,
        "own_name",
        lambda _self, key, _stored: key,
    ),
}


@pytest.mark.parametrize("broken", BREAKS)
def test_what_memory_does_wrong_is_found(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BREAKS[broken])
    for seed in range(8):
        try:
            run(play_cached, seed)
        except (AssertionError, Wrong):
            return
    pytest.fail("nobody noticed")


@pytest.mark.parametrize("seed", seeds(3, 60))
@pytest.mark.parametrize("loaded", [SHARED, BOTH], ids=["replicas", "both"])
def test_what_replicas_answer_is_new_and_the_clients_own(seed: int, loaded: Policy) -> None:
    async def play(world: World) -> None:
        group = world.group()
        keyrail = await world.keyrail(group.url, loaded)
        spaces = Spaces(world, lambda name: value(group.primary, name), stale=2.3, keys=2, together=False)
        spaces.fill(group.primary.do)
        await spaces.goes_on(1.0)
        spaces.begin(keyrail, 0.03)
        lag, lose, refuse = disturbances(world, group)

        def count() -> None:
            group.primary.do("INCR", world.chance.choice(spaces.names))

        await spaces.disturbed(4.0, 0.1, lag, lose, lose, *3 * [refuse], *14 * [count])
        for link in group.primary.links:
            link.lag = 0.0
        await spaces.goes_on(3.6)  # the replicas have all, and get what is written from now on at once
        moved = reads_of_replicas(group)
        if seed % 2:
            before = group.primary
            before.kill()
            await world.until(lambda: group.primary is not before)
            await spaces.goes_on(3.0)
        await spaces.end()
        assert moved > 0

    run(play, seed)


@pytest.mark.parametrize("seed", seeds(2, 60))
@pytest.mark.parametrize("loaded", [CACHED, SHARED, BOTH], ids=["memory", "replicas", "both"])
def test_in_a_cluster_while_slots_move(seed: int, loaded: Policy) -> None:
    async def play(world: World) -> None:
        cluster = world.cluster(replicas=loaded is not CACHED)
        keyrail = await world.keyrail(cluster.seeds, loaded)

        def truth(name: bytes) -> int:
            return max(value(each.server, name) for each in cluster.nodes)

        spaces = Spaces(world, truth, stale=2.3, keys=2, together=loaded is CACHED)
        spaces.fill(lambda *words: cluster.owner(slot_of(words[1])).server.do(*words))
        await spaces.goes_on(1.0)
        spaces.begin(keyrail, 0.05)
        await spaces.goes_on(2.0)
        moved = sum(each.server.calls.get("get", 0) for each in cluster.nodes if each not in cluster.primaries())
        slots = [slot_of(name) for name in spaces.names]
        for _ in range(5):
            await spaces.goes_on(0.3 * world.chance.random())
            shortly = partial(spaces.goes_on, 0.1 * world.chance.random())
            await cluster.move_somewhere(world.chance.choice(slots), shortly)
        await spaces.goes_on(3.0)
        answered = hits(keyrail)
        await spaces.end()
        assert loaded is SHARED or all(answered[prefix] > 3 for prefix in PLACES), answered
        assert loaded is CACHED or moved > 50

    run(play, seed)


def reads_of_replicas(group: Group) -> int:
    return sum(each.calls.get("get", 0) for each in group.servers if each is not group.primary)

"""What clients read of cached keys can have been so with a cluster upstream, whatever happens to its slots and nodes.

As in ``test_coherence.py``, with writes whose keys are of one slot, and reads that may be split. While nodes are
replaced, writes that were acknowledged may be lost: the keys of before are read no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from proxy.commands.slots import slot_of
from tests.cluster.nodes import NODE_TIMEOUT_MS, STEADY, RealCluster
from tests.coherence import reads, writes
from tests.coherence.book import Book
from tests.coherence.clients import Swarm
from tests.coherence.history import Bounds, check
from tests.coherence.world import KINDS, hits, policy
from tests.conftest import kind_named, rest_is_long
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay has no cache")
OPERATIONS = {"short": 1_000, "long": 7_500}
ROUNDS = {"short": 2, "long": 5}
MEANWHILE = 200
NEAR = Bounds(lag=1.0, behind_messages=0.5)
"""A message that another node has passed on may be there before the invalidation."""
STALE = Bounds(lag=1.5, behind_messages=1.5)
"""A node that is replaced tells of no change any more, and is believed for a second."""
HANGS = 1.5 * NODE_TIMEOUT_MS / 1000
"""Seconds for which another node misses the answer of one that hangs: by default, its place would be taken."""
PATIENT = {"cluster-node-timeout": "60000"}
"""Nodes that wait for each other. On a busy machine, others take one for lost that is only slow; what it has
acknowledged meanwhile is lost, and reads are called wrong that are not."""

Disturbance = Callable[[RealCluster, Swarm], Awaitable[None]]


async def keys_leave_one_by_one(cluster: RealCluster, swarm: Swarm) -> None:
    """The slots of all keys move to one node after the other, as ``redis-cli --cluster reshard`` moves them."""
    for target in await asyncio.to_thread(cluster.primaries):
        for slot in sorted({slot_of(each.key.name) for each in swarm.book.slots}):
            await asyncio.to_thread(_move, cluster, slot, target)
        await asyncio.to_thread(cluster.settle)


def _move(cluster: RealCluster, slot: int, target: Engine) -> None:
    source = cluster.owner(slot)
    if source is target:
        return
    cluster.open_slot(slot, source, target)
    while keys := cluster.keys_in(slot, source, 1):
        cluster.move_keys(slot, source, target, keys)
    cluster.close_slot(slot, target)


async def primary_hangs(cluster: RealCluster, swarm: Swarm) -> None:
    """And goes on as primary."""
    primary = (await asyncio.to_thread(cluster.primaries))[0]
    name = await asyncio.to_thread(cluster.id, primary)
    others = [each for each in cluster.nodes if each is not primary]
    primary.freeze()
    try:
        await asyncio.to_thread(eventually, partial(_is_missed, cluster, name, others))
    finally:
        primary.thaw()
    await swarm.more(MEANWHILE)


def _is_missed(cluster: RealCluster, name: str, others: list[Engine]) -> bool:
    return any(cluster.silence(name, by) > HANGS for by in others)


async def slots_leave_at_once(cluster: RealCluster, swarm: Swarm) -> None:
    """By MIGRATESLOTS."""
    await asyncio.to_thread(cluster.reshard_all)


async def replicas_take_over(cluster: RealCluster, swarm: Swarm) -> None:
    """By CLUSTER FAILOVER, which loses nothing. The former primaries go on as replicas."""
    for primary in await asyncio.to_thread(cluster.primaries):
        await asyncio.to_thread(cluster.failover, cluster.replicas_of(primary)[0])
    await asyncio.to_thread(cluster.settle)


async def primary_dies(cluster: RealCluster, swarm: Swarm) -> None:
    """And its replica takes its place. What it had not passed on is lost."""
    primary = (await asyncio.to_thread(cluster.primaries))[0]
    replica = cluster.replicas_of(primary)[0]
    loses_writes(swarm)
    with cluster.replaceable(replica) as replaced:
        await asyncio.to_thread(primary.kill)
        await asyncio.to_thread(replaced)
    await asyncio.to_thread(primary.start)
    await asyncio.to_thread(cluster.settle)


async def primary_is_deposed_in_its_sleep(cluster: RealCluster, swarm: Swarm) -> None:
    """It comes back, and takes itself for a primary at first."""
    primary = (await asyncio.to_thread(cluster.primaries))[0]
    replica = cluster.replicas_of(primary)[0]
    loses_writes(swarm)
    primary.freeze()
    try:
        with cluster.replaceable(replica) as replaced:
            await asyncio.to_thread(replaced)
        await swarm.more(MEANWHILE)
    finally:
        primary.thaw()
    await asyncio.to_thread(cluster.settle)


def loses_writes(swarm: Swarm) -> None:
    """From now on, writes may be lost that were acknowledged."""
    since = asyncio.get_running_loop().time()
    for slot in swarm.book.slots:
        swarm.book.abandon(slot)
    swarm.book.everything_unknown(since)


class Event(NamedTuple):
    """What happens, how late reads may be then, and what clients write; whether nodes take the places of others."""

    happens: Disturbance
    bounds: Bounds
    writes: dict[writes.Way, float]
    replaces: bool = False


WITH_FLUSHES = {writes.flush: 0.3}
"""Only while no node is replaced, and no slot moves: FLUSHALL runs on each node by itself, so it can miss a key that is
on its way from one to another, and it ends a migration of Valkey 9. A flush whose client has lost its connection may
run on other nodes when keys of after it have been written."""
EVENTS = {
    "keys one by one": Event(keys_leave_one_by_one, NEAR, writes.WITHOUT_TTLS),
    "nothing": Event(lambda _cluster, swarm: swarm.more(MEANWHILE), NEAR, {**writes.OF_A_CLUSTER, **WITH_FLUSHES}),
    "slots at once": Event(slots_leave_at_once, STALE, writes.OF_A_CLUSTER),
    "a primary hangs": Event(primary_hangs, STALE, writes.OF_A_CLUSTER),
    "a planned failover": Event(replicas_take_over, STALE, writes.OF_A_CLUSTER, replaces=True),
    "a primary dies": Event(primary_dies, STALE, writes.OF_A_CLUSTER, replaces=True),
    "a primary is deposed": Event(primary_is_deposed_in_its_sleep, STALE, writes.OF_A_CLUSTER, replaces=True),
}


def replication_streams(cluster: RealCluster) -> dict[int, str]:
    """Those of the primaries, by port. One that takes the place of another begins a new one."""
    return {each.port: each.info("replication")["master_replid"] for each in cluster.primaries()}


def memory_answers(keyrails: list[Keyrail]) -> None:
    """Clients go on until memory has answered some of their reads."""
    before = hits(keyrails)
    eventually(lambda: hits(keyrails) > before + 20)


@pytest.mark.parametrize("cluster_name", rest_is_long("valkey-9.1", "redis-7.0"))
@pytest.mark.parametrize("amount", rest_is_long(*OPERATIONS))
@pytest.mark.parametrize("keyrails", rest_is_long("1", "2"))
@pytest.mark.parametrize("event", rest_is_long(*EVENTS))
def test_reads_can_have_been_so(
    new_keyrail: Callable[..., Keyrail], tmp_path: Path, cluster_name: str, amount: str, keyrails: str, event: str
) -> None:
    kind = kind_named(cluster_name)
    if event == "slots at once" and not kind.is_valkey:
        pytest.skip("Redis 7.0 has no MIGRATESLOTS")
    replaces = EVENTS[event].replaces
    cluster = RealCluster(kind, STEADY if replaces else PATIENT)
    try:
        streams = replication_streams(cluster)
        url = f"redis+cluster://127.0.0.1:{cluster.nodes[-1].port}"
        proxies = [new_keyrail(url, policy=policy(tmp_path), workers=3 - int(keyrails)) for _ in range(int(keyrails))]
        swarm = Swarm(
            [proxy.address for proxy in proxies],
            Book(KINDS),
            EVENTS[event].writes,
            reads.OF_A_CLUSTER,
            seed=int(keyrails),
            refusals=(b"CLUSTERDOWN", b"READONLY", b"TRYAGAIN", b"EXECABORT", b"MOVED", b"ASK", b"ERR", b"UNBLOCKED"),
        )

        async def beside() -> None:
            for _ in range(ROUNDS[amount]):
                await asyncio.to_thread(memory_answers, proxies)
                await EVENTS[event].happens(cluster, swarm)
                await swarm.more(MEANWHILE)
            await asyncio.to_thread(memory_answers, proxies)

        asyncio.run(swarm.run(OPERATIONS[amount], beside=beside))
        assert replaces or replication_streams(cluster) == streams, "a node was replaced: writes may be lost"
    finally:
        cluster.close()
    report = check(swarm.trails, EVENTS[event].bounds)
    assert not report.anomalies, report.lines()

"""Reads from the replicas of a cluster while slots move and nodes fail.

Proves: reads of all slots are spread over the replicas of their shards, pipelines, too; no client goes back, each sees
its own writes, nothing is missing while its slot moves and nothing is too old; what a failover loses does not count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from proxy.commands.slots import slot_of
from tests.cluster.nodes import RealCluster
from tests.conftest import kind_named, rest_is_long
from tests.keyrail_process import DIRECT, Keyrail
from tests.replicas.actors import Stage
from tests.replicas.history import History, Write
from tests.replicas.seen import moved, serving
from tests.resp import decode, eventually, pack

pytestmark = pytest.mark.skipif(DIRECT, reason="a plain relay knows no replicas")

OLDEST = 2.0
"""Seconds: the lag that is allowed, and one more."""
KEYS = tuple(f"k{number}" for number in range(12))
FROM_REPLICAS = ("--read-from", "replicas")


@pytest.fixture(scope="module", params=rest_is_long("valkey-9.1", "redis-7.0"))
def cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    started = RealCluster(kind_named(str(request.param)), primaries=2, replicas=2)
    yield started
    started.close()


@pytest.fixture
def keyrail(cluster: RealCluster, new_keyrail: Callable[..., Keyrail]) -> Keyrail:
    seeds = ",".join(f"127.0.0.1:{each.port}" for each in cluster.living())
    running = new_keyrail(f"redis+cluster://{seeds}", extra=FROM_REPLICAS)
    eventually(lambda: serving(running, *KEYS) == 4)
    return running


def gets(cluster: RealCluster) -> tuple[int, list[int]]:
    """How many GETs the primaries have run, and each replica."""
    return sum(each.calls("get") for each in cluster.primaries()), [each.calls("get") for each in cluster.replicas()]


def test_reads_of_all_slots_are_spread(cluster: RealCluster, keyrail: Keyrail) -> None:
    with keyrail.wire() as wire:
        for key in KEYS:
            assert wire.ask("SET", key, f"v-{key}") == b"+OK\r\n"
    eventually(lambda: serving(keyrail, *KEYS) == 4)

    def is_spread() -> bool:
        # On a machine that stands still for a second, nobody knows how old the data of replicas is.
        primaries, before = gets(cluster)
        for _ in range(30):
            with keyrail.wire() as wire:
                for key in KEYS[:3]:
                    assert decode(wire.ask("GET", key)) == f"v-{key}".encode()
                wire.send(b"".join(pack("GET", key) for key in KEYS) * 3)
                expected = [f"v-{key}".encode() for key in KEYS] * 3
                assert [decode(each) for each in wire.frames(len(expected))] == expected
        after = gets(cluster)
        return after[0] == primaries and min(now - then for then, now in zip(before, after[1], strict=True)) > 0

    eventually(is_spread)


def watched(keyrail: Keyrail) -> Stage:
    """Clients whose history is that of each slot by itself."""
    return Stage(keyrail.address.port, keys=KEYS, history=History(lambda key: str(slot_of(key.encode()))))


def emptied(cluster: RealCluster) -> None:
    for each in cluster.primaries():
        each.do("FLUSHALL")


def test_slots_move(cluster: RealCluster, keyrail: Keyrail) -> None:
    emptied(cluster)
    stage = watched(keyrail)
    before = moved(keyrail)
    source, target = cluster.primaries()
    slots = sorted({slot_of(f"{key}:{client}".encode()) for key in KEYS for client in range(8)})
    mine = [slot for slot in slots if cluster.owner(slot) is source][:10]

    def move() -> None:
        # At once: nobody has seen yet that the slots are on their way.
        for there, back in ((source, target), (target, source)):
            eventually(lambda: serving(keyrail, *KEYS) == 4)
            cluster.move_slots(mine, there, back)
            cluster.settle()

    async def act() -> None:
        await stage.until_reads(1000)
        await asyncio.to_thread(move)
        await stage.until_reads(200)

    asyncio.run(stage.run(8, act))
    assert stage.history.problems(OLDEST) == []
    assert (stage.closed, stage.errors) == (0, [])
    assert keyrail.metric("keyrail_out_of_step_total") == 0
    eventually(lambda: moved(keyrail) > before)


@pytest.mark.parametrize("event", rest_is_long("a replica dies", "planned failover"))
def test_nodes_fail(cluster: RealCluster, keyrail: Keyrail, event: str) -> None:
    emptied(cluster)
    stage = watched(keyrail)
    victim = cluster.replicas()[0]
    doubtful: list[float] = []

    def happen() -> None:
        if event == "planned failover":
            cluster.failover(victim)
        else:
            victim.kill()
            eventually(lambda: serving(keyrail, *KEYS) == 3)
            victim.start()
        cluster.settle()

    async def act() -> None:
        await stage.until_reads(300)
        doubtful.append(asyncio.get_running_loop().time())
        await asyncio.to_thread(happen)
        doubtful.append(asyncio.get_running_loop().time())
        await asyncio.to_thread(eventually, lambda: serving(keyrail, *KEYS) == 4)
        await stage.until_reads(300)

    asyncio.run(stage.run(8, act))
    begin, end = doubtful
    lost = {
        (each.key, each.number)
        for each in stage.history.steps
        if isinstance(each, Write) and each.sent <= end and (each.acknowledged is None or each.acknowledged >= begin)
    }
    assert stage.history.problems(OLDEST, lost if event == "planned failover" else ()) == []
    assert stage.errors == []
    assert keyrail.metric("keyrail_out_of_step_total") == 0
    assert "Traceback" not in keyrail.stderr

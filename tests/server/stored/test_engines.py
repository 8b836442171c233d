"""Scans of real engines: every key once, and nothing of the keys changes, not even when they were used last."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, cast

import pytest

from proxy.net.config.address import parse_upstream
from proxy.rules.stored import StoredKey
from proxy.server.stored.model import Scan
from proxy.server.stored.scanner import Options, Scanner, WallClock
from tests.cluster.nodes import RealCluster
from tests.conftest import kind_named
from tests.engines import EXPECTED, Engine
from tests.failover.fake_sentinel import sentinels_naming, url_of
from tests.resp import eventually, pack
from tests.server.stored.fake_servers import FakeJudge, FakeJudged, of_slots, slot_of

NewEngine = Callable[..., Engine]
HAS_NO_TOUCH = ("valkey-9.1",)
KEYS = [b"k%d" % number for number in range(3000)]


def scanned(url: str, judge: FakeJudge, **options: Any) -> Scan:
    scanner = Scanner(parse_upstream(url), None, judge, str, Options(**{"share": 1.0, **options}), WallClock())
    asyncio.run(scanner.run())
    return scanner.result("")


def names(judge: FakeJudge) -> Counter[bytes]:
    return Counter(key.name for key in judge.judged)


def fill(engine: Engine, keys: list[bytes]) -> None:
    with engine.wire() as wire:
        wire.send(b"".join(pack("SET", key, "x" * 20) for key in keys))
        assert set(wire.frames(len(keys))) == {b"+OK\r\n"}


def fill_all_types(engine: Engine) -> None:
    engine.do("SET", "text", "hello", "PX", 90_000)
    engine.do("RPUSH", "list", *range(20))
    engine.do("HSET", "hash", "a", 1)
    engine.do("SADD", "set", "a")
    engine.do("ZADD", "zset", 1, "a")
    engine.do("XADD", "stream", "*", "a", 1)


@pytest.mark.parametrize("engine_name", EXPECTED)
def test_one_redis_with_its_databases(new_engine: NewEngine, engine_name: str) -> None:
    engine = new_engine(engine_name)
    fill(engine, KEYS)
    fill_all_types(engine)
    with engine.wire() as wire:
        wire.ask("SELECT", 9)
        wire.ask("SET", "k0", "another one")
    judge = FakeJudge()
    found = scanned(engine.url, judge)
    types = {b"text": "string", **{name: name.decode() for name in (b"list", b"hash", b"set", b"zset", b"stream")}}
    assert names(judge) == Counter([*KEYS, b"k0", *types])
    by_name = {key.name: key for key in judge.judged}
    assert {name: by_name[name].type for name in types} == types
    assert 80_000 < (by_name[b"text"].ttl or 0) <= 90_000
    assert all((key.memory or 0) > 20 for key in judge.judged)
    assert by_name[b"list"].members == (20 if engine_name in HAS_NO_TOUCH else None)
    (node,) = found.nodes
    assert node.databases == {0: len(KEYS) + 6, 9: 1}
    assert node.before == node.after == found.keys
    assert node.info["used_memory"] > 0
    judge = FakeJudge()
    assert scanned(f"{engine.url}/9", judge).keys == 1


@pytest.mark.parametrize("engine_name", EXPECTED)
def test_access_times_and_frequencies_stay(new_engine: NewEngine, engine_name: str) -> None:
    engine = new_engine(engine_name, {"maxmemory-policy": "allkeys-lfu"})
    fill(engine, KEYS[:1000])
    fill_all_types(engine)
    asked = [*KEYS[:1000], *b"text list hash set zset stream".split()]
    before = [engine.do("OBJECT", "FREQ", key) for key in asked[-20:]]
    scanned(engine.url, FakeJudge())
    assert [engine.do("OBJECT", "FREQ", key) for key in asked[-20:]] == before
    engine.do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    for key in asked:
        engine.do("RESTORE", key, 0, cast("bytes", engine.do("DUMP", key)), "REPLACE", "IDLETIME", 5000)
    judge = FakeJudge()
    scanned(engine.url, judge)
    assert len(judge.judged) == len(asked)
    idle = [cast("int", engine.do("OBJECT", "IDLETIME", key)) for key in asked]
    assert min(idle) >= 5000
    scanned(engine.url, FakeJudge(), touches=True)
    touched = cast("int", engine.do("OBJECT", "IDLETIME", "list"))
    assert (touched < 5000) == (engine_name not in HAS_NO_TOUCH), "--touch is what it says"


def test_the_primary_that_sentinels_name_and_its_replica(new_engine: NewEngine) -> None:
    primary, replica = new_engine(), new_engine()
    replica.do("REPLICAOF", "127.0.0.1", primary.port)
    fill(primary, KEYS)
    eventually(lambda: replica.do("DBSIZE") == len(KEYS))
    with sentinels_naming(primary.port, primary.port) as sentinels:
        for replicas, asked, spared in ((False, primary, replica), (True, replica, primary)):
            before = asked.calls("scan"), spared.calls("scan")
            judge = FakeJudge()
            found = scanned(url_of(*sentinels), judge, replicas=replicas)
            assert found.nodes[0].name.startswith(f"replica 127.0.0.1:{replica.port} of ") == replicas
            assert names(judge) == Counter(KEYS)
            assert asked.calls("scan") > before[0]
            assert spared.calls("scan") == before[1]


def test_a_server_that_dies_and_comes_back_with_its_data(new_engine: NewEngine) -> None:
    engine = new_engine("valkey-9.1", {"appendonly": "yes", "appendfsync": "always"})
    fill(engine, KEYS)

    class Killing(FakeJudge):
        def judge(self, key: StoredKey) -> FakeJudged:
            if len(self.judged) == 1000:
                engine.kill()
                engine.start()
            return super().judge(key)

    judge = Killing()
    found = scanned(engine.url, judge)
    assert names(judge) == Counter(KEYS)
    assert found.nodes[0].restarts == 1


# Clusters


@pytest.fixture(scope="module", params=["redis-7.0", "valkey-9.1"])
def cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    started = RealCluster(kind_named(request.param))
    yield started
    started.close()


class Moving(FakeJudge):
    """While keys are judged, slots move from the first primary to the others, key by key."""

    def __init__(self, cluster: RealCluster, slots: list[int]) -> None:
        super().__init__()
        self.cluster = cluster
        self.slots = iter(slots)
        self.moved = 0

    def judge(self, key: StoredKey) -> FakeJudged:
        if len(self.judged) % 100 == 50:
            source, target = self.cluster.primaries()[0], self.cluster.primaries()[1 + self.moved % 2]
            slots = list(islice(self.slots, 3))
            self.cluster.move_slots(slots, source, target)
            self.moved += len(slots)
        return super().judge(key)


def test_a_cluster_whose_slots_move(cluster: RealCluster) -> None:
    first = cluster.primaries()[0]
    keys = KEYS[:2000]
    for node in cluster.primaries():
        fill(node, of_slots(keys, cluster.slots_of(node)))
    mine = sorted({slot_of(key) for key in of_slots(keys, cluster.slots_of(first))})[:60]
    judge = Moving(cluster, mine)
    url = f"redis+cluster://127.0.0.1:{first.port}"
    found = scanned(url, judge)
    assert judge.moved > 30
    assert names(judge) == Counter(keys)
    assert sum(node.counted for node in found.nodes) == len(keys)
    assert found.used_slots == len({slot_of(key) for key in keys})
    cluster.settle()
    again = FakeJudge()
    scanned(first.url, again, replicas=True)
    assert names(again) == Counter(keys), "one node stands for all, and replicas for their primaries"


def test_a_node_that_crashes_by_no_touch_while_its_slots_move_does_not() -> None:
    """Redis 8.2 reads a null pointer where a client that has sent CLIENT NO-TOUCH asks for a key of an open slot."""
    cluster = RealCluster(kind_named("redis-8.2"), replicas=0)
    try:
        source, target, _ = cluster.primaries()
        keys = of_slots(KEYS, cluster.slots_of(source))
        fill(source, keys)
        for key in keys[:50]:
            cluster.open_slot(slot_of(key), source, target)
        judge = FakeJudge()
        scanned(f"redis+cluster://127.0.0.1:{source.port}", judge)
        assert names(judge) == Counter(keys)
        assert source.do("PING") == b"PONG"
    finally:
        cluster.close()


def test_a_primary_that_dies_and_whose_replica_takes_its_place() -> None:
    cluster = RealCluster(kind_named("valkey-9.1"))
    try:
        first = cluster.primaries()[0]
        (replica,) = cluster.replicas_of(first)
        for node in cluster.primaries():
            fill(node, of_slots(KEYS, cluster.slots_of(node)))
        eventually(lambda: replica.do("DBSIZE") == first.do("DBSIZE"))

        class Killing(FakeJudge):
            def judge(self, key: StoredKey) -> FakeJudged:
                if len(self.judged) == 500:
                    first.kill()
                    cluster.failover(replica, "TAKEOVER")
                return super().judge(key)

        judge = Killing()
        seeds = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes)
        found = scanned(f"redis+cluster://{seeds}", judge)
    finally:
        cluster.close()
    assert names(judge) == Counter(KEYS)
    assert found.finished
    assert len(found.nodes) == 4
    assert sum(node.counted for node in found.nodes) == len(KEYS)

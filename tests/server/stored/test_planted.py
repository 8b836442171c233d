"""Each planted fault of a real engine's keys is found, with the right owner and no other fault, while a cluster's slots
move and one of its primaries dies, too."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import cast

import pytest

from proxy.net.config.address import parse_upstream
from proxy.rules.stored import StoredKey
from proxy.server.stored.judging import Judged, StoredJudge
from proxy.server.stored.model import Scan
from proxy.server.stored.scanner import Options, Scanner, WallClock
from tests.cluster.nodes import STEADY, RealCluster
from tests.conftest import kind_named, rest_is_long
from tests.engines import Engine
from tests.resp import eventually, pack
from tests.server.stored.fake_servers import slot_of
from tests.server.stored.planted import COUNTS, POLICY, Planted, Recording, keyspace, owners

NewEngine = Callable[..., Engine]
FEW, MANY = 4_000, 60_000
PASSING = b"free:passing:"
"""Keys that begin so are written and deleted meanwhile; nothing is wrong with them."""


def fill(engine: Engine, keys: Iterable[Planted]) -> None:
    commands = [argv for each in keys for argv in each.commands]
    with engine.wire() as wire:
        for begin in range(0, len(commands), 1000):
            some = commands[begin : begin + 1000]
            wire.send(b"".join(pack(*argv) for argv in some))
            assert not any(reply.startswith(b"-") for reply in wire.frames(len(some)))


def scanned(url: str, judge: StoredJudge) -> Scan:
    # Before Redis 7.2, members are counted only by who may change access times.
    scanner = Scanner(parse_upstream(url), None, judge, str, Options(1.0, touches=True), WallClock())
    asyncio.run(scanner.run())
    return scanner.result("")


def check(keys: dict[bytes, Planted], judge: Recording, found: Scan) -> None:
    """Each key was judged once, as it was planted, and the sums say the same. Those that do not stay may be missing."""
    passing = {name for name in judge.told if name.startswith(PASSING)}
    assert found.finished, found
    assert not keys.keys() - judge.told.keys(), (found.notes, found.nodes)
    assert {name: told for name, told in judge.told.items() if name not in passing} == {
        name: (each.app, each.faults) for name, each in keys.items()
    }
    assert set(judge.times.values()) == {1}
    assert found.finished
    assert not found.notes
    assert found.keys == len(keys) + len(passing) == sum(node.counted for node in found.nodes)
    assert {fault: (row.enforced, row.sure) for fault, row in found.by_fault.items()} == {
        fault: (number, number) for fault, number in COUNTS.items()
    }
    assert Counter({(of.fault, of.app): row.sure for of, row in found.faults.items()}) == owners(keys.values())
    apps = Counter(each.app for each in keys.values()) + Counter({"": len(passing)})
    assert {app: row.keys for app, row in found.apps.items()} == apps


@pytest.mark.parametrize("ordinary", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
@pytest.mark.parametrize("engine_name", ["redis-6.2", "redis-8.2", "valkey-9.1"])
def test_one_server(new_engine: NewEngine, engine_name: str, ordinary: int) -> None:
    engine, keys, judge = new_engine(engine_name), keyspace(1, ordinary), Recording()
    fill(engine, keys.values())
    check(keys, judge, scanned(engine.url, judge))


def test_the_command(new_engine: NewEngine, tmp_path: Path) -> None:
    engine, keys, policy = new_engine("valkey-9.1"), keyspace(2, FEW), tmp_path / "shop.yaml"
    fill(engine, keys.values())
    policy.write_text(f"keyrail: 1\n{POLICY}")
    words = ["scan", "--upstream", engine.url, "--policy", str(policy), "--share", "50%", "--json"]
    limits = ",".join(f"{fault}>{number}" for fault, number in COUNTS.items())
    for more, status in ((limits, 0), ("no-ttl>2070", 1)):
        command = [sys.executable, "-m", "proxy", *words, "--fail-on", more]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == status, ended.stderr
        told = json.loads(ended.stdout)
        assert Counter({(row["fault"], row["app"]): row["enforced"] for row in told["faults"]}) == owners(keys.values())
        assert told["keys"] == len(keys)


# Clusters


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    started = RealCluster(kind_named(request.param), STEADY)
    yield started
    started.close()


def spread(cluster: RealCluster, keys: dict[bytes, Planted]) -> None:
    """The keys on the primaries that own their slots."""
    for node in cluster.primaries():
        mine = {*cluster.slots_of(node)}
        fill(node, (each for each in keys.values() if slot_of(each.name) in mine))
    stored = sum(cast("int", node.do("DBSIZE")) for node in cluster.primaries())
    assert stored == len(keys), "the nodes agree on who owns which slot"


class Operating(Recording):
    """While keys are judged, one thing after the other happens to the cluster: slots move key by key, in parts, or come
    back half-way; a primary dies, and its replica takes its place; and keys come and go that do not count."""

    def __init__(self, cluster: RealCluster, keys: dict[bytes, Planted], random: Random) -> None:
        super().__init__()
        self.cluster = cluster
        self.moved = self.given_back = 0
        self.doomed = random.choice(cluster.primaries())
        self.killed: Engine | None = None
        self._random = random
        self._slots = [slot_of(each.name) for each in keys.values() if each.faults]
        self._events = self._happenings()
        self._every = len(keys) // 40

    def judge(self, key: StoredKey) -> Judged:
        if len(self.times) % self._every == self._every // 2:
            next(self._events, None)
        return super().judge(key)

    def _happenings(self) -> Iterator[None]:
        for number in range(30):
            if number == 12:
                self._kill()
            self._write_and_delete(number)
            slot = self._random.choice(self._slots)
            source = self.cluster.owner(slot)
            target = self._random.choice([node for node in self.cluster.primaries() if node is not source])
            self.cluster.open_slot(slot, source, target)
            self.cluster.move_keys(slot, source, target, self.cluster.keys_in(slot, source)[::2])
            yield
            if number % 3:
                self.cluster.move_keys(slot, source, target)
                self.cluster.close_slot(slot, target)
                self.moved += 1
            else:
                source.do("CLUSTER", "SETSLOT", slot, "STABLE")
                self.cluster.move_keys(slot, target, source)
                target.do("CLUSTER", "SETSLOT", slot, "STABLE")
                self.given_back += 1

    def _write_and_delete(self, number: int) -> None:
        for each in range(10):
            name = PASSING + b"%d:%d" % (number, each)
            self.cluster.owner(slot_of(name)).do("SET", name, "x")
        name = PASSING + b"%d:%d" % (number // 2, number % 10)
        self.cluster.owner(slot_of(name)).do("DEL", name)

    def _kill(self) -> None:
        lost = self.doomed
        (replica,) = self.cluster.replicas_of(lost)
        sent = int(lost.info("replication")["master_repl_offset"])
        eventually(lambda: int(replica.info("replication")["slave_repl_offset"]) >= sent)
        lost.kill()
        self.killed = lost
        self.cluster.failover(replica, "TAKEOVER")
        self.cluster.settle()  # before that, nodes give no slots to it


@pytest.mark.parametrize("ordinary", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
@pytest.mark.parametrize("cluster", rest_is_long("valkey-9.1", "redis-7.0", "redis-8.2"), indirect=True)
def test_a_cluster_at_rest(cluster: RealCluster, ordinary: int) -> None:
    keys, judge = keyspace(3, ordinary), Recording()
    spread(cluster, keys)
    check(keys, judge, found := scanned(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}", judge))
    assert len(found.nodes) == 3


@pytest.mark.parametrize("seed", rest_is_long("1", "2", "3", "4"))
@pytest.mark.parametrize("cluster", rest_is_long("valkey-9.1", "redis-7.0", "redis-8.2"), indirect=True)
def test_a_cluster_whose_slots_move_and_one_of_whose_primaries_dies(cluster: RealCluster, seed: str) -> None:
    keys = keyspace(4, FEW)
    spread(cluster, keys)
    judge = Operating(cluster, keys, Random(seed))
    found = scanned(f"redis+cluster://127.0.0.1:{judge.doomed.port}", judge)
    assert judge.killed is not None
    assert min(judge.moved, judge.given_back) > 5
    check(keys, judge, found)
    assert len(found.nodes) == 4

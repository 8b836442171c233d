"""Clients of Keyrail while slots move and primaries fail over: nobody sees MOVED or ASK, and each key's history is in
the order in which its client sent it."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import Any, cast

import pytest
from hiredis import pack_command

from proxy.commands.slots import slot_of
from tests.cluster.nodes import STEADY, RealCluster
from tests.keyrail_process import Keyrail
from tests.resp import Closed, decode, eventually

TAGS = [f"{{t{number}}}" for number in range(12)]
KEYS = [f"{tag}:{number}" for tag in TAGS for number in range(4)]
TRY_AGAIN = (b"-CLUSTERDOWN", b"-TRYAGAIN")
_NUMBERS = count()


class Writer(threading.Thread):
    """A client that appends numbers to its own lists, in pipelines, and reads them back until it is told to stop.

    `sent` has all numbers of a list, and the place of each in it, `acknowledged` those that Redis has taken. With
    `closable`, the connection may be closed: what was not answered then may have run, or not.
    """

    def __init__(self, keyrail: Keyrail, closable: bool) -> None:
        super().__init__(daemon=True)
        self.keyrail = keyrail
        self.closable = closable
        self.number = next(_NUMBERS)
        self.random = Random(self.number)
        self.wire = keyrail.wire()
        self.over = threading.Event()
        self.sent: defaultdict[str, dict[bytes, int]] = defaultdict(dict)
        self.acknowledged: set[bytes] = set()
        self.errors: Counter[bytes] = Counter()
        self.pipelines = self.closes = 0
        self.fault: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while not self.over.is_set():
                self._pipeline()
                self.pipelines += 1
        except BaseException as fault:  # noqa: BLE001 - `finish` raises it
            self.fault = fault
        finally:
            self.wire.close()

    def _pipeline(self) -> None:
        commands: list[tuple[str, ...]] = []
        for at, key in enumerate(self.random.choices(KEYS, k=self.random.choice([1, 4, 40]))):
            mine, number = f"{key}:{self.number}", f"{self.number}.{self.pipelines}.{at}"
            kind = self.random.random()
            if kind < 0.6:
                commands.append(("RPUSH", mine, number))
            elif kind < 0.8:
                commands.append(("LRANGE", mine, "-3", "-1"))
            else:
                commands += [("MULTI",), ("RPUSH", mine, number), ("LRANGE", mine, "-1", "-1"), ("EXEC",)]
        for words in commands:
            if words[0] == "RPUSH":
                numbers = self.sent[words[1]]
                numbers[words[2].encode()] = len(numbers)
        try:
            self.wire.send(b"".join(map(pack_command, commands)))
            for words, before in zip(commands, [(), (), *commands], strict=False):
                self._hear(words, before, self.wire.frame())
        except (OSError, Closed):
            if not self.closable:
                raise
            self.closes += 1
            self.wire.close()
            self.wire = self.keyrail.wire()

    def _hear(self, words: tuple[str, ...], second_before: tuple[str, ...], frame: bytes) -> None:
        if frame.startswith(b"-"):
            self.errors[frame] += 1
        elif words[0] == "EXEC":
            assert decode(frame) == [(cast("list[Any]", decode(frame)))[0], [second_before[2].encode()]]
            self.acknowledged.add(second_before[2].encode())
        elif words[0] == "RPUSH" and frame.startswith(b":"):
            self.acknowledged.add(words[2].encode())
        elif words[0] == "LRANGE" and frame != b"+QUEUED\r\n":
            self.check(words[1], cast("list[bytes]", decode(frame)))

    def check(self, key: str, found: list[bytes]) -> None:
        """What was found in a list was sent in that order, and nothing of it twice."""
        places = [self.sent[key][number] for number in found]
        assert places == sorted(set(places)), (key, found)

    def finish(self) -> None:
        """Stop, and say what went wrong."""
        self.over.set()
        self.join()
        if self.fault is not None:
            raise self.fault


@contextmanager
def writers(keyrail: Keyrail, *, closable: bool = False) -> Iterator[list[Writer]]:
    """Clients that write while the block runs."""
    started = [Writer(keyrail, closable) for _ in range(4)]
    try:
        yield started
    finally:
        for each in started:
            each.over.set()
    for each in started:
        each.finish()


def acknowledged(started: list[Writer]) -> frozenset[bytes]:
    """All numbers that Redis has taken so far."""
    return frozenset(number for each in started for number in each.acknowledged.copy())


def check(keyrail: Keyrail, started: list[Writer], lost: frozenset[bytes] = frozenset()) -> None:
    """Each list holds what was acknowledged, in the order sent, and nobody saw where a node is. The cluster itself may
    have `lost` some of these."""
    with keyrail.wire() as wire:
        for each in started:
            assert {error.split(b" ")[0] for error in each.errors} <= {*TRY_AGAIN, b"-EXECABORT"}, each.errors
            for key, numbers in each.sent.items():
                found = cast("list[bytes]", decode(wire.ask("LRANGE", key, "0", "-1")))
                each.check(key, found)
                assert (each.acknowledged & set(numbers)) - set(found) <= lost
                assert each.closable or set(found) <= each.acknowledged


@pytest.fixture
def keyrail(cluster: RealCluster, new_keyrail: Callable[..., Keyrail]) -> Keyrail:
    """Keyrail before the cluster that the tests of this file share."""
    return served(cluster, new_keyrail)


def served(cluster: RealCluster, new_keyrail: Callable[..., Keyrail]) -> Keyrail:
    """Keyrail before this cluster."""
    running = new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: running.http("/readyz")[0] == 200)
    return running


def test_slots_move_key_by_key_under_load(cluster: RealCluster, keyrail: Keyrail) -> None:
    random = Random(7)
    with writers(keyrail) as started:
        for tag in TAGS:
            slot = slot_of(tag.encode())
            source = cluster.owner(slot)
            target = random.choice([each for each in cluster.primaries() if each is not source])
            cluster.open_slot(slot, source, target)
            for _ in range(3):
                cluster.move_keys(slot, source, target, cluster.keys_in(slot, source, 3))
                await_pipelines(started)
            cluster.move_keys(slot, source, target)
            cluster.close_slot(slot, target)
    cluster.settle()
    check(keyrail, started)


def test_a_client_blocks_on_a_key_that_has_moved_before_its_slot(cluster: RealCluster, keyrail: Keyrail) -> None:
    slot = slot_of(b"{queue}")
    source = cluster.owner(slot)
    target = next(each for each in cluster.primaries() if each is not source)
    cluster.open_slot(slot, source, target)
    with keyrail.wire() as blocked, keyrail.wire() as other:
        assert blocked.ask("BLPOP", "{queue}", "0.05") in (b"*-1\r\n", b"_\r\n")
        blocked.say("BLPOP", "{queue}", "0")
        eventually(lambda: b"blocked_clients:1" in cast("bytes", target.do("INFO", "clients")))
        assert other.ask("RPUSH", "{queue}", "job") == b":1\r\n"
        assert b"job" in blocked.frame()
        blocked.say("BLPOP", "{queue}", "0")
        cluster.close_slot(slot, target)
        assert other.ask("RPUSH", "{queue}", "job") == b":1\r\n"
        assert b"job" in blocked.frame()
    cluster.settle()


def test_dbsize_is_the_sum_of_what_the_nodes_count(cluster: RealCluster, keyrail: Keyrail) -> None:
    """In each state of a move; between the answers of two nodes, a key may have moved."""
    slot = slot_of(b"{counted}")
    source = cluster.owner(slot)
    target = next(each for each in cluster.primaries() if each is not source)
    with keyrail.wire() as wire:
        before = cast("int", wire.value("DBSIZE"))
        for number in range(5):
            assert wire.ask("SET", f"{{counted}}{number}", "v") == b"+OK\r\n"
        cluster.open_slot(slot, source, target)
        for key in cluster.keys_in(slot, source, 3):
            cluster.move_keys(slot, source, target, [key])
            assert wire.value("DBSIZE") == before + 5
        left = cluster.keys_in(slot, source, 1)[0]
        source.do("MIGRATE", "127.0.0.1", target.port, left, 0, 5000, "COPY")
        counted = sum(cast("int", node.do("DBSIZE")) for node in cluster.primaries())
        assert wire.value("DBSIZE") == counted == before + 6, "both nodes have a copy"
        source.do("MIGRATE", "127.0.0.1", target.port, left, 0, 5000, "REPLACE")
        cluster.move_keys(slot, source, target)
        cluster.close_slot(slot, target)
        assert wire.value("DBSIZE") == before + 5
        wire.ask("DEL", *(f"{{counted}}{number}" for number in range(5)))
    cluster.settle()


def await_pipelines(started: list[Writer]) -> None:
    """Let each client send one more pipeline, and have its replies."""
    before = [each.pipelines for each in started]
    eventually(lambda: all(now.pipelines > then or now.fault for now, then in zip(started, before, strict=True)))


def test_slots_move_at_once_under_load(cluster: RealCluster, keyrail: Keyrail) -> None:
    if not cluster.kind.is_valkey:
        pytest.skip("CLUSTER MIGRATESLOTS is of Valkey 9")
    with writers(keyrail) as started:
        for slot in sorted({slot_of(tag.encode()) for tag in TAGS}):
            source = cluster.owner(slot)
            target = next(each for each in cluster.primaries() if each is not source)
            cluster.move_slots_atomically(slot, slot, source, target)
            cluster.settle()
    check(keyrail, started)
    assert not {error for each in started for error in each.errors}


@pytest.mark.parametrize("how", ["", "FORCE", "TAKEOVER"])
def test_replicas_are_promoted_under_load(
    cluster_name: str, new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail], how: str
) -> None:
    cluster = new_cluster(cluster_name, STEADY)
    keyrail = served(cluster, new_keyrail)
    with writers(keyrail, closable=how != "") as started:
        for replica in cluster.replicas():
            await_pipelines(started)
            cluster.failover(replica, how)
            cluster.settle()
        await_pipelines(started)
    check(keyrail, started, acknowledged(started) if how else frozenset())


def test_a_primary_dies_under_load(
    cluster_name: str, new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail]
) -> None:
    cluster = new_cluster(cluster_name)
    keyrail = served(cluster, new_keyrail)
    with writers(keyrail, closable=True) as started:
        await_pipelines(started)
        cluster.nodes[1].kill()
        eventually(lambda: cluster.role(cluster.nodes[4]) == "master")
        keyrail.await_line(rf"127.0.0.1:{cluster.nodes[4].port} is a primary")
        await_pipelines(started)
    check(keyrail, started, acknowledged(started))


def test_a_primary_that_hangs_under_load_runs_nothing_later(
    cluster_name: str, new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail]
) -> None:
    cluster = new_cluster(cluster_name)
    keyrail = served(cluster, new_keyrail)
    hung = cluster.nodes[1]
    with writers(keyrail, closable=True) as started:
        await_pipelines(started)
        hung.freeze()
        try:
            eventually(lambda: cluster.role(cluster.nodes[4]) == "master")
            keyrail.await_line(rf"127.0.0.1:{cluster.nodes[4].port} is a primary")
            before = acknowledged(started)
            await_pipelines(started)
        finally:
            hung.thaw()
        eventually(lambda: cluster.role(hung) == "slave")
        await_pipelines(started)
    cluster.settle()
    check(keyrail, started, before)

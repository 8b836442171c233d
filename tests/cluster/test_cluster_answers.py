"""Clients take what Keyrail says of itself for a cluster, and an engine without one says the same as Keyrail as a plain
Redis.

The clients are real: each connects to listeners that answer CLUSTER themselves and relay everything else to one engine.
"""

from __future__ import annotations

import shutil
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis.cluster import RedisCluster

from proxy.cluster.cluster_answers import Presented, as_cluster, as_single
from proxy.cluster.shares import Advertised, Share, shared_out
from proxy.commands.row import Row
from proxy.commands.rows import ROWS
from proxy.commands.slots import SLOTS, slot_of
from proxy.commands.table import STANDARD
from tests.cluster.nodes import RealCluster
from tests.conftest import kind_named
from tests.engines import Engine, free_port
from tests.hotpath.routed import owners
from tests.resp import FrameReader, Wire, decode

ANSWERED = {row.name: row for row in ROWS.values() if row.cluster_answer is not None}


def addresses(count: int) -> list[Advertised]:
    return [Advertised("127.0.0.1", 7000 + number) for number in range(count)]


def presented(own: int = 0, count: int = 3, nodes: int = 3) -> Presented:
    shown = addresses(count)
    return Presented(shown[own], shared_out(owners(nodes), shown))


# Shares


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, SLOTS), st.integers(-1, 6)), max_size=12), st.integers(1, 9))
def test_shares_are_whole_nodes_and_cover_every_slot(changes: list[tuple[int, int]], count: int) -> None:
    slots = owners(7)
    for first, owner in changes:
        slots[first : first + 1000] = [owner] * len(slots[first : first + 1000])
    shares = shared_out(slots, addresses(count), range(7))
    covered = [0] * SLOTS
    for share in shares:
        for first, last in share.ranges:
            for slot in range(first, last + 1):
                covered[slot] += 1
                assert slots[slot] in share.nodes or slots[slot] < 0
    assert covered == [1] * SLOTS
    nodes = [node for share in shares for node in share.nodes]
    assert sorted(nodes) == list(range(7)), "each primary is of one share, also without slots"
    assert len(shares) == max(1, min(count, len({owner for owner in slots if owner >= 0})))
    assert sum(1 + len(share.replicas) for share in shares) == count


@pytest.mark.parametrize(
    ("nodes", "count", "expected"),
    [
        (3, 3, [(0,), (1,), (2,)]),
        (3, 1, [(0, 1, 2)]),
        (3, 2, [(0,), (1, 2)]),
        (6, 3, [(0, 1), (2, 3), (4, 5)]),
        (5, 2, [(0, 1), (2, 3, 4)]),
        (3, 5, [(0,), (1,), (2,)]),
    ],
)
def test_parts_are_as_even_as_whole_nodes_allow(nodes: int, count: int, expected: list[tuple[int, ...]]) -> None:
    shares = shared_out(owners(nodes), addresses(count))
    assert [share.nodes for share in shares] == expected
    assert sum(len(share.replicas) for share in shares) == max(0, count - nodes)


def test_without_any_owner_the_first_address_has_all() -> None:
    shares = shared_out([-1] * SLOTS, addresses(2))
    assert [share.ranges for share in shares] == [((0, SLOTS - 1),)]


def test_ids_are_of_the_address_alone() -> None:
    one, other = Advertised("keyrail.example.com", 6379), Advertised("keyrail.example.com", 6380)
    assert one.id == Advertised("keyrail.example.com", 6379).id != other.id
    assert len(one.id) == 40
    assert (one.bus_port, Advertised("h", 60000).bus_port) == (16379, 0)


# Answers


@pytest.mark.parametrize("name", ["redis-6.2", "redis-7.0", "valkey-9.1"])
def test_as_one_redis_it_answers_as_an_engine_without_a_cluster(name: str) -> None:
    engine = Engine(kind_named(name))
    try:
        with engine.wire() as wire:
            for row in ANSWERED.values():
                words = words_of(row)
                direct = wire.ask(*words)
                if b"unknown" in direct or (name, row.name) == ("redis-6.2", "READWRITE"):
                    continue
                assert row.cluster_answer is not None
                own = as_single(row.cluster_answer, [word.encode() for word in words], valkey="valkey" in name)
                assert own == direct, words
    finally:
        engine.close()


def words_of(row: Row) -> list[str]:
    spec = STANDARD.find(row.name)
    assert spec is not None
    return [*row.display.split(), *["a"] * (abs(spec.arity) - len(row.display.split()))]


@pytest.mark.parametrize("protocol", [2, 3])
def test_shapes_are_those_of_a_node(cluster: RealCluster, protocol: int) -> None:
    with cluster.nodes[0].wire(protocol) as wire:
        for row in ANSWERED.values():
            if row.cluster_answer in ("help", "replicas", "failure reports", "links"):
                continue
            direct = wire.ask(*words_of(row))
            if b"unknown" in direct:
                continue
            assert row.cluster_answer is not None
            words = [word.encode() for word in words_of(row)]
            own = as_cluster(row.cluster_answer, words, presented(count=6), protocol)
            assert shape(own) == shape(direct), row.name


def shape(frame: bytes) -> object:
    """The kinds of a frame's elements, the first of each list; texts by the names in them."""
    value = decode(frame)
    if isinstance(value, list):
        first = value[0] if value else None
        if isinstance(first, list) and isinstance(first[0], bytes):  # a shard: flat in RESP2, a map in RESP3
            return frame[:1], [kinds(each) for each in first[:4]]
        return frame[:1], kinds(first)
    if isinstance(value, bytes) and b"cluster_state:" in value:
        return frame[:1], {"cluster_state", "cluster_known_nodes", "cluster_my_epoch"} <= {
            line.partition(":")[0] for line in value.decode().splitlines()
        }
    if isinstance(value, bytes) and b"myself" in value:
        return frame[:1], {len(line.split()) for line in value.decode().splitlines()}
    return frame[:1]


def kinds(value: object) -> object:
    return [kinds(each) for each in value[:3]] if isinstance(value, list) else type(value).__name__


def test_replicas_failure_reports_and_links_are_about_keyrails_addresses() -> None:
    shown = presented(count=5)
    first = shown.shares[0]

    def ask(name: str, *words: str) -> object:
        row = ROWS[f"CLUSTER|{name}"]
        assert row.cluster_answer is not None
        argv = [b"CLUSTER", name.encode(), *(word.encode() for word in words)]
        return decode(as_cluster(row.cluster_answer, argv, shown, 2))

    replicas = ask("REPLICAS", first.primary.id)
    assert isinstance(replicas, list)
    assert [str(line, "ascii").split()[3] for line in replicas if isinstance(line, bytes)] == [first.primary.id]
    assert "not a master" in str(ask("REPLICAS", first.replicas[0].id))
    assert "Unknown node x" in str(ask("SLAVES", "x\r\n+OK"))
    assert ask("COUNT-FAILURE-REPORTS", first.primary.id) == 0
    assert "Unknown node" in str(ask("COUNT-FAILURE-REPORTS", "x"))
    links = ask("LINKS")
    assert isinstance(links, list)
    assert len(links) == 8
    assert ask("MYID") == shown.own.id.encode()
    assert ask("MYSHARDID") == first.shard_id.encode()
    assert presented(own=4, count=5).own_share().replicas[0].port == 7004


def test_its_state_is_that_of_the_nodes_whether_or_not_slots_have_no_owner() -> None:
    down = as_cluster("info", [], presented()._replace(healthy=False), 2)
    assert b"cluster_state:fail\r\n" in down
    assert b"cluster_slots_ok:16384\r\n" in down
    partly = as_cluster("info", [], presented()._replace(unowned=100), 2)
    assert b"cluster_state:ok\r\n" in partly
    assert b"cluster_slots_assigned:16284\r\ncluster_slots_ok:16284\r\n" in partly


# Real clients


class Listener(socketserver.ThreadingTCPServer):
    """One address: it answers what is about the cluster, and relays the rest to an engine."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, shares: tuple[Share, ...], engine: Engine) -> None:
        self.presented = Presented(Advertised("127.0.0.1", port), shares)
        self.engine = engine
        self.commands: list[tuple[bytes, bytes]] = []
        super().__init__(("127.0.0.1", port), Relay)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


class Relay(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        listener = self.server
        assert isinstance(listener, Listener)
        reader, protocol = FrameReader(), 2
        with listener.engine.wire() as direct:
            while data := self.request.recv(65536):
                reader.feed(data)
                while (frame := reader.frame()) is not None:
                    words = decode(frame)
                    assert isinstance(words, list)
                    argv = [word for word in words if isinstance(word, bytes)]
                    protocol = int(argv[1]) if argv[0].upper() == b"HELLO" and len(argv) > 1 else protocol
                    self.request.sendall(self.answer(listener, argv, direct, protocol))

    def answer(self, listener: Listener, argv: list[bytes], direct: Wire, protocol: int) -> bytes:
        row = ROWS.get(STANDARD.spec_of(argv).name)
        if row is not None and row.cluster_answer is not None:
            return as_cluster(row.cluster_answer, argv, listener.presented, protocol)
        listener.commands.append((argv[0].upper(), argv[1] if len(argv) > 1 else b""))
        return direct.ask(*argv)


@contextmanager
def listeners(count: int) -> Iterator[list[Listener]]:
    engine = Engine(kind_named("redis-7.0"))
    ports = [free_port() for _ in range(count)]
    shares = shared_out(owners(3), [Advertised("127.0.0.1", port) for port in ports])
    started = [Listener(port, shares, engine) for port in ports]
    try:
        yield started
    finally:
        for each in started:
            each.shutdown()
            each.server_close()
        engine.close()


def owner_of(started: list[Listener], key: bytes) -> Listener:
    for share in started[0].presented.shares:
        if any(first <= slot_of(key) <= last for first, last in share.ranges):
            return next(each for each in started if each.presented.own == share.primary)
    raise AssertionError("no slot is without an address")


KEYS = [f"key:{number}" for number in range(50)]


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_redis_py_cluster(count: int, protocol: int) -> None:
    with listeners(count) as started:
        with RedisCluster(host="127.0.0.1", port=started[-1].presented.own.port, protocol=protocol) as client:
            for key in KEYS:
                client.set(key, key)
            assert [client.get(key) for key in KEYS] == [key.encode() for key in KEYS]
            assert len(client.get_primaries()) == min(count, 3)
            assert len(client.get_nodes()) == count
            assert client.cluster_keyslot("a") == slot_of(b"a")
            assert client.cluster_info()["cluster_state"] == "ok"
            assert len(client.cluster_nodes()) == count
            assert len(client.cluster_shards()) == min(count, 3)
            client.readonly()
        for key in KEYS:
            assert (b"GET", key.encode()) in owner_of(started, key.encode()).commands


@pytest.mark.skipif(shutil.which("redis-cli") is None, reason="redis-cli is not installed")
def test_redis_cli() -> None:
    with listeners(3) as started:
        port = str(started[0].presented.own.port)
        for key in KEYS[:3]:
            done = subprocess.run(
                ["redis-cli", "-c", "-p", port, "SET", key, "x"], capture_output=True, text=True, timeout=60, check=True
            )
            assert done.stdout == "OK\n"


@pytest.mark.skipif(shutil.which("redis-benchmark") is None, reason="redis-benchmark is not installed")
@pytest.mark.parametrize("count", [2, 3, 4])
def test_redis_benchmark(count: int) -> None:
    with listeners(count) as started:
        port = str(started[0].presented.own.port)
        done = subprocess.run(
            ["redis-benchmark", "--cluster", "-p", port, "-t", "set", "-n", "300", "-c", "3", "-r", "1000", "--csv"],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        assert '"SET"' in done.stdout
        used = [each for each in started if any(name == b"SET" for name, _ in each.commands)]
        assert len(used) == min(count, 3), "each address that is shown as a primary gets some"

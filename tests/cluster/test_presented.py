"""Cluster clients of a cluster of Keyrails with one, two, three and five addresses: what they add up (sizes, keys,
scans) is the same as one Redis says, and no client connects to a node."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.cluster import RedisCluster

from proxy.commands.slots import slot_of
from tests.cluster.nodes import RealCluster
from tests.engines import Engine, free_port
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import PATIENCE_SECONDS, Address, Wire, decode, eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")

KEYS = [f"key:{number}" for number in range(90)]


@contextmanager
def presented(cluster: RealCluster, addresses: int) -> Iterator[list[int]]:
    """The ports of a cluster of Keyrails: one process with so many listeners."""
    ports = [free_port() for _ in range(addresses)]
    listeners = [text for port in ports for text in ("--listen", f"redis://127.0.0.1:{port}")]
    advertised = ",".join(f"127.0.0.1:{port}" for port in ports)
    node = cluster.nodes[0].port
    keyrail = Keyrail(
        f"redis+cluster://127.0.0.1:{node}", extra=["--present", "cluster", "--advertise", advertised, *listeners]
    )
    try:
        eventually(lambda: keyrail.http("/readyz")[0] == 200)
        yield ports
    finally:
        keyrail.close()


@pytest.fixture(scope="module")
def full(cluster: RealCluster) -> Iterator[RealCluster]:
    """A cluster with keys on each node."""
    with RedisCluster(host="127.0.0.1", port=cluster.nodes[0].port) as client:
        for key in KEYS:
            client.set(key, key)
        assert all(node.do("DBSIZE") for node in cluster.primaries())
        yield cluster
        client.flushall()


def encoded(keys: Sequence[str]) -> list[bytes]:
    return sorted(key.encode() for key in keys)


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("addresses", [1, 2, 3, 5])
def test_redis_py_cluster(full: RealCluster, addresses: int, protocol: int) -> None:
    with (
        presented(full, addresses) as ports,
        RedisCluster(host="127.0.0.1", port=ports[0], protocol=protocol) as client,
    ):
        assert sum(client.dbsize(target_nodes=node) for node in client.get_primaries()) == len(KEYS)
        found = [key for node in client.get_primaries() for key in client.keys("*", target_nodes=node)]
        assert sorted(found) == encoded(KEYS)
        assert sorted(client.scan_iter(count=7)) == encoded(KEYS)
        assert client.mget_nonatomic(*KEYS) == [key.encode() for key in KEYS]
        assert client.randomkey().decode() in KEYS
        slot = slot_of(KEYS[0].encode())
        assert (client.cluster_keyslot(KEYS[0]), client.cluster_countkeysinslot(slot)) == (slot, 1)
        assert client.cluster_get_keys_in_slot(slot, 5) in ([KEYS[0]], [KEYS[0].encode()])
        with client.pipeline() as pipeline:
            for key in KEYS:
                pipeline.get(key)
            assert pipeline.execute() == [key.encode() for key in KEYS]
        client.readonly(target_nodes=RedisCluster.ALL_NODES)
        assert {node.port for node in client.get_nodes()} == set(ports)


@pytest.mark.parametrize("addresses", [1, 3])
def test_redis_py_asyncio_cluster(full: RealCluster, addresses: int) -> None:
    async def session(ports: list[int]) -> None:
        async with AsyncRedisCluster(host="127.0.0.1", port=ports[0]) as client:
            assert sum([await client.dbsize(target_nodes=node) for node in client.get_primaries()]) == len(KEYS)
            assert [await client.get(key) for key in KEYS] == [key.encode() for key in KEYS]
            assert sorted([key async for key in client.scan_iter(count=7)]) == encoded(KEYS)
            assert {node.port for node in client.get_nodes()} == set(ports)

    with presented(full, addresses) as ports:
        asyncio.run(session(ports))


def test_redis_cli_and_redis_benchmark(full: RealCluster) -> None:
    with presented(full, 2) as ports:
        script = "readonly\nget key:1\nasking\nget key:2\nmulti\nget key:3\nexec\n"
        told = run("redis-cli", "-c", "-p", str(ports[1]), script=script)
        assert told.split() == ["OK", "key:1", "OK", "key:2", "OK", "QUEUED", "key:3"]
        told = run("redis-benchmark", "--cluster", "-p", str(ports[0]), "-n", "2000", "-q", "-t", "get")
        assert re.search(r"GET: [0-9.]+ requests per second", told)


def run(*words: str, script: str = "") -> str:
    done = subprocess.run(words, input=script, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    return done.stdout


def test_no_reply_about_the_cluster_names_a_node(full: RealCluster) -> None:
    ports = b"|".join(b"%d|%d" % (node.port, node.port + 10_000) for node in full.nodes)
    named = re.compile(rb"(?<![0-9.])(%b)(?![0-9])" % ports)
    with presented(full, 2) as own:
        for protocol in (2, 3):
            with Wire(Address(port=own[1]), protocol=protocol) as wire:
                for line in ABOUT:
                    reply = wire.ask(*line.split())
                    assert not reply.startswith(b"-"), (line, reply)
                    assert not named.search(reply), (line, reply)
                assert b"cluster_enabled:1" in wire.ask("INFO")
                text = decode(wire.ask("CLUSTER", "NODES"))
                assert isinstance(text, bytes)
                assert re.findall(rb"127.0.0.1:(\d+)@", text) == [b"%d" % port for port in sorted(own)]


ABOUT = [
    *("CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES", "CLUSTER INFO", "CLUSTER LINKS", "CLUSTER MYID"),
    *("INFO everything", "ROLE", "CONFIG GET *", "CLIENT LIST", "CLIENT INFO", "SLOWLOG GET", "HELLO 3"),
]


def test_one_server_is_no_cluster(new_engine: Callable[..., Engine], new_keyrail: Callable[..., Keyrail]) -> None:
    engine = new_engine("valkey-9.1")
    options = ["--present", "cluster", "--advertise", "127.0.0.1:6380"]
    keyrail = new_keyrail(engine.url, extra=options, await_ready=False)
    keyrail.await_line(r"this is one server, and no cluster: start Keyrail with --present single")
    assert keyrail.process.wait(PATIENCE_SECONDS) != 0

"""Clients of Keyrail before a real cluster: keys of all slots by one connection, as before one Redis."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import redis
import redis.asyncio
from hiredis import pack_command

from tests.clients.test_tools import node_with
from tests.cluster.nodes import RealCluster
from tests.keyrail_process import Keyrail
from tests.resp import PATIENCE_SECONDS, eventually

KEYS = [f"key:{number}" for number in range(300)]
SESSIONS = Path(__file__).parent.parent / "clients"


@pytest.fixture(scope="module")
def keyrail(cluster: RealCluster) -> Iterator[Keyrail]:
    """Keyrail before the cluster that the tests of this file share."""
    hosts = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes[:2])
    running = Keyrail(f"redis+cluster://{hosts}", policy="strict")
    eventually(lambda: running.http("/readyz")[0] == 200)
    yield running
    running.close()


@pytest.fixture(scope="module")
def plain(cluster: RealCluster) -> Iterator[Keyrail]:
    """The same without any rule."""
    running = Keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: running.http("/readyz")[0] == 200)
    yield running
    running.close()


@pytest.mark.parametrize("protocol", [2, 3])
def test_one_pipeline_over_all_slots_in_order(plain: Keyrail, cluster: RealCluster, protocol: int) -> None:
    random = Random(protocol)
    values = {key: random.randbytes(random.choice([0, 3, 200, 40_000])) for key in KEYS}
    with plain.wire(protocol) as wire:
        wire.send(b"".join(pack_command(("SET", key, value)) for key, value in values.items()))
        assert [wire.frame() for _ in values] == [b"+OK\r\n"] * len(values)
        asked = [random.choice(KEYS) for _ in range(2000)]
        commands = [("GET" if number % 7 else "ECHO", key) for number, key in enumerate(asked)]
        wire.send(b"".join(map(pack_command, commands)))
        for number, key in enumerate(asked):
            assert wire.frame() == bulk(values[key] if number % 7 else key.encode()), number
    assert all(node.do("DBSIZE") for node in cluster.nodes[:3])


def test_redis_py(plain: Keyrail) -> None:
    with redis.Redis(port=plain.address.port) as client:
        with client.pipeline(transaction=False) as pipeline:
            for key in KEYS:
                pipeline.set(key, key)
                pipeline.incr(f"n:{key}")
            assert len(pipeline.execute()) == 2 * len(KEYS)
        for tag in range(20):
            with client.pipeline() as pipeline:  # MULTI … EXEC in one piece
                pipeline.set(f"{{{tag}}}a", tag).get(f"{{{tag}}}a").ping()
                assert pipeline.execute() == [True, str(tag).encode(), True]
        assert client.mget(KEYS[:50]) == [key.encode() for key in KEYS[:50]]
        with client.pipeline() as pipeline:
            pipeline.set("a", 1).set("b", 1)
            with pytest.raises(redis.exceptions.ResponseError, match="hash to the same slot"):
                pipeline.execute()
        assert client.eval("return redis.call('get', KEYS[1])", 1, KEYS[7]) == KEYS[7].encode()
        for key in KEYS[:20]:
            client.rpush(f"list:{key}", 1)
            assert client.blpop([f"list:{key}"], timeout=1) == (f"list:{key}".encode(), b"1")
        with client.pipeline() as watched:
            for key in KEYS[:10]:
                watched.watch(key)
                watched.multi()
                watched.set(key, "changed")
                assert watched.execute() == [True]
        assert client.set("large", b"x" * 3_000_000)
        assert client.get("large") == b"x" * 3_000_000
        client.flushall()
        assert client.dbsize() == 0


def test_redis_py_asyncio(plain: Keyrail) -> None:
    async def session() -> None:
        async with redis.asyncio.Redis(port=plain.address.port) as client:
            async with client.pipeline(transaction=False) as pipeline:
                for key in KEYS:
                    pipeline.set(key, key)
                assert await pipeline.execute() == [True] * len(KEYS)
            assert await client.mget(KEYS) == [key.encode() for key in KEYS]
            assert {key async for key in client.scan_iter("key:*", count=20)} == {key.encode() for key in KEYS}
            async with client.pipeline() as pipeline:
                pipeline.set("{t}a", 1)
                pipeline.incr("{t}a")
                assert await pipeline.execute() == [True, 2]
            assert await client.delete("{t}a", *KEYS) == len(KEYS) + 1

    asyncio.run(session())


@pytest.mark.parametrize("library", ["ioredis", "redis"])
def test_plain_node_clients(plain: Keyrail, library: str) -> None:
    """The session of one Redis; the script says what it checks, and ends with `done`."""
    words = [node_with(library), str(SESSIONS / f"{library}.cjs"), str(plain.address.port)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, check=False)
    assert done.stdout == "done\n", done.stdout + done.stderr


def test_rules_hold_on_all_nodes(keyrail: Keyrail, cluster: RealCluster) -> None:
    with redis.Redis(port=keyrail.address.port) as client:
        for number in range(60):
            assert client.set(f"user:{number}:name", "x")
            assert client.incr(f"user:{number}:visits")
        with pytest.raises(redis.exceptions.ResponseError, match="DENIED"):
            client.keys("*")
        for number in range(60):
            assert client.ttl(f"user:{number}:name") > 0
            assert client.ttl(f"user:{number}:visits") > 0
            assert client.delete(f"user:{number}:name") == 1
            assert client.unlink(f"user:{number}:visits") == 1
    unlinked = [node.calls("unlink") for node in cluster.nodes[:3]]
    assert all(unlinked)


def test_a_failover_closes_nobody_who_waits_for_nothing(
    cluster_name: str, new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail]
) -> None:
    cluster = new_cluster(cluster_name)
    keyrail = new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: keyrail.http("/readyz")[0] == 200)
    with keyrail.wire() as wire:
        for key in KEYS:
            assert wire.ask("SET", key, "1") == b"+OK\r\n"
        cluster.failover(cluster.nodes[3])
        cluster.settle()
        keyrail.await_line(rf"127.0.0.1:{cluster.nodes[3].port} is a primary")
        for key in KEYS:
            assert wire.ask("GET", key) == b"$1\r\n1\r\n"
        cluster.nodes[1].kill()
        seen: set[Any] = set()

        def answered() -> bool:
            replies = {wire.ask("GET", key) for key in KEYS}
            seen.update(replies)
            return replies == {b"$1\r\n1\r\n"}

        eventually(answered)
        assert {reply[:12] for reply in seen} <= {b"$1\r\n1\r\n", b"-CLUSTERDOWN"}


def test_a_dead_slot_is_answered_and_the_client_stays(
    cluster_name: str, new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail]
) -> None:
    # The other nodes do not say in time that it has failed.
    options = {"cluster-require-full-coverage": "no", "cluster-node-timeout": "60000"}
    cluster = new_cluster(cluster_name, options, replicas=0)
    keyrail = new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: keyrail.http("/readyz")[0] == 200)
    cluster.nodes[0].kill()  # the first one, to which commands without keys went
    with keyrail.wire() as wire, keyrail.wire() as other:
        replies = {wire.ask("GET", f"{{{tag}}}") for tag in ("a", "b", "c", "d")}
        assert {reply.split(b" ")[0] for reply in replies} == {b"$-1\r\n", b"-CLUSTERDOWN"}
        assert wire.ask("PING") == b"+PONG\r\n"
        assert other.ask("ECHO", "a") == b"$1\r\na\r\n"
        other.send(b"".join(map(pack_command, [("MULTI",), ("ECHO", "b"), ("EXEC",)])))
        assert other.frames(3) == [b"+OK\r\n", b"+QUEUED\r\n", b"*1\r\n$1\r\nb\r\n"]


def bulk(value: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(value), value)

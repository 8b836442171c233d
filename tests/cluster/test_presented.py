"""Cluster clients of a cluster of Keyrails with one, two, three and five addresses of one process, and with one of each
of two: their everyday commands work, what they add up (sizes, keys, scans) is the same as one Redis says, and no client
connects to a node."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.cluster import RedisCluster
from redis.exceptions import ResponseError

from proxy.commands.slots import slot_of
from tests.clients.test_tools import node_with
from tests.cluster.node_ports import NodePorts
from tests.cluster.nodes import RealCluster
from tests.engines import Engine, free_port
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import PATIENCE_SECONDS, Address, Wire, decode, eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")

KEYS = [f"key:{number}" for number in range(90)]
SIDE_BY_SIDE = "side by side"
"""Two addresses, each of a process of its own that knows nothing of the other."""


@pytest.fixture(scope="module")
def full(cluster: RealCluster) -> Iterator[RealCluster]:
    """A cluster with keys on each node."""
    with RedisCluster(host="127.0.0.1", port=cluster.nodes[0].port) as client:
        for key in KEYS:
            client.set(key, key)
        assert all(node.do("DBSIZE") for node in cluster.primaries())
        yield cluster
        client.flushall()


@pytest.fixture(scope="module", params=[1, 2, 3, 5, SIDE_BY_SIDE])
def ports(full: RealCluster, request: pytest.FixtureRequest) -> Iterator[list[int]]:
    """The ports of a cluster of Keyrails: one process with so many listeners, or two with one each."""
    ports = [free_port() for _ in range(2 if request.param == SIDE_BY_SIDE else request.param)]
    shared = ["--present", "cluster", "--advertise", ",".join(f"127.0.0.1:{port}" for port in ports)]
    of_process = [[port] for port in ports] if request.param == SIDE_BY_SIDE else [ports]
    with ExitStack() as stack:
        keyrails = []
        for own, node in zip(of_process, full.nodes, strict=False):
            listeners = [text for port in own for text in ("--listen", f"redis://127.0.0.1:{port}")]
            keyrails.append(Keyrail(f"redis+cluster://127.0.0.1:{node.port}", extra=[*shared, *listeners]))
            stack.callback(keyrails[-1].close)
        eventually(lambda: all(each.http("/readyz")[0] == 200 for each in keyrails))
        yield ports


def with_addresses(*counts: int | str) -> pytest.MarkDecorator:
    """So many addresses, and not all numbers of them."""
    return pytest.mark.parametrize("ports", counts, indirect=True, scope="module")


def encoded(keys: Sequence[str]) -> list[bytes]:
    return sorted(key.encode() for key in keys)


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_cluster_adds_up(ports: list[int], protocol: int) -> None:
    with RedisCluster(host="127.0.0.1", port=ports[0], protocol=protocol) as client:
        assert sum(client.dbsize(target_nodes=node) for node in client.get_primaries()) == len(KEYS)
        found = [key for node in client.get_primaries() for key in client.keys("*", target_nodes=node)]
        assert sorted(found) == encoded(KEYS)
        assert sorted(client.scan_iter(count=7)) == encoded(KEYS)
        assert client.mget_nonatomic(*KEYS) == [key.encode() for key in KEYS]
        assert client.randomkey().decode() in KEYS
        slot = slot_of(KEYS[0].encode())
        assert (client.cluster_keyslot(KEYS[0]), client.cluster_countkeysinslot(slot)) == (slot, 1)
        assert client.cluster_get_keys_in_slot(slot, 5) in ([KEYS[0]], [KEYS[0].encode()])
        client.readonly(target_nodes=RedisCluster.ALL_NODES)
        assert {node.port for node in client.get_nodes()} == set(ports)


@with_addresses(1, 3, SIDE_BY_SIDE)
@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_cluster(ports: list[int], protocol: int) -> None:
    with RedisCluster(host="127.0.0.1", port=ports[0], protocol=protocol) as client:
        with client.pipeline() as pipeline:
            for key in KEYS:
                pipeline.get(key)
            assert pipeline.execute() == [key.encode() for key in KEYS]
        with client.pipeline(transaction=True) as pipeline:
            pipeline.set("{t}a", 1)
            pipeline.incr("{t}a")
            assert pipeline.execute() == [b"OK", 2]
        assert client.hset("h", mapping={"f": "1", "g": "2"}) == 2
        assert client.hgetall("h") == {b"f": b"1", b"g": b"2"}
        script = client.register_script("return {KEYS[1], ARGV[1]}")
        assert [script(keys=[key], args=["v"]) for key in "abca"] == [[key.encode(), b"v"] for key in "abca"]
        client.rpush("queue", "job")
        assert list(client.blpop(["queue"], timeout=5)) == [b"queue", b"job"]
        with pytest.raises(ResponseError, match="not an integer"):
            client.incr(KEYS[0])
        with client.pubsub() as news:
            news.subscribe("news")
            news.ssubscribe("shard-news")
            assert heard(news, lambda: client.publish("news", "hello")) == b"hello"
            assert heard(news, lambda: client.spublish("shard-news", "hi"), client) == b"hi"
        assert [client.delete(key) for key in ("{t}a", "h")] == [1, 1]


def heard(news: Any, publish: Callable[[], int], shards: Any = None) -> bytes:
    """Publish as soon as the subscription stands; return the message."""
    eventually(lambda: publish() == 1)
    while True:
        message = news.get_sharded_message(timeout=1) if shards else news.get_message(timeout=1)
        if message is not None and message["type"] in ("message", "smessage"):
            return cast("bytes", message["data"])


def test_redis_py_asyncio_cluster(ports: list[int]) -> None:
    async def session() -> None:
        async with AsyncRedisCluster(host="127.0.0.1", port=ports[0]) as client:
            assert sum([await client.dbsize(target_nodes=node) for node in client.get_primaries()]) == len(KEYS)
            assert [await client.get(key) for key in KEYS] == [key.encode() for key in KEYS]
            assert sorted([key async for key in client.scan_iter(count=7)]) == encoded(KEYS)
            async with client.pipeline(transaction=True) as pipeline:
                pipeline.set("{t}a", 1)
                pipeline.incr("{t}a")
                pipeline.delete("{t}a")
                assert await pipeline.execute() == [True, 2, 1]
            assert {node.port for node in client.get_nodes()} == set(ports)

    asyncio.run(session())


@with_addresses(1, 3, SIDE_BY_SIDE)
def test_redis_cli(ports: list[int]) -> None:
    script = "readonly\nget key:1\nasking\nget key:2\nmulti\nget key:3\nexec\nset key:4 key:4\ndbsize\n"
    told = run("redis-cli", "-c", "-p", str(ports[-1]), script=script)
    *answers, size = told.split()
    assert answers == ["OK", "key:1", "OK", "key:2", "OK", "QUEUED", "key:3", "OK"]
    assert int(size) == len(KEYS) if len(ports) == 1 else 0 < int(size) < len(KEYS)


@with_addresses(2, 3, SIDE_BY_SIDE)
def test_redis_benchmark(ports: list[int]) -> None:
    told = run("redis-benchmark", "--cluster", "-p", str(ports[0]), "-n", "2000", "-q", "-t", "get")
    assert re.search(r"GET: [0-9.]+ requests per second", told)


@with_addresses(1, 2, 3, 5, SIDE_BY_SIDE)
@pytest.mark.parametrize("library", ["ioredis", "redis"])
def test_node_clients(ports: list[int], library: str) -> None:
    """The script says what it checks, and ends with `done`."""
    script = Path(__file__).parent / f"{library}.cjs"
    words = [node_with(library), str(script), str(ports[0]), str(len(ports)), str(len(KEYS))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, check=False)
    assert done.stdout == "done\n", done.stdout + done.stderr


@with_addresses(2)
def test_an_address_reads_what_was_set_there(full: RealCluster, ports: list[int]) -> None:
    """The last address stands for the last node, whose replica has the settings, too; the others have none of it."""
    library = "#!lua name=shares\nredis.register_function('here', function() return 'here' end)"
    first, own = full.nodes[0], full.nodes[2]
    mine = [own, *full.replicas_of(own)]
    with Wire(Address(port=max(ports))) as wire:
        before = [node.do("CONFIG", "GET", "hz") for node in full.nodes]
        try:
            wire.value("CONFIG", "SET", "hz", 33)
            assert wire.value("CONFIG", "GET", "hz") == [b"hz", b"33"]
            assert [node for node in full.nodes if node.do("CONFIG", "GET", "hz") == [b"hz", b"33"]] == mine
            wire.value("ACL", "SETUSER", "shares", "on")
            assert b"flags" in wire.ask("ACL", "GETUSER", "shares")
            assert b"user shares" in wire.ask("ACL", "LIST")
            assert [node for node in full.nodes if node.do("ACL", "GETUSER", "shares") is not None] == mine
            digest = wire.value("SCRIPT", "LOAD", "return 'of an address'")
            assert isinstance(digest, bytes)
            assert wire.value("SCRIPT", "EXISTS", digest) == [1]
            assert wire.value("EVALSHA", digest, 0) == b"of an address"
            assert wire.value("FUNCTION", "LOAD", library) == b"shares"
            assert wire.value("FCALL", "here", 0) == b"here"
            assert b"shares" in wire.ask("FUNCTION", "DUMP")
            assert first.do("FUNCTION", "LIST") == []
        finally:
            wire.ask("CONFIG", "SET", "hz", 10)
            wire.ask("ACL", "DELUSER", "shares")
            wire.ask("FUNCTION", "DELETE", "shares")
        assert [node.do("CONFIG", "GET", "hz") for node in full.nodes] == before


def run(*words: str, script: str = "") -> str:
    done = subprocess.run(words, input=script, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    return done.stdout


@with_addresses(2)
def test_no_reply_about_the_cluster_names_a_node(full: RealCluster, ports: list[int]) -> None:
    of_nodes = NodePorts(full)
    for protocol in (2, 3):
        with Wire(Address(port=ports[1]), protocol=protocol) as wire:
            for line in ABOUT:
                reply = wire.ask(*line.split())
                assert not reply.startswith(b"-"), (line, reply)
                assert not of_nodes.told_by(reply), line
            assert b"cluster_enabled:1" in wire.ask("INFO")
            text = decode(wire.ask("CLUSTER", "NODES"))
            assert isinstance(text, bytes)
            assert re.findall(rb"127.0.0.1:(\d+)@", text) == [b"%d" % port for port in sorted(ports)]


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

"""Real clients before a real cluster: one plain Redis, or a cluster of one, two, three and five addresses. What clients
add up (sizes, keys, scans) is the same as one Redis says, and no client connects to a node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest
from redis import Redis
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.cluster import RedisCluster

from tests.cluster.nodes import RealCluster
from tests.cluster.served import Listener, served

KEYS = [f"key:{number}" for number in range(90)]


@pytest.fixture(scope="module")
def full(cluster: RealCluster) -> Iterator[RealCluster]:
    """A cluster with keys on each node."""
    with served(cluster, 0) as (listener,), Redis(port=listener.shown.port) as client:
        client.flushall()
        for key in KEYS:
            client.set(key, key)
        assert all(node.do("DBSIZE") for node in cluster.primaries())
        yield cluster
        client.flushall()
        assert [node.do("DBSIZE") for node in cluster.primaries()] == [0, 0, 0]


@pytest.mark.parametrize("protocol", [2, 3])
def test_one_plain_redis(full: RealCluster, protocol: int) -> None:
    with served(full, 0) as (listener,), Redis(port=listener.shown.port, protocol=protocol) as client:
        assert client.dbsize() == len(KEYS)
        assert sorted(client.keys("*")) == sorted(key.encode() for key in KEYS)
        assert sorted(client.scan_iter(count=7)) == sorted(key.encode() for key in KEYS)
        assert sorted(client.scan_iter(match="key:1*", _type="string")) == sorted(
            key.encode() for key in KEYS if key.startswith("key:1")
        )
        assert client.randomkey().decode() in KEYS
        assert client.get("key:7") == b"key:7"
        info = client.info()
        assert (info["cluster_enabled"], info["tcp_port"], info["connected_slaves"]) == (0, listener.shown.port, 0)
        assert client.config_get("port") == {"port": str(listener.shown.port)}
        assert client.role()[2] == [] if isinstance(client.role(), list) else True
        assert client.script_exists(client.script_load("return 7")) == [True]
        assert all(each["laddr"] == f"127.0.0.1:{listener.shown.port}" for each in client.client_list())


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("addresses", [1, 2, 3, 5])
def test_redis_py_cluster(full: RealCluster, addresses: int, protocol: int) -> None:
    with (
        served(full, addresses) as started,
        RedisCluster(host="127.0.0.1", port=started[0].shown.port, protocol=protocol) as client,
    ):
        with RedisCluster(host="127.0.0.1", port=full.nodes[0].port, protocol=protocol) as direct:
            # Versions of redis-py differ in whether they add up by themselves.
            if addresses == 3:
                assert client.dbsize() == direct.dbsize()
                assert len(client.keys("*")) == len(direct.keys("*"))
            assert sum(client.dbsize(target_nodes=node) for node in client.get_primaries()) == len(KEYS)
        found = [key for node in client.get_primaries() for key in client.keys("*", target_nodes=node)]
        assert sorted(found) == sorted(key.encode() for key in KEYS)
        assert sorted(client.scan_iter(count=7)) == sorted(key.encode() for key in KEYS)
        assert client.mget_nonatomic(*KEYS) == [key.encode() for key in KEYS]
        assert client.randomkey().decode() in KEYS
        assert only_shown(client.get_nodes(), started)


@pytest.mark.parametrize("addresses", [1, 3])
def test_redis_py_asyncio_cluster(full: RealCluster, addresses: int) -> None:
    async def session(started: list[Listener]) -> None:
        async with AsyncRedisCluster(host="127.0.0.1", port=started[0].shown.port) as client:
            assert sum([await client.dbsize(target_nodes=node) for node in client.get_primaries()]) == len(KEYS)
            assert [await client.get(key) for key in KEYS] == [key.encode() for key in KEYS]
            assert sorted([key async for key in client.scan_iter(count=7)]) == sorted(key.encode() for key in KEYS)
            assert only_shown(client.get_nodes(), started)

    with served(full, addresses) as started:
        asyncio.run(session(started))


def only_shown(nodes: Sequence[object], started: list[Listener]) -> bool:
    return {getattr(node, "port", 0) for node in nodes} == {each.shown.port for each in started}

"""Commands of several nodes through Keyrail before a real cluster are answered as one plain Redis answers them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from redis import Redis

from tests.cluster.nodes import RealCluster
from tests.cluster.test_fan_out import KEYS, SAME, filled, ordered
from tests.engines import Engine
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import decode

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")

SPLIT = [
    ["MGET", "key:1", "key:2", "none", "key:3", "key:1"],
    ["EXISTS", "key:1", "key:2", "none", "key:1"],
    ["TOUCH", "key:1", "key:2", "none"],
    ["DEL", "key:1", "key:2", "none"],
    ["UNLINK", "key:3", "key:4", "none"],
    ["MGET", "key:1", "key:2", "key:5"],
    ["CLUSTER", "SLOTS"],
    ["CLUSTER", "KEYSLOT"],
    ["CLUSTER", "NONSENSE"],
    ["CLIENT", "MAINT_NOTIFICATIONS", "ON"],
]


@pytest.fixture(scope="module")
def keyrail(cluster: RealCluster) -> Iterator[Keyrail]:
    nodes = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes[:2])
    started = Keyrail(f"redis+cluster://{nodes}")
    yield started
    started.close()


@pytest.mark.parametrize("protocol", [2, 3])
def test_as_one_plain_redis(
    cluster: RealCluster, keyrail: Keyrail, new_engine: Callable[..., Engine], protocol: int
) -> None:
    engine = new_engine(cluster.kind.name)
    filled(cluster, engine)
    with engine.wire(protocol) as direct, keyrail.wire(protocol) as proxied:
        for words in [*SPLIT, *SAME]:
            expected, reply = direct.ask(*words), proxied.ask(*words)
            assert reply[:1] == expected[:1], (words, reply)
            if words != ["RANDOMKEY"]:
                assert ordered(decode(reply)) == ordered(decode(expected)), words


def test_a_walk_and_what_a_client_library_sees(
    cluster: RealCluster, keyrail: Keyrail, new_engine: Callable[..., Engine]
) -> None:
    filled(cluster, new_engine(cluster.kind.name))
    with Redis(port=keyrail.address.port) as client:
        assert sorted(client.scan_iter(count=7)) == sorted(KEYS)
        assert sorted(client.scan_iter(match="key:1*", _type="string")) == sorted(
            key for key in KEYS if key.startswith(b"key:1")
        )
        assert client.randomkey() in KEYS
        info = client.info()
        assert (info["cluster_enabled"], info["tcp_port"], info["connected_slaves"]) == (0, keyrail.address.port, 0)
        assert client.execute_command("HELLO", "3")[b"mode"] == b"standalone"
        shown = str([info, client.config_get("*"), client.role(), client.client_list(), client.slowlog_get(-1)])
        assert [node.port for node in cluster.nodes if str(node.port) in shown] == []
        client.flushall()
    assert [node.do("DBSIZE") for node in cluster.primaries()] == [0, 0, 0]

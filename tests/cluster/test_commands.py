"""Commands of several nodes through Keyrail before a real cluster are answered as one plain Redis answers them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from redis import Redis

from tests.cluster.node_ports import NodePorts
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
    ports = NodePorts(cluster)
    with keyrail.wire() as wire:
        for line in ("INFO", "CONFIG GET *", "ROLE", "CLIENT LIST", "SLOWLOG GET -1"):
            assert not ports.told_by(wire.ask(*line.split())), line
        wire.ask("FLUSHALL")
    assert [node.do("DBSIZE") for node in cluster.primaries()] == [0, 0, 0]


SCRIPT, SHA = "return 1", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"


def test_what_engines_do_not_replicate_reaches_replicas(cluster: RealCluster, keyrail: Keyrail) -> None:
    with keyrail.wire() as wire:
        assert wire.ask("CONFIG", "SET", "hz", 17) == b"+OK\r\n"
        assert wire.ask("ACL", "SETUSER", "shop", "on", ">secret", "~*", "+@all") == b"+OK\r\n"
        assert wire.ask("SCRIPT", "LOAD", SCRIPT) == b"$40\r\n%b\r\n" % SHA.encode()
        for node in cluster.nodes:
            assert node.do("CONFIG", "GET", "hz") == [b"hz", b"17"]
            assert b"shop" in cast("list[Any]", node.do("ACL", "USERS"))
            assert node.do("SCRIPT", "EXISTS", SHA) == [1]
        assert wire.ask("SCRIPT", "FLUSH") == b"+OK\r\n"
        assert wire.ask("ACL", "DELUSER", "shop") == b":1\r\n"
        for node in cluster.nodes:
            assert b"shop" not in cast("list[Any]", node.do("ACL", "USERS"))
            assert node.do("SCRIPT", "EXISTS", SHA) == [0]


def test_on_replicas_runs_nothing_that_the_client_may_not_run(cluster: RealCluster, keyrail: Keyrail) -> None:
    with keyrail.wire() as wire, keyrail.wire() as limited:
        assert wire.ask("ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "-config") == b"+OK\r\n"
        assert limited.ask("AUTH", "limited", "secret") == b"+OK\r\n"
        before = [node.do("CONFIG", "GET", "hz") for node in cluster.nodes]
        assert limited.ask("CONFIG", "SET", "hz", 23).startswith(b"-NOPERM")
        assert [node.do("CONFIG", "GET", "hz") for node in cluster.nodes] == before
        assert wire.ask("ACL", "DELUSER", "limited") == b":1\r\n"

"""What engines do not replicate reaches the replicas of a real cluster, too, so that a failover loses nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.cluster.nodes import RealCluster
from tests.keyrail_process import Keyrail
from tests.resp import eventually

SCRIPT, SHA = "return 1", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"


@pytest.fixture
def keyrail(cluster: RealCluster, new_keyrail: Callable[..., Keyrail]) -> Keyrail:
    running = new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: running.http("/readyz")[0] == 200)
    return running


def test_all_nodes_get_it(cluster: RealCluster, keyrail: Keyrail) -> None:
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


def test_it_runs_as_nobody_who_may_not(cluster: RealCluster, keyrail: Keyrail) -> None:
    with keyrail.wire() as wire, keyrail.wire() as limited:
        assert wire.ask("ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "-config") == b"+OK\r\n"
        assert limited.ask("AUTH", "limited", "secret") == b"+OK\r\n"
        before = [node.do("CONFIG", "GET", "hz") for node in cluster.nodes]
        assert limited.ask("CONFIG", "SET", "hz", 23).startswith(b"-NOPERM")
        assert [node.do("CONFIG", "GET", "hz") for node in cluster.nodes] == before
        assert wire.ask("ACL", "DELUSER", "limited") == b":1\r\n"


def test_a_replica_that_has_ended_is_named_until_the_cluster_knows(
    cluster_name: str, new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail]
) -> None:
    cluster = new_cluster(cluster_name)
    keyrail = new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: keyrail.http("/readyz")[0] == 200)
    with keyrail.wire() as wire:
        assert wire.ask("CONFIG", "SET", "hz", 17) == b"+OK\r\n"
        cluster.nodes[4].kill()
        reply = wire.ask("CONFIG", "SET", "hz", 18)
        assert reply.startswith(b"-ERR keyrail: a replica cannot be reached (CONFIG SET ran on n1, n2, n3, ")
        assert b"and not on n" in reply
        eventually(lambda: wire.ask("CONFIG", "SET", "hz", 19) == b"+OK\r\n")
        assert [node.do("CONFIG", "GET", "hz") for node in cluster.living()] == [[b"hz", b"19"]] * 5

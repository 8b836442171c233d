"""A replica of a real cluster has ended: WAIT is about the shards that the client has written to, and a command for all
nodes names the one that it does not reach."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cluster.nodes import RealCluster
from tests.keyrail_process import Keyrail
from tests.resp import eventually

UNREACHED = b"-ERR keyrail: a replica cannot be reached (CONFIG SET ran on n1, n2, n3, "
NODE_OF = {"b": 0, "c": 1, "a": 2}


@pytest.fixture
def cluster(cluster_name: str, new_cluster: Callable[..., RealCluster]) -> RealCluster:
    """Three primaries with a replica each, of which the last one has ended."""
    started = new_cluster(cluster_name, {"cluster-replica-validity-factor": "0"})
    started.nodes[5].kill()
    eventually(lambda: b"connected_slaves:0" in started.nodes[2].wire().ask("INFO", "replication"))
    return started


def test_only_the_shards_that_were_written_to_count(cluster: RealCluster, new_keyrail: Callable[..., Keyrail]) -> None:
    keyrail = new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: keyrail.http("/readyz")[0] == 200)
    with keyrail.wire() as wire, keyrail.wire() as other:
        assert wire.ask("WAIT", 1, 0) == b":1\r\n", "nothing was written"
        assert wire.ask("SET", "b", "x") == b"+OK\r\n"
        assert other.ask("SET", "a", "x") == b"+OK\r\n"
        for key in NODE_OF:
            assert wire.ask("GET", key).startswith(b"$")
        assert wire.ask("WAIT", 1, 0) == b":1\r\n", "what others write elsewhere does not count"
        assert other.ask("WAIT", 1, 50) == b":0\r\n"
        wire.send(b"MULTI\r\nINCR c:n\r\nEXEC\r\n")
        assert wire.frames(3)[2] == b"*1\r\n:1\r\n"
        assert wire.ask("WAIT", 1, 0) == b":1\r\n"
        reply = wire.ask("CONFIG", "SET", "hz", 18)
        assert reply == b"+OK\r\n" or reply.startswith(UNREACHED), reply
        eventually(lambda: wire.ask("CONFIG", "SET", "hz", 19) == b"+OK\r\n")
        assert [node.do("CONFIG", "GET", "hz") for node in cluster.living()] == [[b"hz", b"19"]] * 5
        # While WAIT is pending, the replica of a shard takes over.
        other.close()
        wire.say("WAIT", 2, 4000)
        cluster.failover(cluster.nodes[3])
        assert wire.frame() in (b":0\r\n", b":1\r\n")
        keyrail.await_line(rf"127.0.0.1:{cluster.nodes[3].port} is a primary")
        assert wire.ask("SET", "b", "y") == b"+OK\r\n"
        assert wire.ask("WAIT", 1, 50) == b":0\r\n", "the map has changed: all shards count"

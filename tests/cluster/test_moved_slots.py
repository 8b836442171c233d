"""A slot that moves to another node under clients who wait there: blocked commands and shard channels follow it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proxy.commands.slots import slot_of
from tests.cluster.nodes import RealCluster
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import Closed, Wire, eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")
SLOT = slot_of(b"x")


@pytest.fixture
def cluster(cluster_name: str, new_cluster: Callable[..., RealCluster]) -> RealCluster:
    return new_cluster(cluster_name, replicas=0)


@pytest.fixture
def keyrail(cluster: RealCluster, new_keyrail: Callable[..., Keyrail]) -> Keyrail:
    started = new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: started.http("/readyz")[0] == 200)
    return started


def move(cluster: RealCluster) -> None:
    source = cluster.owner(SLOT)
    target = next(node for node in cluster.primaries() if node is not source)
    cluster.move_slots([SLOT], source, target)


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_blocked_command_goes_on_at_the_new_owner(cluster: RealCluster, keyrail: Keyrail, protocol: int) -> None:
    with keyrail.wire(protocol) as blocked, keyrail.wire(protocol) as reader, keyrail.wire() as other:
        blocked.say("BLPOP", "{x}list", "30")
        blocked.say("PING")
        reader.say("XREAD", "BLOCK", "30000", "STREAMS", "{x}stream", "$")
        owner = cluster.owner(SLOT)
        eventually(lambda: owner.info("clients")["blocked_clients"] == "2")
        move(cluster)
        owner = cluster.owner(SLOT)
        eventually(lambda: owner.info("clients")["blocked_clients"] == "2")
        assert other.ask("RPUSH", "{x}list", "v") == b":1\r\n"
        assert blocked.frame() == b"*2\r\n$7\r\n{x}list\r\n$1\r\nv\r\n"
        assert blocked.frame() == b"+PONG\r\n"
        assert other.ask("XADD", "{x}stream", "1-1", "f", "v") == b"$3\r\n1-1\r\n"
        assert b"{x}stream" in reader.frame()


@pytest.mark.parametrize("protocol", [2, 3])
def test_subscribers_of_a_shard_channel_are_closed_and_find_the_new_owner(
    cluster: RealCluster, keyrail: Keyrail, protocol: int
) -> None:
    with keyrail.wire() as other:
        with keyrail.wire(protocol) as wire:
            wire.ask("SSUBSCRIBE", "{x}channel")
            assert other.ask("SPUBLISH", "{x}channel", "1") == b":1\r\n"
            assert wire.frame().endswith(b"$1\r\n1\r\n")
            move(cluster)
            with pytest.raises(Closed):
                wire.frame()
        with keyrail.wire(protocol) as wire:
            eventually(lambda: subscribed(wire))
            assert other.ask("SPUBLISH", "{x}channel", "2") == b":1\r\n"
            assert wire.frame().endswith(b"$1\r\n2\r\n")


def subscribed(wire: Wire) -> bool:
    return b"ssubscribe" in wire.ask("SSUBSCRIBE", "{x}channel")


def test_a_planned_failover(
    cluster_name: str, new_cluster: Callable[..., RealCluster], new_keyrail: Callable[..., Keyrail]
) -> None:
    cluster = new_cluster(cluster_name)
    keyrail = new_keyrail(f"redis+cluster://127.0.0.1:{cluster.nodes[0].port}")
    eventually(lambda: keyrail.http("/readyz")[0] == 200)
    with keyrail.wire(3) as blocked, keyrail.wire(3) as subscriber, keyrail.wire() as other:
        subscriber.ask("SSUBSCRIBE", "{x}channel")
        blocked.say("BLPOP", "{x}list", "30")
        owner = cluster.owner(SLOT)
        eventually(lambda: owner.info("clients")["blocked_clients"] == "1")
        (replica,) = cluster.replicas_of(owner)
        cluster.failover(replica)
        eventually(lambda: replica.info("clients")["blocked_clients"] == "1")
        assert other.ask("RPUSH", "{x}list", "v") == b":1\r\n"
        assert blocked.frame() == b"*2\r\n$7\r\n{x}list\r\n$1\r\nv\r\n"
        with pytest.raises(Closed):
            subscriber.frame()
    assert "Exception" not in keyrail.stderr

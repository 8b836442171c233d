"""A slot that moves to another node under clients who wait there: blocked commands and shard channels follow it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from proxy.commands.slots import slot_of
from tests.cluster.conftest import KINDS
from tests.cluster.nodes import RealCluster
from tests.conftest import kind_named
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import decode, eventually

pytestmark = pytest.mark.skipif(DIRECT, reason="a relay knows no cluster")
SLOT = slot_of(b"x")


@pytest.fixture(scope="module", params=KINDS)
def cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """Three primaries. The slot is anywhere."""
    started = RealCluster(kind_named(request.param), replicas=0)
    yield started
    started.close()


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
        reader.say("XREAD", "BLOCK", "30000", "STREAMS", f"{{x}}stream{protocol}", "$")
        owner = cluster.owner(SLOT)
        eventually(lambda: owner.info("clients")["blocked_clients"] == "2")
        move(cluster)
        owner = cluster.owner(SLOT)
        eventually(lambda: owner.info("clients")["blocked_clients"] == "2")
        assert other.ask("RPUSH", "{x}list", "v") == b":1\r\n"
        assert blocked.frame() == b"*2\r\n$7\r\n{x}list\r\n$1\r\nv\r\n"
        assert blocked.frame() == b"+PONG\r\n"
        assert other.ask("XADD", f"{{x}}stream{protocol}", "1-1", "f", "v") == b"$3\r\n1-1\r\n"
        assert b"{x}stream" in reader.frame()


@pytest.mark.parametrize("protocol", [2, 3])
def test_shard_channels_follow_their_slot(cluster: RealCluster, keyrail: Keyrail, protocol: int) -> None:
    with keyrail.wire(protocol) as wire, keyrail.wire() as other:
        wire.say("SSUBSCRIBE", "{x}1", "{x}2", "b")
        confirmed = [decode(wire.frame()) for _ in range(3)]
        assert confirmed == [[b"ssubscribe", name, n] for n, name in ((1, b"{x}1"), (2, b"{x}2"), (3, b"b"))]
        move(cluster)
        eventually(lambda: other.ask("SPUBLISH", "{x}1", "1") == b":1\r\n")
        assert decode(wire.frame()) == [b"smessage", b"{x}1", b"1"]
        assert wire.ask("PING")
        assert other.ask("SPUBLISH", "b", "2") == b":1\r\n"
        assert decode(wire.frame()) == [b"smessage", b"b", b"2"]
        eventually(lambda: other.ask("SPUBLISH", "{x}2", "3") == b":1\r\n")
        assert decode(wire.frame()) == [b"smessage", b"{x}2", b"3"]
        wire.say("SUNSUBSCRIBE", "{x}1")
        assert decode(wire.frame()) == [b"sunsubscribe", b"{x}1", 2]
    eventually(lambda: 'event="subscription_gaps"' in keyrail.http("/metrics")[1])
    assert "Exception" not in keyrail.stderr


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
        eventually(lambda: other.ask("SPUBLISH", "{x}channel", "1") == b":1\r\n")
        assert decode(subscriber.frame()) == [b"smessage", b"{x}channel", b"1"]
    assert "Exception" not in keyrail.stderr

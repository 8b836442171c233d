"""The clusters that tests use do what their methods say."""

from __future__ import annotations

from collections.abc import Callable

from tests.cluster.nodes import RealCluster
from tests.resp import eventually

ROWS = 6


def test_each_slot_has_an_owner_with_a_replica(cluster: RealCluster) -> None:
    assert [cluster.owner(slot) for slot in (0, 5461, 16383)] == cluster.nodes[:3]
    assert [cluster.replicas_of(primary) for primary in cluster.nodes[:3]] == [[each] for each in cluster.nodes[3:]]


def test_slots_move_with_their_keys(cluster: RealCluster) -> None:
    one, other = cluster.nodes[:2]
    slot = int(str(one.do("CLUSTER", "KEYSLOT", "a")))
    source, target = (one, other) if cluster.owner(slot) is one else (cluster.owner(slot), one)
    source.do("SET", "a", "1")
    cluster.move_slots([slot], source, target)
    assert target.do("GET", "a") == b"1"
    if cluster.kind.is_valkey:
        cluster.settle()
        cluster.move_slots_atomically(slot, slot, target, source)
    else:
        cluster.move_slots([slot], target, source)
    assert source.do("GET", "a") == b"1"
    cluster.settle()


def test_nodes_fail_over_leave_and_join(cluster_name: str, new_cluster: Callable[..., RealCluster]) -> None:
    cluster = new_cluster(cluster_name)
    cluster.failover(cluster.nodes[3])
    cluster.settle()
    assert cluster.primaries() == cluster.nodes[1:4]
    assert cluster.role(cluster.nodes[0]) == "slave"
    cluster.nodes[1].kill()
    eventually(lambda: cluster.role(cluster.nodes[4]) == "master")
    cluster.settle()
    cluster.forget(cluster.nodes[5])
    assert len(cluster.table(cluster.nodes[0])) == ROWS - 1
    assert len(cluster.table(cluster.nodes[5])) == ROWS
    joined = cluster.add()
    assert {cluster.id(each) for each in cluster.living()} <= cluster.listed(joined)

"""The nodes of a cluster as sessions see them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.cluster.shares import Advertised
from proxy.hotpath.replicas.reader_place import Replica
from proxy.net.config.address import parse_upstream
from proxy.net.config.endpoint import Endpoint
from proxy.net.follow.nodes import Nodes
from proxy.net.replicas.replica_history import Told
from proxy.net.replicas.replica_watch import ReplicaWatch
from proxy.net.replicas.watched_replicas import WatchedReplica
from proxy.net.topology.cluster import Cluster
from proxy.net.topology.slot_map import ClusterNode, SlotMap, SlotRange
from proxy.session.ports.pool_key import Node
from tests.net.waiters import Waiter

LAST = 16383
LOOP: Any = SimpleNamespace()
"""An event loop that is not needed for so few."""


def a_map(*hosts: str, owned: int = LAST) -> SlotMap:
    """The first host is the primary of the slots up to `owned`, the next has none, the third is a replica."""
    nodes = [
        ClusterNode("a", Endpoint(hosts[0], 1), slots=(SlotRange(0, owned),)),
        ClusterNode("b", Endpoint(hosts[1], 1)),
        ClusterNode("c", Endpoint(hosts[2], 1), False, "a"),
    ]
    return SlotMap({node.id: node for node in nodes})


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(parse_upstream("redis+cluster://seed:7000"))
    made.adopt(a_map("h1", "h2", "h3"))
    return made


def test_numbers_and_names(cluster: Cluster) -> None:
    nodes = Nodes(cluster)
    first, second = nodes.primaries()
    assert (nodes.size(), nodes.node(0), nodes.node(1), nodes.node(2)) == (2, first, second, None)
    assert nodes.alias(second) == "n2"


def test_what_happens_to_replicas_is_no_other_way_for_commands(cluster: Cluster) -> None:
    """Clients would wait for their replies before they send more, and WAIT would ask all shards."""
    before, known = cluster.router.version, cluster.version
    lost = a_map("h1", "h2", "h3")
    cluster.adopt(SlotMap({**lost.nodes, "c": replace(lost.nodes["c"], failed=True)}))
    assert (cluster.router.version, cluster.version) == (before, known + 1)
    renamed = replace(lost.nodes["a"], id="d")
    cluster.adopt(SlotMap({"d": renamed, "b": lost.nodes["b"]}))
    assert cluster.router.version == before + 1, "another node has the slots, whatever its number"


def test_the_owner_of_a_slot(cluster: Cluster) -> None:
    nodes = Nodes(cluster)
    assert nodes.owner(5) is nodes.primaries()[0]
    assert not cluster.doubted.is_set()
    cluster.adopt(a_map("h1", "h2", "h3", owned=4))
    assert nodes.owner(5) is None
    assert cluster.doubted.is_set()


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (b"-MOVED 5 h2:1\r\n", 1),
        (b"-ASK 5 h2:1\r\n", 1),
        (b"-MOVED 5 :1\r\n", 0),
        (b"-MOVED 5 h3:1\r\n", None),
        (b"-MOVED 5 h9:1\r\n", None),
        (b"-MOVED 5 ?:1\r\n", None),
        (b"-MOVED\r\n", None),
        (b"-ERR MOVED 5 h2:1\r\n", None),
    ],
)
def test_whom_a_redirect_names(cluster: Cluster, error: bytes, number: int | None) -> None:
    nodes = Nodes(cluster)
    by = nodes.primaries()[0]
    assert nodes.redirected(error, by) is (None if number is None else nodes.node(number))
    assert cluster.doubted.is_set()


def test_what_any_node_can_do_is_for_the_first_one_that_answers(cluster: Cluster) -> None:
    first, second = cluster.nodes
    home = cluster.home
    assert cluster.place(home) is first, "nobody knows more yet"
    cluster.connected(second)
    assert cluster.place(home) is second
    cluster.connected(first)
    assert cluster.place(home) is first
    cluster.hesitates(first, late=True)
    assert (cluster.place(home), Nodes(cluster).reachable(first)) == (second, False)
    cluster.disconnected(second)
    assert cluster.place(home) is first, "none is better"
    cluster.hesitates(first, late=False)
    assert (cluster.place(home), Nodes(cluster).reachable(first)) == (first, True)


def test_who_waits_is_told_after_the_next_look(cluster: Cluster) -> None:
    nodes, waiter, gone = Nodes(cluster), Waiter(), Waiter()
    gone.gone = True
    for each in (waiter, gone):
        nodes.await_look(each)
    nodes.looked(LOOP)
    nodes.looked(LOOP)
    assert (waiter.arrivals, gone.arrivals) == (1, 0)


def test_numbers_stay_and_are_given_again(cluster: Cluster) -> None:
    first, second = cluster.nodes
    change = cluster.adopt(SlotMap({"b": ClusterNode("b", Endpoint("h2", 1), slots=(SlotRange(0, LAST),))}))
    assert (change.left, change.came, cluster.router.owner(7)) == ([first], [], second.number)
    found = a_map("h1", "h2", "h3")
    change = cluster.adopt(found)
    assert [node.number for node in cluster.nodes] == [0, 1]
    assert cluster.nodes[0] is not first
    assert change.came == [cluster.nodes[0]]
    assert not cluster.adopt(found).new


def test_a_node_that_has_become_a_replica_may_answer(cluster: Cluster) -> None:
    first, second = cluster.nodes
    nodes = dict(a_map("h1", "h2", "h3").nodes)
    one, other = nodes["a"], nodes["b"]
    all_slots = (SlotRange(0, LAST),)
    demoted = replace(one, slots=(), is_primary=False, primary_id="b")
    change = cluster.adopt(SlotMap(nodes | {"a": demoted, "b": replace(other, slots=all_slots)}))
    assert (change.left, change.demoted) == ([first], [first])
    failed = replace(other, slots=(), is_primary=False, failed=True)
    change = cluster.adopt(SlotMap(nodes | {"a": replace(one, slots=all_slots), "b": failed}))
    assert (change.left, change.demoted) == ([second], [])


def test_a_node_that_moves_leaves_and_comes(cluster: Cluster) -> None:
    first = cluster.nodes[0]
    change = cluster.adopt(a_map("h9", "h2", "h3"))
    assert (change.left, change.came) == ([first], [first])
    assert cluster.address(first).host == "h9"


def test_a_failed_node_gets_nothing(cluster: Cluster) -> None:
    nodes = dict(a_map("h1", "h2", "h3").nodes)
    nodes["a"] = ClusterNode("a", Endpoint("h1", 1), failed=True, slots=(SlotRange(0, LAST),))
    first = cluster.nodes[0]
    assert cluster.adopt(SlotMap(nodes)).left == [first]
    assert cluster.router.owner(5) == -4


ADDRESSES = (Advertised("b", 1), Advertised("a", 1), Advertised("a", 2))


@pytest.mark.parametrize(
    ("listener", "own"),
    [("a:1", 1), ("a:2", 2), ("0.0.0.0:2", 2), ("0.0.0.0:1", 0), ("[::1]:9", 0), ("/run/keyrail.sock", 0)],
)
def test_which_of_the_addresses_is_its_own(cluster: Cluster, listener: str, own: int) -> None:
    presented = Nodes(cluster, ADDRESSES).presented(listener)
    assert presented is not None
    assert presented.own == ADDRESSES[own]


def test_all_share_out_alike_and_anew_with_each_map(cluster: Cluster) -> None:
    nodes, other = Nodes(cluster, ADDRESSES), Nodes(cluster, ADDRESSES[::-1])
    seen, by_other = nodes.presented("a:1"), other.presented("b:1")
    assert seen is not None
    assert by_other is not None
    assert seen.shares == by_other.shares
    assert seen.shares is getattr(nodes.presented("a:2"), "shares", None), "computed once for each map"
    assert (seen.healthy, seen.shares[0].primary) == (True, Advertised("a", 1))
    cluster.adopt(a_map("h1", "h2", "h3", owned=4))
    again = nodes.presented("a:1")
    assert again is not None
    assert (again.healthy, again.unowned) == (True, 16384 - 5)
    cluster.serves = False
    assert not getattr(nodes.presented("a:1"), "healthy", True)


def test_without_addresses_clients_see_one_redis(cluster: Cluster) -> None:
    assert Nodes(cluster).presented("a:1") is None


def test_a_node_that_sends_a_client_elsewhere_answers_all_reads_of_its_shard(cluster: Cluster) -> None:
    now = 10.0
    loop = asyncio.new_event_loop()
    watch = ReplicaWatch(cluster, loop, 1.0, lambda _: None, clock=lambda: now)
    watch.follow()
    nodes = Nodes(cluster)
    nodes.when_asked(watch.migrates)
    first, other = (watch.primaries[node] for node in nodes.primaries())
    replicas = [WatchedReplica(Node(9), Endpoint("r", 1), Replica()) for _ in range(2)]
    for primary, replica in zip((first, other), replicas, strict=True):
        primary.replicas[replica.endpoint] = replica
        primary.told(primary.group.begin_look(), now, Told(False, "s", 5))
        primary.measured(replica, Told(True, "s", 5), now)
    assert nodes.redirected(b"-ASK 1 h2:1\r\n", first.node) is other.node
    assert [replica.readable.until > now for replica in replicas] == [False, True]
    now += 1.0
    first.measured(replicas[0], Told(True, "s", 5), now)
    assert replicas[0].readable.until < now
    now += 1.1
    first.measured(replicas[0], Told(True, "s", 5), now)
    assert replicas[0].readable.until > now
    assert nodes.redirected(b"-MOVED 1 h2:1\r\n", other.node) is other.node
    assert replicas[1].readable.until > 0
    loop.close()


@pytest.mark.parametrize("failed", ["a", "new"])
def test_a_redirect_names_the_one_of_two_nodes_with_an_address_that_commands_go_to(failed: str) -> None:
    """A node that has lost its data has another id at the same address, and the old one stays known as failed."""
    cluster = Cluster(parse_upstream("redis+cluster://seed:7000"))
    found = a_map("h1", "h2", "h3")
    cluster.adopt(found)
    at, half = Endpoint("h1", 1), SlotRange(0, 9000)
    both = {name: ClusterNode(name, at, failed=name == failed, slots=(half,)) for name in ("a", "new")}
    cluster.adopt(SlotMap({**found.nodes, **both}))
    nodes = Nodes(cluster)
    serving = nodes.owner(0)
    assert serving is not None
    assert nodes.redirected(b"-ASK 5 h1:1\r\n", nodes.primaries()[-1]) is serving


def test_a_node_with_another_address_stands_for_no_other_until_it_is_reached_there(cluster: Cluster) -> None:
    first, second = cluster.nodes
    for node in (first, second):
        cluster.connected(node)
    assert cluster.place(cluster.home) is first
    change = cluster.adopt(a_map("elsewhere", "h2", "h3"))
    assert (change.left, change.came) == ([first], [first])
    assert cluster.place(cluster.home) is second
    cluster.connected(first)
    assert cluster.place(cluster.home) is first

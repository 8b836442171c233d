"""A route over a real cluster: it finds the nodes by one seed, and follows what happens to them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from proxy.commands.slots import slot_of
from proxy.commands.table import Lane
from proxy.net.config.address import UpstreamAddress, parse_upstream
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.route.route import Route
from proxy.net.topology.cluster import Cluster
from proxy.session.ports.pool_key import ANY_NODE, Node, PoolKey
from tests.cluster.nodes import RealCluster
from tests.engines import Engine, free_port
from tests.net.routes import new_route
from tests.net.test_three_nodes import Waiter
from tests.resp import eventually, until

KEY = PoolKey(None, 0, 2, ANY_NODE)
Case = Callable[[Route, Cluster], Coroutine[Any, Any, None]]


def play(case: Case, *seeds: Engine, options: str = "") -> None:
    """Run a case on a route that knows these nodes."""
    hosts = ",".join(f"127.0.0.1:{seed.port}" for seed in seeds)

    async def main() -> None:
        route, topology = route_to(parse_upstream(f"redis+cluster://{hosts}{options}"))
        await route.start()
        try:
            await case(route, topology)
        finally:
            route.close()

    asyncio.run(main())


def route_to(upstream: UpstreamAddress) -> tuple[Route, Cluster]:
    topology = Cluster(upstream)
    return new_route(upstream, topology), topology


async def connection(route: Route, node: Node) -> UpstreamConnection:
    """The shared connection of a node, as sessions get it."""
    key = KEY._replace(node=node)
    while (found := route.ports.pools.shared(key, Lane.FAST)) is None:
        waiter = Waiter()
        route.ports.pools.await_shared(waiter, key, Lane.FAST)
        await waiter.came
    return route._connections.all.members[found]


async def any_leads_to(route: Route, node: Node) -> UpstreamConnection:
    """Wait until what any node can do goes to this one: for one that is late with an answer, another one stands in."""

    def is_there() -> bool:
        found = route.ports.pools.shared(KEY._replace(node=ANY_NODE), Lane.FAST)
        return found is not None and route._connections.all.members[found].key.node is node

    await until(is_there)
    return await connection(route, ANY_NODE)


def port_of(topology: Cluster, slot: int) -> int:
    """The port of the node that the router names for this slot; 0 for none."""
    node = topology.node(topology.router.owner(slot))
    return 0 if node is None else topology.address(node).port


def ports_at_work(topology: Cluster) -> list[int]:
    return [topology.address(node).port for node in topology.nodes]


@pytest.fixture(autouse=True)
def _lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "keyrail.route")


def test_one_seed_leads_to_all_nodes(cluster: RealCluster) -> None:
    async def case(route: Route, topology: Cluster) -> None:
        await until(lambda: route.readiness.ready)
        assert ports_at_work(topology) == [node.port for node in cluster.nodes[:3]]
        assert [alias for alias, _, _ in topology.known()] == ["n1", "n2", "n3", "n4", "n5", "n6"]
        assert [port_of(topology, slot) for slot in (0, 5461, 16383)] == ports_at_work(topology)
        for node in topology.nodes:
            found = await connection(route, node)
            assert found.transport is not None
            assert found.transport.get_extra_info("peername")[1] == topology.address(node).port
        assert (await connection(route, ANY_NODE)).key.node is topology.nodes[0]
        assert route.readiness.reason == ""
        await until(lambda: all(node["lag"] is not None for node in route.snapshot()["nodes"][3:]))
        figures = route.snapshot()["nodes"]
        assert [node["role"] for node in figures] == ["primary"] * 3 + ["replica"] * 3
        assert {node["primary"] for node in figures[3:]} == {"n1", "n2", "n3"}
        assert [node["slots"] for node in figures[:3]] == [[[0, 5460]], [[5461, 10921]], [[10922, 16383]]]
        assert {node["health"] for node in figures} == {"ok"}
        await until(lambda: all(node["ping_ms"] is not None for node in route.snapshot()["nodes"][:3]))
        assert [node["connections"] > 0 for node in figures] == [True] * 3 + [False] * 3

    play(case, cluster.nodes[4])


def test_a_replica_that_lags_loses_its_primary_or_is_gone(
    cluster_name: str, new_cluster: Callable[..., RealCluster]
) -> None:
    cluster = new_cluster(cluster_name)
    primary, replica = cluster.nodes[0], cluster.nodes[3]

    async def case(route: Route, topology: Cluster) -> None:
        def figure(name: str) -> object:
            by_address = {node["address"]: node for node in route.snapshot()["nodes"]}
            return by_address[f"127.0.0.1:{replica.port}"][name]

        await until(lambda: figure("lag") == 0)
        replica.freeze()
        await until(lambda: figure("health") in ("lost", "failed"))
        replica.thaw()
        await until(lambda: figure("health") == "ok" and figure("lag") == 0)
        with primary.wire() as wire:
            wire.ask("CONFIG", "SET", "requirepass", "x", "masterauth", "x")
            wire.ask("CLIENT", "KILL", "TYPE", "replica")
        # Refused by its primary, Valkey says for ever that it loads the data of it.
        await until(lambda: figure("health") in ("unlinked", "syncing"))
        assert figure("lag") is None

    play(case, cluster.nodes[1])


def test_dead_seeds_do_not_matter_while_one_lives(cluster: RealCluster) -> None:
    async def case(route: Route, topology: Cluster) -> None:
        await until(lambda: route.readiness.ready)
        assert len(topology.nodes) == 3

    dead = Engine(cluster.kind)
    dead.kill()
    play(case, dead, cluster.nodes[0])
    dead.close()


def test_moved_slots_are_followed_in_place(cluster: RealCluster) -> None:
    source, target = cluster.nodes[:2]
    slot = 77

    async def case(route: Route, topology: Cluster) -> None:
        router = topology.router
        assert port_of(topology, slot) == source.port
        await asyncio.to_thread(cluster.move_slots, [slot], source, target)
        topology.doubt()
        await until(lambda: port_of(topology, slot) == target.port)
        await asyncio.to_thread(cluster.move_slots, [slot], target, source)
        await until(lambda: port_of(topology, slot) == source.port)
        assert topology.router is router

    play(case, cluster.nodes[0])


def test_open_slots_are_known(cluster: RealCluster) -> None:
    source, target = cluster.nodes[:2]
    cluster.open_slot(5, source, target)

    async def case(route: Route, topology: Cluster) -> None:
        await until(lambda: topology.map.opened)
        (opened,) = topology.map.opened
        assert (opened.slot, opened.source, opened.target) == (5, cluster.id(source), cluster.id(target))

    try:
        play(case, cluster.nodes[0])
    finally:
        for node in (source, target):
            node.do("CLUSTER", "SETSLOT", 5, "STABLE")


def test_a_planned_failover(cluster_name: str, new_cluster: Callable[..., RealCluster]) -> None:
    cluster = new_cluster(cluster_name)
    old, new = cluster.nodes[0], cluster.nodes[3]

    async def case(route: Route, topology: Cluster) -> None:
        before = [await connection(route, node) for node in topology.nodes]
        first = topology.nodes[0]
        await asyncio.to_thread(cluster.failover, new)
        await until(lambda: port_of(topology, 0) == new.port)
        await until(lambda: first not in topology.nodes)
        await until(lambda: before[0].transport is None or before[0].closed)
        assert not before[1].closed
        assert topology.alias(first) == "n1"
        await until(lambda: route.readiness.ready)
        (demoted,) = [known for _, node, known in topology.known() if node is first]
        assert not demoted.is_primary
        await asyncio.to_thread(cluster.settle)
        await asyncio.to_thread(cluster.failover, old)
        await until(lambda: first in topology.nodes)
        assert (await connection(route, first)).transport is not None

    play(case, cluster.nodes[1])


def test_a_primary_that_dies(cluster_name: str, new_cluster: Callable[..., RealCluster]) -> None:
    cluster = new_cluster(cluster_name)

    async def case(route: Route, topology: Cluster) -> None:
        await until(lambda: route.readiness.ready)
        cluster.nodes[0].kill()
        await until(lambda: "Connection refused" in route.readiness.reason)
        assert route.readiness.ready
        await until(lambda: port_of(topology, 0) == cluster.nodes[3].port)
        await until(lambda: not route.readiness.reason)

    play(case, cluster.nodes[0])


def test_what_any_node_can_do_does_not_wait_for_one_that_is_lost(
    cluster_name: str, new_cluster: Callable[..., RealCluster]
) -> None:
    cluster = new_cluster(cluster_name, None, replicas=0)

    async def case(route: Route, topology: Cluster) -> None:
        first = topology.nodes[0]
        lost = await any_leads_to(route, first)
        cluster.nodes[0].kill()
        await until(lambda: lost.closed)
        assert (await connection(route, ANY_NODE)).key.node in topology.nodes[1:]
        assert first in topology.nodes
        cluster.nodes[0].start()
        await any_leads_to(route, first)

    play(case, *cluster.nodes)


def test_a_primary_that_hangs_and_comes_back(cluster_name: str, new_cluster: Callable[..., RealCluster]) -> None:
    cluster = new_cluster(cluster_name)
    hung = cluster.nodes[0]

    async def case(route: Route, topology: Cluster) -> None:
        old = await connection(route, topology.nodes[0])
        hung.freeze()
        question = old.ask(["SET", b"k", b"lost"])
        await until(lambda: port_of(topology, 0) == cluster.nodes[3].port)
        with pytest.raises(ConnectionResetError):
            await question
        hung.thaw()
        await until(lambda: len(topology.nodes) == 3 and not route.readiness.reason)
        await asyncio.to_thread(cluster.settle)

    play(case, cluster.nodes[1])


def test_a_forgotten_node_is_left_although_it_answers(
    cluster_name: str, new_cluster: Callable[..., RealCluster]
) -> None:
    cluster = new_cluster(cluster_name, None, primaries=4, replicas=0)
    gone, rest = cluster.nodes[3], cluster.nodes[:3]
    last = slice(12288, 16384)

    def takes() -> bool:
        # What the node has said before may still arrive, and give the slots back to it.
        with contextlib.suppress(AssertionError):
            rest[0].do("CLUSTER", "DELSLOTSRANGE", last.start, last.stop - 1)
        with contextlib.suppress(AssertionError):
            rest[0].do("CLUSTER", "ADDSLOTSRANGE", last.start, last.stop - 1)
            return True
        return False

    async def case(route: Route, topology: Cluster) -> None:
        await until(lambda: route.readiness.ready and len(topology.nodes) == 4)
        for node in (gone, *rest[1:]):
            await asyncio.to_thread(node.do, "CLUSTER", "DELSLOTSRANGE", last.start, last.stop - 1)
        await asyncio.to_thread(eventually, takes)
        await asyncio.to_thread(cluster.forget, gone)
        await until(lambda: gone.port not in ports_at_work(topology))
        await until(lambda: port_of(topology, last.start) == rest[0].port)
        assert gone.do("PING") == b"PONG"
        assert len([*topology.known()]) == 3

    play(case, gone)


def test_a_new_node_gets_a_number_and_a_connection(cluster_name: str, new_cluster: Callable[..., RealCluster]) -> None:
    cluster = new_cluster(cluster_name, None, replicas=0)

    async def case(route: Route, topology: Cluster) -> None:
        await until(lambda: route.readiness.ready)
        added = await asyncio.to_thread(cluster.add)
        await until(lambda: added.port in ports_at_work(topology))
        await asyncio.to_thread(cluster.move_slots, [3], cluster.nodes[0], added)
        await until(lambda: port_of(topology, 3) == added.port)
        node = topology.node(topology.router.owner(3))
        assert node is not None
        assert topology.alias(node) == "n4"
        await connection(route, node)

    play(case, cluster.nodes[0])


# One clear line each


def told(caplog: pytest.LogCaptureFixture, *words: str) -> list[str]:
    return [line for line in caplog.messages if all(word in line for word in words)]


def test_all_seeds_are_dead(caplog: pytest.LogCaptureFixture) -> None:
    ports = [free_port(), free_port()]

    async def main() -> None:
        route, _ = route_to(parse_upstream(f"redis+cluster://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"))
        await route.start()
        assert not route.readiness.ready
        for port in ports:
            assert f"127.0.0.1:{port}: " in route.readiness.reason
        route.close()

    asyncio.run(main())
    assert len(told(caplog, "no node of the cluster answers", str(ports[0]), str(ports[1]))) == 1


def test_no_quorum(
    cluster_name: str, new_cluster: Callable[..., RealCluster], caplog: pytest.LogCaptureFixture
) -> None:
    cluster = new_cluster(cluster_name, None, replicas=0)
    for node in cluster.nodes[1:]:
        node.kill()

    async def case(route: Route, topology: Cluster) -> None:
        assert not route.readiness.ready
        assert not topology.nodes
        assert "1 of 3 primaries of the cluster answer" in route.readiness.reason
        assert not topology.serves
        await asyncio.to_thread(cluster.nodes[1].start)
        await until(lambda: route.readiness.ready)
        await asyncio.to_thread(cluster.nodes[2].start)
        await until(lambda: topology.serves)

    play(case, cluster.nodes[0])
    assert len(told(caplog, "1 of 3 primaries of the cluster answer")) == 1


def test_a_node_that_lies_about_its_address(
    cluster_name: str, new_cluster: Callable[..., RealCluster], caplog: pytest.LogCaptureFixture
) -> None:
    cluster = new_cluster(cluster_name, None, replicas=0)
    liar, other = cluster.nodes[:2]
    liar.do("CONFIG", "SET", "cluster-announce-port", other.port)

    async def case(route: Route, topology: Cluster) -> None:
        await until(lambda: "announces" in route.readiness.reason)
        assert port_of(topology, 0) == 0
        assert sorted(ports_at_work(topology)) == sorted(node.port for node in cluster.nodes[1:])
        assert [node["health"] for node in route.snapshot()["nodes"] if not node["address"]] == ["lost"]
        await until(lambda: route.readiness.ready)

    play(case, *cluster.nodes)
    assert len(told(caplog, cluster.id(liar)[:8], "announces", f"127.0.0.1:{other.port}", "cluster-announce-port")) == 1


def test_slots_without_an_owner(
    cluster_name: str, new_cluster: Callable[..., RealCluster], caplog: pytest.LogCaptureFixture
) -> None:
    cluster = new_cluster(cluster_name, {"cluster-require-full-coverage": "no"}, replicas=0)
    for node in cluster.nodes:
        node.do("CLUSTER", "DELSLOTS", slot_of(b"k"), 9)

    async def case(route: Route, topology: Cluster) -> None:
        assert "2 of 16384 slots have no owner" in route.readiness.reason
        assert port_of(topology, 9) == 0
        assert route.readiness.ready
        await until(lambda: topology.serves)

    play(case, cluster.nodes[0])
    assert len(told(caplog, "2 of 16384 slots have no owner")) == 1


def test_a_password_that_one_node_refuses(
    cluster_name: str, new_cluster: Callable[..., RealCluster], caplog: pytest.LogCaptureFixture
) -> None:
    cluster = new_cluster(cluster_name, None, replicas=0)
    for node in cluster.nodes:
        node.do("ACL", "SETUSER", "app", "on", ">secret" if node is not cluster.nodes[2] else ">other", "~*", "+@all")

    async def main() -> None:
        route, topology = route_to(parse_upstream(f"redis+cluster://app:secret@127.0.0.1:{cluster.nodes[0].port}"))
        await route.start()
        await until(lambda: route.readiness.ready)
        assert len(topology.nodes) == 3
        assert f"127.0.0.1:{cluster.nodes[2].port}: it refuses the connection: WRONGPASS" in route.readiness.reason
        route.close()

    asyncio.run(main())
    assert len(told(caplog, "it refuses the connection: WRONGPASS")) == 1


def test_nodes_of_two_clusters(new_cluster: Callable[..., RealCluster], caplog: pytest.LogCaptureFixture) -> None:
    one, other = (new_cluster("valkey-9.1", None, replicas=0) for _ in range(2))

    async def case(route: Route, topology: Cluster) -> None:
        assert not route.readiness.ready

    play(case, one.nodes[0], other.nodes[0])
    assert len(told(caplog, "different clusters")) == 1


def test_addresses_behind_nat(cluster_name: str, new_cluster: Callable[..., RealCluster], tmp_path: Any) -> None:
    cluster = new_cluster(cluster_name, None, replicas=0)
    lines = []
    for number, node in enumerate(cluster.nodes):
        node.do("CONFIG", "SET", "cluster-announce-ip", f"192.0.2.{number + 1}")
        lines.append(f"192.0.2.{number + 1}:{node.port} 127.0.0.1:{node.port}")
    file = tmp_path / "nat"
    file.write_text("\n".join(lines))

    async def case(route: Route, topology: Cluster) -> None:
        await until(lambda: len(topology.nodes) == 3 and not route.readiness.reason)
        assert {topology.address(node).host for node in topology.nodes} == {"127.0.0.1"}

    play(case, cluster.nodes[0], options=f"?map={file}")

"""GET, SET and MGET over three real nodes of a cluster: one client, one pipeline, replies in order.

The nodes and their slots are real. The route is the production one, with a topology that the test makes of the nodes.
The test is the session: it sends an MGET of several slots to each node.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any, cast

import pytest

from proxy.commands.slots import SLOTS, slot_of
from proxy.commands.table import Lane
from proxy.hotpath.cluster.router import Router
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.net.config.address import UpstreamAddress
from proxy.net.route.route import Route
from proxy.policy.apps import Caller
from proxy.session.ports.pool_key import Node, PoolKey, Role
from tests.conftest import kind_named
from tests.engines import Engine, free_port
from tests.hotpath.gathering import OK, pack
from tests.hotpath.routed import Routed
from tests.net.routes import new_route
from tests.net.still_topology import StillTopology
from tests.resp import eventually, until

NODES = 3


class SlotMap(StillTopology):
    """A topology of these nodes, with the slots as one of them tells."""

    def __init__(self, engines: list[Engine]) -> None:
        self.nodes = [Node(number) for number in range(len(engines))]
        self.addresses = {
            node: UpstreamAddress(port=engine.port) for node, engine in zip(self.nodes, engines, strict=True)
        }
        numbers = {engine.port: number for number, engine in enumerate(engines)}
        self.home, self.login = self.nodes[0], self.addresses[self.nodes[0]]
        self.owners = [-1] * SLOTS
        for first, last, owner, *_ in cast("Any", engines[0].do("CLUSTER", "SLOTS")):
            self.owners[first : last + 1] = [numbers[owner[1]]] * (last + 1 - first)
        self.router = Router(self.owners)

    def address(self, node: Node) -> UpstreamAddress:
        return self.addresses[node]


@pytest.fixture(scope="module", params=["redis-7.0", "valkey-9.1"])
def nodes(request: pytest.FixtureRequest) -> Iterator[list[Engine]]:
    engines = [Engine(kind_named(request.param), {"cluster-enabled": "yes"}) for _ in range(NODES)]
    for number, engine in enumerate(engines):
        first, behind = number * SLOTS // NODES, (number + 1) * SLOTS // NODES
        engine.do("CLUSTER", "ADDSLOTSRANGE", first, behind - 1)
        engine.do("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
    for engine in engines[1:]:
        engine.do("CLUSTER", "MEET", "127.0.0.1", engines[0].port)
    for engine in engines:
        eventually(partial(knows_all, engine), 30)
    yield engines
    for engine in engines:
        engine.close()


def knows_all(engine: Engine) -> bool:
    """Whether the node knows an owner for each slot."""
    with engine.wire() as direct:
        return b"cluster_state:ok" in direct.ask("CLUSTER", "INFO")


@asynccontextmanager
async def route_over(engines: list[Engine]) -> AsyncIterator[tuple[Route, SlotMap]]:
    topology = SlotMap(engines)
    route = new_route(topology.login, topology)
    await route.start()
    try:
        yield route, topology
    finally:
        route.close()


class Waiter:
    """Waits for a connection."""

    gone = False

    def __init__(self) -> None:
        self.came: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def arrived(self) -> None:
        self.came.set_result(None)

    def close(self, cause: str) -> None:
        self.came.set_exception(ConnectionError(cause))

    def turn_away(self, error: bytes, cause: str) -> None:
        self.close(cause)


async def connection(route: Route, node: Node, role: Role = Role.PRIMARY) -> UpstreamPipeline:
    """The shared connection of a node, as sessions get it."""
    key = PoolKey(None, 0, 2, node, role)
    while (found := route.ports.pools.shared(key, Lane.FAST)) is None:
        waiter = Waiter()
        route.ports.pools.await_shared(waiter, key, Lane.FAST)
        await waiter.came
    return found


async def client_of(route: Route, topology: SlotMap) -> Routed:
    """A client with a connection to each node, under the policy in force."""
    client = Routed([await connection(route, node) for node in topology.nodes], topology.owners)
    client.intake.config = route.ports.policies.effective_policy(PoolKey(None, 0, 2), Caller("default")).config
    client.intake.simple = client.intake.config.pooled
    assert client.intake.config.router is topology.router
    return client


def play(case: Callable[[Route, SlotMap], Coroutine[Any, Any, None]], engines: list[Engine]) -> None:
    async def main() -> None:
        async with route_over(engines) as (route, topology):
            await case(route, topology)

    asyncio.run(main())


def test_one_pipeline_over_three_nodes(nodes: list[Engine]) -> None:
    random = Random(1)
    values = {b"key:%d" % i: random.randbytes(random.choice([0, 1, 30, 5000])) for i in range(500)}

    async def case(route: Route, topology: SlotMap) -> None:
        client = await client_of(route, topology)
        assert {client.slots[slot_of(key)] for key in values} == set(range(NODES))
        client.intake.receive(b"".join(pack("SET", key, value) for key, value in values.items()))
        await until(lambda: client.sender.pending_replies == 0)
        assert client.heard == OK * len(values)
        assert sum(int(str(engine.do("DBSIZE"))) for engine in nodes) == len(values)
        client.heard = b""

        asked = expected = b""
        for key, value in values.items():
            several = [key, *random.sample(list(values), 4), b"missing"]
            asked += pack("GET", key) + pack("MGET", *several)
            expected += bulk(value) + b"*6\r\n" + b"".join(bulk(values.get(each)) for each in several)
        client.intake.receive(asked)
        await until(lambda: client.sender.pending_replies == 0)
        assert client.heard == expected
        assert client.sender.order is None

    play(case, nodes)


def test_pools_are_of_one_node_in_one_role(nodes: list[Engine]) -> None:
    async def case(route: Route, topology: SlotMap) -> None:
        primaries = [await connection(route, node) for node in topology.nodes]
        replica = await connection(route, topology.nodes[1], Role.REPLICA)
        members = route._connections.all.members
        transports = [members[each].transport for each in (*primaries, replica)]
        ports = [each.get_extra_info("peername")[1] for each in transports if each is not None]
        assert ports == [*(engine.port for engine in nodes), nodes[1].port]
        assert replica is not primaries[1]

    play(case, nodes)


def test_a_lost_node_is_connected_again_and_the_others_notice_nothing(nodes: list[Engine]) -> None:
    async def case(route: Route, topology: SlotMap) -> None:
        before = [await connection(route, node) for node in topology.nodes]
        await until(lambda: route.readiness.ready)
        lost, there = topology.nodes[1], topology.address(topology.nodes[1])
        topology.addresses[lost] = UpstreamAddress(port=free_port())
        await asyncio.to_thread(nodes[1].do, "CLIENT", "KILL", "TYPE", "normal")
        await until(lambda: not route.readiness.ready)
        assert route.readiness.reason.startswith(str(topology.address(lost)))
        topology.addresses[lost] = there
        await until(lambda: route.readiness.ready)
        after = [await connection(route, node) for node in topology.nodes]
        assert [new is old for new, old in zip(after, before, strict=True)] == [True, False, True]
        assert route.snapshot()["reconnects"] == 1

    play(case, nodes)


def bulk(value: bytes | None) -> bytes:
    return b"$-1\r\n" if value is None else b"$%d\r\n%b\r\n" % (len(value), value)

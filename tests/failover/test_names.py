"""An upstream whose name leads to another server later, as managed services move it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

import pytest

from proxy.commands.table import Lane
from proxy.net.config.address import UpstreamAddress, parse_upstream
from proxy.net.config.endpoint import Endpoint
from proxy.net.connection.connect import open_without_login
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.follow.name_watch import ServerState, chosen
from proxy.net.follow.topologies import topology_of
from proxy.net.route.route import Route
from proxy.net.topology.links import Links
from proxy.net.topology.primary import Primary, resolve
from proxy.net.topology.topology import Single
from tests.conftest import kind_named
from tests.engines import Engine, free_port
from tests.failover.named import Play, at
from tests.failover.test_sentinel_watch import KEY, connection, port_of, told
from tests.net.test_three_nodes import Waiter
from tests.resp import eventually, until

A, B, C = (Endpoint(f"10.0.0.{number}", 6379) for number in (1, 2, 3))
PRIMARY, REPLICA = ServerState(replica=False), ServerState(replica=True)


@pytest.mark.parametrize(
    ("found", "states", "current", "expected"),
    [
        ([A], {A: PRIMARY}, None, A),
        ([A, B], {A: REPLICA, B: PRIMARY}, None, B),
        ([A, B], {A: PRIMARY, B: PRIMARY}, B, B),
        ([A, B], {A: PRIMARY, B: PRIMARY}, C, A),
        ([A], {A: PRIMARY, C: PRIMARY}, C, A),
        ([A], {A: REPLICA}, None, A),
        ([A, B], {B: REPLICA}, None, B),
        ([A], {A: REPLICA, C: REPLICA}, C, C),
        ([A], {C: PRIMARY}, C, C),
        ([A], {}, C, C),
        ([A, B], {}, None, A),
        ([], {}, None, None),
        ([], {C: PRIMARY}, C, C),
    ],
)
def test_the_address_to_use(
    found: list[Endpoint], states: dict[Endpoint, ServerState], current: Endpoint | None, expected: Endpoint | None
) -> None:
    assert chosen(found, states, current) == expected


@pytest.mark.parametrize(
    ("found", "states", "expected"),
    [
        ([A, B], {C: REPLICA}, A),
        ([A, B], {B: REPLICA, C: REPLICA}, B),
        ([A, B], {A: REPLICA, B: PRIMARY}, B),
        ([A, C], {A: REPLICA, C: REPLICA}, C),
        ([A, C], {A: REPLICA}, A),
        ([A, C], {}, C),
        ([], {}, C),
    ],
)
def test_the_name_leads_away_from_a_server_that_is_given_up(
    found: list[Endpoint], states: dict[Endpoint, ServerState], expected: Endpoint
) -> None:
    assert chosen(found, states, C, given_up=True) == expected


def test_a_server_that_refuses_connections_is_better_than_none() -> None:
    assert chosen([A, B], {}, None, refusing={B}) == B
    assert chosen([A, B], {}, A, refusing={B}) == A
    assert chosen([A, B], {}, A, given_up=True, refusing={B}) == B


def test_no_way_back_to_an_address_just_left_while_the_current_one_is_a_primary() -> None:
    assert chosen([A], {A: PRIMARY, B: PRIMARY}, B, just_left={A}) == B
    assert chosen([A, C], {A: PRIMARY, B: PRIMARY, C: PRIMARY}, B, just_left={A}) == C
    assert chosen([A], {A: PRIMARY}, B, just_left={A}) == A
    assert chosen([A], {A: PRIMARY, B: REPLICA}, B, just_left={A}) == A


def test_only_names_are_followed() -> None:
    for url in ("redis://10.0.0.1", "redis://[::1]:7", "unix:///redis", "redis://[fe80::1%25eth0]"):
        assert isinstance(topology_of(parse_upstream(url)), Single), url
    for url in ("redis://localhost", "rediss://redis.example:7/2"):
        assert isinstance(topology_of(parse_upstream(url)), Primary), url
    found = asyncio.run(_resolved("localhost", 7))
    assert Endpoint("127.0.0.1", 7) in found
    assert len(set(found)) == len(found)


async def _resolved(host: str, port: int) -> Sequence[Endpoint]:
    return await resolve(asyncio.get_running_loop(), host, port)


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example"])
def test_what_is_no_host_name_cannot_be_resolved(host: str) -> None:
    with pytest.raises(socket.gaierror, match="it is not a valid host name"):
        asyncio.run(_resolved(host, 7))


def test_certificates_are_for_the_name() -> None:
    asked: dict[str, Any] = {}

    class Loop:
        call_soon = print

        async def create_connection(self, *_: object, **given: object) -> None:
            asked.update(given)
            raise OSError("as the test wants")

    address = parse_upstream("rediss://redis.example:7/2").resolved(A)
    assert str(address) == "rediss://redis.example:6379/2 (10.0.0.1)"
    tls: Any = type("Context", (), {"current": lambda self: "context"})()
    loop: Any = Loop()
    keeper = Links(lambda _: address, KEY, loop, 5.0, lambda: None, lambda _: None)
    with pytest.raises(OSError, match="as the test wants"):
        asyncio.run(_open(address, tls, keeper, loop))
    assert asked == {"ssl": "context", "server_hostname": "redis.example"}


async def _open(address: UpstreamAddress, tls: Any, keeper: Links, loop: Any) -> None:
    await open_without_login(address, tls, keeper, KEY, loop)


def test_the_server_ends_and_the_name_moves(play: Play, servers: list[Engine]) -> None:
    old, new = servers

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        assert port_of(await connection(route)) == old.port
        relies = Waiter()
        route.ports.pools.relies_on_process(relies)
        old.kill()
        await until(lambda: "Connection refused" in route.readiness.reason and not route.readiness.ready)
        waiting = asyncio.ensure_future(connection(route))
        await asyncio.to_thread(new.do, "REPLICAOF", "NO", "ONE")
        addresses[:] = [at(new)]
        assert port_of(await waiting) == new.port
        await until(lambda: route.readiness.ready and not route.readiness.reason)
        with pytest.raises(ConnectionError, match="redis_restarted"):
            await relies.came

    play(case, at(old))


def test_the_server_becomes_a_replica_and_the_name_moves_later(play: Play, servers: list[Engine]) -> None:
    old, new = servers

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        upstream = await connection(route)
        held = await private(route)
        await asyncio.to_thread(new.do, "REPLICAOF", "NO", "ONE")
        await asyncio.to_thread(old.do, "REPLICAOF", "127.0.0.1", new.port)
        assert (await upstream.ask(["SET", "k", "v"])).startswith(b"-READONLY")
        line = f"redis.example leads to 127.0.0.1:{old.port}, which is a replica"
        await until(lambda: line in route.readiness.reason)
        addresses[:] = [at(new)]
        await until(lambda: topology.endpoint == at(new))
        await until(lambda: held not in route._connections.all.members.values())
        assert port_of(await connection(route)) == new.port
        await until(lambda: not route.readiness.reason)

    play(case, at(old))


async def private(route: Route) -> UpstreamConnection:
    pool = route.ports.pools
    while (found := pool.private(KEY)) is None:
        waiter = Waiter()
        pool.await_private(waiter, KEY)
        await waiter.came
    return route._connections.all.members[found]


def test_what_a_script_says_of_itself_is_no_reason(play: Play, servers: list[Engine]) -> None:
    old, new = servers

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        upstream = await connection(route)
        addresses[:] = [at(new)]
        said = await upstream.ask(["EVAL", "return redis.error_reply('READONLY it says')", "0"])
        assert said.startswith(b"-READONLY")
        await until(lambda: not upstream.pipeline.read_only)
        assert topology.endpoint == at(old)
        assert not upstream.closed

    play(case, at(old))


def test_a_name_that_leads_nowhere(play: Play, servers: list[Engine], caplog: pytest.LogCaptureFixture) -> None:
    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        assert topology.endpoint is None
        assert "redis.example cannot be resolved: Name or service not known" in route.readiness.reason
        addresses[:] = [at(servers[0])]
        await until(lambda: route.readiness.ready)
        addresses.clear()
        topology.doubt()
        await until(lambda: "cannot be resolved" in route.readiness.reason)
        assert route.readiness.ready
        assert port_of(await connection(route)) == servers[0].port

    play(case)
    assert len(told(caplog, "redis.example cannot be resolved")) == 2
    assert len(told(caplog, "the name leads to a primary")) == 1


def test_several_addresses(play: Play, servers: list[Engine]) -> None:
    old, new = servers

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        assert port_of(await connection(route)) == old.port
        assert not route.readiness.reason
        await asyncio.to_thread(new.do, "REPLICAOF", "NO", "ONE")
        topology.doubt()
        await until(lambda: "redis.example leads to several primaries" in route.readiness.reason)
        assert f"commands go to 127.0.0.1:{old.port}" in route.readiness.reason
        assert route.readiness.ready
        old.kill()
        await until(lambda: topology.endpoint == at(new))
        assert port_of(await connection(route)) == new.port

    play(case, at(new), at(old))


def test_a_replica_on_purpose(play: Play, servers: list[Engine]) -> None:
    replica = servers[1]

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        upstream = await connection(route)
        assert await upstream.ask(["GET", "none"]) == b"$-1\r\n"
        assert route.readiness.ready
        assert f"leads to 127.0.0.1:{replica.port}, which is a replica" in route.readiness.reason
        (node,) = route.snapshot()["nodes"]
        assert node["role"] == "replica"

    play(case, at(replica))


def test_another_address_of_the_same_server(play: Play) -> None:
    server = Engine(kind_named("redis-7.0"), {"bind": "127.0.0.1 127.0.0.2"})

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        upstream = await connection(route)
        addresses[:] = [Endpoint("127.0.0.2", server.port)]
        topology.doubt()
        await until(lambda: topology.endpoint == addresses[0])
        assert not upstream.closed
        assert await upstream.ask(["PING"]) == b"+PONG\r\n"
        assert len(topology.nodes) == 1
        assert topology.address(topology.nodes[0]).host == "127.0.0.2"

    async def both(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        await until(lambda: route.readiness.ready)
        assert not route.readiness.reason, "there is one primary, at two addresses"

    try:
        play(case, at(server))
        play(both, at(server), Endpoint("127.0.0.2", server.port))
    finally:
        server.close()


def test_a_server_that_is_down_at_the_start(play: Play, servers: list[Engine]) -> None:
    dead = free_port()

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        assert not route.readiness.ready
        assert f"127.0.0.1:{dead}: Connection refused" in route.readiness.reason
        addresses.append(at(servers[0]))
        assert port_of(await connection(route)) == servers[0].port

    play(case, at(dead))


def test_a_calm_name_costs_nothing(play: Play, servers: list[Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.net.follow.watch.POLL_SECONDS", 0.001)
    asked: list[str] = []

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        await until(lambda: route.readiness.ready)
        assert route.ports.pools.shared(KEY, Lane.FAST) is not None

        def is_calm() -> bool:
            return int(servers[0].info("clients")["connected_clients"]) == 2  # the shared one, and the one that asks

        await asyncio.to_thread(eventually, is_calm)
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert len(asked) == 2, "it is resolved at the start, for the connection, and where somebody doubts"

    play(case, at(servers[0]), asked=asked)

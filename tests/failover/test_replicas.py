"""A primary's replicas are found, and how far they are behind it is measured."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from proxy.net.config.address import parse_upstream
from proxy.net.follow.topologies import topology_of
from proxy.net.replicas.replica_watch import ReplicaWatch
from proxy.net.replicas.watched_replicas import LOST, ReplicaState
from proxy.net.route.route import Route
from proxy.net.topology.links import ANSWER_SECONDS
from tests.conftest import kind_named
from tests.engines import Engine
from tests.net.routes import new_route
from tests.resp import PATIENCE_SECONDS, until


@pytest.fixture
def servers() -> Iterator[list[Engine]]:
    """A primary and two replicas, which a test may break."""
    started = [Engine(kind_named("redis-7.0"), {"repl-diskless-sync-delay": "0"}) for _ in range(3)]
    for each in started[1:]:
        each.do("REPLICAOF", "127.0.0.1", started[0].port)
    for each in started[1:]:
        each.await_info("replication", "master_link_status", "up")
    yield started
    for each in started:
        each.close()


def watched(url: str, look: Callable[[ReplicaWatch, int], bool]) -> None:
    """Looks again and again until the function, which gets the number of each look, has seen what it waits for."""

    async def main() -> None:
        watch = ReplicaWatch(topology_of(parse_upstream(url)), asyncio.get_running_loop(), 2.0, lambda _: None)
        try:
            async with asyncio.timeout(10):
                number = 0
                while True:
                    await watch.look()
                    if look(watch, number):
                        return
                    number += 1
                    await asyncio.sleep(0.1)
        finally:
            watch.close()

    asyncio.run(main())


def states(watch: ReplicaWatch) -> dict[int, ReplicaState | None]:
    return {each.port: replica.state for found in watch.primaries.values() for each, replica in found.replicas.items()}


def test_the_replicas_that_the_primary_names_are_measured(servers: list[Engine]) -> None:
    primary, *replicas = servers

    def look(watch: ReplicaWatch, _: int) -> bool:
        assert states(watch).keys() == {each.port for each in replicas}
        return all(state is not None and state.lag_seconds is not None for state in states(watch).values())

    watched(f"redis://127.0.0.1:{primary.port}", look)


def test_a_replica_that_hangs_is_lost_and_the_other_one_is_not(servers: list[Engine]) -> None:
    primary, frozen, good = servers

    def look(watch: ReplicaWatch, number: int) -> bool:
        if number == 0:
            frozen.freeze()
        told = states(watch)
        return told[frozen.port] == LOST and told[good.port] != LOST

    watched(f"redis://127.0.0.1:{primary.port}?replicas=127.0.0.1:{frozen.port},127.0.0.1:{good.port}", look)


def test_a_replica_that_is_none_any_more_is_not_read_from(servers: list[Engine]) -> None:
    primary, deserter, _ = servers

    def look(watch: ReplicaWatch, number: int) -> bool:
        if number == 0:
            deserter.do("REPLICAOF", "NO", "ONE")
        state = states(watch)[deserter.port]
        return state is not None and state.foreign and state.lag_seconds is None

    watched(f"redis://127.0.0.1:{primary.port}?replicas=127.0.0.1:{deserter.port}", look)


def test_replicas_are_looked_at_while_their_primary_hangs(servers: list[Engine]) -> None:
    primary, dead, good = servers
    measured = False

    def look(watch: ReplicaWatch, _: int) -> bool:
        nonlocal measured
        told = states(watch)
        if not measured:
            measured = all(state is not None and state.lag_seconds == 0.0 for state in told.values())
            if measured:
                primary.freeze()
                dead.kill()
            return False
        grown = told[good.port]
        return told[dead.port] == LOST and grown is not None and (grown.lag_seconds or 0.0) > 1.0

    watched(f"redis://127.0.0.1:{primary.port}?replicas=127.0.0.1:{dead.port},127.0.0.1:{good.port}", look)


def test_a_primary_that_is_slow_for_a_moment_is_waited_for(servers: list[Engine]) -> None:
    # Else nobody knows how old its replicas are, and all reads go to the slow primary.
    primary, first, _ = servers

    async def is_waited_for(watch: ReplicaWatch) -> bool:
        await watch.look()
        (found,) = watch.primaries.values()
        connections, before = primary.info("stats")["total_connections_received"], found.history.last
        primary.freeze()
        try:
            await watch.look()
            await asyncio.sleep(ANSWER_SECONDS)  # so long is a moment
        finally:
            primary.thaw()
        while found.history.last == before:
            await watch.look()
        # One for each question of this test, and none of the watch.
        return int(primary.info("stats")["total_connections_received"]) == int(connections) + 1

    async def main() -> None:
        topology = topology_of(parse_upstream(f"redis://127.0.0.1:{primary.port}?replicas=127.0.0.1:{first.port}"))
        watch = ReplicaWatch(topology, asyncio.get_running_loop(), 2.0, lambda _: None)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not await is_waited_for(watch):  # a machine may stand still for a second
                    pass
        finally:
            watch.close()

    asyncio.run(main())


@pytest.mark.parametrize("known", [True, False])
def test_a_primary_counts_only_if_it_is_the_server_that_clients_use(servers: list[Engine], known: bool) -> None:
    # A name or a balancer may lead the question elsewhere than the clients' writes.
    primary, first, _ = servers
    used = primary.info("server")["run_id"] if known else "another"

    async def main() -> None:
        topology = topology_of(parse_upstream(f"redis://127.0.0.1:{primary.port}?replicas=127.0.0.1:{first.port}"))
        loop = asyncio.get_running_loop()
        watch = ReplicaWatch(topology, loop, 2.0, lambda _: None, processes=lambda _: {used})
        try:
            for _ in range(3):
                await watch.look()
            (found,) = watch.primaries.values()
            assert (found.history.last is not None) is known
        finally:
            watch.close()

    asyncio.run(main())


def test_a_client_that_waits_for_a_look_does_not_wait_long(servers: list[Engine]) -> None:
    primary, first, _ = servers

    async def seconds_to_next_look(watch: ReplicaWatch) -> float:
        loop = asyncio.get_running_loop()
        (found,) = watch.primaries.values()
        number = found.group.looks
        await until(lambda: found.group.looks > number)
        begun = loop.time()
        found.group.want()
        await until(lambda: found.group.looks > number + 1)
        return loop.time() - begun

    async def main() -> None:
        topology = topology_of(parse_upstream(f"redis://127.0.0.1:{primary.port}?replicas=127.0.0.1:{first.port}"))
        watch = ReplicaWatch(topology, asyncio.get_running_loop(), 2.0, lambda _: None)
        watch.hurry()
        watch.begin(None)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while await seconds_to_next_look(watch) > 0.3:
                    pass
        finally:
            watch.close()

    asyncio.run(main())


def test_figures_have_the_replicas_that_the_url_names(servers: list[Engine]) -> None:
    primary, first, _ = servers

    async def main() -> None:
        upstream = parse_upstream(f"redis://127.0.0.1:{primary.port}?replicas=127.0.0.1:{first.port}")
        route = new_route(upstream, topology_of(upstream))
        await route.start()
        try:
            async with asyncio.timeout(10):
                while len(nodes := _nodes(route)) < 2 or nodes[1]["lag_seconds"] is None:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.05)
        finally:
            route.close()
        shown = [(each["node"], each["role"], each["primary"], each["health"], each["lag"]) for each in nodes]
        assert shown == [("n1", "primary", "", "ok", None), ("n2", "replica", "n1", "ok", 0)]

    asyncio.run(main())


@pytest.mark.parametrize("url", ["redis://127.0.0.1:{0}?replicas={1}", "redis://localhost:{0}?replicas={1}"])
def test_the_url_may_name_all_servers_as_replicas_whichever_is_the_primary(servers: list[Engine], url: str) -> None:
    first, second, _ = servers
    listed = ",".join(f"127.0.0.1:{each.port}" for each in servers)

    def shown(route: Route) -> dict[str, tuple[object, object]]:
        return {str(each["address"]): (each["role"], each["health"]) for each in _nodes(route)}

    def expected(primary: Engine) -> dict[str, tuple[object, object]]:
        roles = [(each.port, "primary" if each is primary else "replica") for each in servers]
        return {f"127.0.0.1:{port}": (role, "ok") for port, role in roles}

    async def main(primary: Engine) -> None:
        upstream = parse_upstream(url.format(primary.port, listed))
        route = new_route(upstream, topology_of(upstream))
        await route.start()
        try:
            await until(lambda: shown(route) == expected(primary))
        finally:
            route.close()

    asyncio.run(main(first))
    second.do("REPLICAOF", "NO", "ONE")
    for each in servers:
        if each is not second:
            each.do("REPLICAOF", "127.0.0.1", second.port)
    asyncio.run(main(second))


def test_a_replica_that_its_primary_names_no_more_is_remembered_for_a_minute(
    servers: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A primary forgets one that dies, and names it when it is back."""
    primary, dying, _ = servers

    def look(watch: ReplicaWatch, number: int) -> bool:
        if number == 0:
            dying.kill()
        named = primary.info("replication")["connected_slaves"] == "2"
        assert states(watch).keys() == {each.port for each in servers[1:]}
        return not named and states(watch)[dying.port] == LOST

    def look_later(watch: ReplicaWatch, number: int) -> bool:
        if number == 0:
            dying.start()
            dying.do("REPLICAOF", "127.0.0.1", primary.port)
            assert dying.port not in states(watch)
        if dying.port in states(watch) and dying.process is not None:
            dying.kill()
        return number > 0 and dying.process is None and dying.port not in states(watch)

    watched(f"redis://127.0.0.1:{primary.port}", look)
    monkeypatch.setattr("proxy.net.replicas.replica_watch._REMEMBERED_SECONDS", 0.0)
    watched(f"redis://127.0.0.1:{primary.port}", look_later)


def test_one_server_whose_replicas_nobody_asked_for_has_no_nodes(servers: list[Engine]) -> None:
    async def main() -> None:
        upstream = parse_upstream(f"redis://127.0.0.1:{servers[0].port}")
        route = new_route(upstream, topology_of(upstream))
        await route.start()
        try:
            assert "nodes" not in route.snapshot()
        finally:
            route.close()

    asyncio.run(main())


def _nodes(route: Route) -> list[dict[str, object]]:
    found = route.snapshot().get("nodes", [])
    assert isinstance(found, list)
    return found

"""A primary's replicas are found, and how far they are behind it is measured."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from proxy.net.address import parse_upstream
from proxy.net.replica_watch import ReplicaState, ReplicaWatch
from proxy.net.route import Route
from proxy.net.topologies import topology_of
from tests.conftest import kind_named
from tests.engines import Engine
from tests.net.routes import new_route


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
        return told[frozen.port] == ReplicaState(reached=False) and told[good.port] != ReplicaState(reached=False)

    watched(f"redis://127.0.0.1:{primary.port}?replicas=127.0.0.1:{frozen.port},127.0.0.1:{good.port}", look)


def test_a_replica_that_is_none_any_more_is_not_read_from(servers: list[Engine]) -> None:
    primary, deserter, _ = servers

    def look(watch: ReplicaWatch, number: int) -> bool:
        if number == 0:
            deserter.do("REPLICAOF", "NO", "ONE")
        state = states(watch)[deserter.port]
        return state is not None and state.foreign and state.lag_seconds is None

    watched(f"redis://127.0.0.1:{primary.port}?replicas=127.0.0.1:{deserter.port}", look)


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

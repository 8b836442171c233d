"""Several workers behind a name: where one of them follows it, the others look, too."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence

import pytest

from proxy.net.config.address import parse_upstream
from proxy.net.config.endpoint import Endpoint
from proxy.net.connection.group_counts import counts_in
from proxy.net.topology.primary import Primary
from tests.conftest import kind_named
from tests.engines import Engine
from tests.failover.named import at
from tests.failover.test_names import private
from tests.failover.test_sentinel_watch import connection
from tests.net.routes import new_route
from tests.resp import until

WORKERS = 3


def test_all_workers_follow_a_name_that_one_of_them_finds_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of before goes on as primary, and no connection to it is lost."""
    monkeypatch.setattr("proxy.net.follow.watch._CALM_SECONDS", 0.0)
    servers = [Engine(kind_named("redis-7.0")) for _ in range(2)]
    addresses = [at(servers[0])]

    async def resolved(*_: object) -> Sequence[Endpoint]:
        return [*addresses]

    async def main() -> None:
        upstream, memory = parse_upstream("redis://redis.example:6379"), bytearray(2 * WORKERS * 8)
        topologies = [Primary(upstream) for _ in range(WORKERS)]
        routes = [
            new_route(upstream, topology, counts=counts_in(memoryview(memory), WORKERS, number))
            for number, topology in enumerate(topologies)
        ]
        try:
            for route in routes:
                await route.start()
                await connection(route)
            # Of each: a connection for clients, and one for health checks.
            await until(lambda: all(len(route._connections.all.members) == 2 for route in routes))
            addresses[:] = [at(servers[1])]
            await private(routes[1])
            await until(lambda: {topology.endpoint for topology in topologies} == {at(servers[1])})
        finally:
            for route in routes:
                route.close()

    monkeypatch.setattr("proxy.net.topology.primary.resolve", resolved)
    try:
        asyncio.run(main())
    finally:
        for server in servers:
            server.close()


def test_each_worker_counts_for_itself_and_sees_all() -> None:
    memory = memoryview(bytearray(2 * WORKERS * 8))
    counts = [counts_in(memory, WORKERS, number) for number in range(WORKERS)]
    for number, each in enumerate(counts):
        for _ in range(number):
            each.users.add()
        each.servers.add()
    ones = array("q", [1] * WORKERS).tobytes()
    assert {(each.users.counts(), each.servers.counts()) for each in counts} == {
        (array("q", range(WORKERS)).tobytes(), ones)
    }
    counts[WORKERS - 1].users.add()
    more = array("q", [*range(WORKERS - 1), WORKERS]).tobytes()
    assert {(each.users.counts(), each.servers.counts()) for each in counts} == {(more, ones)}

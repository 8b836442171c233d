"""A worker that takes another one's place goes on with the servers that were known, where nobody tells of them now."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proxy.net.config.endpoint import Endpoint
from proxy.net.route.route import Route
from proxy.net.topology.primary import Primary
from proxy.net.topology.topology import KnownServer
from tests.conftest import kind_named
from tests.engines import Engine
from tests.failover.group import RealGroup
from tests.failover.named import Play, at
from tests.failover.pace import primary_of
from tests.failover.test_sentinel_watch import connection, port_of
from tests.keyrail_process import DIRECT, Keyrail
from tests.resp import eventually, until

pytestmark = pytest.mark.skipif(DIRECT, reason="a plain relay follows nobody")


def await_ready(keyrail: Keyrail) -> None:
    eventually(lambda: keyrail.http("/readyz")[0] == 200)


def test_all_sentinels_are_down(new_keyrail: Callable[..., Keyrail]) -> None:
    group = RealGroup(kind_named("redis-7.0"))
    try:
        keyrail = new_keyrail(group.url)
        await_ready(keyrail)
        new = group.fail_over()
        eventually(lambda: primary_of(keyrail) == new.port)
        for each in group.sentinels:
            each.kill()
        keyrail.replace_worker()
        await_ready(keyrail)
        with keyrail.wire() as wire:
            assert wire.ask("SET", "k", "v") == b"+OK\r\n"
        assert new.do("GET", "k") == b"v"
        assert "no Sentinel answers" in keyrail.stderr
    finally:
        group.close()


def test_a_server_that_is_a_replica_now_is_not_used(new_keyrail: Callable[..., Keyrail]) -> None:
    group = RealGroup(kind_named("redis-7.0"))
    try:
        keyrail = new_keyrail(group.url)
        await_ready(keyrail)
        for each in group.sentinels:
            each.kill()
        eventually(lambda: "no Sentinel answers" in keyrail.stderr)
        group.servers[0].do("REPLICAOF", "127.0.0.1", group.servers[1].port)
        keyrail.replace_worker()
        eventually(lambda: keyrail.stderr.count("no Sentinel answers") > 1)
        assert keyrail.http("/readyz")[0] == 503
    finally:
        group.close()


def known(server: Engine) -> KnownServer:
    return KnownServer(at(server), server.info("server")["run_id"].encode())


def test_a_name_leads_nowhere(play: Play, servers: list[Engine]) -> None:
    primary, replica = servers

    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        assert port_of(await connection(route)) == primary.port
        assert [*topology.servers] == [known(primary)]
        assert "cannot be resolved" in route.readiness.reason
        addresses.append(at(replica))
        primary.kill()
        replica.do("REPLICAOF", "NO", "ONE")
        await until(lambda: topology.endpoint == at(replica))

    play(case, last_known=[known(primary)])


def test_its_address_has_gone_to_another_process(play: Play, trio: list[Engine]) -> None:
    """Nobody knows whose it is."""
    for run_id in (known(trio[1]).run_id, None):

        async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
            assert (topology.endpoint, route.readiness.ready) == (None, False)

        play(case, last_known=[KnownServer(at(trio[0]), run_id)])


def test_a_name_that_leads_somewhere_counts(play: Play, trio: list[Engine]) -> None:
    async def case(route: Route, topology: Primary, addresses: list[Endpoint]) -> None:
        assert port_of(await connection(route)) == trio[1].port

    play(case, at(trio[1]), last_known=[known(trio[0])])

"""A route that Sentinels tell the primary of, and what the servers say of themselves (ROLE): both must agree.

The Sentinels are made up, the servers are real.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

import pytest

from proxy.net.route.route import Route
from proxy.net.topology.primary import Primary
from tests.conftest import kind_named
from tests.engines import Engine
from tests.failover.fake_sentinel import FakeSentinel, at, sentinels_naming, url_of
from tests.failover.test_sentinel_watch import connection, play, port_of, told
from tests.keyrail_process import Keyrail
from tests.resp import Closed, eventually, until


@pytest.fixture(autouse=True)
def _lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "keyrail.route")


def test_a_replica_is_no_primary(trio: list[Engine], caplog: pytest.LogCaptureFixture) -> None:
    replica = trio[2].port

    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        before = await connection(route)
        for each in sentinels:
            each.primary = replica
        sentinels[0].publish("+switch-master")
        await until(lambda: f"primary 127.0.0.1:{replica}: it is a replica" in route.readiness.reason)
        assert topology.endpoint == at(trio[0].port)
        assert not before.closed

    play(case, *[trio[0].port] * 3)
    assert len(told(caplog, f"primary 127.0.0.1:{replica}: it is a replica")) == 1


def test_the_primary_becomes_a_replica_before_the_sentinels_say_so(trio: list[Engine]) -> None:
    server = Engine(kind_named("redis-7.0"))

    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        before = await connection(route)
        await asyncio.to_thread(server.do, "REPLICAOF", "127.0.0.1", trio[0].port)
        assert (await before.ask(["SET", "k", "v"])).startswith(b"-READONLY")
        await until(lambda: before.closed)
        await until(lambda: "it is a replica" in route.readiness.reason and not route.readiness.ready)
        waiting = asyncio.ensure_future(connection(route))
        for each in sentinels:
            each.primary = trio[1].port
        assert port_of(await waiting) == trio[1].port

    try:
        play(case, *[server.port] * 3)
    finally:
        server.close()


def test_a_login_does_not_lead_to_a_replica(new_keyrail: Callable[..., Keyrail], servers: list[Engine]) -> None:
    """Clients alone have the password: what the server says of its role is known once one of them has logged in."""
    server = servers[0]
    with server.wire() as direct, sentinels_naming(*[server.port] * 3) as sentinels:
        assert direct.ask("SET", "k", "old") == b"+OK\r\n"
        assert direct.ask("CONFIG", "SET", "requirepass", "secret") == b"+OK\r\n"
        keyrail = new_keyrail(url_of(*sentinels))
        with keyrail.wire() as wire:
            assert wire.ask("AUTH", "secret") == b"+OK\r\n"
            assert wire.ask("GET", "k") == b"$3\r\nold\r\n"
            assert direct.ask("REPLICAOF", "127.0.0.1", servers[1].port) == b"+OK\r\n"
            direct.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")  # as Sentinels do it
            assert wire.remaining() == []
        with keyrail.wire() as wire:
            wire.say("AUTH", "secret")
            wire.say("GET", "k")
            assert wire.remaining() in ([], [b"+OK\r\n"])
        for each in sentinels:
            each.primary = servers[1].port
        servers[1].do("REPLICAOF", "NO", "ONE")
        servers[1].do("CONFIG", "SET", "requirepass", "secret")
        eventually(lambda: logs_in(keyrail))


def logs_in(keyrail: Keyrail) -> bool:
    with contextlib.suppress(Closed), keyrail.wire() as wire:
        return wire.ask("AUTH", "secret") == b"+OK\r\n" and wire.ask("SET", "k", "new") == b"+OK\r\n"
    return False


def test_the_named_primary_is_silent_and_named_again(trio: list[Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    server = Engine(kind_named("redis-7.0"))
    monkeypatch.setattr("proxy.net.topology.links.ANSWER_SECONDS", 0.1)

    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        def name(port: int) -> None:
            for each in sentinels:
                each.primary = port

        await until(lambda: route.readiness.ready)
        server.freeze()
        name(server.port)
        await until(lambda: f"{server.port}: it does not answer" in route.readiness.reason)
        name(trio[0].port)
        await until(lambda: not route.readiness.reason)
        name(server.port)
        await until(lambda: f"{server.port}: it does not answer" in route.readiness.reason)
        assert "periodic_failures" not in route._connections.all.events

    try:
        play(case, *[trio[0].port] * 3)
    finally:
        server.thaw()
        server.close()


def test_nobody_waits_for_the_old_primary_that_hangs(trio: list[Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.net.topology.roles.ANSWER_SECONDS", 3600.0)
    server = Engine(kind_named("redis-7.0"))

    async def case(route: Route, topology: Primary, sentinels: list[FakeSentinel]) -> None:
        await until(lambda: route.readiness.ready)
        server.freeze()
        sentinels[0].primary = None  # a look after this one has asked the primary, too
        await until(lambda: "names no primary" in route.readiness.reason)
        for each in sentinels:
            each.primary = trio[0].port
        await until(lambda: topology.endpoint == at(trio[0].port))

    try:
        play(case, *[server.port] * 3)
    finally:
        server.thaw()
        server.close()

"""A route to a name whose addresses a test decides."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from proxy.net.config.address import parse_upstream
from proxy.net.config.endpoint import Endpoint
from proxy.net.follow.topologies import topology_of
from proxy.net.route.route import Route
from proxy.net.topology.primary import Primary
from proxy.net.topology.topology import KnownServer
from tests.engines import Engine
from tests.net.routes import new_route

Case = Callable[[Route, Primary, list[Endpoint]], Coroutine[Any, Any, None]]
Play = Callable[..., None]


def at(server: Engine | int) -> Endpoint:
    return Endpoint("127.0.0.1", server if isinstance(server, int) else server.port)


def player(monkeypatch: pytest.MonkeyPatch) -> Play:
    """What runs a case on a route to a name that has these addresses at first; the case may change the list."""

    def run(
        case: Case,
        *found: Endpoint,
        asked: list[str] | None = None,
        wait: float = 2.0,
        last_known: Sequence[KnownServer] = (),
        silence: float = 3.0,
    ) -> None:
        addresses = [*found]

        async def resolved(*_: object) -> Sequence[Endpoint]:
            if asked is not None:
                asked.append("")
            if not addresses:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            return [*addresses]

        monkeypatch.setattr("proxy.net.topology.primary.resolve", resolved)

        async def main() -> None:
            upstream = parse_upstream("redis://redis.example:6379")
            topology = topology_of(upstream, last_known)
            assert isinstance(topology, Primary)
            route = new_route(upstream, topology, failover_wait=wait, upstream_silence=silence)
            await route.start()
            try:
                await case(route, topology, addresses)
            finally:
                route.close()

        asyncio.run(main())

    return run

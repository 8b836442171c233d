"""Connections to servers that are asked what they know: slow ones, lost ones, and those that refuse.

Time goes on only where everybody waits for it, so no server is late because the machine is busy; the last test pauses
the process itself.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import time
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from proxy.net.config.address import UpstreamAddress
from proxy.net.config.endpoint import Endpoint
from proxy.net.connection.connect import UpstreamRefusedError
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.topology.links import Links
from proxy.session.ports.pool_key import PoolKey

A, B = Endpoint("a", 1), Endpoint("b", 2)


class Waits(selectors.DefaultSelector):
    """Waits for no time: it counts it."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += max(0.0, timeout or 0.0)
        return super().select(None if timeout is None else 0)


class OwnTime(asyncio.SelectorEventLoop):
    """A loop whose time is what its callbacks have waited for."""

    def __init__(self) -> None:
        self._waits = Waits()
        super().__init__(self._waits)

    def time(self) -> float:
        return self._waits.now


class Server:
    """Lets connections open when the test says so."""

    def __init__(self) -> None:
        self.opens = asyncio.Event()
        self.attempts = 0
        self.refuses = ""


class Bench:
    """Links to servers without sockets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.servers = {A: Server(), B: Server()}
        self.news = 0
        self.links = Links(
            lambda at: UpstreamAddress(at.host, at.port),
            PoolKey(None, 0, 2),
            asyncio.get_running_loop(),
            5.0,
            self._news,
            lambda _: None,
        )
        self.opened: dict[Endpoint, UpstreamConnection] = {}
        monkeypatch.setattr("proxy.net.topology.links.open_upstream", self._open)

    def _news(self) -> None:
        self.news += 1

    async def _open(self, address: UpstreamAddress, _tls: object, keeper: Any, key: PoolKey, loop: Any) -> Any:
        at = Endpoint(address.host, address.port)
        server = self.servers[at]
        server.attempts += 1
        await server.opens.wait()
        upstream = self.opened[at] = UpstreamConnection(keeper, key, loop)
        transport: Any = SimpleNamespace(
            set_write_buffer_limits=lambda high: None,
            is_closing=lambda: False,
            write=lambda data: None,
            close=upstream.abort,
            abort=lambda: loop.call_soon(upstream.connection_lost, None),
        )
        upstream.connection_made(transport)
        if server.refuses:
            upstream.abort()
            raise UpstreamRefusedError(server.refuses)
        return SimpleNamespace(upstream=upstream)

    async def ask(self, *targets: Endpoint) -> dict[Endpoint, str]:
        return await self.links.ask_all(targets, self._answer, 5.0)

    async def _answer(self, _link: UpstreamConnection, target: Endpoint) -> str:
        return target.host


def run(monkeypatch: pytest.MonkeyPatch, case: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await case(Bench(monkeypatch))

    with asyncio.Runner(loop_factory=OwnTime) as runner:
        runner.run(main())


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_connection_that_opens_slowly_is_asked_when_it_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async def case(bench: Bench) -> None:
        slow = bench.servers[B]
        bench.servers[A].opens.set()
        assert await bench.ask(A, B) == {A: "a"}
        assert bench.links.failures == {B: "it does not answer"}
        assert await bench.ask(B) == {}
        assert (slow.attempts, bench.news) == (1, 0)
        slow.opens.set()
        await turns()
        assert bench.news == 1
        assert await bench.ask(A, B) == {A: "a", B: "b"}
        assert (slow.attempts, bench.links.failures) == (1, {})
        bench.links.close()

    run(monkeypatch, case)


def test_what_is_forgotten_does_not_go_on_opening(monkeypatch: pytest.MonkeyPatch) -> None:
    async def case(bench: Bench) -> None:
        assert await bench.ask(B) == {}
        bench.links.forget_all_but([A])
        bench.servers[B].opens.set()
        await turns()
        assert (bench.opened, bench.news, bench.links.failures) == ({}, 0, {})
        assert await bench.ask(B) == {B: "b"}, "its silence is forgotten, too"
        bench.links.close()
        await turns()
        assert bench.news == 0

    run(monkeypatch, case)


def test_only_a_connection_that_a_server_ends_is_news(monkeypatch: pytest.MonkeyPatch) -> None:
    async def case(bench: Bench) -> None:
        for server in bench.servers.values():
            server.opens.set()
        bench.servers[B].refuses = "WRONGPASS"
        for _ in range(3):
            assert await bench.ask(A, B) == {A: "a"}
            assert bench.links.failures == {B: "it refuses the connection: WRONGPASS"}
            await turns()
        bench.links.drop(A)
        await turns()
        assert bench.news == 0
        assert await bench.ask(A) == {A: "a"}
        bench.opened[A].abort()
        await turns()
        assert bench.news == 1

    run(monkeypatch, case)


def test_a_pause_of_this_process_makes_no_server_late(monkeypatch: pytest.MonkeyPatch) -> None:
    async def case() -> None:
        bench, loop = Bench(monkeypatch), asyncio.get_running_loop()
        for server in bench.servers.values():
            server.opens.set()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)

            async def answer(_link: UpstreamConnection, _target: Endpoint) -> bytes:
                reply = b""
                # Two messages, one behind the other, as a login and a question.
                for _ in range(2):
                    loop.call_soon(theirs.send, b"x")
                    reply = await loop.sock_recv(ours, 1)
                loop.call_soon(time.sleep, 0.3)
                return reply

            loop.call_later(0.0, time.sleep, 0.3)
            for _ in range(2):
                assert await bench.links.ask_all([A], answer, 0.2) == {A: b"x"}
                assert bench.links.failures == {}
        bench.links.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(case())

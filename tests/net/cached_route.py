"""A route with a local cache in this process, and its clients."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

from proxy.net.config.address import parse_listen, parse_upstream
from proxy.net.config.settings import ListenerSettings
from proxy.net.topology.topology import Single
from proxy.policy.model import Policy
from proxy.wire.encode import encode_command
from tests.engines import Engine
from tests.net.routes import new_route
from tests.policy.given import policy
from tests.resp import FrameReader, until

PATIENCE = 30.0
ALWAYS = policy("""
    rules:
      cached: {local_cache: {keys: ["k*", "h*"], when: always, max_age: 30s}, mode: enforce}
""")
AUDITED = policy("""
    rules:
      cached: {local_cache: {keys: ["k*"], when: always}, mode: audit}
""")
HOT = policy("""
    rules:
      cached: {local_cache: {keys: ["k*"]}, mode: enforce}
""")


class Client:
    """A client that asks one command after the other, or several at once."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._frames = FrameReader()

    async def ask(self, *argv: bytes | str | int) -> bytes:
        return (await self.pipe(argv))[0]

    async def pipe(self, *commands: tuple[bytes | str | int, ...]) -> list[bytes]:
        self.send(*commands)
        return [await self._frame() for _ in commands]

    def send(self, *commands: tuple[bytes | str | int, ...]) -> None:
        words = ([word if isinstance(word, bytes) else str(word).encode() for word in argv] for argv in commands)
        self._writer.write(b"".join(map(encode_command, words)))

    async def _frame(self) -> bytes:
        async with asyncio.timeout(PATIENCE):
            while (frame := self._frames.frame()) is None:
                data = await self._reader.read(1 << 16)
                assert data, "closed"
                self._frames.feed(data)
            return frame

    def close(self) -> None:
        self._writer.close()

    def reset(self) -> None:
        """Close the connection so that no reply is expected any more."""
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


class Keyrail:
    """A route in this process."""

    def __init__(self, engine: Engine, rules: Policy, traces: int, url: str = "") -> None:
        address = parse_upstream(url or engine.url)
        self.engine = engine
        self.route = new_route(address, Single(address), rules, traces=traces)
        self._clients: list[Client] = []

    async def begin(self) -> None:
        await self.route.start()
        await until(lambda: self.route.snapshot()["ready"])
        listener = ListenerSettings(parse_listen("redis://127.0.0.1:0"))
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self.route.listeners.new_client(listener), "127.0.0.1", 0)

    async def client(self, *first: bytes | str | int) -> Client:
        client = Client(*await asyncio.open_connection(*self._server.sockets[0].getsockname()))
        self._clients.append(client)
        if first:
            assert not (await client.ask(*first)).startswith(b"-")
        return client

    def figures(self) -> dict[str, float]:
        return dict(self.route.snapshot()["local_cache"])

    async def cached(self, client: Client, *read: bytes | str | int) -> bytes:
        """Read until memory has answered."""
        async with asyncio.timeout(PATIENCE):
            while True:
                before = self.figures()["hits"]
                reply = await client.ask(*read)
                if self.figures()["hits"] > before:
                    return reply
                await asyncio.sleep(0.01)

    async def asked(self, client: Client, *read: bytes | str | int) -> tuple[bytes, bool]:
        """The reply, and whether Redis was asked by the client's own command."""
        before = self.figures()
        reply = await client.ask(*read)
        return reply, self.figures()["hits"] == before["hits"]

    async def end(self) -> None:
        for client in self._clients:
            client.close()
        self._server.close()
        self.route.close()
        await asyncio.sleep(0)


def run(
    engine: Engine, play: Callable[[Keyrail], Awaitable[None]], rules: Policy = ALWAYS, traces: int = 0, url: str = ""
) -> dict[str, Any]:
    async def played() -> dict[str, Any]:
        keyrail = Keyrail(engine, rules, traces, url)
        await keyrail.begin()
        try:
            await play(keyrail)
            return keyrail.route.snapshot()
        finally:
            await keyrail.end()

    return asyncio.run(played())

"""The network between a primary and a replica, which a test may slow down, stop and cut."""

from __future__ import annotations

import asyncio

from tests.network import Network, until_one_ends


class Stream(Network):
    """Passes bytes on between whoever connects and a port.

    The bytes from there, which are the replication stream, arrive ``delay`` seconds late. While it is ``held``, none of
    them arrives. While it is ``cut``, nobody is connected.
    """

    def __init__(self, port: int) -> None:
        super().__init__()
        self._upstream_port = port
        self._delay = 0.0
        self._cut = False
        self._flows = self.run(self._event())
        self.port = self.listen(self._serve)

    async def _event(self) -> asyncio.Event:
        event = asyncio.Event()
        event.set()
        return event

    def delay(self, seconds: float) -> None:
        """From now on bytes arrive so much later."""
        self._delay = seconds

    def hold(self) -> None:
        """No byte arrives until ``release``."""
        self.loop.call_soon_threadsafe(self._flows.clear)

    def release(self) -> None:
        self.loop.call_soon_threadsafe(self._flows.set)

    def cut(self) -> None:
        """Close the connections, and each new one, until ``mend``."""
        self._cut = True
        self.run(self.end_connections())

    def mend(self) -> None:
        self._cut = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            return
        back, far = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        try:
            await until_one_ends(self._there(reader, far), self._receive(back, late), self._deliver(late, writer))
        finally:
            far.transport.abort()

    async def _there(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()

    async def _receive(self, source: asyncio.StreamReader, late: asyncio.Queue[tuple[float, bytes]]) -> None:
        while data := await source.read(1 << 16):
            late.put_nowait((self.loop.time(), data))

    async def _deliver(self, late: asyncio.Queue[tuple[float, bytes]], sink: asyncio.StreamWriter) -> None:
        while True:
            arrived, data = await late.get()
            await asyncio.sleep(arrived + self._delay - self.loop.time())
            await self._flows.wait()
            sink.write(data)
            await sink.drain()

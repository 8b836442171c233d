"""The network between a primary and a replica, which a test may slow down, stop and cut."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Self


class Stream:
    """Passes bytes on between whoever connects and a port.

    The bytes from there, which are the replication stream, arrive ``delay`` seconds late. While it is ``held``, none of
    them arrives. While it is ``cut``, nobody is connected.
    """

    def __init__(self, port: int) -> None:
        self._upstream_port = port
        self._delay = 0.0
        self._cut = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._open: set[asyncio.Task[None]] = set()
        self._flows = asyncio.run_coroutine_threadsafe(self._event(), self._loop).result()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._accept, "127.0.0.1", 0), self._loop
        ).result()
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def _event(self) -> asyncio.Event:
        event = asyncio.Event()
        event.set()
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, and all connections."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        await self._close_all()

    def delay(self, seconds: float) -> None:
        """From now on bytes arrive so much later."""
        self._delay = seconds

    def hold(self) -> None:
        """No byte arrives until ``release``."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def release(self) -> None:
        self._loop.call_soon_threadsafe(self._flows.set)

    def cut(self) -> None:
        """Close the connections, and each new one, until ``mend``."""
        self._cut = True
        asyncio.run_coroutine_threadsafe(self._close_all(), self._loop).result()

    def mend(self) -> None:
        self._cut = False

    async def _close_all(self) -> None:
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        ends = [writer]
        with contextlib.suppress(OSError, asyncio.CancelledError):
            if not self._cut:
                back, far = await asyncio.open_connection("127.0.0.1", self._upstream_port)
                ends.append(far)
                await self._both(reader, far, back, writer)
        for end in ends:
            end.transport.abort()
        self._open.discard(task)

    async def _both(
        self,
        reader: asyncio.StreamReader,
        far: asyncio.StreamWriter,
        back: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        pumps = [
            asyncio.ensure_future(each)
            for each in (self._there(reader, far), self._receive(back, late), self._deliver(late, writer))
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _there(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()

    async def _receive(self, source: asyncio.StreamReader, late: asyncio.Queue[tuple[float, bytes]]) -> None:
        while data := await source.read(1 << 16):
            late.put_nowait((self._loop.time(), data))

    async def _deliver(self, late: asyncio.Queue[tuple[float, bytes]], sink: asyncio.StreamWriter) -> None:
        while True:
            arrived, data = await late.get()
            await asyncio.sleep(arrived + self._delay - self._loop.time())
            await self._flows.wait()
            sink.write(data)
            await sink.drain()

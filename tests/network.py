"""Connections that lead through a test: a part of the network that runs in a thread of its own, until it is closed."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Self, TypeVar

_T = TypeVar("_T")


class Network:
    """Listens at ports, and keeps the tasks of the connections that are open there."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._connections: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run this there, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def listen(self, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]) -> int:
        """Serve whoever connects to a port of its own, and return that. A connection ends with ``serve``."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections.add(task)
            with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
                await serve(reader, writer)
            writer.transport.abort()
            self._connections.discard(task)

        server = self.run(asyncio.start_server(accept, "127.0.0.1", 0))
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def end_connections(self, chosen: Iterable[asyncio.Task[None]] | None = None) -> None:
        """End those that are open now: these, or all."""
        tasks = list(self._connections if chosen is None else chosen)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def close(self) -> None:
        """End it, and all connections."""
        self.run(self._end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        await self.end_connections()


async def until_one_ends(*flows: Coroutine[Any, Any, None]) -> None:
    """Let bytes flow until one side has no more; then all ends."""
    tasks = [asyncio.ensure_future(each) for each in flows]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

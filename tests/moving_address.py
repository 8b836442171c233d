"""An address that leads to another engine from one moment to the next, as behind a load balancer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.engines import Engine


class Way:
    """New connections go to ``engine``, and old ones stay where they are."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def accept(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """Carry one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with contextlib.suppress(ConnectionError):
            source, sink = await asyncio.open_connection("127.0.0.1", self.engine.port)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(_carry(client, sink))
                    both.create_task(_carry(source, back))
            except* ConnectionError:
                pass
            finally:
                sink.close()
                back.close()

    async def end(self) -> None:
        """Close all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(1 << 18):
        sink.write(data)
    raise ConnectionResetError


@asynccontextmanager
async def way_to(engine: Engine) -> AsyncIterator[Way]:
    way = Way(engine)
    server = await asyncio.start_server(way.accept, "127.0.0.1", 0)
    way.port = server.sockets[0].getsockname()[1]
    try:
        yield way
    finally:
        server.close()
        await way.end()

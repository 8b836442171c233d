"""What happens to Redis, and to Keyrail's connections to it, while clients go on.

Each is a function of (engine, swarm) that returns when it is over. A link between Keyrail and Redis can be wrong as
well: it knows the tracking connection, and delays or loses what comes on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from tests.coherence.clients import Swarm
from tests.engines import Engine
from tests.resp import Address, FrameReader, eventually

Disturbance = Callable[[Engine, Swarm], Awaitable[None]]
STALLED = 1.5
"""Seconds for which nothing comes: longer than Keyrail trusts a silent connection."""
_MEANWHILE = 300
"""Operations that clients do between two disturbances, or behind the last."""


def tracking_connections(engine: Engine) -> list[str]:
    """The ids of the connections with CLIENT TRACKING."""
    with engine.wire() as wire:
        clients = wire.value("CLIENT", "LIST")
    assert isinstance(clients, bytes)
    return [match[1] for match in re.finditer(r"^id=(\d+) .* flags=\w*t\w* ", clients.decode(), re.MULTILINE)]


async def tracking_connections_die(engine: Engine, swarm: Swarm) -> None:
    """One after the other, when clients have used the new one."""
    for _ in range(3):
        await asyncio.to_thread(eventually, lambda: bool(tracking_connections(engine)))
        await swarm.more(_MEANWHILE)
        with engine.wire() as wire:
            for each in tracking_connections(engine):
                wire.ask("CLIENT", "KILL", "ID", each)


async def redis_hangs(engine: Engine, swarm: Swarm) -> None:
    """And goes on."""
    engine.freeze()
    try:
        await asyncio.sleep(STALLED)
    finally:
        engine.thaw()
    await swarm.more(_MEANWHILE)


async def redis_dies(engine: Engine, swarm: Swarm) -> None:
    """Between writes, and comes back with nothing."""
    async with contextlib.AsyncExitStack() as locks:
        for slot in swarm.book.slots:
            await locks.enter_async_context(slot.lock)
        loop = asyncio.get_running_loop()
        died = loop.time()
        await asyncio.to_thread(engine.kill)
        await asyncio.to_thread(engine.start)
        swarm.book.vanish(died, loop.time())
    await swarm.more(_MEANWHILE)


async def redis_dies_amid_writes(engine: Engine, swarm: Swarm) -> None:
    """What was not answered is not known."""
    since = asyncio.get_running_loop().time()
    for slot in swarm.book.slots:
        swarm.book.abandon(slot)
    swarm.book.everything_unknown(since)
    await asyncio.to_thread(engine.kill)
    await asyncio.to_thread(engine.start)
    await swarm.more(_MEANWHILE)


async def memory_is_short(engine: Engine, swarm: Swarm) -> None:
    """Redis evicts keys, those of clients among them."""
    with engine.wire() as wire:
        for number in range(4000):
            wire.ask("SET", f"filler:{number}", b"x" * 2000)
            if number % 20 == 0:
                await asyncio.sleep(0)


# A wrong link


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, note: Callable[[bytes], None]) -> None:
    while data := await source.read(1 << 18):
        note(data)
        sink.write(data)


async def _stalling(source: asyncio.StreamReader, sink: asyncio.StreamWriter, tracks: asyncio.Event) -> None:
    """Nothing comes on a tracking connection for a while, again and again; then all of it."""
    loop = asyncio.get_running_loop()
    stalled = 0.0
    while data := await source.read(1 << 18):
        if tracks.is_set() and loop.time() > stalled + 1.0:
            await asyncio.sleep(STALLED)
            stalled = loop.time()
        sink.write(data)


async def _losing(source: asyncio.StreamReader, sink: asyncio.StreamWriter, tracks: asyncio.Event) -> None:
    """No invalidation arrives."""
    frames = FrameReader()
    while data := await source.read(1 << 18):
        frames.feed(data)
        while (frame := frames.frame()) is not None:
            if not (frame.startswith(b">") and b"invalidate" in frame[:30]):
                sink.write(frame)


WrongLink = Callable[[asyncio.StreamReader, asyncio.StreamWriter, asyncio.Event], Awaitable[None]]
STALLING: WrongLink = _stalling
LOSING: WrongLink = _losing


@asynccontextmanager
async def wrong_link(upstream: Address, port: int, fault: WrongLink) -> AsyncIterator[None]:
    """Between Keyrail and Redis, at this port."""
    tasks: set[asyncio.Task[None]] = set()

    async def carry(client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        from_upstream, up = await asyncio.open_connection("127.0.0.1", upstream.port)
        tracks = asyncio.Event()

        def note(data: bytes) -> None:
            if b"TRACKING" in data:
                tracks.set()

        replies = asyncio.create_task(_until_lost(fault(from_upstream, back, tracks), up, back))
        tasks.add(replies)
        await _until_lost(_pump(client, up, note), up, back)

    async def accept(client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(carry(client, back))
        tasks.add(task)

    server = await asyncio.start_server(accept, "127.0.0.1", port)
    try:
        yield
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _until_lost(pump: Awaitable[None], *ends: asyncio.StreamWriter) -> None:
    try:
        with contextlib.suppress(ConnectionError):
            await pump
    finally:
        for end in ends:
            end.close()
        with contextlib.suppress(OSError):
            await asyncio.gather(*(end.wait_closed() for end in ends))

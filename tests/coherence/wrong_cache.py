"""A proxy with a cache that is wrong, so that a test can see it found.

It keeps the replies to GET for a time, as many proxies do, and sends them to all its clients. How wrong it is can be
chosen: it may drop what its own clients write, and what Redis tells of, but it knows nothing of TTLs, of transactions
and of writes that meet a read.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Flag, auto

from tests.resp import Address, FrameReader, decode, frame_end, pack


class Cares(Flag):
    """For what a wrong cache drops a reply before its time."""

    NOTHING = 0
    OWN_WRITES = auto()
    """Of any of its clients, if an argument is the key."""
    INVALIDATIONS = auto()
    """Of a connection that tracks all keys."""


@dataclass(slots=True)
class Cache:
    """Replies to GET by key, and until when they are kept."""

    cares: Cares
    age: float
    replies: dict[bytes, tuple[bytes, float]] = field(default_factory=dict)
    served: int = 0

    def find(self, key: bytes) -> bytes | None:
        reply, until = self.replies.get(key, (None, 0.0))
        if reply is None or asyncio.get_running_loop().time() >= until:
            return None
        self.served += 1
        return reply

    def keep(self, key: bytes, reply: bytes) -> None:
        self.replies[key] = (reply, asyncio.get_running_loop().time() + self.age)


def _requests_in(data: bytearray) -> Iterator[bytes]:
    """Take the whole requests off, arrays and inline ones."""
    while data:
        end = frame_end(data, 0) if data.startswith(b"*") else data.find(b"\r\n") + 2
        if end < 2:
            return
        yield bytes(data[:end])
        del data[:end]


async def _requests(
    cache: Cache, client: asyncio.StreamReader, back: asyncio.StreamWriter, up: asyncio.StreamWriter, due: deque[bytes]
) -> None:
    """``due`` are the keys of the replies that are to come; none of other commands than GET."""
    received = bytearray()
    while data := await client.read(1 << 18):
        received += data
        for request in _requests_in(received):
            words = decode(request) if request.startswith(b"*") else list(request.split())
            assert isinstance(words, list)
            verb, *rest = [word for word in words if isinstance(word, bytes)]
            key = rest[0] if verb == b"GET" and rest else b""
            reply = cache.find(key) if key and not due else None
            if reply is not None:
                back.write(reply)
                continue
            due.append(key)
            if verb != b"GET" and Cares.OWN_WRITES in cache.cares:
                for word in rest:
                    cache.replies.pop(word, None)
            up.write(request)
    up.close()


async def _replies(cache: Cache, up: asyncio.StreamReader, back: asyncio.StreamWriter, due: deque[bytes]) -> None:
    frames = FrameReader()
    while data := await up.read(1 << 18):
        frames.feed(data)
        while (frame := frames.frame()) is not None:
            key = b"" if frame.startswith(b">") else due.popleft()
            if key and not frame.startswith((b"+", b"-")):
                cache.keep(key, frame)
            back.write(frame)
    back.close()


async def _invalidations(cache: Cache, upstream: Address) -> None:
    """Drop what Redis says has changed; without CLIENT TRACKING of single keys, by broadcasts."""
    reader, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
    frames = FrameReader()
    writer.write(pack("HELLO", 3) + pack("CLIENT", "TRACKING", "ON", "BCAST"))
    try:
        while data := await reader.read(1 << 18):
            frames.feed(data)
            while (frame := frames.frame()) is not None:
                message = decode(frame)
                if not (frame.startswith(b">") and isinstance(message, list)):
                    continue
                if message[1] is None:
                    cache.replies.clear()
                for key in message[1] if isinstance(message[1], list) else ():
                    if isinstance(key, bytes):
                        cache.replies.pop(key, None)
    finally:
        await _closed(writer)


async def _closed(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.close()
    with contextlib.suppress(OSError):
        await asyncio.gather(*(writer.wait_closed() for writer in writers))


@asynccontextmanager
async def wrong_cache(upstream: Address, cares: Cares, age: float = 0.3) -> AsyncIterator[tuple[Address, Cache]]:
    """Its address, while it runs."""
    cache = Cache(cares, age)

    async def accept(client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        from_upstream, up = await asyncio.open_connection("127.0.0.1", upstream.port)
        due: deque[bytes] = deque()
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_requests(cache, client, back, up, due))
                both.create_task(_replies(cache, from_upstream, back, due))
        except* ConnectionError:
            pass
        finally:
            await _closed(up, back)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    tracking = asyncio.create_task(_invalidations(cache, upstream)) if Cares.INVALIDATIONS in cares else None
    try:
        yield Address(port=server.sockets[0].getsockname()[1]), cache
    finally:
        server.close()
        if tracking is not None:
            tracking.cancel()
            await asyncio.gather(tracking, return_exceptions=True)

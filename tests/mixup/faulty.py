"""A relay that makes one mistake, so that a test can see the hunt catch it.

It knows frames (a faulty pipeline loses whole replies, not bytes), and makes the mistake once in `EVERY` frames.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tests.resp import Address, FrameReader

EVERY = 300


class Link:
    """One client and its upstream."""

    def __init__(self, relay: Relay, client: asyncio.StreamWriter) -> None:
        self.relay, self.client = relay, client
        self.held: bytes | None = None


class Relay:
    """All links, and the one fault that they share."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.frames = 0
        self.links: list[Link] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.stray: bytes | None = None

    def deliver(self, link: Link, frame: bytes) -> None:
        """Pass a frame on, or go wrong with it."""
        self.frames += 1
        late, link.held = link.held, None
        outgoing = [frame] if late is None else [frame, late]
        if self.frames % EVERY == 0:
            outgoing = FAULTS[self.fault](self, link, frame)
        for part in outgoing:
            if not link.client.is_closing():
                link.client.write(part)


def to_another(relay: Relay, link: Link, frame: bytes) -> list[bytes]:
    """The reply goes to somebody else."""
    others = [other for other in relay.links if other is not link and not other.client.is_closing()]
    if others:
        others[relay.frames % len(others)].client.write(frame)
    return []


def lost(relay: Relay, link: Link, frame: bytes) -> list[bytes]:
    """The reply is hidden that should have been forwarded."""
    return []


def doubled(relay: Relay, link: Link, frame: bytes) -> list[bytes]:
    """The reply is not taken off the queue."""
    return [frame, frame]


def swapped(relay: Relay, link: Link, frame: bytes) -> list[bytes]:
    """The reply leaves behind its successor."""
    link.held = frame
    return []


def invented(relay: Relay, link: Link, frame: bytes) -> list[bytes]:
    """A hidden command's reply comes through."""
    return [b":1\r\n", frame]


def stale(relay: Relay, link: Link, frame: bytes) -> list[bytes]:
    """An earlier reply of another client comes instead."""
    instead, relay.stray = relay.stray, frame
    return [instead or frame]


FAULTS: dict[str, Callable[[Relay, Link, bytes], list[bytes]]] = {
    "to another": to_another,
    "lost": lost,
    "doubled": doubled,
    "swapped": swapped,
    "invented": invented,
    "stale": stale,
}


async def _requests(client: asyncio.StreamReader, upstream: asyncio.StreamWriter) -> None:
    try:
        while data := await client.read(1 << 18):
            upstream.write(data)
    except ConnectionError:
        pass
    upstream.close()


async def _replies(link: Link, upstream: asyncio.StreamReader) -> None:
    frames = FrameReader()
    try:
        while data := await upstream.read(1 << 18):
            frames.feed(data)
            while (frame := frames.frame()) is not None:
                link.relay.deliver(link, frame)
    except ConnectionError:
        pass
    link.client.close()


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


@asynccontextmanager
async def faulty_relay(upstream: Address, fault: str) -> AsyncIterator[Address]:
    """Its address, while it runs."""
    relay = Relay(fault)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_upstream, to_upstream = await asyncio.open_connection("127.0.0.1", upstream.port)
        link = Link(relay, writer)
        relay.links.append(link)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_requests(reader, to_upstream))
                both.create_task(_replies(link, from_upstream))
        finally:
            relay.links.remove(link)
            await _closed(to_upstream)

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            await _closed(writer)

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(carry(reader, writer))
        relay.tasks.add(task)
        task.add_done_callback(relay.tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield Address(port=server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in relay.tasks:
            task.cancel()
        await asyncio.gather(*relay.tasks, return_exceptions=True)

"""Redis answers Keyrail's own queries with what cannot be the reply: once it is well again, so are all clients."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from typing import Any, cast

import pytest
import uvloop

from proxy.net.pool.internal_queries import InternalQueries
from proxy.session.ports.pool_key import SOLE_NODE, PoolKey
from tests.conftest import Fleet, rest_is_long
from tests.engines import Engine
from tests.net.cached_route import ALWAYS, Client, Keyrail
from tests.resp import FrameReader, decode

MALFORMED = (
    b"+x\r\n",
    b":99999999999999999999999999999999999999\r\n",
    b":5\r\n",
    b"$-1\r\n",
    b"$3\r\nabc\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"*2\r\n*1\r\n+x\r\n:1\r\n",
    b"*1\r\n,nan\r\n",
    b",x\r\n",
    b",1e400\r\n",
    b"(5x\r\n",
    b"#x\r\n",
    b"_\r\n",
    b"%1\r\n*0\r\n+x\r\n",
    b"~1\r\n:1\r\n",
    b"=5\r\nx\r\n",
    b"-\r\n",
    b">1\r\n+invalidate\r\n",
    b">2\r\n+invalidate\r\n:5\r\n",
    b">2\r\n+invalidate\r\n*1\r\n:5\r\n",
    b"?what\r\n",
)


class Liar:
    """Stands before a server. While it lies, it replaces the replies to one command; pushes pass."""

    def __init__(self, engine: Engine, command: bytes, frame: bytes) -> None:
        self._engine = engine
        self._command = command
        self._frame = frame
        self.lies = False
        self.told = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._open_ends: list[asyncio.StreamWriter] = []
        self.url = ""

    async def begin(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open_ends.append(writer)
        if self._server.is_serving():
            self._tasks.add(asyncio.ensure_future(self._serve(reader, writer)))
        else:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        names: deque[bytes] = deque()
        theirs, ours = await asyncio.open_connection("127.0.0.1", self._engine.port)
        self._open_ends.append(ours)
        back = asyncio.ensure_future(self._answer(theirs, writer, names))
        try:
            with contextlib.suppress(ConnectionError):
                await self._ask(reader, ours, names)
        finally:
            back.cancel()
            for each in (ours, writer):
                each.transport.abort()
            await asyncio.gather(back, return_exceptions=True)

    async def _ask(self, reader: asyncio.StreamReader, ours: asyncio.StreamWriter, names: deque[bytes]) -> None:
        frames = FrameReader()
        while data := await reader.read(1 << 16):
            frames.feed(data)
            while (frame := frames.frame()) is not None:
                argv = decode(frame)
                assert isinstance(argv, list)
                assert isinstance(argv[0], bytes)
                names.append(argv[0].upper())
            ours.write(data)

    async def _answer(self, theirs: asyncio.StreamReader, writer: asyncio.StreamWriter, names: deque[bytes]) -> None:
        frames = FrameReader()
        while data := await theirs.read(1 << 16):
            frames.feed(data)
            while (frame := frames.frame()) is not None:
                lie = not frame.startswith(b">") and names.popleft() == self._command and self.lies
                self.told += lie
                writer.write(self._frame if lie else frame)
        writer.close()

    async def end(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in self._open_ends:  # also those whose task has been cancelled before it began
            each.transport.abort()
        async with asyncio.timeout(5):
            await self._server.wait_closed()  # else uvloop's ``close`` can wait for ever


async def answered(keyrail: Keyrail, client: Client | None, *argv: str) -> tuple[Client | None, bytes]:
    """What a client hears, who connects again where it was closed."""
    async with asyncio.timeout(10):
        while True:
            try:
                client = client or await keyrail.client()
                reply = await client.ask(*argv)
            except (AssertionError, ConnectionError):
                if client is not None:
                    client.reset()
                client = None
                await asyncio.sleep(0.02)
            else:
                return client, reply


async def reads_on(keyrail: Keyrail, key: str, liar: Liar) -> None:
    """Reads from memory take in what Redis has sent before the event loop does."""
    client: Client | None = None
    while liar.lies:
        client, _ = await answered(keyrail, client, "GET", key)


async def is_well_again(engine: Engine, command: bytes, frame: bytes, number: int) -> None:
    liar = Liar(engine, command, frame)
    await liar.begin()
    keyrail = Keyrail(engine, ALWAYS, 0, liar.url)
    key, field = f"k{number}", f"h{number}"
    reads = (("GET", key), ("HMGET", field, "a", "b"))
    try:
        await keyrail.begin()
        clients: list[Client | None] = [await keyrail.client() for _ in range(4)]
        await keyrail.cached(await keyrail.client(), "GET", f"{key}:warm")
        liar.lies = True
        others = [asyncio.ensure_future(reads_on(keyrail, f"{key}:warm", liar)) for _ in range(3)]
        asking = [asyncio.ensure_future(answered(keyrail, each, *reads[i % 2])) for i, each in enumerate(clients)]
        await asyncio.wait(asking, timeout=0.5)
        liar.lies = False
        await asyncio.gather(*others)
        clients = [client for client, _ in await asyncio.gather(*asking)]
        for i, client in enumerate(clients):
            _, reply = await answered(keyrail, client, *reads[i % 2])
            assert reply == (b"$1\r\nv\r\n" if i % 2 == 0 else b"*2\r\n$1\r\n1\r\n$-1\r\n")
        client, _ = await answered(keyrail, None, "PING")
        assert client is not None
        assert await keyrail.cached(client, "GET", key) == b"$1\r\nv\r\n", "memory answers again"
    finally:
        await keyrail.end()
        await liar.end()


@pytest.mark.parametrize("command", rest_is_long("PTTL", "HPTTL", "PING"))
def test_all_clients_are_answered_once_the_server_is_well_again(fleet: Fleet, command: str) -> None:
    frames: tuple[bytes, ...] = MALFORMED[::4] if command == "PTTL" else MALFORMED
    if command == "PING":  # a push in place of a reply to a connection that clients share leaves nothing to tell it by
        frames = tuple(frame for frame in frames if not frame.startswith(b">"))
    engine = fleet.engine("valkey-9.1")
    engine.do("FLUSHALL")

    async def play() -> Sequence[object]:
        for number in range(len(frames)):
            engine.do("SET", f"k{number}", "v")
            engine.do("HSET", f"h{number}", "a", "1")
        each = (is_well_again(engine, command.encode(), frame, number) for number, frame in enumerate(frames))
        return await asyncio.gather(*each, return_exceptions=True)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(play())
    failed = [(frames[number], repr(error)) for number, error in enumerate(found) if error is not None]
    assert failed == []


class Checkout:
    """Gives one connection, which answers at once."""

    def __init__(self) -> None:
        self.aborted = False
        self.closed = False
        self.shared = True

    def for_questions(self, _key: PoolKey) -> Checkout:
        return self

    def ask(self, _question: Sequence[bytes]) -> asyncio.Future[bytes]:
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        future.set_result(b"+what\r\n")
        return future

    def abort(self) -> None:
        self.aborted = True


def test_whoever_fails_on_a_reply_has_the_connection_closed_and_takes_nobody_along() -> None:
    checkout, heard = Checkout(), list[object]()

    def fails(_frames: Sequence[bytes] | None) -> None:
        raise ValueError("no such reply")

    async def play() -> None:
        queries = InternalQueries(cast("Any", checkout))
        key = PoolKey(None, 0, 2)._replace(node=SOLE_NODE)
        queries.ask(key, [[b"PTTL", b"k"]], fails)
        queries.ask(key, [[b"PTTL", b"k"]], heard.append)
        for _ in range(10):
            await asyncio.sleep(0)
        assert (checkout.aborted, heard) == (True, [[b"+what\r\n"]])
        queries.tend()
        assert not queries._connections

    asyncio.run(play())

"""A Sentinel that says what a test wants: it can lie, fall silent, and be cut off from the others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Self, cast

from proxy.net.config.endpoint import Endpoint
from tests.resp import FrameReader, decode

NAME = "mymaster"


def bulk(text: object) -> bytes:
    data = str(text).encode()
    return b"$%d\r\n%s\r\n" % (len(data), data)


class FakeSentinel:
    """It names a primary, and lists other Sentinels by their ids, and replicas by their ports: whether each one
    replicates. It was `asked` for its primary so often."""

    def __init__(self, my_id: str, primary: int | None) -> None:
        self.my_id = my_id
        self.primary = primary
        self.others: dict[str, int] = {}
        self.replicas: dict[int, bool] = {}
        self.silent = False
        self.old = False
        self.password = ""
        self.port = 0
        self.asked = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._subscribed: dict[asyncio.StreamWriter, list[str]] = {}
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def stop(self) -> None:
        """Refuse connections, and close those that are open."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._writers:
            writer.close()
        self._writers.clear()
        self._subscribed.clear()

    def publish(self, channel: str) -> None:
        for writer in [each for each, channels in self._subscribed.items() if channel in channels]:
            writer.write(b">3\r\n" + bulk("message") + bulk(channel) + bulk("…"))

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # At once: a task might be cancelled before it begins, and the connection left open.
        self._writers.append(writer)
        if self._server is None:
            writer.close()
        else:
            self._tasks.append(asyncio.ensure_future(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameReader()
        try:
            while data := await reader.read(1 << 16):
                frames.feed(data)
                while (frame := frames.frame()) is not None:
                    words = [word.decode() for word in cast("list[bytes]", decode(frame))]
                    if words[0] == "SUBSCRIBE":
                        self._subscribed[writer] = words[1:]
                    if not self.silent:
                        writer.write(self.answer(words))
        except (ConnectionError, asyncio.CancelledError):
            pass

    def answer(self, words: list[str]) -> bytes:
        match [word.upper() for word in words[:2]]:
            case ["HELLO", *_]:
                if self.password and words[2:] != ["AUTH", "watcher", self.password]:
                    return b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
                return b"%1\r\n" + bulk("mode") + bulk("sentinel")
            case ["SUBSCRIBE", *_]:
                return b"".join(b">3\r\n" + bulk("subscribe") + bulk(word) + b":1\r\n" for word in words[1:])
            case ["SENTINEL", "MYID"]:
                return b"-ERR unknown subcommand\r\n" if self.old else bulk(self.my_id)
            case ["SENTINEL", "GET-MASTER-ADDR-BY-NAME"]:
                self.asked += 1
                if self.primary is None or words[2] != NAME:
                    return b"_\r\n"
                return b"*2\r\n" + bulk("127.0.0.1") + bulk(self.primary)
            case ["SENTINEL", "SENTINELS"]:
                if self.primary is None:
                    return b"-ERR No such master with that name\r\n"
                return b"*%d\r\n" % len(self.others) + b"".join(
                    b"%3\r\n" + b"".join(map(bulk, ("ip", "127.0.0.1", "port", port, "runid", name)))
                    for name, port in self.others.items()
                )
            case ["SENTINEL", "REPLICAS"]:
                return b"*%d\r\n" % len(self.replicas) + b"".join(
                    b"%5\r\n" + b"".join(map(bulk, ("ip", "127.0.0.1", "port", port, *told)))
                    for port, told in ((port, _REPLICATES[well]) for port, well in self.replicas.items())
                )
        return b"-ERR unknown command\r\n"


_REPLICATES = {
    True: ("flags", "slave", "role-reported", "slave", "master-link-status", "ok"),
    False: ("flags", "slave", "role-reported", "master", "master-link-status", "err"),
}


def introduce(sentinels: Iterable[FakeSentinel]) -> None:
    """All of them list all others."""
    for each in sentinels:
        each.others = {other.my_id: other.port for other in sentinels if other is not each}


def url_of(*sentinels: FakeSentinel | int, database: str = "", options: str = "") -> str:
    ports = [each if isinstance(each, int) else each.port for each in sentinels]
    return f"redis+sentinel://{','.join(f'127.0.0.1:{port}' for port in ports)}/{NAME}{database}{options}"


def at(port: int) -> Endpoint:
    return Endpoint("127.0.0.1", port)


class ThreadedSentinel(FakeSentinel):
    """One whose loop runs in another thread."""

    def __init__(self, my_id: str, primary: int | None, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(my_id, primary)
        self._loop = loop

    def begin(self) -> None:
        """Answer, or answer again."""
        asyncio.run_coroutine_threadsafe(self.start(), self._loop).result()

    def end(self) -> None:
        """Refuse connections."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()

    async def _stop(self) -> None:
        self.stop()


@contextmanager
def sentinels_naming(*ports: int) -> Iterator[list[ThreadedSentinel]]:
    """One for each of these ports, in a thread of their own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    made = [ThreadedSentinel(str(number), port, loop) for number, port in enumerate(ports)]
    try:
        for each in made:
            each.begin()
        introduce(made)
        yield made
    finally:
        asyncio.run_coroutine_threadsafe(_end(made), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _end(sentinels: Iterable[FakeSentinel]) -> None:
    for each in sentinels:
        each.stop()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)

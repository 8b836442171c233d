"""A Sentinel that says what a test wants: it can lie, fall silent, and be cut off from the others.

It is that of the simulated world, on a socket.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, Self, cast

from proxy.net.config.endpoint import Endpoint
from tests.simulation.network import Address
from tests.simulation.replies import Refusal
from tests.simulation.sentinel import NAME, Sentinel

HOST = "127.0.0.1"


class _Sockets:
    """Instead of a simulated network: what a simulated server needs, where others listen for it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.chance = random.Random(1)
        self.accept: Callable[[], Any]

    def listen(self, _: Address, accept: Callable[[], Any]) -> None:
        self.accept = accept


class FakeSentinel:
    """It names a primary, and lists other Sentinels by their ids, and replicas by their ports: whether each one
    replicates. It was `asked` for its primary so often. ``old``, it does not know its id."""

    def __init__(self, my_id: str, primary: int | None) -> None:
        self.my_id = my_id
        self.primary = primary
        self.others: dict[str, int] = {}
        self.replicas: dict[int, bool] = {}
        self.old = False
        self._password = ""
        self.port = 0
        self.asked = 0
        self._silent = False
        self._told: Sentinel | None = None
        self._listening: asyncio.Server | None = None

    async def start(self) -> Self:
        network: Any = _Sockets()
        told = self._told = Sentinel(network, (HOST, self.port), self.my_id, None)
        told.server.sentinel = cast("Sentinel", self)
        self.password = self._password
        told.server.frozen = self._silent
        self._listening = await network.loop.create_server(network.accept, HOST, self.port)
        self.port = self._listening.sockets[0].getsockname()[1]
        return self

    def stop(self) -> None:
        """Refuse connections, and close those that are open."""
        if self._listening is not None and self._told is not None:
            self._listening.close()
            self._listening = None
            self._told.server.drop_clients()

    @property
    def password(self) -> str:
        """That of its user "watcher", which connections must give from now on."""
        return self._password

    @password.setter
    def password(self, password: str) -> None:
        self._password = password
        if self._told is not None:
            self._told.server.users = dict.fromkeys((b"default", b"watcher"), password or None)

    @property
    def silent(self) -> bool:
        """Whether it answers nothing."""
        return self._silent

    @silent.setter
    def silent(self, silent: bool) -> None:
        self._silent = silent
        if self._told is not None:
            self._told.server.frozen = silent

    @property
    def accepted(self) -> int:
        """How many connections have come."""
        return 0 if self._told is None else next(copy(self._told.server.ids)) - 1

    def subscribers(self) -> int:
        """How many connections have subscribed."""
        connections = () if self._told is None else self._told.server.connections
        return sum(each.subscribed() > 0 for each in connections)

    def publish(self, channel: str) -> None:
        """To whoever has subscribed to it."""
        assert self._told is not None
        self._told.server.publish(channel.encode(), b"...")

    def answer(self, words: Sequence[str]) -> Any:
        """SENTINEL ..."""
        told = self._told
        assert told is not None
        told.primary = None if self.primary is None else at(self.primary)
        told.others = {name: at(port) for name, port in self.others.items()}
        told.replicas = {at(port): well for port, well in self.replicas.items()}
        self.asked += words[0] == "GET-MASTER-ADDR-BY-NAME"
        if self.old and words[0] == "MYID":
            raise Refusal("ERR unknown subcommand")
        return told.answer(words)


def introduce(sentinels: Iterable[FakeSentinel]) -> None:
    """All of them list all others."""
    for each in sentinels:
        each.others = {other.my_id: other.port for other in sentinels if other is not each}


def url_of(*sentinels: FakeSentinel | int, database: str = "", options: str = "") -> str:
    ports = [each if isinstance(each, int) else each.port for each in sentinels]
    return f"redis+sentinel://{','.join(f'127.0.0.1:{port}' for port in ports)}/{NAME}{database}{options}"


def at(port: int) -> Endpoint:
    return Endpoint(HOST, port)


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

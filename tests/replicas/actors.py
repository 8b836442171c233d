"""Clients that write and read through Keyrail, and note what they see."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from tests.mixup.swarm import Client, Ended
from tests.replicas.history import NOTHING, History, Read, Write
from tests.resp import PATIENCE_SECONDS, decode, pack, until


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a client: a write if it has a number."""

    key: str
    number: int = NOTHING


class Stage:
    """The clients of what listens at a port, and their history. Writer n writes to each of `keys` with `:n` behind."""

    def __init__(
        self, port: int, seed: int = 0, keys: Sequence[str] = ("a", "b", "c"), history: History | None = None
    ) -> None:
        self.history = history or History()
        self.keys = tuple(keys)
        self.over = False
        self.closed = 0
        self.errors: list[bytes] = []
        self._port = port
        self._writers = 1
        self._seed = seed
        self._numbers = itertools.count(1)
        self._connections = itertools.count(1)

    async def run(self, clients: int, act: Callable[[], Awaitable[None]]) -> None:
        """Let so many clients read until `act` is over. Each third one writes, too, to keys of its own; all read all
        keys. Who writes often reads from the primary most of the time."""
        self._writers = -(-clients // 3)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._live(number)) for number in range(clients)]
            await act()
            self.over = True
            await asyncio.gather(*tasks)

    async def until_reads(self, count: int) -> None:
        """Wait until there are so many more reads."""
        enough = self.history.reads() + count
        await until(lambda: self.history.reads() >= enough)

    async def _live(self, number: int) -> None:
        chance = random.Random(f"{self._seed}-{number}")
        while not self.over:
            try:
                client = Client(*await asyncio.open_connection("127.0.0.1", self._port), PATIENCE_SECONDS)
                try:
                    await self._act(client, f"client {number}.{next(self._connections)}", number, chance)
                finally:
                    client.leave(abruptly=True)
            except (Ended, OSError):  # whoever was connected to what has failed
                self.closed += 1
                await asyncio.sleep(0.01)

    async def _act(self, client: Client, name: str, number: int, chance: random.Random) -> None:
        loop = asyncio.get_running_loop()
        while not self.over:
            steps = [self._step(number, chance) for _ in range(chance.choice((1, 1, 1, 4)))]
            sent = loop.time()
            client.send(b"".join(map(_packed, steps)))
            waiting = list(steps)
            try:
                for step in steps:
                    self._note(name, step, sent, await client.frame(), loop.time())
                    waiting.pop(0)
            except Ended:
                for step in waiting:
                    if step.number != NOTHING:  # it may have run
                        self.history.add(Write(name, step.key, step.number, sent, None))
                raise
            await asyncio.sleep(chance.choice((0, 0.001, 0.01)))

    def _step(self, number: int, chance: random.Random) -> Step:
        key = chance.choice(self.keys)
        if number < self._writers and chance.random() < 0.2:
            return Step(f"{key}:{number}", next(self._numbers))
        return Step(f"{key}:{chance.randrange(self._writers)}")

    def _note(self, name: str, step: Step, sent: float, frame: bytes, now: float) -> None:
        value = decode(frame)
        if step.number != NOTHING:
            self.history.add(Write(name, step.key, step.number, sent, now if frame == b"+OK\r\n" else None))
        elif value is None or isinstance(value, bytes):
            self.history.add(Read(name, step.key, int(value or NOTHING), sent, now))
        if frame.startswith(b"-"):
            self.errors.append(frame)


def _packed(step: Step) -> bytes:
    return pack("GET", step.key) if step.number == NOTHING else pack("SET", step.key, step.number)

"""Clients that write, and know what must have come of it.

Each has keys of its own. What it writes is a number that it writes once, so that the list that holds its numbers tells
what has run, how often and in which order.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.resp import Failure, decode
from tests.simulation.world import Client, ClosedError, Keyrail, World

TRANSIENT = ("CLUSTERDOWN", "TRYAGAIN", "ERR Keyrail")
"""Errors that say that a command has not run."""


class Wrong(AssertionError):
    """What a client got, or what became of what it wrote, can't be."""


class Writer:
    """One client; with ``shared``, it sends nothing that needs a connection of its own. ``errors`` counts what it was
    refused with, ``lost`` how often its connection was closed."""

    def __init__(self, world: World, keyrail: Keyrail, number: int, hello: int = 3, *, shared: bool = False) -> None:
        self.world, self.keyrail, self.number = world, keyrail, number
        self.log = b"log:%d" % number
        self.acknowledged: dict[int, int] = {}
        self.refused: set[int] = set()
        self.errors: Counter[str] = Counter()
        self.lost = self.answered = 0
        self._hello, self._only_shared = hello, shared
        self._shared = self._push, self._own, self._echo, self._unit
        self._pinned = self._spoiled, self._watch, self._blocked, self._named
        self._next = 1
        self._values: dict[bytes, set[bytes]] = {}
        self._client: Client | None = None

    # What it does

    async def work(self, over: Callable[[], bool], pause: float = 0.01) -> None:
        """Send pipelines until it is over."""
        chance = self.world.chance
        while not over():
            try:
                client = await self._connected()
                await self._pipeline(client)
            except (ClosedError, ConnectionRefusedError):
                self.lost += 1
                self._client = None
            await asyncio.sleep(pause * chance.random())
        if self._client is not None:
            self._client.close()

    def first(self) -> tuple[str | int, ...]:
        """What it says when it is connected."""
        return "HELLO", self._hello

    async def _connected(self) -> Client:
        if self._client is None:
            self._client = await self.keyrail.client(*self.first())
        return self._client

    async def _pipeline(self, client: Client) -> None:
        chance = self.world.chance
        commands: list[tuple[Any, Callable[[Any], None]]] = []
        for _ in range(1 if self._only_shared else chance.randint(1, 4)):
            commands += chance.choice(self._shared if self._only_shared else (*self._shared, *self._pinned))()
        asked = client.send(*(words for words, _ in commands), cut=chance.choice((0, 0, 7, 40)))
        for (_, told), reply in zip(commands, asked, strict=True):
            value = decode(await reply)
            self.answered += 1
            told(value)

    def _number(self) -> int:
        number, self._next = self._next, self._next + 1
        return number

    def _push(self) -> list[Any]:
        number = self._number()
        return [(("RPUSH", self.log, number), lambda value: self._pushed(number, value))]

    def _unit(self) -> list[Any]:
        number, word = self._number(), b"unit %d %d" % (self.number, self._next)

        def ran(value: Any) -> None:
            if isinstance(value, list):
                self._expect(len(value) == 2 and value[1] == word, "EXEC", value)
                self._pushed(number, value[0])
            else:
                self._pushed(number, value)

        return [
            (("MULTI",), lambda value: self._expect(value == b"OK", "MULTI", value)),
            (("RPUSH", self.log, number), self._queued),
            (("ECHO", word), self._queued),
            (("EXEC",), ran),
        ]

    def _spoiled(self) -> list[Any]:
        number = self._number()

        def aborted(value: Any) -> None:
            self._expect(isinstance(value, Failure), "EXEC behind an error", value)
            self.refused.add(number)

        return [
            (("MULTI",), lambda value: self._expect(value == b"OK", "MULTI", value)),
            *self._in_any_order(
                (("RPUSH", self.log, number), self._queued),
                (("GET",), lambda value: self._expect(isinstance(value, Failure), "GET without a key", value)),
            ),
            (("EXEC",), aborted),
        ]

    def _in_any_order(self, *commands: Any) -> list[Any]:
        return self.world.chance.sample(commands, len(commands))

    def _watch(self) -> list[Any]:
        return [
            (("WATCH", self.log), lambda value: self._expect(self._ran(value) <= (value == b"OK"), "WATCH", value))
        ] + (self._unit() if self.world.chance.randrange(2) else [(("UNWATCH",), self._ran)])

    def _blocked(self) -> list[Any]:
        queue, word = b"queue:%d" % self.number, b"%d" % self._number()
        expected = [queue, word]
        put = (("RPUSH", queue, word), lambda value: self._expect(self._ran(value) <= (value == 1), "RPUSH", value))
        return [
            (("DEL", queue), self._ran),
            put,
            (
                ("BLPOP", queue, "0.5"),
                lambda value: self._expect(self._ran(value) <= (value in (expected, None)), "BLPOP", value),
            ),
        ]

    def _named(self) -> list[Any]:
        name = b"client-%d-%d" % (self.number, self._number())
        return [
            (("CLIENT", "SETNAME", name), lambda value: self._expect(value == b"OK", "CLIENT SETNAME", value)),
            (("CLIENT", "GETNAME"), lambda value: self._expect(value == name, "CLIENT GETNAME", value)),
        ]

    def _queued(self, value: Any) -> None:
        self._expect(value == b"QUEUED" or isinstance(value, Failure), "queueing", value)

    def _echo(self) -> list[Any]:
        word = b"echo %d %d" % (self.number, self._number())
        return [(("ECHO", word), lambda value: self._expect(value == word, "ECHO", value))]

    def _own(self) -> list[Any]:
        key = b"own:%d:%d" % (self.number, self.world.chance.randrange(3))
        value = b"value %d %d" % (self.number, self._number())
        may_be = self._values.setdefault(key, {b""})
        may_be.add(value)  # as soon as it is sent

        def written(reply: Any) -> None:
            if self._ran(reply):
                self._expect(reply == b"OK", "SET", reply)
                self._values[key] = {value}
            else:
                may_be.discard(value)

        def read(reply: Any) -> None:
            if self._ran(reply):
                self._expect((reply or b"") in self._values[key], f"GET, not one of {self._values[key]}", reply)

        return [(("SET", key, value), written), (("GET", key), read)]

    # What it is told

    def _expect(self, holds: bool, what: str, value: Any) -> None:
        if not holds:
            raise Wrong(f"client {self.number} was answered {value!r} to {what}")

    def _ran(self, value: Any) -> bool:
        if not isinstance(value, Failure):
            return True
        text = value.text.decode()
        self.errors[" ".join(text.split()[:2])] += 1
        return False

    def _pushed(self, number: int, length: Any) -> None:
        if not self._ran(length):
            self.refused.add(number)
            return
        latest = max(self.acknowledged.values(), default=0)
        self._expect(isinstance(length, int) and length > latest, f"RPUSH, behind {latest}", length)
        self.acknowledged[number] = length

    # What has become of it

    def check(self, held: list[bytes], *, lossless: bool = True) -> None:
        """``held`` is what its list holds at the end. Unless ``lossless``, what was acknowledged may be lost."""
        numbers = [int(each) for each in held]
        if sorted(set(numbers)) != numbers:
            raise Wrong(f"client {self.number}: ran twice, or in another order: {numbers}")
        if refused := self.refused & {*numbers}:
            raise Wrong(f"client {self.number}: refused, and has run: {refused}")
        lost = [number for number, place in self.acknowledged.items() if numbers[place - 1 : place] != [number]]
        if lossless and lost:
            raise Wrong(f"client {self.number}: acknowledged, and lost: {lost}")

"""Clients that share counters: whoever has seen a number must not be answered a smaller one."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, cast

from tests.resp import Failure, decode
from tests.simulation.engine import Server
from tests.simulation.world import Client, ClosedError, Door, World
from tests.simulation.writers import Wrong

INCREMENT = "return redis.call('INCR', KEYS[1])"
UNDECLARED = "return redis.call('INCR', ARGV[1])"
BRIEF = b"k:brief"
"""A key whose values end by their TTL."""


class Counters:
    """What all clients of one Keyrail know. ``truth`` says which number a counter has now; in ``stale`` seconds
    everybody is answered at least that. Unless ``together``, each client knows only what it was answered itself.
    ``others``: half of the counters are counted by others than these clients. ``undeclared``: scripts count that do not
    say what they count."""

    def __init__(
        self,
        world: World,
        truth: Callable[[bytes], int],
        stale: float = 1.2,
        *,
        keys: int = 4,
        together: bool = True,
        others: bool = False,
        undeclared: bool = False,
    ) -> None:
        self.world, self.truth, self.stale, self.together = world, truth, stale, together
        self.keys = [b"k:%d" % number for number in range(keys)]
        self.others = self.keys[: keys // 2] if others else []
        self.undeclared = undeclared
        self.known: Counter[bytes] = Counter()
        self.reads = 0
        self._ends: list[float] = []
        self._history: defaultdict[bytes, list[tuple[float, int]]] = defaultdict(list)

    async def watch(self) -> None:
        """Remember what was true when."""
        while True:
            for key in self.keys:
                history, now = self._history[key], self.truth(key)
                if not history or history[-1][1] != now:
                    history.append((self.world.loop.now, now))
            await asyncio.sleep(0.05)

    def renew(self, server: Server) -> None:
        """Somebody writes a value that ends soon."""
        seconds = self.world.chance.choice((0.02, 0.2))
        self._ends.append(self.world.loop.now + seconds)
        server.do("SET", BRIEF, len(self._ends), "PX", round(1000 * seconds))

    def check_brief(self, number: int, begun: float) -> None:
        """A read that began then was answered with this value of ``BRIEF``, or 0. Raises Wrong."""
        if number and begun > self._ends[number - 1] + 0.001:
            raise Wrong(f"read after the end of its TTL: {number}")

    def least(self, key: bytes, known: Counter[bytes]) -> int:
        """What a read that begins now must be answered at least."""
        old = [number for at, number in self._history[key] if at < self.world.loop.now - self.stale]
        return max(known[key], self.known[key] if self.together else 0, *old[-1:], 0)


class CountingClient:
    """One client. ``writes`` is how many of ten commands write."""

    def __init__(self, counters: Counters, keyrail: Door, number: int, writes: int = 3) -> None:
        self._counters, self._keyrail, self._hello, self._writes = counters, keyrail, 2 + number % 2, writes
        self._known: Counter[bytes] = Counter()
        self._client: Client | None = None
        self.errors: Counter[bytes] = Counter()

    async def work(self, over: Callable[[], bool], pause: float) -> None:
        """Read and count until it is over."""
        chance = self._counters.world.chance
        while not over():
            try:
                if self._client is None:
                    self._client = await self._keyrail.client("HELLO", self._hello)
                commands = [each for _ in range(chance.choice((1, 1, 2, 3))) for each in self._commands()]
                # What was known before counts, and what the client's own commands have done since.
                least = {key: self._counters.least(key, self._known) for _, key in commands}
                begun = self._counters.world.loop.now
                for (words, key), asked in zip(commands, self._client.send(*(w for w, _ in commands)), strict=True):
                    reply = decode(await asked)
                    if key == BRIEF and not isinstance(reply, Failure):
                        self._counters.check_brief(int(cast("bytes | None", reply) or 0), begun)
                    else:
                        self._answered(words, key, least, reply)
            except (ClosedError, ConnectionRefusedError):
                self._client = None
                self._known.clear()  # a client that comes anew is another one
            await asyncio.sleep(pause * chance.random())
        if self._client is not None:
            self._client.close()

    def _commands(self) -> list[tuple[tuple[Any, ...], bytes]]:
        """One command with its key, or a transaction."""
        chance = self._counters.world.chance
        key = chance.choice((*self._counters.keys, *([BRIEF] * bool(self._counters._ends))))
        if key == BRIEF:
            return [(("GET", key), key)]
        if chance.randrange(10) >= self._writes or key in self._counters.others:
            return [(chance.choice((("GET", key), ("GET", key), ("MGET", key, key))), key)]
        ways: list[tuple[Any, ...]] = [("INCR", key), ("INCRBY", key, 1), ("EVAL", INCREMENT, 1, key), ("EXEC",)]
        if self._counters.undeclared:
            ways.append(("EVAL", UNDECLARED, 0, key))
        way = chance.choice(ways)
        begun = [(("MULTI",), key), (("INCR", key), key)] if way == ("EXEC",) else []
        return [*begun, (way, key)]

    def _answered(self, words: tuple[Any, ...], key: bytes, least: dict[bytes, int], reply: Any) -> None:
        if isinstance(reply, Failure):
            self.errors[reply.text] += 1
            return
        if reply in (b"OK", b"QUEUED"):
            return
        reads = words[0] in ("GET", "MGET")
        number = min(int(each or 0) for each in (reply if isinstance(reply, list) else [reply]))
        if number < least[key] + (not reads):
            raise Wrong(f"{words} was answered {reply!r}, at least {least[key]} was known")
        self._counters.reads += reads
        least[key] = max(least[key], number)
        self._known[key] = max(self._known[key], number)
        if self._counters.together:
            self._counters.known[key] = max(self._counters.known[key], number)

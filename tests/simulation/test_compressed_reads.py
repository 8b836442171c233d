"""Compressed values that memory and replicas answer, in simulated worlds: nobody reads one in another form, or an older
one than the client knows, while policies change what is compressed, and by which codec or dictionary.

Each value is written once, by one client or by somebody who writes to Redis directly, plain or compressed. A tenant has
keys of the same names. For some clients nothing is remembered, or the rule compresses nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from proxy.compression.dictionaries import Dictionary
from proxy.compression.frames import MAGIC, STRING, Codec, pack
from proxy.net.policy.plan_compiler import PlanCompiler
from proxy.policy.model import Policy
from tests.compression.dictionaries import json_dictionary
from tests.compression.histories import json_of
from tests.conftest import seeds
from tests.policy.given import policy
from tests.resp import Failure, decode
from tests.simulation.engine import Server
from tests.simulation.world import Client, ClosedError, Door, Keyrail, World, run
from tests.simulation.writers import Wrong

POLICY = """
apps: {acme: {match: {listener: "*:2"}}, far: {match: {listener: "*:3"}}, plain: {match: {listener: "*:4"}}}
tenants: {prefix: "{app}:", apps: [acme]}
rules:
  docs: {compress: {keys: ["k:*", "acme:k:*"], above: 64B, MORE}}
  OTHERS
rollout: {docs: {default: MODE, plain: audit}, ROLLOUT}
"""
MEMORY = 'cached: {local_cache: {keys: ["k:*", "acme:k:*"], when: always, max_age: 30s}}'
REPLICAS = 'shared: {replica_reads: {keys: ["k:*", "acme:k:*"], max_lag: 1s}}'
BOTH = MEMORY.replace("k:*", "k:0") + "\n  " + REPLICAS
FIRST, SECOND = json_dictionary(1), json_dictionary(2)
FORMS = (
    ("also_read: [first.zdict, second.zdict]", "enforce"),
    ("codec: lz4, also_read: [first.zdict, second.zdict]", "enforce"),
    ("dictionary: first.zdict, also_read: second.zdict", "enforce"),
    ("dictionary: second.zdict, also_read: first.zdict", "enforce"),
    ("also_read: [first.zdict, second.zdict]", "audit"),
)
KEYS = [b"k:%d" % number for number in range(4)]
DIRECT = KEYS[2]
"""Is written to Redis directly."""


def policies(others: str) -> list[Policy]:
    """Those that come into force, one after the other."""
    files = {"first.zdict": FIRST.content, "second.zdict": SECOND.content}
    names = [name for name in ("cached", "shared") if name in others]
    text = POLICY.replace("ROLLOUT", ", ".join(f"{name}: {{default: enforce, far: off}}" for name in names))
    text = text.replace("OTHERS", others)
    return [policy(text.replace("MORE", more).replace("MODE", mode), files) for more, mode in FORMS]


class Values:
    """All that has been written, by its name in Redis, in this order. Before it, there was nothing."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self._written = chance, dict[bytes, list[bytes]]()

    def of(self, name: bytes) -> list[bytes]:
        """What has been written to this name."""
        return self._written.setdefault(name, [b""])

    def new(self, name: bytes) -> bytes:
        """One that is written now."""
        written, kind = self.of(name), self.chance.randrange(8)
        value = b"%b %d " % (name, len(written)) + json_of(self.chance, self.chance.choice((40, 300, 2000)))
        if kind == 0:
            value = MAGIC + value
        elif kind == 1:
            value = b"%d" % len(written) + b"0" * 100  # no rule compresses a number
        written.append(value)
        return value

    def stored(self, value: bytes) -> bytes:
        """A form in which somebody else may have stored it."""
        dictionary: Dictionary | None = self.chance.choice((None, FIRST, SECOND))
        codec = Codec.ZSTD if dictionary else self.chance.choice(list(Codec))
        return pack(value, STRING, codec, 3, self.chance.choice((10, 10**6)), dictionary)


class Space(NamedTuple):
    """Whose names a client uses: what stands before them in Redis, and what the client itself puts there."""

    prefix: bytes = b""
    before: bytes = b""


Asked = tuple[tuple[Any, ...], list[bytes]]
"""A command, and the names in Redis of the values in its reply."""


class Reader:
    """A client that reads, and writes its ``own`` keys."""

    def __init__(self, values: Values, door: Door, space: Space, own: list[bytes]) -> None:
        self.reads = 0
        self._values, self._chance, self._door = values, values.chance, door
        self._space, self._own = space, own
        self._client: Client | None = None
        self._known: Counter[bytes] = Counter()

    async def work(self, over: Callable[[], bool]) -> None:
        """Read and write until it is over."""
        while not over():
            try:
                if self._client is None:
                    self._client = await self._door.client("HELLO", self._chance.choice((2, 3)))
                asked = [each for _ in range(self._chance.choice((1, 1, 2, 4))) for each in self._commands()]
                replies = self._client.send(*(words for words, _ in asked))
                for (words, names), reply in zip(asked, replies, strict=True):
                    self._answered(words, names, decode(await reply))
            except (ClosedError, ConnectionRefusedError):
                self._client = None
                self._known.clear()  # a client that comes anew is another one
            await asyncio.sleep(0.03 * self._chance.random())

    def _commands(self) -> list[Asked]:
        key, other = self._chance.choices(KEYS, k=2)
        (one, name), (two, second) = ((self._space.before + k, self._space.prefix + k) for k in (key, other))
        if key in self._own and self._chance.random() < 0.3:
            value = self._values.new(name)
            ways = (("SET", one, value), ("MSET", one, value), ("SETEX", one, 1000, value))
            return [(self._chance.choice(ways), [name])]
        reads: list[Asked] = [(("GET", one), [name]), (("MGET", one, two), [name, second]), (("STRLEN", one), [name])]
        words, names = self._chance.choice((*reads, reads[0]))
        if self._chance.random() < 0.1:
            return [(("MULTI",), []), (words, []), (("EXEC",), names)]
        return [(words, names)]

    def _answered(self, words: tuple[Any, ...], names: list[bytes], reply: Any) -> None:
        if isinstance(reply, Failure):
            if b"keyrail" in reply.text and b"CLUSTERDOWN" not in reply.text:
                raise Wrong(f"{words} was answered {reply.text!r}")
            return
        if not names:
            return
        if words[0] == "EXEC":
            (reply,) = reply
        if reply == b"OK":
            self._known[names[0]] = max(self._known[names[0]], self._values.of(names[0]).index(words[-1]))
            return
        for name, value in zip(names, reply if isinstance(reply, list) else [reply], strict=True):
            self.reads += 1
            self._check(name, value, f"{words} at {name!r}")

    def _check(self, name: bytes, value: Any, what: str) -> None:
        written, least = self._values.of(name), self._known[name]
        if isinstance(value, int):
            if value not in map(len, written[least:]):
                raise Wrong(f"{what} was answered {value}")
            return
        if (value or b"") not in written:
            raise Wrong(f"{what} was answered {value[:60]!r}")
        number = written.index(value or b"")
        if number < least:
            raise Wrong(f"{what}: value {number} was read, and {least} was known")
        self._known[name] = number


NOBODY, ACME, ALL_OF_ACME = Space(), Space(b"acme:"), Space(b"acme:", b"acme:")
CLIENTS: tuple[tuple[int, Space, list[bytes]], ...] = (
    *((1, NOBODY, KEYS[:1]), (1, NOBODY, []), (1, ALL_OF_ACME, KEYS[3:]), (1, ALL_OF_ACME, [])),
    *((2, ACME, KEYS[:1]), (2, ACME, KEYS[1:2]), (3, NOBODY, KEYS[1:2]), (3, NOBODY, []), (4, NOBODY, KEYS[3:])),
)
"""The listener of each, whose names it uses, and which it writes."""


class Played:
    """One world, and what happens in it."""

    def __init__(self, world: World, keyrail: Keyrail, forms: list[Policy], primary: Callable[[], Server]) -> None:
        self.world, self.keyrail, self._forms, self._primary = world, keyrail, forms, primary
        self._values, self._generation, self._over = Values(world.chance), 1, False
        doors: dict[int, Door] = {1: keyrail, **{port: keyrail.door(port) for port in (2, 3, 4)}}
        self.readers = [Reader(self._values, doors[port], space, own) for port, space, own in CLIENTS]
        self._tasks = [world.start(each.work(lambda: self._over)) for each in self.readers]

    async def go_on(self, seconds: float) -> None:
        """Raises what a client has found."""
        until, chance = self.world.loop.now + seconds, self.world.chance
        while self.world.loop.now < until:
            await asyncio.sleep(0.1 * chance.random())
            self.world.check()
            act = chance.randrange(16)
            if act < 10:
                self._write()
            elif act < 12:
                for link in self._primary().links:
                    link.lag = chance.choice((0.0, 0.05, 0.5, 1.5))
            elif act < 14:
                await self._reload(chance.choice(self._forms))
            elif act == 14:
                await self.keyrail.route.pause(chance.random() < 0.5)
            else:
                for each in chance.sample([*self._primary().connections], min(1, len(self._primary().connections))):
                    each.transport.abort()

    def _write(self) -> None:
        name = self.world.chance.choice((b"", b"acme:")) + DIRECT
        value = self._values.new(name)
        self._primary().do("SET", name, self._values.stored(value))

    async def _reload(self, form: Policy) -> None:
        self._generation += 1
        await self.keyrail.route.prepare(form, self._generation, PlanCompiler(form).find)
        await self.keyrail.route.commit()

    async def end(self) -> None:
        self._over = True
        await asyncio.gather(*self._tasks)
        self.world.check()
        assert sum(each.reads for each in self.readers) > 1000


async def play_cached(world: World) -> None:
    forms, server = policies(MEMORY), world.server()
    played = Played(world, await world.keyrail("redis://10.0.3.1:6379", forms[0]), forms, lambda: server)
    await played.go_on(4.0)
    await played.end()
    memory = played.keyrail.route.snapshot()["local_cache"]
    assert memory["hits"] + memory["audited_hits"] > 50  # the policies of some seeds only audit


async def play_replicas(world: World, others: str = REPLICAS) -> None:
    forms, group = policies(others), world.group()
    played = Played(world, await world.keyrail(group.url, forms[0]), forms, lambda: group.primary)
    await played.go_on(4.0)
    await played.end()
    assert sum(each.calls.get(name, 0) for each in group.servers[1:] for name in ("get", "mget")) > 5


@pytest.mark.parametrize("seed", seeds(2, 60))
def test_memory_answers_what_was_written(seed: int) -> None:
    run(play_cached, seed)


@pytest.mark.parametrize("seed", seeds(2, 60))
@pytest.mark.parametrize("others", [REPLICAS, BOTH], ids=["replicas", "both"])
def test_replicas_answer_what_was_written(seed: int, others: str) -> None:
    run(lambda world: play_replicas(world, others), seed)

"""What is known of keys while they are written is never more than what is so.

Proves: clients write a few keys of a Redis in memory in all ways, with a clock that is chosen, so that TTLs end before,
during and behind writes, and that Redis may evict keys; what others read from it without any cache is no anomaly.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import floor

import pytest

from tests.coherence.book import Book, Life
from tests.coherence.history import Read, Some, Trail, check
from tests.coherence.reads import Choice, Words
from tests.coherence.writes import WRITES, Way, writings
from tests.conftest import seeds
from tests.resp import Failure, Value

KINDS = ("hash", "string", "string", "list")
STEPS = 400


class Memory:
    """A Redis: what each key holds, by field, and when its TTL ends. Milliseconds of ``now`` are whole."""

    def __init__(self) -> None:
        self.now = 0.0
        self.keys: dict[bytes, dict[bytes, bytes]] = {}
        self.ends: dict[bytes, int] = {}
        self._queued: list[Words] | None = None

    def get(self, key: bytes) -> dict[bytes, bytes]:
        if key in self.ends and self._milliseconds() >= self.ends[key]:
            self.delete(key)
        return self.keys.get(key, {})

    def delete(self, key: bytes) -> None:
        self.keys.pop(key, None)
        self.ends.pop(key, None)

    def run(self, words: Words) -> Value:
        verb, *rest = words
        if verb == "MULTI":
            self._queued = []
            return b"OK"
        if verb in ("EXEC", "DISCARD"):
            queued, self._queued = self._queued or [], None
            if any(len(each) < 2 for each in queued):
                return Failure(b"EXECABORT")
            return [self.run(each) for each in queued] if verb == "EXEC" else b"OK"
        if self._queued is not None:
            self._queued.append(words)
            return b"QUEUED"
        if verb == "EVAL":
            verb, rest = ("HSET" if "hset" in str(words[1]) else "SET"), rest[2:]
        names = [each for each in rest if isinstance(each, bytes)]
        return self._run(str(verb), names, rest)

    def _run(self, verb: str, names: list[bytes], rest: Sequence[bytes | str | int]) -> Value:
        key = names[0] if names else b""
        held = self.get(key)
        match verb:
            case "SET" | "RESTORE":
                if "NX" in rest and held:
                    return None
                if "KEEPTTL" not in rest:
                    self.ends.pop(key, None)
                self.keys[key] = {b"": names[1]}
                if "PX" in rest:
                    self._expire(key, rest[-1])
            case "SETRANGE":
                if len(names) > 1:
                    self.keys[key] = {b"": names[1]}
            case "GETSET" | "MSET":
                for name, value in zip(names[::2], names[1::2], strict=True):
                    self.delete(name)
                    self.keys[name] = {b"": value}
            case "GET":
                return held.get(b"")
            case "DEL" | "UNLINK":
                self.delete(key)
            case "EXPIRE" | "PEXPIRE" | "PERSIST":
                if not held or (verb == "PERSIST" and key not in self.ends):
                    return 0
                self.ends.pop(key, None)
                if verb != "PERSIST":
                    self._expire(key, rest[1], 1000 if verb == "EXPIRE" else 1)
                return 1
            case "RENAME" | "COPY":
                if not held:
                    return 0 if verb == "COPY" else Failure(b"ERR no such key")
                ends = self.ends.get(key)
                if verb == "RENAME":
                    self.delete(key)
                self.delete(names[1])
                self.keys[names[1]] = dict(held)
                if ends is not None:
                    self.ends[names[1]] = ends
                return 1
            case "HSET":
                self.keys[key] = {**held, **dict(zip(names[1::2], names[2::2], strict=True))}
            case "HDEL":
                held.pop(names[1], None)
                if not held:
                    self.delete(key)
            case "LSET" | "RPUSH":
                if verb == "LSET" and not held:
                    return Failure(b"ERR no such key")
                self.keys[key] = {b"": names[1]}
            case "FLUSHDB" | "FLUSHALL":
                self.keys.clear()
                self.ends.clear()
            case _:
                raise AssertionError(f"{verb} is not known")
        return b"OK"

    def _expire(self, key: bytes, ttl: object, unit: int = 1) -> None:
        assert isinstance(ttl, int), ttl
        self.ends[key] = self._milliseconds() + ttl * unit

    def _milliseconds(self) -> int:
        return floor(self.now * 1000)


class Hunt:
    """Clients that write and read one after the other; but while a write is on its way, others read."""

    def __init__(self, seed: int, *, evicts: bool) -> None:
        self.chance = random.Random(seed)
        self.redis = Memory()
        self.book = Book(KINDS, evicted=evicts)
        self._evicts = evicts
        self.trails = [Trail(f"trail {number}") for number in range(5)]
        self._ways = writings([])

    def act(self) -> None:
        if self._evicts and self.chance.random() < 0.05:
            self.redis.delete(self.chance.choice(self.book.slots).key.name)
        if self.chance.random() < 0.6:
            self.read(self._wait())
            return
        choice = Choice(self.chance)
        (way,) = self.chance.choices(list(self._ways), list(self._ways.values()))
        writing = way(self.book, choice)
        sent = self._wait()
        self._meanwhile(sent)
        replies = [self.redis.run(words) for words in writing.commands]
        self._meanwhile(sent)
        events = writing.learn(replies[-1], sent, self._wait())
        self.trails[0].events += events
        if self.chance.random() < 0.5:
            for event in events:
                event.version.published = self.redis.now

    def read(self, sent: float) -> None:
        self._wait()
        key = self.chance.choice(self.book.slots).key
        field = self.chance.choice(list(key.registers))
        value = self.redis.get(key.name).get(field)
        seen = Some.VALUE if value is not None and self.chance.random() < 0.1 else value
        read = Read(key.registers[field], seen, sent, self.redis.now, "reading")
        self.chance.choice(self.trails[1:]).events.append(read)

    def _meanwhile(self, sent: float) -> None:
        for _ in range(self.chance.choice((0, 0, 1, 3))):
            self.read(max(sent, self._wait()))

    def _wait(self) -> float:
        self.redis.now += self.chance.choice((0.0001, 0.001, 0.01, 0.04)) * self.chance.random()
        return self.redis.now


@pytest.mark.parametrize("evicts", [False, True])
@pytest.mark.parametrize("seed", seeds(10))
def test_reads_of_redis_are_no_anomalies(seed: int, evicts: bool) -> None:
    hunt = Hunt(seed, evicts=evicts)
    for _ in range(STEPS):
        hunt.act()
    report = check(hunt.trails)
    assert report.reads > STEPS / 2
    assert not report.anomalies, report.lines()


@pytest.mark.parametrize("way", WRITES)
def test_when_a_ttl_ends_that_a_write_keeps_is_not_known_without_its_reply(way: Way) -> None:
    """Another reply than none would tell."""
    for seed in range(20):
        book = Book(KINDS)
        for slot in book.slots:
            slot.key.write(dict.fromkeys(slot.key.registers, b"v"), 1.0, 1.1, Life(5.0, 6.0))
        writing = way(book, Choice(random.Random(seed)))
        writing.learn(1, 2.0, 2.1)
        assert writing.unsure or all(key.life is None for key in writing.may), writing.how

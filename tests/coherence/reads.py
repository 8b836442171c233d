"""All ways of reading: cached commands, and those that Redis answers itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.coherence.book import FIELDS, Book, Key, Slot
from tests.coherence.history import Register, Seen, Some
from tests.resp import Failure, Value, pack

Words = tuple[bytes | str | int, ...]
Found = list[tuple[Register, Seen]]


@dataclass(frozen=True, slots=True)
class Reading:
    """Commands that read, and what their replies tell of which registers."""

    how: str
    request: bytes
    replies: int
    tell: Callable[[Sequence[Value]], Found]


Way = Callable[[Book, "Choice"], Reading]


@dataclass(frozen=True, slots=True)
class Choice:
    """Chooses keys, the first ones most often."""

    chance: random.Random
    skew: float = 1.3

    def slot(self, slots: Sequence[Slot]) -> Slot:
        weights = [1 / (place + 1) ** self.skew for place in range(len(slots))]
        return self.chance.choices(slots, weights)[0]

    def key(self, book: Book, kind: str) -> Key:
        return self.slot(book.slots_of(kind)).key


def seen(value: Value) -> Seen:
    """A value of a key, or that it has none."""
    if isinstance(value, Failure) or not (value is None or isinstance(value, bytes)):
        raise AssertionError(f"a read was answered {value!r}")
    return value


def _whether(value: Value) -> Seen:
    if not isinstance(value, int):
        raise AssertionError(f"a read was answered {value!r}")
    return Some.VALUE if value else None


def _only(value: Value) -> Seen:
    if not isinstance(value, list) or len(value) > 1:
        raise AssertionError(f"a read was answered {value!r}")
    return seen(value[0]) if value else None


def _or_none(value: Value) -> Seen:
    return seen(value) or None


def _one(kind: str, words: Callable[[bytes, bytes], Words], tells: Callable[[Value], Seen]) -> Way:
    """A command that reads one register."""

    def way(book: Book, choice: Choice) -> Reading:
        key = choice.key(book, kind)
        field = choice.chance.choice(FIELDS) if kind == "hash" else b""
        register, command = key.registers[field], words(key.name, field)
        return Reading(str(command[0]), pack(*command), 1, lambda replies: [(register, tells(replies[0]))])

    return way


def _inline(book: Book, choice: Choice) -> Reading:
    key = choice.key(book, "string")
    register = key.registers[b""]
    return Reading("inline GET", b"GET %s\r\n" % key.name, 1, lambda replies: [(register, seen(replies[0]))])


def _mget(book: Book, choice: Choice) -> Reading:
    keys = [choice.key(book, "string") for _ in range(choice.chance.choice((1, 2, 5)))]
    registers = [key.registers[b""] for key in keys]
    request = pack("MGET", *(key.name for key in keys))
    return Reading("MGET", request, 1, lambda replies: _each(registers, replies[0]))


def _hmget(book: Book, choice: Choice) -> Reading:
    key = choice.key(book, "hash")
    fields = choice.chance.sample(FIELDS, choice.chance.choice((1, 2, 3)))
    registers = [key.registers[field] for field in fields]
    return Reading("HMGET", pack("HMGET", key.name, *fields), 1, lambda replies: _each(registers, replies[0]))


def _each(registers: Sequence[Register], reply: Value) -> Found:
    if not isinstance(reply, list) or len(reply) != len(registers):
        raise AssertionError(f"{len(registers)} values were asked for: {reply!r}")
    return [(register, seen(value)) for register, value in zip(registers, reply, strict=True)]


def _hgetall(book: Book, choice: Choice) -> Reading:
    key = choice.key(book, "hash")

    def tell(replies: Sequence[Value]) -> Found:
        (reply,) = replies
        if not isinstance(reply, list):
            raise AssertionError(f"HGETALL was answered {reply!r}")
        found = dict(zip(reply[::2], reply[1::2], strict=True))
        return [(register, seen(found.get(field))) for field, register in key.registers.items()]

    return Reading("HGETALL", pack("HGETALL", key.name), 1, tell)


def _transaction(book: Book, choice: Choice) -> Reading:
    """MULTI, two reads, EXEC."""
    keys = [choice.key(book, "string") for _ in range(2)]
    registers = [key.registers[b""] for key in keys]
    request = b"".join((pack("MULTI"), *(pack("GET", key.name) for key in keys), pack("EXEC")))
    return Reading("MULTI", request, 4, lambda replies: _each(registers, replies[3]))


def _script(book: Book, choice: Choice) -> Reading:
    key = choice.key(book, "string")
    register = key.registers[b""]
    request = pack("EVAL", "return redis.call('get', KEYS[1])", 1, key.name)
    return Reading("EVAL", request, 1, lambda replies: [(register, seen(replies[0]))])


def _script_without_keys(book: Book, choice: Choice) -> Reading:
    key = choice.key(book, "string")
    register = key.registers[b""]
    request = pack("EVAL", "return redis.call('get', ARGV[1])", 0, key.name)
    return Reading("EVAL without keys", request, 1, lambda replies: [(register, seen(replies[0]))])


GET = _one("string", lambda key, _: ("GET", key), seen)

READS: dict[Way, int] = {
    GET: 24,
    _one("string", lambda key, _: ("get", key), seen): 2,
    _one("string", lambda key, _: ("GETRANGE", key, 0, -1), _or_none): 3,
    _one("string", lambda key, _: ("STRLEN", key), _whether): 2,
    _one("string", lambda key, _: ("EXISTS", key), _whether): 2,
    _inline: 1,
    _mget: 6,
    _transaction: 2,
    _script: 2,
    _script_without_keys: 1,
    _one("hash", lambda key, field: ("HGET", key, field), seen): 6,
    _one("hash", lambda key, field: ("HEXISTS", key, field), _whether): 1,
    _one("hash", lambda key, field: ("HSTRLEN", key, field), _whether): 1,
    _hmget: 3,
    _hgetall: 2,
    _one("list", lambda key, _: ("LRANGE", key, 0, -1), _only): 3,
    _one("list", lambda key, _: ("LINDEX", key, 0), seen): 2,
    _one("list", lambda key, _: ("LLEN", key), _whether): 1,
}
"""Each with how often it is chosen."""

OF_A_CLUSTER = {way: often for way, often in READS.items() if way not in (_transaction, _script_without_keys)}
"""Those whose keys are of one slot, or whose command may be split."""

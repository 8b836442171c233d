"""The unpacked sizes of RESTORE payloads: for every type in every encoding they agree with the engine, and for a
payload that cannot be read they are never too small."""

import random
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from proxy.commands.payload import PayloadKind, unpacked
from tests.conftest import Fleet
from tests.resp import Wire

SEVERAL = (1, 5, 100, 700, 3000)
Write: TypeAlias = Callable[[int, str], list[str]]
WRITES: dict[str, Write] = {
    "HLEN": lambda i, word: ["HSET", "k", f"{i}", word],
    "LLEN": lambda i, word: ["RPUSH", "k", f"{i}{word}"],
    "SCARD": lambda i, word: ["SADD", "k", f"{i}{word}"],
    "ZCARD": lambda i, word: ["ZADD", "k", f"{i}.5", f"{i}{word}"],
    "XLEN": lambda i, word: ["XADD", "k", f"{i + 1}-1", "f", word],
}
NUMBERS: dict[str, Write] = {
    "SCARD": lambda i, _: ["SADD", "k", str(i)],
    "LLEN": lambda i, _: ["LPUSH", "k", str(i - 50)],
}
STRINGS = [b"", b"12", b"-70000", b"abc", b"a" * 100_000, b"ab" * 30_000, random.Random(1).randbytes(9000)]
LENGTHS = (b"\x80\xff\xff\xff\xff", b"\x05", b"\x81" + b"\xff" * 8)
PACKED = b"\xc3\x03\x40\x80\xe0\xff\x00"


@pytest.fixture
def wire(fleet: Fleet, engine_name: str) -> Iterator[Wire]:
    with fleet.engine(engine_name, "payloads").wire() as wire:
        wire.ask("FLUSHALL")
        yield wire
        wire.ask("FLUSHALL")


def written(wire: Wire, write: Write, count: int, word: str) -> bytes:
    """The payload of a collection of so many members."""
    wire.ask("DEL", "k")
    for i in range(count):
        wire.say(*write(i, word))
    wire.frames(count)
    return dumped(wire)


def dumped(wire: Wire) -> bytes:
    frame = wire.ask("DUMP", "k")
    return frame[frame.index(b"\r\n") + 2 : -2]


@pytest.mark.parametrize("measure", WRITES)
@pytest.mark.parametrize("word", ["", "abc", "z" * 300], ids=["empty", "short", "packed"])
def test_members_are_those_that_the_engine_counts(wire: Wire, measure: str, word: str) -> None:
    for count in SEVERAL:
        payload = written(wire, WRITES[measure], count, word)
        kind, size, members = unpacked(payload, len(payload))
        assert (kind, members) == (PayloadKind.STREAM if measure == "XLEN" else PayloadKind.COLLECTION, count)
        assert size >= count * len(word)
        assert wire.ask("RESTORE", "k", "0", payload, "REPLACE") == b"+OK\r\n"
        assert wire.ask(measure, "k") == b":%d\r\n" % members


@pytest.mark.parametrize("measure", NUMBERS)
def test_members_that_are_numbers_are_counted(wire: Wire, measure: str) -> None:
    for count in SEVERAL:
        payload = written(wire, NUMBERS[measure], count, "")
        assert unpacked(payload, len(payload)).members == count


@pytest.mark.parametrize("value", STRINGS, ids=len)
def test_strings_are_as_long_as_the_engine_says(wire: Wire, value: bytes) -> None:
    wire.ask("SET", "k", value)
    payload = dumped(wire)
    kind, size, members = unpacked(payload, len(payload))
    assert (kind, members) == (PayloadKind.STRING, 0)
    assert len(value) <= size <= max(len(value), 11)


def test_no_payload_fails_or_takes_long() -> None:
    """Broken, cut and repeated in all ways: what cannot be read is the most that it can be, and that is soon known."""
    chance = random.Random(7)
    for _ in range(3000):
        payload = bytes([chance.randrange(26)]) + chance.choice(LENGTHS)
        payload += chance.choice((chance.randbytes(chance.randrange(60)), b"\x00" * 90, PACKED))
        found = unpacked(payload, len(payload))
        assert found.members >= 0
        if found.kind is PayloadKind.UNKNOWN:
            assert found.bytes == found.members == 88 * len(payload)
    for kind in range(30):
        unpacked(bytes([kind]) + b"\x81" + b"\x7f" * 8 + b"\x00" * 500_000, 500_010)
    assert unpacked(b"\x00\x05abcde", 2_000_000) == (PayloadKind.UNKNOWN, 176_000_000, 176_000_000)
    assert unpacked(b"", 0) == (PayloadKind.UNKNOWN, 0, 0)

"""What runs late must change nothing: reads and what sets a connection up are told from the rest, in any framing."""

from __future__ import annotations

import random

import pytest

from proxy.commands.possible_changes import may_change
from tests.conftest import seeds
from tests.resp import pack

HARMLESS = [
    ("GET", "k"),
    ("PING",),
    ("HELLO", "3", "AUTH", "u", "p"),
    ("AUTH", "p"),
    ("CLIENT", "SETNAME", "n"),
    ("CLIENT", "SETINFO", "LIB-NAME", "x"),
    ("SELECT", "1"),
    ("MGET", "a", "b"),
    ("SCAN", "0"),
    ("ECHO", "SET"),
]
CHANGING = [
    ("SET", "k", "v"),
    ("DEL", "k"),
    ("EVAL", "return 1", "0"),
    ("EXEC",),
    ("PUBLISH", "c", "m"),
    ("CLIENT", "KILL", "x"),
    ("CONFIG", "SET", "a", "b"),
    ("FLUSHALL",),
    ("NO.SUCH", "k"),
    ("GETEX", "k"),
]


def framed(chance: random.Random, words: tuple[str, ...]) -> bytes:
    lower = [words[0].lower() if chance.random() < 0.5 else words[0], *words[1:]]
    return " ".join(lower).encode() + b"\r\n" if chance.random() < 0.3 else pack(*lower)


@pytest.mark.parametrize("seed", seeds(200))
def test_one_command_that_could_change_something_is_found_wherever_it_stands(seed: int) -> None:
    chance = random.Random(seed)
    harmless = [framed(chance, chance.choice(HARMLESS)) for _ in range(chance.randrange(8))]
    assert not may_change(b"".join(harmless))
    harmless.insert(chance.randint(0, len(harmless)), framed(chance, chance.choice(CHANGING)))
    assert may_change(b"".join(harmless))


@pytest.mark.parametrize("data", [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\nv", b"*x\r\n", b"*1\r\n#3\r\n"])
def test_the_beginning_of_a_write_and_no_command_could(data: bytes) -> None:
    assert may_change(data)


@pytest.mark.parametrize("data", [b"", b"*2\r\n$3\r\n", b"*0\r\n", b"\r\n", b"*2\r\n$3\r\nGET\r\n$1"])
def test_the_beginning_of_a_read_and_nothing_could_not(data: bytes) -> None:
    assert not may_change(data)

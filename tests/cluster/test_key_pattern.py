"""Patterns of keys match as an engine matches them."""

from __future__ import annotations

import time
from random import Random

import pytest

from proxy.cluster.key_pattern import KeyPattern
from proxy.cluster.notifications import may_match_notifications
from tests.conftest import kind_named
from tests.engines import Engine

KEYS = [
    b"",
    b"a",
    b"b",
    b"ab",
    b"abc",
    b"a]b",
    b"a-c",
    b"[a",
    b"\\a",
    b"a*b",
    b"^",
    b"a^",
    b"aab",
    b"bab",
    b"-",
    b"]",
    b"\xff",
]


@pytest.mark.parametrize("name", ["redis-7.0", "valkey-9.1"])
def test_as_an_engine_does(name: str) -> None:
    random = Random(7)
    alphabet = [b"*", b"?", b"[", b"]", b"^", b"-", b"\\", b"a", b"b", b"c"]
    patterns = [b"".join(random.choices(alphabet, k=random.randint(1, 7))) for _ in range(1500)]
    engine = Engine(kind_named(name))
    try:
        for key in KEYS:
            engine.do("SET", key, "x")
        with engine.wire() as wire:
            for pattern in patterns:
                found = wire.value("KEYS", pattern)
                assert isinstance(found, list)
                assert {key for key in KEYS if KeyPattern(pattern).fits(key)} == set(found), pattern
    finally:
        engine.close()


def test_stars_take_no_exponential_time() -> None:
    pattern = KeyPattern(b"*a" * 50 + b"b")
    begin = time.process_time()
    assert not pattern.fits(b"a" * 2000)
    assert time.process_time() - begin < 10


LONG = 1 << 20


@pytest.mark.parametrize("word", [b"x", b"?", b"*", b"x*", b"[ab]"])
def test_a_long_pattern_is_read_no_further_than_it_can_match(word: bytes) -> None:
    pattern = KeyPattern(word * LONG)
    pattern.fits(b"x" * 50)
    assert len(pattern.read) <= 102


@pytest.mark.parametrize(
    ("pattern", "may"),
    [
        (b"*", True),
        (b"__key*__:*", True),
        (b"__keyspace@0__:a", True),
        (b"[_a]?key[es]*", True),
        (b"__keyevent@", True),
        (b"__keyspace", False),
        (b"", False),
        (b"x" * LONG, False),
        (b"news.*", False),
        (b"\\__key*", True),
        (b"[^_]*", False),
    ],
)
def test_patterns_that_notifications_may_match(pattern: bytes, may: bool) -> None:
    assert may_match_notifications(pattern) is may

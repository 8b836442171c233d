"""Patterns of keys match as an engine matches them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random

import pytest

from proxy.cluster.key_pattern import LONGEST, KeyPattern
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
    b"a\nb",
    b"abcabcab",
    b"aabaacaab",
]


@pytest.mark.parametrize("name", ["redis-6.2", "redis-7.0", "valkey-9.1"])
def test_as_an_engine_does(name: str) -> None:
    random = Random(7)
    alphabet = [b"*", b"?", b"[", b"]", b"^", b"-", b"\\", b"a", b"b", b"c"]
    patterns = [b"".join(random.choices(alphabet, k=random.randint(1, 9))) for _ in range(3000)]
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


WORST = 60_000


def worst_patterns(random: Random) -> Iterator[tuple[bytes, bytes]]:
    """Patterns and keys that agree for as long as they can."""
    words = [b"a", b"*", b"*a", b"?", b"[ab]", b"[^b]", b"*[ab]", b"*?", b"[a-z]a", b"*a?", b"*aab"]
    for _ in range(40):
        word, other = random.choice(words), random.choice(words)
        size = random.choice([10, 500, LONGEST])
        for text in ((word * size)[: size - 1] + b"b", b"*" + (word * size)[: size - 2] + b"b", (word + other) * size):
            yield text[:LONGEST], b"a" * random.choice([10, 1000, WORST])


def test_no_pattern_takes_more_steps_than_it_says() -> None:
    """A step takes about a nanosecond; on a busy machine more."""
    for text, key in worst_patterns(Random(3)):
        pattern = KeyPattern(text)
        begin = time.process_time()
        if pattern.work(key) < 20_000_000:
            pattern.fits(key)
            assert time.process_time() - begin < 0.001 + pattern.work(key) * 3e-8, (text[:50], len(key))


LONG = 1 << 20


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

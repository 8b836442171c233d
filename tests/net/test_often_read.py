"""Keys are hot that are read often enough, and change seldom enough, to be worth their place in memory."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from proxy.hotpath.counting.counter_snapshot import KeyCount
from proxy.net.cache.often_read import HOT, QUIET, WORTH, OftenRead
from tests.conftest import seeds

NONE: Mapping[bytes, int] = {}


def used(reads: int, writes: int = 0, key: bytes = b"k") -> list[KeyCount]:
    return [KeyCount(key, reads + writes, 0, reads, writes)]


def test_a_key_is_hot_until_it_is_read_half_as_often() -> None:
    often = OftenRead()
    assert not often.another_second(used(HOT - 1), NONE, 0.0)
    assert often.another_second(used(HOT), NONE, 1.0) == {b"k"}
    assert often.another_second(used(HOT // 2), NONE, 2.0) == {b"k"}
    assert not often.another_second(used(HOT // 2 - 1), NONE, 3.0)
    assert not often.another_second(used(HOT - 1), NONE, 4.0)
    assert often.another_second([], NONE, 5.0) == set()


@pytest.mark.parametrize("seen", ["as a write", "as a change that Redis tells"])
def test_a_key_that_changes_too_often_leaves_and_rests(seen: str) -> None:
    often = OftenRead()
    reads = 20 * WORTH

    def second(changes: int, now: float) -> bool:
        if seen == "as a write":
            return bool(often.another_second(used(reads, changes), NONE, now))
        return bool(often.another_second(used(reads), {b"k": changes}, now))

    assert second(20, 0.0)
    assert often.changing == 0
    assert not second(21, 1.0)
    assert often.changing == 1
    assert not second(0, 4.9)
    assert second(0, 5.0)
    assert often.changing == 0
    assert not second(21, 6.0), "it rests twice as long"
    assert not second(0, 13.9)
    assert second(0, 14.0)


def test_a_rest_is_bounded_and_forgotten() -> None:
    often = OftenRead()
    now = 0.0
    rests = []
    for _ in range(12):
        assert not often.another_second(used(HOT, HOT), NONE, now)
        begun = now
        while not often.another_second(used(QUIET), NONE, now):
            now += 1.0
        rests.append(now - begun)
    assert rests == sorted(rests)
    assert rests[-2] == rests[-1] <= 300
    now += 1000.0
    assert often.another_second(used(HOT), NONE, now) == {b"k"}
    often.another_second(used(HOT, HOT), NONE, now)
    assert often.another_second(used(QUIET), NONE, now + rests[0]) == {b"k"}


def test_a_key_that_goes_on_to_change_rests_on() -> None:
    often = OftenRead()
    for second in range(20):
        assert not often.another_second(used(HOT, HOT), NONE, float(second))
    assert not often.another_second(used(QUIET), NONE, 22.9)
    assert often.another_second(used(HOT), NONE, 23.0) == {b"k"}


def test_a_key_that_has_rested_shows_first_that_it_changes_seldom() -> None:
    often = OftenRead()
    often.another_second(used(HOT, HOT), NONE, 0.0)
    assert not often.another_second(used(QUIET - HOT - 1), NONE, 1.0)
    assert not often.another_second(used(HOT), NONE, 4.0)
    assert often.another_second(used(HOT), NONE, 5.0) == {b"k"}


@pytest.mark.parametrize("seed", seeds(4))
def test_chance_makes_no_key_hot_that_changes_too_often(seed: int) -> None:
    """A worker without hot keys need not look at each command whether it is about one."""
    random, often = Random(seed), OftenRead()
    seconds_with_any = 0
    for second in range(60):
        counts = []
        for key in range(200):
            reads = HOT + key // 4
            writes = sum(random.random() < 0.05 for _ in range(reads))
            counts += used(reads, writes, b"%d" % key)
        seconds_with_any += bool(often.another_second(counts, NONE, float(second)))
    assert seconds_with_any <= 4


def test_another_policy_begins_anew() -> None:
    often = OftenRead()
    often.another_second(used(HOT, HOT), NONE, 0.0)
    often.clear()
    assert often.another_second(used(HOT), NONE, 1.0) == {b"k"}

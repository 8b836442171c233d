"""The counters' guarantees: the true count lies within the bounds, and reads and writes are counted separately."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.hotpath.counting.counter_snapshot import CounterSnapshot
from proxy.hotpath.counting.counters import Counters, fingerprint

PRIME = (1 << 61) - 1

uses = st.lists(st.tuples(st.integers(0, 40).map(lambda n: b"k%d" % n), st.booleans()), max_size=400)


def count(counters: Counters, key: bytes, write: bool = False) -> None:
    counters.add(key, 0, len(key), write)


def assert_bounds_hold(harvested: CounterSnapshot, truth: Counter[tuple[bytes, bool]]) -> None:
    totals = Counter[bytes]()
    for (key, _write), times in truth.items():
        totals[key] += times
    assert harvested.total == totals.total()
    listed = {key_count.key for key_count in harvested.key_counts}
    assert len(listed) == len(harvested.key_counts)
    for key_count in harvested.key_counts:
        assert key_count.count - key_count.error <= totals[key_count.key] <= key_count.count
        assert key_count.reads + key_count.writes == key_count.count - key_count.error
        assert key_count.reads <= truth[key_count.key, False] <= key_count.reads + key_count.error
        assert key_count.writes <= truth[key_count.key, True] <= key_count.writes + key_count.error
    for key, times in totals.items():
        if key not in listed:
            assert times <= harvested.floor


@given(uses, st.integers(0, 50), st.integers(1, PRIME - 1))
def test_the_truth_is_within_the_bounds_when_keys_fight_for_counters(
    stream: list[tuple[bytes, bool]], limit: int, point: int
) -> None:
    counters = Counters(sets=2, point=point)
    for key, write in stream:
        count(counters, key, write)
    harvested = counters.harvest(limit)
    assert len(harvested.key_counts) <= limit
    assert_bounds_hold(harvested, Counter(stream))


moves = st.lists(st.tuples(st.integers(0, 40).map(lambda n: b"k%d" % n), st.sampled_from(["", "last", "named"])))


@given(moves, moves, st.integers(1, PRIME - 1))
def test_reads_of_replicas_are_counted_with_their_keys(
    before: list[tuple[bytes, str]], stream: list[tuple[bytes, str]], point: int
) -> None:
    counters = Counters(sets=2, point=point)
    for part in (before, stream):
        truth: Counter[bytes] = Counter()
        for key, how in part:
            count(counters, key)
            if how == "last":
                counters.move_last()
            elif how:
                counters.move(key, 0, len(key))
            truth[key] += bool(how)
        for each in counters.harvest(50).key_counts:
            assert each.moved <= truth[each.key] <= each.moved + each.error
            assert each.moved <= each.reads


def test_a_key_without_a_counter_is_not_moved() -> None:
    counters = Counters()
    counters.move(b"k", 0, 1)
    count(counters, b"k")
    assert [each.moved for each in counters.harvest(9).key_counts] == [0]


@given(uses)
def test_counts_are_exact_while_every_key_has_a_counter(stream: list[tuple[bytes, bool]]) -> None:
    counters = Counters()
    for key, write in stream:
        count(counters, key, write)
    harvested = counters.harvest(50)
    truth = Counter(stream)
    assert harvested.floor == 0
    assert {(t.key, t.count, t.error, t.reads, t.writes) for t in harvested.key_counts} == {
        (key, truth[key, False] + truth[key, True], 0, truth[key, False], truth[key, True]) for key, _ in truth
    }


@given(uses, uses)
def test_a_harvest_starts_again_at_nothing(before: list[tuple[bytes, bool]], after: list[tuple[bytes, bool]]) -> None:
    counters = Counters(sets=1)
    for key, write in before:
        count(counters, key, write)
    counters.harvest(5)
    for key, write in after:
        count(counters, key, write)
    assert_bounds_hold(counters.harvest(5), Counter(after))
    assert counters.harvest(5) == CounterSnapshot(0, 0, ())


def test_the_surely_busiest_keys_are_listed_first() -> None:
    counters = Counters()
    for n in range(20):
        for _ in range(n + 1):
            count(counters, b"key:%d" % n)
    harvested = counters.harvest(3)
    counts = [(key_count.key, key_count.count) for key_count in harvested.key_counts]
    assert counts == [(b"key:19", 20), (b"key:18", 19), (b"key:17", 18)]
    assert harvested.floor == 17


def test_busy_keys_stand_out_of_a_flood_of_keys_seen_once() -> None:
    counters = Counters(point=12345)
    truth: Counter[tuple[bytes, bool]] = Counter()
    for n in range(20_000):
        flood, hot = b"flood:%d" % n, b"hot:%d" % (n % 4)
        truth[flood, False] += 1
        count(counters, flood)
        if n % 10 == 0:
            truth[hot, True] += 1
            count(counters, hot, write=True)
    harvested = counters.harvest(4)
    assert_bounds_hold(harvested, truth)
    assert {key_count.key for key_count in harvested.key_counts[:2]} == {b"hot:0", b"hot:2"}
    assert all(key_count.count == 1000 and key_count.error == 0 for key_count in harvested.key_counts[:2])


def test_add_says_whether_the_key_was_known() -> None:
    counters = Counters()
    assert not counters.add(b"GET user:1", 4, 10, False)
    assert counters.add(b"user:1", 0, 6, True)
    assert counters.total == 2
    assert [key_count.key for key_count in counters.harvest(9).key_counts] == [b"user:1"]


def test_keys_that_agree_in_their_first_256_bytes_are_one() -> None:
    counters = Counters()
    count(counters, b"a" * 256)
    count(counters, b"a" * 10_000)
    count(counters, b"a" * 255)
    assert [(t.key, t.count) for t in counters.harvest(9).key_counts] == [(b"a" * 256, 2), (b"a" * 255, 1)]


@given(st.integers(1, PRIME - 1) | st.integers(1, 2**29).map(lambda n: n << 32))
def test_keys_in_a_row_spread_over_the_sets(point: int) -> None:
    counters = Counters(point=point)
    for n in range(100):
        count(counters, b"user:%03d" % n)
    assert counters.harvest(100).floor <= 1


def test_any_bytes_are_a_key() -> None:
    counters = Counters()
    keys = [b"", b"\x00", b"\x00\x00", b"\xff\xfe", b"caf\xc3\xa9"]
    for key in keys:
        count(counters, key)
    assert {key_count.key for key_count in counters.harvest(9).key_counts} == set(keys)


def test_the_sets_must_be_a_power_of_two() -> None:
    for sets in (0, 3, -8):
        with pytest.raises(ValueError, match="power of two"):
            Counters(sets=sets)


@given(st.binary(max_size=64), st.binary(max_size=9), st.integers(1, PRIME - 1))
def test_the_fingerprint_is_a_polynomial_over_a_prime_field(key: bytes, before: bytes, point: int) -> None:
    expected = len(key)
    for at in range(0, len(key), 7):
        expected = (expected + int.from_bytes(key[at : at + 7], "big")) * point % PRIME
    start = len(before)
    assert fingerprint(before + key + before, start, start + len(key), point) % PRIME == expected

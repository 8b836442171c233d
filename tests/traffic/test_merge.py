"""Counts of seconds and workers add up, and the bounds hold in the sum."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.hotpath.counting.counter_snapshot import CounterSnapshot, KeyCount
from proxy.hotpath.counting.counters import Counters
from proxy.traffic import merge
from proxy.traffic.merge import combined

keys = st.integers(0, 60).map(lambda n: b"k%d" % n)
seconds = st.lists(st.lists(st.tuples(keys, st.booleans()), max_size=120), max_size=8)


def assert_bounds_hold(counts: CounterSnapshot, truth: Counter[tuple[bytes, bool]]) -> None:
    times = Counter[bytes]()
    for (key, _), n in truth.items():
        times[key] += n
    assert counts.total == times.total()
    for each in counts.key_counts:
        assert each.count - each.error <= times[each.key] <= each.count
        assert each.reads + each.writes == each.certain == each.count - each.error
        assert each.reads <= truth[each.key, False] <= each.reads + each.error
        assert each.writes <= truth[each.key, True] <= each.writes + each.error
    listed = {each.key for each in counts.key_counts}
    assert all(n <= counts.floor for key, n in times.items() if key not in listed)


@settings(deadline=None)
@given(st.lists(seconds, min_size=1, max_size=3), st.sampled_from((3, 20, 200)), st.integers(1, 64))
def test_bounds_hold_over_seconds_and_workers(
    workers: list[list[list[tuple[bytes, bool]]]], listed: int, handed_in: int
) -> None:
    parts = []
    truth: Counter[tuple[bytes, bool]] = Counter()
    for second in (second for worker in workers for second in worker):
        counters = Counters(sets=2)
        for key, write in second:
            counters.add(key, 0, len(key), write)
        truth.update(second)
        parts.append(counters.harvest(handed_in))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "LISTED", listed)
        assert_bounds_hold(combined(parts), truth)
        middle = len(parts) // 2
        assert_bounds_hold(combined([combined(parts[:middle]), combined(parts[middle:])]), truth)


def test_a_key_that_a_worker_does_not_list_may_have_been_used_there_as_often_as_its_floor() -> None:
    one = CounterSnapshot(100, 0, (KeyCount(b"a", 90, 0, 90, 0), KeyCount(b"b", 10, 2, 8, 0)))
    two = CounterSnapshot(50, 5, (KeyCount(b"a", 40, 1, 30, 9),))
    assert combined([one, two]) == CounterSnapshot(
        150, 5, (KeyCount(b"a", 130, 1, 120, 9), KeyCount(b"b", 15, 7, 8, 0))
    )


def test_keys_that_a_sum_leaves_out_raise_its_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "LISTED", 1)
    part = CounterSnapshot(9, 0, (KeyCount(b"a", 4, 0, 4, 0), KeyCount(b"b", 3, 0, 3, 0), KeyCount(b"c", 2, 0, 2, 0)))
    assert combined([part]) == CounterSnapshot(9, 3, (KeyCount(b"a", 4, 0, 4, 0),))


def test_a_certain_key_ranks_before_one_that_only_might_be_busy() -> None:
    part = CounterSnapshot(99, 0, (KeyCount(b"might", 40, 35, 5, 0), KeyCount(b"sure", 20, 0, 20, 0)))
    assert [each.key for each in combined([part]).key_counts] == [b"sure", b"might"]


def test_no_part_is_nothing() -> None:
    assert combined([]) == CounterSnapshot(0, 0, ())


def test_reads_by_replicas_are_added_up() -> None:
    parts = [CounterSnapshot(9, 0, (KeyCount(b"a", 9, 0, 9, 0, moved=moved),)) for moved in (4, 0, 5)]
    assert combined(parts).key_counts == (KeyCount(b"a", 27, 0, 27, 0, moved=9),)


def test_reads_from_memory_are_added_up() -> None:
    parts = [CounterSnapshot(9, 0, (KeyCount(b"a", 9, 0, 9, 0, cached),)) for cached in (4, 0, 5)]
    assert combined(parts).key_counts == (KeyCount(b"a", 27, 0, 27, 0, 9),)

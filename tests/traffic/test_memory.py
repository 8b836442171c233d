"""The statistics of the last hour stay within their memory limit, and count what they leave out."""

from __future__ import annotations

import pickle
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from proxy.commands.slots import SLOTS
from proxy.hotpath.counting.counter_snapshot import CounterSnapshot, KeyCount
from proxy.traffic.interval_stats import IntervalStats
from proxy.traffic.slot_counts import SlotCounts
from proxy.traffic.time_series import LEAST_MEMORY, TimeSeries
from proxy.traffic.trace import Trace


def second(began: float, traces: int, keys: int) -> IntervalStats:
    """What a worker reports of a second of traffic on so many keys."""
    chance = random.Random(began)
    made = IntervalStats(began, 1.0)
    for _ in range(traces):
        key = b"user:%d:profile:{%d}" % (chance.randrange(keys), chance.randrange(keys))
        trace = Trace(
            at=began,
            weight=chance.randrange(300, 3000),
            command="GET",
            keys=(key,),
            writes=(False,),
            patterns=(f"user:{chance.randrange(keys)}",),
            app=f"app-{chance.randrange(30)}",
            who=("default", f"worker-{chance.randrange(100)}", "redis-py 8", f"10.0.0.{chance.randrange(250)}:1"),
            bytes_in=300,
            bytes_out=1000,
            first_line=b"$900\r\n",
            in_proxy=0.001,
            at_redis=0.01,
        )
        made.see(trace, frozenset())
    counts = tuple(KeyCount(b"user:%d:profile" % chance.randrange(keys), 900, 300, 400, 500) for _ in range(64))
    made.counter_snapshots = [CounterSnapshot(10_000, 300, counts)]
    made.close()
    return made


def taken_by(make: Callable[[], Any], tries: int = 3) -> int:
    """Bytes that Python allocates for what this makes: the least seen, since other threads are counted, too."""
    seen = []
    for _ in range(tries):
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            made = make()
            seen.append(tracemalloc.get_traced_memory()[0] - before)
        finally:
            tracemalloc.stop()
            del made
    return min(seen)


@pytest.mark.parametrize(("traces", "keys"), [(0, 1), (40, 1_000_000), (400, 1_000_000), (1500, 1_000_000), (1500, 3)])
def test_the_estimate_is_not_below_what_an_interval_takes(traces: int, keys: int) -> None:
    # As the supervisor has it: it has come from another process.
    reported = pickle.dumps(second(1.0, traces, keys))
    interval: IntervalStats = pickle.loads(reported)
    taken = taken_by(lambda: pickle.loads(reported))
    assert taken <= interval.memory()
    assert interval.memory() <= max(3 * taken, 100_000), "and not so far above it that the setting means nothing"


def test_an_interval_that_shrinks_says_what_it_has_left_out() -> None:
    interval = second(1.0, 1500, 1_000_000)
    heaviest, weight = interval.keys.ranked()[0][0], sum(each.weight for each in interval.keys.found.values())
    known, before = len(interval.keys.found), interval.keys.other
    interval.shrink(300_000)
    assert interval.memory() <= 300_000
    assert heaviest in interval.keys.found
    left = sum(each.weight for each in interval.keys.found.values())
    assert (interval.keys.other - before, left < weight) == (weight - left, True)
    assert interval.keys.other_names >= known - len(interval.keys.found) > 0


def test_many_keys_push_out_no_client() -> None:
    interval = IntervalStats(1.0, 1.0)
    for number in range(700):
        key = b"user:%d" % number
        who = ("default", f"worker-{number % 3}", "redis-py 8", "10.0.0.1:1")
        interval.see(
            Trace(
                at=1.0,
                weight=1,
                command="GET",
                keys=(key,),
                writes=(False,),
                patterns=(f"kind-{number % 4}",),
                app="shop",
                who=who,
                bytes_in=30,
                bytes_out=10,
                first_line=b"$5\r\n",
                in_proxy=0.001,
                at_redis=0.01,
            ),
            frozenset(),
        )
    interval.shrink(200_000)
    assert 0 < len(interval.keys.found) < 400
    assert (len(interval.clients.found), len(interval.patterns.found)) == (3, 4)


@pytest.mark.long
def test_an_hour_of_a_million_keys_stays_within_the_setting() -> None:
    # The last minute second by second; what is older is in intervals of ten seconds and of a minute.
    moments = [60.0 * minute for minute in range(50)] + [3000.0 + 10 * ten for ten in range(54)]
    reports = [pickle.dumps(second(moment, 700, 1_000_000)) for moment in [*moments, *map(float, range(3540, 3601))]]

    def hour() -> TimeSeries:
        series = TimeSeries(LEAST_MEMORY)
        for report in reports:
            series.add(pickle.loads(report))
        for window in (10, 60, 600, 3600):
            series.window(window, 3600.0)
            series.hot_keys(window, 3600.0)
        return series

    assert taken_by(hour, tries=1) <= LEAST_MEMORY


def test_slots_are_the_same_few_or_many() -> None:
    chance = random.Random(1)
    seen: dict[int, int] = {}
    counts, other = SlotCounts(), SlotCounts()
    for number in range(3000):
        slot, weight = chance.randrange(SLOTS), chance.randrange(1, 50)
        seen[slot] = seen.get(slot, 0) + weight
        (counts if number % 2 else other).add(slot, weight)
    assert other.memory() == counts.memory() == 4 * SLOTS
    counts.merge(other)
    assert (dict(counts), len(counts), sum(counts.values())) == (seen, len(seen), sum(seen.values()))
    few = SlotCounts()
    few.add(7, 2)
    assert (dict(few), few[7], few[8], len(few)) == ({7: 2}, 2, 0, 1)

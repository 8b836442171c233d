"""Before a cap is in force, Keyrail tells what it would have refused."""

from collections import Counter

import pytest

from proxy.hotpath.counting.counter_snapshot import CounterSnapshot, KeyCount
from proxy.traffic.effects import Effect, effect_of
from proxy.traffic.interval_stats import IntervalStats
from proxy.traffic.key_figures import KeyFigures, Volume
from proxy.traffic.key_text import named, shown
from proxy.traffic.labels import Client
from proxy.traffic.time_series import TimeSeries


def test_of_the_last_minute() -> None:
    time_series = TimeSeries()
    for second in range(60):
        interval = IntervalStats(6000.0 + second, 1.0)
        used = 1000 if second >= 30 else 10
        interval.counter_snapshots = [
            CounterSnapshot(5000, 0, (KeyCount(b"k", used, 0, used, 0), KeyCount(b"other", 99, 0, 99, 0)))
        ]
        clients: Counter[Client] = Counter({("shop", "", "", "", ""): 3, ("data", "", "", "", ""): 1})
        interval.keys.put(b"k", KeyFigures(Volume(reads=4), "k", clients))
        time_series.add(interval)
    now = 6060.0
    assert effect_of(time_series, b"k", "", 100.0, now) == Effect(505.0, 450.0, 505.0)
    assert effect_of(time_series, b"k", "shop", 100.0, now) == Effect(505.0 * 0.75, 325.0, 505.0 * 0.75)
    assert effect_of(time_series, b"k", "none", 100.0, now) == Effect(0.0, 0.0)
    assert effect_of(time_series, b"k", "", 5000.0, now).refused == 0.0
    assert effect_of(time_series, b"other", "shop", 9.0, now) == Effect(99.0, 90.0, 99.0), "nobody has looked: at most"
    assert effect_of(time_series, b"nothing", "", 1.0, now) == Effect(0.0, 0.0)


def test_soon_after_the_start_it_is_of_the_seconds_that_are_known() -> None:
    time_series = TimeSeries()
    for second in range(5):
        interval = IntervalStats(6000.0 + second, 1.0)
        interval.counter_snapshots = [CounterSnapshot(900, 0, (KeyCount(b"k", 900, 0, 900, 0),))]
        time_series.add(interval)
    assert effect_of(time_series, b"k", "", 100.0, 6005.0) == Effect(900.0, 800.0, 900.0)


@pytest.mark.parametrize("key", [b"a", b"\xff\x00", b"a\\x41", "é".encode(), b"a b\n", b"\\"])
def test_a_key_that_is_shown_can_be_named(key: bytes) -> None:
    assert named(shown(key)) == key


def test_writes_are_no_reads() -> None:
    time_series = TimeSeries()
    interval = IntervalStats(6000.0, 1.0)
    interval.counter_snapshots = [CounterSnapshot(900, 0, (KeyCount(b"k", 900, 50, 600, 250),))]
    time_series.add(interval)
    assert effect_of(time_series, b"k", "", 1000.0, 6001.0) == Effect(900.0, 0.0, 650.0)

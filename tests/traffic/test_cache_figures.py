"""What a local cache has done, in a window of any length."""

import pickle

from proxy.traffic.cache_figures import CacheFigures
from proxy.traffic.interval_stats import IntervalStats
from proxy.traffic.time_series import TimeSeries


def test_figures_are_added_up_and_told_apart_from_those_before() -> None:
    before = CacheFigures(hits=3, bytes=30, saved_seconds=0.5, misses=1)
    now = CacheFigures(hits=5, bytes=70, saved_seconds=0.75, misses=1, evictions=2)
    since = now.since(before)
    assert since == CacheFigures(hits=2, bytes=40, saved_seconds=0.25, evictions=2)
    since.add(before)
    assert since == now


def test_rates_are_per_second() -> None:
    told = CacheFigures(
        hits=880, bytes=8000, saved_seconds=2.5, ages=440.0, audited_hits=100, audited_bytes=10, misses=20, fills=5
    ).rates(10.0)
    assert told["enforce"] == {"hits": 88, "bytes": 800, "saved_redis_seconds": 0.25}
    assert told["audit"] == {"hits": 10, "bytes": 1, "saved_redis_seconds": 0}
    assert (told["hit_ratio"], told["mean_age"], told["misses"], told["fills"]) == (0.98, 0.5, 2, 0.5)
    nothing = CacheFigures().rates(10.0)
    assert (nothing["hit_ratio"], nothing["mean_age"]) == (None, None)


def test_a_window_has_those_of_all_its_seconds_and_workers() -> None:
    time_series = TimeSeries()
    for second in range(100, 230):
        for cached in (CacheFigures(hits=second), None):
            interval = IntervalStats(float(second), 1.0)
            interval.cached = cached
            time_series.add(pickle.loads(pickle.dumps(interval)))
    hits = {}
    for window in (5, 10):
        found = time_series.window(window, 230.0).cached
        assert found is not None
        hits[window] = found.hits
    assert hits == {5: sum(range(225, 230)), 10: sum(range(220, 230))}
    minute = time_series.window(60, 230.0)
    assert minute.cached is not None
    assert minute.cached.hits == sum(range(170, 230)), "what is added up once is not added twice"
    assert IntervalStats(0.0).cached is None

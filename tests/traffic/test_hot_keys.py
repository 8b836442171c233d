"""The busiest keys of a window: hot keys are found, and no others; all requests in a second get the same figures.

On fixed streams, with the stream's own clock.
"""

import random
from collections import Counter
from itertools import accumulate

import pytest

from proxy.build_form import BUILD_FORM
from proxy.hotpath.counting.counter_snapshot import CounterSnapshot, KeyCount
from proxy.hotpath.counting.counters import Counters
from proxy.traffic import json_views
from proxy.traffic.alerts import Hot
from proxy.traffic.hot_keys import HotKey, HotKeys
from proxy.traffic.interval_stats import IntervalStats
from proxy.traffic.key_past import KeyHistory
from proxy.traffic.labels import moment
from proxy.traffic.merge import KEYS_OF_SECOND
from proxy.traffic.redaction import Redact, Redaction
from proxy.traffic.time_series import TimeSeries

KEYS = 1_000_000
PER_SECOND = 100_000
SECONDS = 100 if BUILD_FORM == "compiled" else 6
"""Ten million events compiled; plain, where each takes fifty times as long, as many as a test should take."""


class Stream:
    """Keys go by, a second at a time."""

    def __init__(self) -> None:
        self.now = 6000.0
        self.time_series = TimeSeries()
        self._counters = Counters()

    def second(self, keys: list[bytes]) -> None:
        for key in keys:
            self._counters.add(key, 0, len(key), False)
        self.now += 1.0
        interval = IntervalStats(self.now - 1.0, 1.0)
        interval.counter_snapshots = [self._counters.harvest(KEYS_OF_SECOND)]
        self.time_series.add(interval)

    def hot(self, window: int) -> list[str]:
        """The keys that are called hot."""
        told = json_views.hot_keys(self.time_series, window, 50, "all", self.now, Redaction(Redact.NONE), Hot())
        return [key["key"] for key in told["keys"] if key["hot"]]


def test_the_busiest_of_a_million_keys_are_found_and_counted() -> None:
    chance = random.Random(20)
    weights = list(accumulate(1 / rank**0.99 for rank in range(1, KEYS + 1)))
    names = [b"key:%d" % n for n in range(KEYS)]
    truth: Counter[bytes] = Counter()
    stream = Stream()
    for _ in range(SECONDS):
        keys = chance.choices(names, cum_weights=weights, k=PER_SECOND)
        truth.update(keys)
        stream.second(keys)
    counted = stream.time_series.hot_keys(600, stream.now)
    found = {each.key: each for each in counted.keys}
    busiest = truth.most_common(20)
    assert counted.total == SECONDS * PER_SECOND
    assert {key for key, _ in busiest} == {each.key for each in counted.keys[:20]}
    for key, count in busiest:
        assert found[key].certain <= count <= found[key].count
        assert abs(found[key].count - count) <= 0.01 * count


def test_what_the_busiest_keys_did_second_by_second_and_before_in_tens() -> None:
    stream = Stream()
    for second in range(90):
        stream.second([b"steady"] * 2 + [b"late"] * (9 if second >= 80 else 0))
    told = json_views.pasts(stream.time_series, 60, 10, stream.now, Redaction(Redact.NONE))
    rates = {key["key"]: key["rates"] for key in told["keys"]}
    assert list(rates) == ["steady", "late"]
    assert rates["steady"] == [2.0] * len(told["at"])
    assert rates["late"] == [0.0] * (len(told["at"]) - 9) + [9.0] * 9, "the newest second is still growing"
    assert told["at"][0] == moment(stream.now - 90)
    assert told["at"][-1] == moment(stream.now - 2)


def test_a_key_that_jumps_is_hot_within_two_seconds_and_uniform_traffic_never_is() -> None:
    chance = random.Random(21)
    names = [b"key:%d" % n for n in range(50_000)]
    stream = Stream()
    for _ in range(12):
        stream.second(chance.choices(names, k=20_000))
        assert stream.hot(10) == []
    for _ in range(2):
        stream.second([*chance.choices(names, k=16_000), *[b"jumped"] * 4_000])
    assert stream.hot(2) == ["jumped"]
    past = KeyHistory(stream.time_series, stream.now, [b"jumped"]).of(b"jumped", 4_000)
    assert (past.before, past.since) == (0.0, stream.now - 2)


@pytest.mark.parametrize("quiet", [2, 5, 9, 13, 24, 70])
def test_a_key_without_traffic_before_had_none_whenever_it_began(quiet: int) -> None:
    stream = Stream()
    for _ in range(quiet):
        stream.second([b"steady"] * 300)
    for busy in range(1, 14):
        stream.second([b"steady"] * 300 + [b"begins"] * 900)
        past = KeyHistory(stream.time_series, stream.now, [b"steady", b"begins"])
        began = past.of(b"begins", 900)
        if quiet + busy >= 5:  # What is younger may not be known of all workers.
            assert (began.before, began.since) == (0.0, stream.now - busy), busy
        assert past.of(b"steady", 300).since is None, "it has always been as busy"


def test_a_second_of_silence_does_not_end_the_time_of_a_busy_key() -> None:
    stream = Stream()
    for second in range(40):
        stream.second([b"steady"] * 50 + [b"busy"] * (0 if second in (22, 30) else 100 if second < 10 else 800))
    past = KeyHistory(stream.time_series, stream.now, [b"busy"]).of(b"busy", 760)
    assert (past.before, past.since) == (100.0, 6010.0)


def test_of_a_slow_key_sums_of_ten_seconds_are_read() -> None:
    stream = Stream()
    for second in range(100):
        stream.second([b"steady"] * 50 + [b"slow"] * (2 if second >= 50 and second % 2 else 0))
    past = KeyHistory(stream.time_series, stream.now, [b"slow"]).of(b"slow", 1.0)
    assert (past.before, past.since) == (0.0, 6050.0)


def test_figures_of_a_key_are_of_its_certain_uses() -> None:
    part = CounterSnapshot(90, 0, (KeyCount(b"a", 40, 10, 20, 10), KeyCount(b"b", 20, 0, 0, 20)))
    found = HotKeys.of(part, window=10, seconds=9.0, taken=7.0, until=6.5, reported=6.5)
    assert found.keys == (
        HotKey(b"a", 40, 10, 20, 10, rate=3.333, share=0.333333),
        HotKey(b"b", 20, 0, 0, 20, rate=2.222, share=0.222222),
    )
    assert (found.total, found.rate, found.age(8.0), found.age(6.0)) == (90, 10.0, 1.5, 0.0)
    assert found.reached(found.keys[0], Hot(1 / 3, 30 / 9))
    assert not found.reached(found.keys[0], Hot(0.34, 1.0))
    assert not found.reached(found.keys[0], Hot(0.1, 3.34))


@pytest.mark.parametrize(
    ("window", "seconds", "uses", "hot"),
    [(60, 1.0, 499, False), (60, 1.0, 500, True), (2, 2.0, 200, True), (60, 6.0, 599, False), (60, 6.0, 600, True)],
)
def test_a_rate_must_hold_for_some_seconds_though_fewer_are_known(
    window: int, seconds: float, uses: int, hot: bool
) -> None:
    part = CounterSnapshot(uses, 0, (KeyCount(b"a", uses, 0, uses, 0),))
    found = HotKeys.of(part, window=window, seconds=seconds, taken=7.0, until=7.0, reported=7.0)
    assert found.reached(found.keys[0], Hot(0.1, 100.0)) is hot


def test_no_traffic_is_no_key() -> None:
    found = TimeSeries().hot_keys(60, 7.0)
    assert (found.keys, found.total, found.rate, found.share_of(0)) == ((), 0, 0.0, 0.0)


@pytest.mark.parametrize(("window", "old"), [(5, 0), (10, 0), (60, 50), (600, 50)])
def test_a_window_has_what_happened_in_it_and_nothing_older(window: int, old: int) -> None:
    stream = Stream()
    for key in (b"old", b"new"):
        for _ in range(10):
            stream.second([key] * 5)
    counts = {each.key: each.count for each in stream.time_series.hot_keys(window, stream.now).keys}
    assert counts == {b"new": 5 * min(window, 10)} | ({b"old": old} if old else {})


def test_all_who_ask_in_a_second_get_the_same_snapshot() -> None:
    stream = Stream()
    stream.second([b"a"] * 5)
    first = stream.time_series.hot_keys(60, stream.now + 0.2)
    late = IntervalStats(stream.now - 1, 1.0)
    late.counter_snapshots = [CounterSnapshot(7, 0, (KeyCount(b"a", 7, 0, 7, 0),))]
    stream.time_series.add(late)
    assert stream.time_series.hot_keys(60, stream.now + 0.9) is first
    assert (first.taken, first.keys[0].count) == (stream.now + 0.2, 5)
    after = stream.time_series.hot_keys(60, stream.now + 1.0)
    assert (after.taken, after.keys[0].count) == (stream.now + 1.0, 12)


def test_a_second_in_which_nobody_reported_counts_as_one_without_uses() -> None:
    stream = Stream()
    for second in range(12):
        if second == 6:
            stream.now += 1.0
        else:
            stream.second([b"a"] * 10)
    found = stream.time_series.hot_keys(10, stream.now)
    assert (found.seconds, found.keys[0].count, found.keys[0].rate) == (10, 90, 9.0)
    found = stream.time_series.hot_keys(6, stream.now)
    assert (found.seconds, found.keys[0].count) == (6, 50), "it was the first of them"


def test_when_workers_are_silent_the_window_stays_for_a_moment_and_then_moves_on() -> None:
    stream = Stream()
    for _ in range(20):
        stream.second([b"a"] * 10)
    for silent, count in ((0, 100), (3, 100), (5, 80), (12, 10), (13, 0)):
        found = stream.time_series.hot_keys(10, stream.now + silent)
        assert (sum(each.count for each in found.keys), found.age(stream.now + silent)) == (count, silent)

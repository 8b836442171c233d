"""Intervals add up and lose nothing but the names that they fold; their figures agree with the traffic."""

import json
import math
from dataclasses import replace

import pytest

from proxy.commands.slots import slot_of
from proxy.hotpath.counting.counter_snapshot import CounterSnapshot, KeyCount
from proxy.traffic import json_views
from proxy.traffic.alerts import Hot
from proxy.traffic.interval_stats import MOST_KEYS, IntervalStats
from proxy.traffic.redaction import Redact, Redaction
from proxy.traffic.time_series import WINDOWS, TimeSeries
from proxy.traffic.trace import Trace
from tests.traffic.given import READ

OPEN = Redaction(Redact.NONE)
HOT = Hot()
WRITE = replace(READ, command="SET", writes=(True,), first_line=b"+OK\r\n", bytes_out=5)
MISS = replace(READ, first_line=b"$-1\r\n", bytes_out=5)
MANY = replace(
    READ,
    command="MGET",
    keys=(b"user:1", b"user:2"),
    writes=(False, False),
    patterns=("user:{int}", "user:{int}"),
    first_line=b"*2\r\n",
)
OTHER = replace(READ, app="data", who=("spark", "", "", "unix"))


def time_series_since(began: float) -> TimeSeries:
    time_series = TimeSeries()
    time_series.add(interval(began))
    return time_series


def interval(began: float, *traces: Trace, key_counts: tuple[KeyCount, ...] = (), total: int = 0) -> IntervalStats:
    made = IntervalStats(began, 1.0)
    for trace in traces:
        made.see(trace, frozenset())
    made.commands = sum(trace.weight for trace in traces)
    made.counter_snapshots = [CounterSnapshot(total or sum(each.count for each in key_counts), 0, key_counts)]
    made.close()
    return made


def counted(key: bytes, count: int) -> KeyCount:
    return KeyCount(key, count, 0, count, 0)


def test_a_window_is_the_sum_of_its_seconds_and_workers_and_changes_nothing() -> None:
    time_series = TimeSeries()
    for second in range(5):
        for _worker in range(2):
            time_series.add(interval(1000.0 + second, READ, WRITE, MISS))
    for _again in range(2):
        window = time_series.window(10, 1005.0)
        assert window.volume.reads == 5 * 2 * 20
        assert window.volume.writes == 5 * 2 * 10
        assert window.commands == 5 * 2 * 30
        assert window.patterns.found["user:{int}"].volume.missed == 5 * 2 * 10
        assert window.slots == {slot_of(b"user:1"): 300}
    assert [each.commands for each in time_series.seconds()] == [60] * 5


def test_windows_asked_for_every_second_are_what_was_handed_in_although_much_of_it_is_added_up_once() -> None:
    # Two workers; what the second one tells comes up to three seconds late.
    time_series, told, late = TimeSeries(), list[tuple[int, int]](), list[tuple[int, IntervalStats]]()

    def hand_in(second: int, made: IntervalStats) -> None:
        time_series.add(made)
        told.append((second, made.commands))

    for second in range(60_000, 60_700):
        hand_in(second, counted_interval(second, 1 + second % 7))
        late.append((second + (second * 5) % 4, counted_interval(second, 100)))
        for _, made in [each for each in late if each[0] <= second]:
            hand_in(int(made.began), made)
        late = [each for each in late if each[0] > second]
        now = second + 1.0
        for window, step in ((10, 1), (60, 1), (600, 10), (3600, 60)):
            expected = sum(commands for began, commands in told if began // step * step + step > now - window)
            assert time_series.window(window, now).commands == expected, (second, window)


def counted_interval(second: int, commands: int) -> IntervalStats:
    made = IntervalStats(float(second), 1.0)
    made.commands = commands
    return made


@pytest.mark.parametrize("window", WINDOWS)
def test_each_window_forgets_in_its_time(window: int) -> None:
    time_series = TimeSeries()
    time_series.add(interval(60_000.0, READ))
    assert time_series.window(window, 60_001.0).volume.reads == 10
    later = 60_000.0 + window + 61
    time_series.add(interval(later, WRITE))
    found = time_series.window(window, later + 1).volume
    assert (found.reads, found.writes) == (0, 10)


def test_what_comes_late_or_from_before_still_counts() -> None:
    time_series = TimeSeries()
    for began in (1000.0, 1002.0, 1001.0, 1000.0):
        time_series.add(interval(began, READ))
    assert time_series.window(60, 1003.0).volume.reads == 40


def test_what_is_too_much_is_folded_and_told() -> None:
    traces = [replace(READ, keys=(b"k:%d" % n,), patterns=(f"p{n}",), app=f"a{n}") for n in range(3 * MOST_KEYS)]
    made = interval(1000.0, *traces)
    assert len(made.keys.found) <= MOST_KEYS
    assert sum(each.weight for each in made.keys.found.values()) + made.keys.other == 30 * MOST_KEYS
    time_series = time_series_since(941.0)
    time_series.add(made)
    told = json_views.patterns(time_series, 60, 10, 1001.0, OPEN)
    assert len(told["patterns"]) == 10
    assert told["other"]["patterns"] == 3 * MOST_KEYS - 10
    together = sum(each["rate"] for each in told["patterns"]) + told["other"]["rate"]
    assert together == pytest.approx(30 * MOST_KEYS / 60, rel=0.01)
    everybody = json_views.clients(time_series, 60, 5, 1001.0)
    assert everybody["other"]["clients"] == 3 * MOST_KEYS - 5


def test_what_is_told_of_a_key() -> None:
    time_series = TimeSeries()
    for second in range(60):
        traces = (READ, MISS) if second < 50 else (READ, *[OTHER] * 9)
        key_counts = (counted(b"user:1", 20 if second < 50 else 4000),)
        time_series.add(interval(6000.0 + second, *traces, key_counts=key_counts, total=20_000))
    now = 6060.0
    told = json_views.hot_keys(time_series, 10, 5, "all", now, OPEN, HOT)
    json.dumps(told)
    (key,) = told["keys"]
    assert (key["key"], key["count"], key["error"], key["reads"]) == ("user:1", 40_000, 0, 40_000)
    assert (key["share"], key["rate"], key["hot"]) == (0.2, 4000.0, True)
    assert key["pattern"] == "user:{int}"
    assert key["slot"] == slot_of(b"user:1")
    assert key["hit_ratio"] == 1.0
    assert key["before"] == 20.0
    assert key["since"].endswith("01:40:50.000Z")
    assert [(client["app"], client["new"]) for client in key["clients"]] == [("data", True), ("shop", False)]
    assert key["clients"][0]["share"] == 0.9
    assert key["clients"][1]["address"] == "10.0.0.1", "a client is the same on each of its connections"


@pytest.mark.parametrize("seconds", range(3, 19))
def test_since_when_a_key_is_busy_is_known_at_every_second_and_who_came_with_it(seconds: int) -> None:
    time_series = TimeSeries()
    for second in range(36 + seconds):
        busy = second > 35
        # In the very second when it begins, there is only the end of it.
        used = 4000 if busy else 1000 if second == 35 else 20
        traces = (READ, OTHER) if second >= 35 else (READ,)
        time_series.add(interval(6000.0 + second, *traces, key_counts=(counted(b"user:1", used),), total=20_000))
    now = 6036.0 + seconds
    (key,) = json_views.hot_keys(time_series, 10, 5, "all", now, OPEN, HOT)["keys"]
    assert key["before"] == 20.0
    assert key["since"][11:19] == ("01:40:35" if seconds < 5 else "01:40:36"), "half of its rate in the window"
    assert {client["app"]: client["new"] for client in key["clients"]} == {"shop": False, "data": True}


@pytest.mark.parametrize(("earlier", "before"), [((), 0.0), ((KeyCount(b"user:1", 647, 627, 20, 0),), 20.0)])
def test_before_a_key_was_busy_its_certain_uses_count(earlier: tuple[KeyCount, ...], before: float) -> None:
    time_series = TimeSeries()
    for second in range(40):
        made = interval(6000.0 + second)
        made.counter_snapshots = [CounterSnapshot(20_000, 627, (counted(b"user:1", 4000),) if second > 35 else earlier)]
        time_series.add(made)
    keys = {key["key"]: key for key in json_views.hot_keys(time_series, 5, 5, "all", 6040.0, OPEN, HOT)["keys"]}
    assert keys["user:1"]["before"] == before
    assert keys["user:1"]["since"][11:19] == "01:40:36"


@pytest.mark.parametrize(("until", "told"), [(0.0, None), (math.inf, -1), (1030.5, 29.5), (999.0, 0.0)])
def test_how_long_a_key_still_lives(until: float, told: float | None) -> None:
    time_series = TimeSeries()
    made = interval(1000.0, READ, key_counts=(counted(b"user:1", 10),))
    if until:
        made.see_expiry("user:{int}", b"user:1", until)
        made.see_expiry("user:{int}", b"gone", until)
    time_series.add(made)
    time_series.add(interval(1000.5, READ))
    (key,) = json_views.hot_keys(time_series, 10, 5, "all", 1001.0, OPEN, HOT)["keys"]
    assert key["ttl"] == told


def test_rates_are_of_the_seconds_that_are_known() -> None:
    time_series = TimeSeries()
    for second in range(20):
        time_series.add(interval(1000.0 + second, READ, key_counts=(counted(b"user:1", 10),)))
        now = 1001.0 + second
        for window in WINDOWS:
            told = json_views.hot_keys(time_series, window, 5, "all", now, OPEN, HOT)
            assert (told["rate"], told["keys"][0]["rate"], told["keys"][0]["bytes_out"]) == (10.0, 10.0, 1000)
            assert json_views.patterns(time_series, window, 5, now, OPEN)["patterns"][0]["rate"] == 10.0
            assert json_views.slots(time_series, window, 5, now, OPEN)["slots"][0]["rate"] == 10.0
            assert json_views.clients(time_series, window, 5, now)["clients"][0]["rate"] == 10.0


def test_rates_and_shares_are_what_is_sure() -> None:
    time_series = TimeSeries()
    time_series.add(interval(1000.0, READ, key_counts=(KeyCount(b"user:1", 90, 80, 10, 0),), total=100))
    (key,) = json_views.hot_keys(time_series, 10, 5, "all", 1001.0, OPEN, HOT)["keys"]
    assert (key["count"], key["error"], key["rate"], key["share"]) == (90, 80, 10.0, 0.1)


def test_a_busy_key_among_few_commands_is_not_hot() -> None:
    time_series = TimeSeries()
    time_series.add(interval(1000.0, READ, key_counts=(counted(b"user:1", 15),), total=50))
    told = json_views.hot_keys(time_series, 10, 5, "all", 1001.0, OPEN, HOT)
    assert [key["hot"] for key in told["keys"]] == [False]


def test_keys_can_be_ranked_by_what_they_carry() -> None:
    time_series = TimeSeries()
    large = replace(READ, keys=(b"big:1",), bytes_out=90_000)
    time_series.add(
        interval(
            1000.0,
            READ,
            large,
            WRITE,
            key_counts=(KeyCount(b"user:1", 30, 0, 10, 20), KeyCount(b"big:1", 20, 0, 20, 0)),
        )
    )

    def order(by: str) -> list[str]:
        return [key["key"] for key in json_views.hot_keys(time_series, 60, 5, by, 1001.0, OPEN, HOT)["keys"]]

    assert order("all") == order("writes") == ["user:1", "big:1"]
    assert order("reads") == order("bytes") == ["big:1", "user:1"]


def test_what_was_found_out_about_a_pattern() -> None:
    time_series = time_series_since(991.0)
    made = interval(1000.0, READ, READ)
    for until in (1060.0, 1060.0, 1060.0, math.inf):
        made.see_expiry("user:{int}", b"user:1", until)
    made.see_run("user:{int}", 80)
    time_series.add(made)
    time_series.add(made)
    (told,) = json_views.patterns(time_series, 10, 5, 1001.0, OPEN)["patterns"]
    assert (told["rate"], told["ttl_share"], told["runs"]) == (4.0, 0.75, 2.0)


def test_a_large_reply_without_a_trace_is_the_largest_and_changes_nothing_else() -> None:
    time_series = TimeSeries()
    made = interval(1000.0, READ)
    made.see_large("user:{int}", b"user:9", 5_000_000, ("shop", "", "", "", ""), stored=0, schema=False)
    made.see_large("blob", b"blob:1", 9_000_000, ("data", "", "", "", ""), stored=0, schema=True)
    time_series.add(made)
    user, blob = json_views.patterns(time_series, 10, 5, 1001.0, OPEN)["patterns"]
    assert (user["rate"], user["largest"], user["largest_key"]) == (10.0, 5_000_000, "user:9")
    assert (blob["rate"], blob["largest"], blob["app"], blob["schema"]) == (0.0, 9_000_000, "data", True)


def test_slots_tags_and_commands_over_several_slots() -> None:
    time_series = time_series_since(991.0)
    both = replace(READ, command="MGET", keys=(b"{a}:1", b"b"), writes=(False, False), patterns=("x", "y"))
    time_series.add(interval(1000.0, both, replace(both, keys=(b"{a}:1", b"{a}:2"))))
    told = json_views.slots(time_series, 10, 5, 1001.0, OPEN)
    assert told["slots"][0] == {"slot": slot_of(b"a"), "share": 0.75, "rate": 3.0, "keys": ["{a}:1", "{a}:2"]}
    assert told["tags"] == [{"tag": "a", "share": 0.75, "rate": 3.0}]
    assert told["crossslot"] == 1.0
    assert len(told["heat"]) == 256
    assert sum(told["heat"]) == pytest.approx(1)


def test_slow_commands_and_the_last_minute() -> None:
    time_series = TimeSeries()
    time_series.add(interval(1000.0, READ, replace(READ, at_redis=2.0, command="SUNION")))
    told = json_views.slow(time_series, 1, Redaction(Redact.SHAPE))
    (slow,) = told["commands"]
    assert (slow["command"], slow["key"]) == ("SUNION", "user:{int}")
    assert (slow["at_redis_ms"], slow["in_proxy_ms"]) == (2000, 0.1)
    told = json_views.traffic(time_series)
    (second,) = told["seconds"]
    assert told["tens"] == [second], "of the same moment"
    assert second["commands"] == 20
    assert 0 < second["p50_ms"] < second["p99_ms"] <= 5000


def test_names_are_shown_as_the_policy_wants_them() -> None:
    time_series = TimeSeries()
    time_series.add(interval(1000.0, READ, key_counts=(counted(b"user:1", 15),)))
    told = json_views.hot_keys(time_series, 10, 5, "all", 1001.0, Redaction(Redact.SHAPE), HOT)
    assert told["keys"][0]["key"] == "user:{int}"
    time_series.add(interval(1000.0, key_counts=(counted(b"a\\\r\n", 50),)))
    odd = json_views.hot_keys(time_series, 10, 1, "all", 1002.0, OPEN, HOT)["keys"][0]
    assert (odd["key"], odd["slot"]) == (r"a\x5c\x0d\x0a", slot_of(b"a\\\r\n"))
    shown = json_views.patterns(time_series, 10, 5, 1001.0, Redaction(Redact.SHAPE))
    assert shown["patterns"][0]["largest_key"] == "user:{int}"


@pytest.mark.parametrize(
    ("traces", "ratio"),
    [
        ((READ, MISS), 0.5),
        ((MISS, WRITE), 0.0),
        ((WRITE, replace(WRITE, first_line=b"$-1\r\n")), None),
        ((MANY,), None),
        ((replace(READ, first_line=b"-WRONGTYPE no\r\n"),), None),
    ],
)
def test_only_reads_of_one_key_say_whether_it_was_there(traces: tuple[Trace, ...], ratio: float | None) -> None:
    time_series = TimeSeries()
    time_series.add(interval(1000.0, *traces))
    assert json_views.patterns(time_series, 10, 10, 1001.0, OPEN)["patterns"][0]["hit_ratio"] == ratio

"""An incident needs a share and a rate together; it is reported once with all details, and once when it is over."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest

from proxy.commands.slots import slot_of
from proxy.hotpath.counting.counter_snapshot import CounterSnapshot, KeyCount
from proxy.traffic.advice import InForce
from proxy.traffic.alerts import USUAL, Alerts, Hot
from proxy.traffic.client_ids import id_of
from proxy.traffic.hotspots import IncidentKind
from proxy.traffic.incident_lines import Past
from proxy.traffic.incidents import Incident, IncidentEvent, IncidentFigures, Lookout
from proxy.traffic.interval_stats import IntervalStats
from proxy.traffic.json_views import patterns
from proxy.traffic.redaction import Redact, Redaction
from proxy.traffic.shapes import shape
from proxy.traffic.time_series import TimeSeries
from proxy.traffic.trace import Trace
from tests.traffic.given import READ

KEY = b"product:8841:stock"
TRACE = replace(
    READ,
    weight=100,
    keys=(KEY,),
    patterns=("product:{int}:stock",),
    app="checkout",
    who=("default", "", "go-redis 9.7", "10.0.0.1:5555"),
    bytes_in=40,
    bytes_out=9_300,
    first_line=b"$9290\r\n",
    at_redis=0.014,
)
OTHER = replace(TRACE, keys=(b"user:1",), patterns=("user:{int}",), app="web", who=("web", "", "", "unix"), bytes_out=9)


class Stream:
    """One worker's seconds, one after the other."""

    def __init__(self, redact: Redact = Redact.NONE, alerts: Alerts = USUAL) -> None:
        self.time_series = TimeSeries()
        self.now = 1_000_000.0
        self.redaction = Redaction(redact)
        self.alerts = alerts
        self.expires = 1_000_077.0
        self.in_force: list[InForce] = []
        self.lookout = Lookout("default", "", itertools.count(9).__next__)
        self.events: list[tuple[float, IncidentEvent | None]] = []

    def second(self, uses: dict[bytes, int], total: int, traces: Sequence[Trace] = ()) -> list[Incident]:
        interval = IntervalStats(self.now, 1.0)
        for look in traces:
            interval.see(look, frozenset())
        interval.see_expiry("product:{int}:stock", KEY, self.expires)
        interval.counter_snapshots = [
            CounterSnapshot(total, 0, tuple(KeyCount(key, used, 0, used, 0) for key, used in uses.items()))
        ]
        self.time_series.add(interval)
        self.now += 1.0
        reported = self.lookout.look(self.time_series, self.now, self.alerts, self.redaction, shape, self.in_force)
        self.events += [(self.now, each.event) for each in reported]
        return reported

    def seconds(self, number: int, uses: dict[bytes, int], total: int, traces: Sequence[Trace] = ()) -> list[Incident]:
        return [each for _ in range(number) for each in self.second(uses, total, traces)]


def lines_of_a_hot_key(writes: int, cached: int, user: str = "default", moved: int = 0) -> tuple[str, ...]:
    stream = Stream()
    interval = CounterSnapshot(108_000, 0, (KeyCount(KEY, 41_000, 0, 41_000 - writes, writes, cached, moved),))
    incidents: list[Incident] = []
    for _ in range(12):
        second = IntervalStats(stream.now, 1.0)
        second.see(replace(TRACE, who=(user, "", "", "10.0.0.1:5555")), frozenset())
        second.counter_snapshots = [interval]
        stream.time_series.add(second)
        stream.now += 1.0
        incidents += stream.lookout.look(stream.time_series, stream.now, stream.alerts, stream.redaction, shape)
    return tuple(incidents[0].lines)


@pytest.mark.parametrize(
    ("user", "writes", "cached", "first"),
    [
        ("default", 0, 0, "--local-cache --for 2h"),
        ("checkout", 0, 0, "--cap"),
        ("default", 20_000, 0, "--cap"),
        ("default", 0, 30_000, "--cap"),
    ],
)
def test_a_key_that_is_read_is_cached_before_it_is_capped(user: str, writes: int, cached: int, first: str) -> None:
    lines = lines_of_a_hot_key(writes, cached, user)
    remedies = [line for line in lines if line.startswith("remedy: ")]
    assert remedies[0].startswith(f"remedy: keyrail remedy product:8841:stock {first}")
    assert len(remedies) == 1 + (first != "--cap")
    assert (", 73.2 % of them answered from memory, hit " in lines[1]) == (cached > 0)


@pytest.mark.parametrize(
    ("standing", "left"),
    [
        (InForce("remedy-4 caps it", KEY, app="checkout"), ["cache"]),
        (InForce("remedy-4 caps it", KEY), ["cache"]),
        (InForce("remedy-4 caps it", KEY, app="web"), ["cache", "cap"]),
        (InForce("remedy-4 caches it", KEY, caches=True), ["cap"]),
        (InForce("remedy-4 caps another one", b"other"), ["cache", "cap"]),
    ],
)
def test_a_remedy_in_force_is_not_advised_again(standing: InForce, left: list[str]) -> None:
    stream = Stream()
    for _ in range(12):
        stream.in_force = [standing]
        stream.seconds(1, {KEY: 41_000}, 108_000, [TRACE])
    (incident,) = stream.lookout.open
    remedies = [line for line in incident.lines if line.startswith("remedy: ")]
    assert ["cache" if "--local-cache" in line else "cap" for line in remedies] == left
    assert (f"in force: {standing.text}" in incident.lines) is (standing.key == KEY)
    stream.seconds(3, {}, 10)
    remedies = [line for line in incident.lines if line.startswith("remedy: ")]
    assert ["cache" if "--local-cache" in line else "cap" for line in remedies] == left, "nor once it is relieved"


def test_it_says_how_many_reads_replicas_answer() -> None:
    assert "reads 100 %, 50 % by replicas, hit " in lines_of_a_hot_key(writes=0, cached=0, moved=20_500)[1]


def test_a_key_that_is_answered_from_memory_needs_no_remedy() -> None:
    lines = lines_of_a_hot_key(writes=0, cached=39_000)
    assert ", 95.1 % of them answered from memory, hit " in lines[1]
    assert [line for line in lines if line.startswith(("advice", "remedy"))] == [
        "advice: no remedy: its reads are answered from memory, which spares Redis"
    ]
    assert any(line.startswith("remedy: ") for line in lines_of_a_hot_key(writes=20_000, cached=20_500))


def test_the_whole_story_of_a_hot_key() -> None:
    stream = Stream()
    assert stream.seconds(50, {KEY: 120}, 60_000, [replace(OTHER, at_redis=0.0004)]) == []
    (incident,) = stream.seconds(12, {KEY: 41_000}, 108_000, [*[TRACE] * 9, replace(OTHER, keys=(KEY,))])
    assert (incident.name, incident.kind, incident.subject) == ("INC-9", IncidentKind.HOT_KEY, "product:8841:stock")
    assert (incident.began, incident.ended) == (1_000_050.0, None)
    first, second, third, advice, remedy = incident.lines
    hot = "product:8841:stock HOT 41k/s = 38 % of 108k/s ±0 % since 13:47:30 UTC, before 120/s; Redis p99 "
    assert first.startswith(hot)
    shown = stream.time_series.hot_keys(5, stream.now)
    assert incident.figures == IncidentFigures(stream.now, 5, 205_000, 0, 41_000.0, 0.37963)
    assert (shown.keys[0].rate, shown.keys[0].share) == (incident.figures.rate, incident.figures.share)
    assert second == f"reads 100 %, hit 100 %, 8.2 KB → 327 MB/s, TTL 15 s left, slot {slot_of(KEY)}"
    assert third == "90 % app checkout, go-redis 9.7, 1 client, all new since 13:47:30 UTC"
    assert advice == ("advice: cap app checkout at 5k/s: a key is hot from 10 % of all uses; its 120/s before pass")
    assert remedy == "remedy: keyrail remedy product:8841:stock --cap checkout=5000/s --for 30m --because INC-9"

    assert stream.seconds(6, {KEY: 30_000}, 97_000, [TRACE]) == [], "what goes on is not told again"
    now = "product:8841:stock HOT 30k/s = 30.9 % of 97k/s ±0 % since 13:47:30 UTC, peak 41k/s at 13:47:35 UTC, "
    assert incident.lines[0].startswith(now + "before 120/s")
    assert stream.seconds(30, {KEY: 10}, 108_000) == []
    was, *details = incident.lines
    period = "from 13:47:30 to 13:47:51 UTC, peak 41k/s = 38 % of 108k/s ±0 % at 13:47:35 UTC, before 120/s; Redis p99 "
    assert was.startswith(f"product:8841:stock was HOT {period}"), "it is quiet"
    assert details[2:] == [advice, remedy], "it may come again"
    (over,) = stream.seconds(60, {KEY: 10}, 108_000)
    assert over is incident
    assert over.lines == (was, *details[:2]), "it is over"
    assert 1_000_068.0 <= (over.ended or 0) < 1_000_072.0, "when it was found last"
    assert stream.lookout.open == ()


def test_it_is_reported_again_when_it_has_doubled() -> None:
    stream = Stream()
    for used in (12_000, 20_000, 25_000, 60_000, 90_000, 30_000):
        stream.seconds(20, {KEY: used}, 100_000)
    stream.seconds(80, {}, 100_000)
    assert [event.value for _, event in stream.events if event] == ["begun", "grown", "grown", "over"]
    (_, twice, again, _) = (at - 1_000_000 for at, _ in stream.events)
    assert 40 < twice < 60 < again < 80


def test_another_key_of_its_pattern_is_reported_once_a_minute() -> None:
    stream = Stream()
    one, two = KEY, b"product:9999:stock"
    (incident,) = stream.seconds(20, {one: 20_000}, 100_000)
    assert stream.seconds(20, {two: 20_000}, 100_000) == [incident]
    assert (incident.event, incident.subject) == (IncidentEvent.MOVED, "product:9999:stock")
    for turn in range(10):
        stream.seconds(10, {(one, two)[turn % 2]: 20_000}, 100_000)
    moves = [at for at, event in stream.events if event is IncidentEvent.MOVED]
    assert len(moves) in (2, 3)
    assert all(later - earlier >= 60 for earlier, later in itertools.pairwise(moves))


def test_after_a_restart_what_is_found_again_is_no_news() -> None:
    stream = Stream()
    known = Incident(
        3, "default", IncidentKind.HOT_KEY, "product:{int}:stock", "a", ("a",), 1.0, event=IncidentEvent.BEGUN
    )
    known.found = stream.now
    stream.lookout = Lookout("default", "", itertools.count(9).__next__, [known])
    assert stream.seconds(20, {KEY: 20_000}, 100_000) == []
    assert stream.seconds(20, {KEY: 41_000}, 100_000) == [known]
    assert known.event is IncidentEvent.GROWN


def test_the_second_in_which_it_begins_is_not_the_time_before() -> None:
    stream = Stream()
    stream.seconds(50, {KEY: 120}, 60_000, [OTHER])
    stream.second({KEY: 9_000}, 70_000, [TRACE])
    (incident,) = stream.seconds(12, {KEY: 41_000}, 108_000, [TRACE])
    assert " since 13:47:30 UTC, before 120/s" in incident.lines[0]
    assert "1 client, all new since" in incident.lines[2]


def test_a_key_that_had_no_traffic_was_not_busy_before() -> None:
    stream = Stream()
    stream.seconds(50, {b"user:1": 900}, 60_000)
    (incident,) = stream.seconds(12, {KEY: 41_000}, 108_000)
    assert " since 13:47:30 UTC, before not among the busiest keys" in incident.lines[0]
    assert stream.seconds(80, {}, 60_000) == [incident]
    assert incident.lines[0].endswith(", before not among the busiest keys")


@pytest.mark.parametrize(
    ("before", "busy", "total", "cap", "why"),
    [
        (399, 1_400, 6_300, 1000, "a key is hot from 1k/s; its 399/s before pass"),
        (900, 3_000, 8_000, 2000, "twice its rate before, 900/s"),
        (900, 41_000, 108_000, 5000, "a key is hot from 10 % of all uses; its 900/s before pass"),
        (0, 4_000, 6_200, 1000, "a key is hot from 1k/s"),
        (None, 4_000, 6_200, 10_000, "twice its peak, since Keyrail does not know its rate before"),
    ],
)
def test_a_cap_leaves_the_normal_uses_of_a_key_alone(
    before: int | None, busy: int, total: int, cap: int, why: str
) -> None:
    stream = Stream()
    if before is not None:
        stream.seconds(50, {KEY: before} if before else {}, 60_000)
    (incident,) = stream.seconds(8, {KEY: busy}, total)
    advice, remedy = incident.lines[-2:]
    assert advice.endswith(f": {why}")
    assert f" --cap all={cap}/s " in remedy
    assert cap >= 2 * (busy if before is None else before)


@pytest.mark.parametrize(("used", "total"), [(30, 100), (5_000, 60_000), (0, 0), (900, 1_000)])
def test_a_share_or_a_rate_alone_wake_nobody(used: int, total: int) -> None:
    assert Stream().seconds(30, {KEY: used}, total) == []


def test_what_only_may_have_been_used_so_often_wakes_nobody() -> None:
    stream = Stream()
    for _ in range(20):
        interval = IntervalStats(stream.now, 1.0)
        interval.counter_snapshots = [CounterSnapshot(100_000, 0, (KeyCount(KEY, 90_000, 81_000, 9_000, 0),))]
        stream.time_series.add(interval)
        stream.now += 1.0
        assert stream.lookout.look(stream.time_series, stream.now, stream.alerts, stream.redaction, shape) == []


def test_the_burst_of_a_start_wakes_nobody() -> None:
    stream = Stream()
    assert stream.seconds(1, {KEY: 4_900}, 4_900) == []
    assert stream.seconds(20, {KEY: 1}, 4_900) == []


def test_uniform_traffic_is_no_incident() -> None:
    keys = {b"key:%d" % number: 1_000 for number in range(100)}
    traces = [replace(OTHER, keys=(key,)) for key in keys]
    assert Stream().seconds(20, keys, 100_000, traces) == []


def test_it_neither_flaps_nor_repeats() -> None:
    stream = Stream()
    told = []
    for turn in range(60):
        told += stream.seconds(3, {KEY: 1_050 if turn % 2 else 950}, 10_000)
    for _ in range(5):
        told += stream.seconds(12, {KEY: 8_000}, 10_000)
        told += stream.seconds(40, {KEY: 1}, 10_000)
    assert {each.name for each in told} == {"INC-9"}
    assert [event for _, event in stream.events] == [IncidentEvent.BEGUN, IncidentEvent.GROWN]
    assert stream.seconds(100, {}, 10_000) == told[:1]


def test_what_is_a_little_less_is_not_over() -> None:
    stream = Stream()
    (incident,) = stream.seconds(10, {KEY: 1_100}, 10_000)
    assert stream.seconds(200, {KEY: 800}, 10_000) == []
    assert stream.seconds(70, {KEY: 600}, 10_000) == [incident]


def test_hot_keys_of_one_pattern_are_one_incident() -> None:
    stream = Stream(alerts=Alerts(hot_key=Hot(0.01, 100)))
    keys = {b"product:%d:stock" % number: 200 - number for number in range(80)}
    told = stream.seconds(20, {**keys, b"user:1": 300}, 15_000)
    assert [each.about for each in told] == ["user:{int}", "product:{int}:stock"]
    assert told[1].lines[0].startswith("product:0:stock and 79 more of product:{int}:stock HOT 200/s = 1.33 % of 15k/s")


def test_a_stampede_is_told_apart() -> None:
    stream = Stream()
    (incident,) = stream.seconds(11, {KEY: 5_000}, 6_000, [replace(TRACE, first_line=b"_\r\n", bytes_out=3)] * 9)
    assert " MISSING 5k/s = 83.3 % of 6k/s" in incident.lines[0]
    assert ", hit 0 %, " in incident.lines[1]


def test_names_are_shown_as_the_policy_says() -> None:
    stream = Stream(Redact.SHAPE)
    (incident,) = stream.seconds(11, {KEY: 5_000}, 6_000)
    assert incident.key == KEY
    assert b"8841" not in "".join((incident.subject, *incident.lines)).encode()
    assert incident.lines[-1] == "remedy: keyrail remedy --incident INC-9 --cap all=10000/s --for 30m --because INC-9"


def test_a_slot_is_hot_by_more_than_its_hot_key() -> None:
    tagged = {b"{cart}:%d" % number: 60 for number in range(100)}
    traces = [replace(OTHER, keys=(key,), weight=60) for key in tagged]
    stream = Stream()
    (incident,) = stream.seconds(12, tagged, 10_000, traces)
    assert incident.subject == f"slot {slot_of(b'cart')}"
    assert incident.lines[0].startswith(f"slot {slot_of(b'cart')} HOT 6k/s = 100 % of 6k/s (estimate)")
    assert incident.lines[1].startswith("busiest keys: {cart}:")
    alone = Stream().seconds(12, {b"cart": 6_000}, 10_000, [replace(OTHER, keys=(b"cart",), weight=6_000)])
    assert [each.kind for each in alone] == [IncidentKind.HOT_KEY]


def test_a_large_value_is_one_incident_of_its_pattern() -> None:
    stream = Stream()
    large = [replace(OTHER, keys=(b"report:%d" % n,), patterns=("report:{int}",), bytes_out=4 << 20) for n in (1, 2)]
    (incident,) = stream.seconds(4, {}, 10, large)
    assert (incident.kind, incident.subject) == (IncidentKind.BIG_VALUE, "report:{int}")
    since = "since 13:46:41 UTC, last at 13:46:44 UTC; Redis p99 "
    assert incident.lines[0].startswith(f"report:{{int}} BIG report:1: 4 MB in one command or reply, {since}")
    assert incident.lines[1] == "200/s and 800 MB/s of this pattern (estimate)"
    assert incident.lines[2].startswith("by web at unix, id c")
    assert incident.lines[3].startswith(
        "advice: compress it, split it over several keys, or read parts of it (GETRANGE, "
    )
    assert incident.lines[3].endswith("; a rule `sizes: {value: 1MB}` finds larger writes")
    assert stream.seconds(1, {}, 10, [replace(large[0], bytes_out=9 << 20)]) == []
    assert "report:1: 9 MB in one command or reply, " in incident.lines[0]
    assert stream.seconds(500, {}, 10) == [incident]
    assert incident.event is IncidentEvent.GROWN
    assert stream.seconds(1, {}, 10, large) == [], "now and then is one incident"
    assert len(stream.seconds(620, {}, 10)) == 1
    assert incident.lines[0].startswith("report:{int} was BIG from 13:46:41 to 13:55:")
    assert ": report:1: 9 MB in one command or reply" in incident.lines[0]
    assert len(incident.lines) == 3, "no advice"


LARGE = replace(OTHER, keys=(b"report:1",), patterns=("report:{int}",), bytes_out=2 << 20)


@pytest.mark.parametrize(
    ("trace", "size"),
    [
        (replace(LARGE, bytes_in=4 << 20, stored_in=400 << 10), 4),
        (replace(LARGE, stored_in=100, stored_out=400 << 10), 2),
    ],
)
def test_of_a_compressed_value_the_bytes_at_redis_are_told_beside_the_plain_ones(trace: Trace, size: int) -> None:
    stream = Stream()
    (incident,) = stream.seconds(4, {}, 10, [trace])
    amount = f"report:1: {size} MB in one command or reply (400 KB at Redis, compressed), since "
    assert amount in incident.lines[0]
    assert "advice: split it over several keys; " in incident.lines[-1]
    told_of = patterns(stream.time_series, 60, 10, stream.now, Redaction())["patterns"]
    assert [each["largest_stored"] for each in told_of if each["pattern"] == "report:{int}"] == [400 << 10]


def test_of_a_large_value_that_was_not_traced_no_rate_is_told() -> None:
    stream = Stream()
    interval = IntervalStats(stream.now, 1.0)
    client = "web", "u", "nightly", "", "10.0.0.7"
    interval.see_large("report:{int}", b"report:7", 3 << 20, client, stored=0, schema=False)
    stream.time_series.add(interval)
    stream.seconds(1, {}, 10)
    (incident,) = stream.lookout.open
    assert incident.lines[0].startswith("report:{int} BIG report:7: 3 MB in one command or reply, since ")
    assert incident.lines[1] == f"by nightly at 10.0.0.7, id {id_of(('u', 'nightly', '10.0.0.7'))}, app web, user u"
    assert incident.client[2] == "nightly"


def test_what_was_open_before_a_restart_goes_on() -> None:
    stream = Stream()
    lines: tuple[str, ...] = ("as told", "reads 100 %", "advice: none", "remedy: none")
    about = IncidentKind.HOT_KEY, "product:{int}:stock"
    known = [
        Incident(3, "default", *about, "…", lines, 999_000.0, found=stream.now, past=Past(70.0, 999_000.0)),
        Incident(4, "default", IncidentKind.HOT_KEY, "gone:{int}", "gone:1", lines, 999_000.0, found=stream.now),
    ]
    for each in known:
        each.event = IncidentEvent.BEGUN
    stream.lookout = Lookout("default", "", itertools.count(5).__next__, known)
    assert stream.seconds(50, {KEY: 5_000}, 6_000) == []
    assert known[0].ended is None
    assert known[0].lines[0] == ("product:8841:stock HOT 5k/s = 83.3 % of 6k/s ±0 % since 13:30:00 UTC, before 70/s"), (
        "it goes on as the one that it was"
    )
    assert known[1].lines == ("gone:1 was HOT from 13:30:00 to 13:46:40 UTC", *lines[1:])
    assert stream.seconds(80, {}, 6_000) == [known[1], known[0]]
    assert known[1].lines == ("gone:1 was HOT from 13:30:00 to 13:46:40 UTC", "reads 100 %")


def test_of_hot_keys_that_are_as_busy_the_same_one_is_named() -> None:
    stream = Stream()
    names = set()
    for turn in range(30):
        busier = turn // 6 % 2
        uses = {b"product:1:stock": 3_000 + 300 * busier, b"product:2:stock": 3_300 - 300 * busier}
        stream.second(uses, 8_000)
        names |= {each.subject for each in stream.lookout.open}
    assert len(names) == 1
    (incident,) = stream.lookout.open
    stream.seconds(8, {b"product:2:stock" if b"1" in incident.key else b"product:1:stock": 6_000}, 8_000)
    assert {each.subject for each in stream.lookout.open} == {"product:1:stock", "product:2:stock"} - names

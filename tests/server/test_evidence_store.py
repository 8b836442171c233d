"""Evidence in a file and in memory: what is added is read, adds up, and stays within its bounds."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from proxy.server.evidence import memory_store
from proxy.server.evidence import store as evidence_file
from proxy.server.evidence.bounds import DROPPED_FOR_ROOM, FOLDED, FOLDED_FOR_ROOM, LONG_EXEMPLARS, Bounds
from proxy.server.evidence.store import (
    Batch,
    Evidence,
    EvidenceStore,
    MemoryStore,
    RuleVersion,
    SqliteStore,
)
from proxy.traffic.evidence_rows import CommandKey, EvidenceRows, Exemplar, Identity, VerdictKey, VerdictRow
from tests.conftest import seeds
from tests.server.made_evidence import APPS, DAY, HOUR, NOON, batch, flood, joined, own_rows, rows, sums

MB = 1 << 20
HEAVY = VerdictKey("names", "audit", "refused", APPS[0], "SET", "heavy:{n}")
Opener = Callable[..., EvidenceStore]


@pytest.fixture(params=["file", "memory"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens stores: each in a file of its own, or in memory."""
    stores: list[EvidenceStore] = []

    def open_one(most_bytes: int = 64 * MB, days: int = 30) -> EvidenceStore:
        in_file = request.param == "file"
        file = tmp_path / f"evidence{len(stores)}.sqlite"
        stores.append(SqliteStore(file, most_bytes, days) if in_file else MemoryStore(most_bytes, days))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.mark.parametrize("seed", seeds(10, 100))
def test_what_is_added_is_read(opened: Opener, seed: int) -> None:
    random = Random(seed)
    store = opened()
    expected: dict[tuple[int, str], EvidenceRows] = {}
    for _ in range(20):
        hour, route = NOON + random.randrange(5) * HOUR, random.choice(["one", "two"])
        more = rows(random, hour)
        store.add(Batch(NOON, hour + HOUR, [(hour, route, more)], [], {"clients that left": 2}))
        expected.setdefault((hour, route), EvidenceRows()).add(more)
    found = store.read(NOON)
    assert {at: sums([its]) for at, its in found.hours.items()} == {at: sums([its]) for at, its in expected.items()}
    assert joined(found) == joined(Evidence(hours=expected))
    assert found.spans == [(NOON, found.spans[0][1])]
    assert found.lost == {"clients that left": 40}
    later = store.read(NOON + 2 * HOUR + 5)
    assert later.hours.keys() == {at for at in expected if at[0] >= NOON + 2 * HOUR}
    assert all(began >= NOON + 2 * HOUR for began, _ in later.spans)


@pytest.mark.parametrize("seed", seeds(5, 50))
def test_eight_stores_added_up_are_as_one(opened: Opener, seed: int) -> None:
    random = Random(seed)
    eight, one = [opened() for _ in range(8)], opened()
    for number in range(40):
        hour = NOON + number // 10 * HOUR
        pod = random.choice(eight)
        rules = [RuleVersion("default", "names", f"digest {number // 15}", NOON + number)]
        its = batch(rows(random, hour), at=hour, began=NOON + number * 60)
        its.rules, its.lost = rules, {"interval reports": number}
        pod.add(its)
        one.add(its)
    merged = Evidence()
    for pod in eight:
        merged.add(pod.read(0))
    whole = one.read(0)
    assert joined(merged) == joined(whole)
    assert sorted(merged.hours) == sorted(whole.hours)
    assert (merged.spans, merged.lost, merged.rules) == (whole.spans, whole.lost, whole.rules)
    assert [each.digest for each in whole.rules] == ["digest 0", "digest 1", "digest 2"]


@pytest.mark.parametrize("seed", seeds(5, 50))
def test_an_hour_has_so_many_rows_and_its_sums_are_exact(opened: Opener, seed: int) -> None:
    random = Random(seed)
    store, bounds = opened(MB), Bounds.of(MB)
    given = [rows(random, shapes=100_000, count=count) for count in (300, 3, 300, 3, 3, 300)]
    for its in given:
        its.verdicts[HEAVY] = VerdictRow(1000, NOON, NOON)
        store.add(batch(its))
    found = store.read(0)
    (hour,) = found.hours.values()
    assert sums([hour]) == sums(given)
    assert hour.verdicts[HEAVY].count == 6000, "what is common keeps its row"
    most = {"commands": bounds.commands, "forms": bounds.forms}
    assert all(count <= most.get(name, bounds.verdicts) for name, count in own_rows(hour).items())
    assert found.lost[FOLDED] > 300


def test_commands_that_are_ever_new_are_folded_in_the_end(opened: Opener) -> None:
    store, bounds = opened(MB), Bounds.of(MB)
    many = EvidenceRows(commands={CommandKey(APPS[0], f"UNKNOWN{number}"): 1 for number in range(1000)})
    store.add(batch(many))
    store.add(batch(many))
    (hour,) = store.read(0).hours.values()
    assert own_rows(hour)["commands"] <= bounds.commands
    assert sums([hour])["command", "checkout"] == 2000


def test_texts_of_all_kinds_are_kept_and_cut(opened: Opener) -> None:
    store = opened()
    name = "\udc80\ud800\0'\"" + "x" * 1000
    who = Identity(*[name] * 5)
    words = ("SET", name, "<3 bytes>")
    long = Exemplar(("MSET", *["key"] * 2000), NOON + 2.0)
    its = EvidenceRows()
    its.verdicts[VerdictKey(name, name, name, who, name, name)] = VerdictRow(
        1, NOON + 0.5, NOON + 0.75, [Exemplar(words, NOON + 1.0, name), long]
    )
    store.add(Batch(NOON, NOON + 1.5, [(NOON, name[:60], its)], [RuleVersion(name[:60], name, name, 3.5)], {name: 1}))
    found = store.read(0)
    cut = name[:300]
    ((key, row),) = found.hours[NOON, name[:60]].verdicts.items()
    assert key == VerdictKey(cut, cut, cut, Identity(*[cut] * 5), cut, cut)
    assert row == VerdictRow(1, NOON + 0.5, NOON + 0.75, [Exemplar(words, NOON + 1.0, cut)])
    assert found.rules == [RuleVersion(name[:60], cut, cut, 3.5)]
    assert found.lost == {cut: 1, LONG_EXEMPLARS: 1}


def test_hours_go_after_so_many_days(opened: Opener) -> None:
    store = opened(days=2)
    for number in range(5 * 24):
        hour = NOON + number * HOUR
        store.add(batch(rows(Random(number), hour, count=1), at=hour, began=NOON))
    found = store.read(0)
    assert sorted({hour for hour, _ in found.hours}) == [NOON + number * HOUR for number in range(71, 120)]
    assert found.spans == [(NOON + 71 * HOUR, NOON + 120 * HOUR - 1)], "what is dropped does not count as watched"


@pytest.mark.parametrize("jump", [-40 * 365 * DAY, -3 * DAY, 3 * DAY, 40 * DAY, 40 * 365 * DAY])
def test_a_clock_that_jumps_makes_nothing_old(opened: Opener, jump: int) -> None:
    store = opened(days=30)
    expected = set()

    def watch(first: int, hours: int) -> None:
        for hour in range(first, first + hours * HOUR, HOUR):
            store.add(batch(rows(Random(hour), hour, count=1), at=hour, began=first))
            expected.add(hour)

    watch(NOON, 29 * 24)
    watch(NOON + 29 * DAY + jump // HOUR * HOUR, 5)
    watch(NOON + 29 * DAY, 24)
    hours = {hour for hour, _ in store.read(0).hours}
    assert hours >= {hour for hour in expected if NOON <= hour < NOON + 30 * DAY}


def test_a_store_that_stood_still_forgets_when_half_a_day_was_watched_again(opened: Opener) -> None:
    store = opened(days=30)
    store.add(batch(rows(Random(1))))
    later = NOON + 400 * DAY
    for number in range(30):
        hour = later + number * HOUR
        store.add(batch(rows(Random(number), hour), at=hour, began=later))
        assert ((NOON, "default") in store.read(0).hours) == (number < 11)


def test_spans_that_overlap_are_one_and_gaps_stay(opened: Opener) -> None:
    store = opened()
    for began, now in [(0, 50), (0, 100), (90, 150), (90, 200), (300, 310), (400, 400)]:
        store.add(Batch(NOON + began, NOON + now, [], [], {}))
    assert [(began - NOON, ended - NOON) for began, ended in store.read(0).spans] == [(0, 200), (300, 310)]


def test_a_clock_that_was_set_back_ends_its_stretch_earlier(opened: Opener) -> None:
    store = opened()
    for now in (100, 50 * 365 * DAY, 200):
        store.add(Batch(NOON, NOON + now, [], [], {}))
    assert store.read(0).spans == [(NOON, NOON + 200)]


def test_rules_that_are_told_again_came_into_force_once(opened: Opener) -> None:
    store = opened()
    told = [("a", 10.0), ("a", 20.0), ("b", 30.0), ("a", 40.0), ("a", 50.0)]
    for digest, since in told:
        store.add(Batch(NOON, NOON, [], [RuleVersion("default", "names", digest, since)], {}))
    assert [(each.digest, each.since) for each in store.read(0).rules] == [("a", 10.0), ("b", 30.0), ("a", 40.0)]


def test_the_oldest_and_lightest_go_first_and_sums_stay(opened: Opener) -> None:
    store = opened(MB)
    in_file = isinstance(store, SqliteStore)
    given: dict[int, EvidenceRows] = {}
    for hour in range(NOON, NOON + (60 if in_file else 15) * HOUR, HOUR):
        given[hour] = rows(Random(hour), hour, 100_000, 60 if in_file else 30)
        given[hour].verdicts[HEAVY] = VerdictRow(1000, hour, hour)
        store.add(batch(given[hour], at=hour, began=NOON))
    found = store.read(0)
    assert found.lost[FOLDED_FOR_ROOM] > 100
    assert DROPPED_FOR_ROOM not in found.lost, "rows of others alone have room"
    for hour, its in given.items():
        assert sums([found.hours[hour, "default"]]) == sums([its])
    own = [own_rows(found.hours[hour, "default"]).total() for hour in given]
    assert own[0] == 0
    assert own[-1] > 50
    whole = next(at for at, count in enumerate(own) if count > 50)
    assert all(count > 50 for count in own[whole:]), "oldest first"
    for rows_of_hour in found.hours.values():
        if own_rows(rows_of_hour)["rule names"]:
            assert HEAVY in rows_of_hour.verdicts, "lightest first"


def test_the_oldest_hours_go_when_nothing_can_be_folded(opened: Opener) -> None:
    store = opened(MB)
    apps = [Identity(f"application {number}") for number in range(20)]
    hours = range(NOON, NOON + 250 * HOUR, HOUR)
    for hour in hours:
        its = EvidenceRows(
            {VerdictKey(rule, "audit", "refused", who): VerdictRow(1, hour, hour) for who in apps for rule in "abc"},
            {CommandKey(who, ""): 7 for who in apps},
        )
        store.add(batch(its, at=hour, began=NOON))
    found = store.read(0)
    left = sorted({hour for hour, _ in found.hours})
    assert NOON < left[0] < hours[-1]
    assert left == list(range(left[0], hours[-1] + HOUR, HOUR))
    assert found.lost[DROPPED_FOR_ROOM] == (left[0] - NOON) // HOUR * 20 * 7
    assert found.spans == [(left[0], hours[-1] + HOUR - 1)]


def test_what_a_wrong_clock_has_told_of_the_future_goes_first(opened: Opener) -> None:
    store = opened(MB)
    future, hour = NOON + 10_000 * DAY, NOON
    store.add(batch(rows(Random(0), future, 100_000, 100), at=future))
    before = own_rows(store.read(future).hours[future, "default"]).total()
    while FOLDED_FOR_ROOM not in store.read(future).lost:
        store.add(batch(rows(Random(hour), hour, 100_000, 60), at=hour, began=NOON))
        hour += HOUR
    found = store.read(0)
    assert own_rows(found.hours[future, "default"]).total() < before / 2
    assert own_rows(found.hours[hour - HOUR, "default"]).total() > 50


@pytest.mark.parametrize("batches", [8, pytest.param(50, marks=pytest.mark.long)])
def test_a_flood_of_shapes_costs_little(opened: Opener, tmp_path: Path, batches: int) -> None:
    """A million shapes a minute, told as the caller would: at most 20,000 rows each second or so."""
    most = 4 * MB
    store = opened(most)
    begun, sizes = time.thread_time(), []
    for number in range(batches):
        store.add(batch(flood(number, 20_000), began=NOON))
        sizes.append(sum(file.stat().st_size for file in tmp_path.iterdir()))
    assert max(sizes) <= most
    assert time.thread_time() - begun < batches * 2.0, "a third of a second or so for each batch"
    its = batch(flood(batches, 20_000), began=NOON)
    tracemalloc.start()
    store.add(its)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < MB
    assert peak < 32 * MB, "while a batch is added, about what it needs itself"
    assert sums(store.read(0).hours.values())["command", "checkout"] == (batches + 1) * 10_000


def test_memory_stays_within_its_bound() -> None:
    most = MB
    tracemalloc.start()
    store = MemoryStore(most, 30)
    for hour in range(NOON, NOON + 20 * HOUR, HOUR):
        store.add(batch(rows(Random(hour), hour, 1_000_000, 100), at=hour, began=NOON))
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert store.read(0).lost[FOLDED_FOR_ROOM] > 500
    assert most / 8 < kept < most


def test_restarts_without_end_cost_little(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(MB)
    told = Batch(NOON, NOON + 1, [], [], {})
    monkeypatch.setattr(memory_store, "MOST_SPANS", 100)
    monkeypatch.setattr(evidence_file, "MOST_SPANS", 100)
    for number in range(300):
        store.add(replace(told, began=NOON + 3 * number, now=NOON + 3 * number + 1 + (number % 3 == 0)))
    spans = store.read(0).spans
    assert len(spans) <= 101
    assert sum(ended - began == 2 for began, ended in spans) >= 99, "the shortest go"

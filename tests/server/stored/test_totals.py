"""What a scan keeps of the keys: each once, all sums right, in bounded memory."""

from __future__ import annotations

import json
import tracemalloc
from random import Random

import pytest

from proxy.rules.stored import Fault, StoredFault, StoredKey
from proxy.server.stored.json_form import as_json
from proxy.server.stored.model import OTHER, FaultOf, FaultRow, Kind, NodeFigures, Place, Scan
from proxy.server.stored.seen import SeenKeys, mark_of
from proxy.server.stored.totals import MOST_EXEMPLARS, MOST_FINDINGS, MOST_LARGEST, MOST_PATTERNS, Totals
from tests.server.stored.fake_servers import FakeFinding, FakeJudged, slot_of


def filled(totals: Totals, keys: list[StoredKey], patterns: int, node: NodeFigures) -> None:
    for number, key in enumerate(keys):
        fault = FakeFinding("r", "audit", number % 5 == 0, StoredFault(Fault.NO_TTL, "no TTL", number % 3 > 0))
        pattern = f"p{number % patterns}"
        totals.add(key, FakeJudged(pattern, f"app{number % 2}", "team", (fault,) if key.ttl is None else ()), node, 0)


def test_sums_stay_right_while_patterns_are_folded() -> None:
    totals, node, random = Totals(lambda key: key.decode()), NodeFigures("one"), Random(1)
    keys = [
        StoredKey(b"k%d" % each, "string", random.choice([None, 1000 * each]), random.choice([None, each]))
        for each in range(30_000)
    ]
    filled(totals, keys, 20_000, node)
    rows = totals.patterns.values()
    assert len(rows) <= 2 * MOST_PATTERNS + 2
    assert sum(row.keys for row in rows) == node.counted == len(keys)
    assert sum(row.bytes for row in rows) == node.bytes == sum(key.memory or 0 for key in keys)
    assert sum(row.unmeasured for row in rows) == node.unmeasured == sum(key.memory is None for key in keys)
    without = sum(key.ttl is None for key in keys)
    assert sum(row.without_ttl for row in rows) == without == len(keys) - sum(sum(row.ttls) for row in rows)
    assert {place.app for place in totals.patterns if place.pattern == OTHER} == {"app0", "app1"}
    found = totals.findings.values()
    assert len(found) <= 2 * MOST_FINDINGS + 2
    assert sum(row.keys for row in found) == without
    certain = [n for n, key in enumerate(keys) if key.ttl is None and n % 3 and n % 5]
    assert sum(row.sure for row in totals.faults.values()) == len(certain)
    assert all(0 < len(row.exemplars) <= MOST_EXEMPLARS for row in found)
    largest = [key.memory for key in totals.largest()]
    assert largest == sorted((key.memory for key in keys if key.memory), reverse=True)[:MOST_LARGEST]


def test_ttls_count_for_the_first_bound_that_they_do_not_exceed() -> None:
    totals = Totals(str)
    keys = [StoredKey(b"k", "string", ttl) for ttl in (0, 60_000, 60_001, 3_600_000, 31 * 86_400_000)]
    filled(totals, keys, 1, NodeFigures("one"))
    assert [sum(each) for each in zip(*(row.ttls for row in totals.patterns.values()), strict=True)] == [
        *(2, 2, 0, 0, 0),
        1,
    ]


def test_the_heaviest_slots_of_a_cluster() -> None:
    totals = Totals(str, by_slot=True)
    keys = [StoredKey(b"{a}%d" % each, "string", None, 10) for each in range(3)] + [StoredKey(b"b", "string", None, 5)]
    filled(totals, keys, 1, NodeFigures("one"))
    assert [(each.slot, each.keys, each.bytes) for each in totals.heaviest_slots()] == [
        (slot_of(b"a"), 3, 30),
        (slot_of(b"b"), 1, 5),
    ]
    assert totals.used_slots() == 2


def test_a_fault_counts_where_it_is_sure_and_not_excepted() -> None:
    totals = Totals(lambda key: key.decode())
    filled(totals, [StoredKey(b"k%d" % each, "string", None) for each in range(300)], 1, NodeFigures("one"))
    scan = Scan("u", "p", 0.0, 1.0, True, 0.05, totals.patterns, totals.findings, [], [], faults=totals.faults)
    assert scan.by_fault == {Fault.NO_TTL: FaultRow(0, 160, 80, 60)}, "20 are under an exception and unsure"
    assert sum(row.keys for kind, row in scan.findings.items() if not kind.sure) == 100
    assert scan.faults_of("app0").sure + scan.faults_of("app1").sure == 160
    assert scan.faults_of("app2") == FaultRow()
    told = json.loads(json.dumps(as_json(scan)))
    assert told["keys"] == 300
    assert {each["app"] for each in told["apps"]} == {"app0", "app1"}
    assert told["findings"][0]["fault"] == "no-ttl"
    assert Place("p0", "app0") in totals.patterns
    assert Kind("r", Fault.NO_TTL, "p0", "app0", "audit", True) in totals.findings


def test_a_fault_that_several_rules_find_counts_once_and_as_the_worst_of_them() -> None:
    totals, node = Totals(str), NodeFigures("one")
    for modes, unsure, excepted in (
        ("audit enforce", "", ""),
        ("enforce warn", "enforce", ""),
        ("enforce warn", "", "enforce"),
        ("enforce warn", "warn", "enforce"),
        ("enforce warn", "", "enforce warn"),
    ):
        found = tuple(
            FakeFinding("r", mode, mode in excepted, StoredFault(Fault.TOO_LARGE, "it", mode not in unsure))
            for mode in modes.split()
        )
        totals.add(StoredKey(b"k", "string", None), FakeJudged("p", "", "", found), node, 0)
    assert totals.faults == {FaultOf(Fault.TOO_LARGE, ""): FaultRow(1, 2, 1, 1)}


def test_a_row_has_one_mode_and_the_text_of_its_worst_key() -> None:
    totals, node = Totals(lambda key: key.decode()), NodeFigures("one")
    for number, mode in ((3, "audit"), (9, "audit"), (5, "audit"), (4, "enforce")):
        found = FakeFinding("r", mode, False, StoredFault(Fault.TOO_LARGE, f"has {number}", by=number))
        totals.add(StoredKey(b"k%d" % number, "list", None), FakeJudged("p", "", "", (found,)), node, 0)
    assert {(kind.mode, row.keys, row.text) for kind, row in totals.findings.items()} == {
        ("audit", 3, "has 9"),
        ("enforce", 1, "has 4"),
    }


# Which keys were seen


def test_each_key_counts_once() -> None:
    seen, random = SeenKeys(int), Random(1)
    keys = [b"k%d" % random.randrange(20_000) for _ in range(50_000)]
    assert sum(seen.add(mark_of(0, key)) for key in keys) == len(set(keys))
    assert seen.is_exact
    assert not seen.expected_missed
    assert all(seen.has(mark_of(0, key)) for key in keys)
    assert not any(seen.has(mark_of(1, key)) for key in keys), "the same key of another database"


def added(seen: SeenKeys, number: int) -> int:
    """So many keys come; how many of them are missed."""
    return sum(not seen.add(mark_of(0, b"k%d" % each)) for each in range(number))


@pytest.mark.parametrize(("expected", "number"), [(60_000, 400_000), (1_001, 300_000)])
def test_the_stated_error_is_what_happens_also_in_a_filter_that_is_nearly_full(
    expected: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.server.stored.seen._MOST_ERROR", 1.0)  # there is one filter only
    seen = SeenKeys(lambda: expected, exact=1_000)
    missed = added(seen, number)
    assert not seen.is_exact
    assert missed > 100, "too few to compare"
    assert missed == pytest.approx(seen.expected_missed, rel=0.1)
    assert all(seen.has(mark_of(0, b"k%d" % each)) for each in range(0, number, 97)), "none counts twice"


def test_where_more_keys_come_than_were_expected_few_are_missed() -> None:
    seen = SeenKeys(lambda: 1_001, exact=1_000)
    missed, expected = added(seen, 300_000), seen.expected_missed
    assert missed <= 30
    assert 5 < expected < 25
    assert added(seen, 300_000) == 300_000, "a walk that starts over counts nothing twice"
    assert seen.expected_missed == expected


@pytest.mark.timeout(900)  # three minutes alone
@pytest.mark.long
def test_of_ten_million_keys_that_were_expected_about_one_is_missed() -> None:
    seen = SeenKeys(lambda: 10**7)
    missed = added(seen, 10**7)
    assert missed <= 8
    assert 0 < seen.expected_missed < 2


def test_who_does_not_know_how_many_keys_there_are_has_room_for_many() -> None:
    seen = SeenKeys(int, exact=1_000)
    assert all(seen.add(mark_of(0, b"k%d" % number)) for number in range(100_000))
    assert seen.expected_missed < 0.001


def test_what_is_seen_stays_small() -> None:
    tracemalloc.start()
    seen = SeenKeys(lambda: 10**7, exact=40_000)
    for number in range(60_000):
        seen.add(mark_of(0, b"k%d" % number))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 << 20

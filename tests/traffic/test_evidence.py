"""The evidence for a rule stays bounded, loses no count, and adds up over workers."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.traffic.evidence import MOST_RECORDS, UNKNOWN_APP, Evidence, Folded, Record, merge_records, present

_NAMES = st.lists(st.sampled_from([f"shape{number}" for number in range(30)]))


@given(_NAMES, _NAMES)
def test_folding_is_bounded_and_loses_no_count(mine: list[str], others: list[str]) -> None:
    counts = []
    for names in (mine, others):
        folded = Folded[str](8)
        for name in names:
            folded.add(name)
        counts.append(folded)
    counts[0].merge(counts[1])
    assert len(counts[0].counts) <= 8
    assert sum(counts[0].counts.values()) + counts[0].other == len(mine) + len(others)


def test_what_is_common_keeps_its_place_among_ever_new_names() -> None:
    folded = Folded[str](8)
    for number in range(1000):
        folded.add("common")
        folded.add(f"once{number}")
    assert folded.ranked()[0] == ("common", 1000)


def test_workers_records_as_one() -> None:
    first, second = Evidence(), Evidence()
    one = first.record("walks", "reports")
    one.count("audit", "refused", 2, 100.0)
    one.sample, one.sampled = {"command": "KEYS"}, 100.0
    one.shapes.add("user:{int}", 2)
    one.inspected = 2
    other = second.record("walks", "reports")
    other.count("audit", "refused", 1, 90.0)
    other.count("audit", "error", 1, 130.0)
    other.sample, other.sampled = {"command": "keys"}, 130.0
    other.clients.add(("default", "spark", "redis-py", "10.0.0.1"))
    second.record("walks", "checkout").count("audit", "refused", 1, 5.0)
    merged = merge_records([first.changed(), second.changed()])
    assert set(merged) == {("walks", "reports"), ("walks", "checkout")}
    assert present(merged["walks", "reports"]) == {
        "hits": {"audit error": 1, "audit refused": 3},
        "first_seen": "1970-01-01T00:01:30.000Z",
        "last_seen": "1970-01-01T00:02:10.000Z",
        "inspected": 2,
        "shapes": [{"shape": "user:{int}", "count": 2}],
        "other_shapes": 0,
        "clients": [
            {"user": "default", "client_name": "spark", "library": "redis-py", "address": "10.0.0.1", "count": 1}
        ],
        "other_clients": 0,
        "sample": {"command": "keys"},
    }
    assert first.records["walks", "reports"].hits == {"audit refused": 2}, "a sum leaves its parts as they were"


def test_only_what_has_changed_is_handed_on_and_rules_that_are_gone_are_forgotten() -> None:
    evidence = Evidence()
    evidence.record("old", "a").count("warn", "refused", 1, 1.0)
    evidence.record("kept", "a").count("warn", "refused", 1, 1.0)
    assert len(evidence.changed()) == 2
    assert evidence.changed() == {}
    evidence.record("old", "a").count("warn", "refused", 1, 2.0)
    evidence.keep(["kept"])
    assert evidence.changed() == {}
    assert set(evidence.records) == {("kept", "a")}


def test_applications_beyond_the_bound_share_a_record() -> None:
    evidence = Evidence()
    for number in range(2 * MOST_RECORDS):
        evidence.record("rule", f"app{number}").count("audit", "refused", 1, 1.0)
    assert len(evidence.records) == MOST_RECORDS + 1
    assert evidence.records["rule", UNKNOWN_APP] == Record({"audit refused": MOST_RECORDS}, 1.0, 1.0)

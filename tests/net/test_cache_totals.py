"""Figures of rules about the local cache, and of the keys that it has answered."""

from types import SimpleNamespace
from typing import Any, cast

from proxy.hotpath.cache.cache_use import CacheUse
from proxy.hotpath.counting.counter_snapshot import CounterSnapshot, KeyCount
from proxy.net.cache.cache_totals import CacheTotals, with_hits
from proxy.traffic.cache_figures import CacheFigures


def test_figures_are_added_up_in_all_by_rule_and_in_the_last_second() -> None:
    counted: list[Any] = []
    verdicts = SimpleNamespace(count=lambda hit, hits, app: counted.append((str(hit.mode), hits, app)))
    totals = CacheTotals(cast("Any", SimpleNamespace(seconds=0.5)), cast("Any", verdicts))
    totals.follow(["first", "second"])
    use = CacheUse(1)
    use.hits, use.hit_bytes, use.ages, use.audited_hits = 4, 40, 1.5, 2
    totals.take("first", use, "shop")
    assert counted == [("enforce", 4, "shop"), ("audit", 2, "shop")]
    expected = CacheFigures(hits=4, bytes=40, saved_seconds=2.0, ages=1.5, audited_hits=2, audited_saved_seconds=1.0)
    assert totals.figures == expected
    assert (use.hits, use.hit_bytes, use.ages, use.audited_hits) == (0, 0, 0.0, 0)
    rules = totals.by_rule()
    assert (rules["first"]["hits"], rules["second"]["hits"]) == (4, 0)

    assert totals.second(CacheFigures(hits=4, misses=1)) == CacheFigures(hits=4, misses=1)
    assert totals.second(CacheFigures(hits=6, misses=1)) == CacheFigures(hits=2)

    totals.follow(["first", "third"])
    assert totals.by_rule()["first"]["hits"] == 4, "a rule that stays keeps its figures"
    totals.follow(["second"])
    totals.follow(["first"])
    assert totals.by_rule()["first"]["hits"] == 0, "a rule that was away begins anew"


def test_no_more_reads_are_from_memory_than_were_counted() -> None:
    counts = CounterSnapshot(
        30, 0, (KeyCount(b"a", 10, 0, 9, 1), KeyCount(b"b", 9, 0, 9, 0), KeyCount(b"c", 1, 0, 1, 0))
    )
    told = with_hits(counts, {b"a": 12, b"b": 5, b"gone": 7})
    assert [(each.key, each.cached) for each in told.key_counts] == [(b"a", 9), (b"b", 5), (b"c", 0)]
    assert (told.total, told.floor) == (30, 0)

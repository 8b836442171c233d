"""What grew between scans, and when memory will be full, with the bounds that they give."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from proxy.server.stored.growth import APART, LOOK_BACK, SHARD_BYTES, Change, growth
from proxy.server.stored.model import NodeFigures, PatternRow, Place, Scan
from tests.cli.made_scan import DAY, NOW, made_scan

EMPTY = replace(made_scan("a"), patterns={}, findings={}, largest=[], finished=True)


def scan(day: float, used: float, *, keys: int = 0, **info: float) -> Scan:
    nodes = [NodeFigures("n1", info={"used_memory": used, **info})]
    rows = {Place("cart:*", "shop"): PatternRow(keys=keys, bytes=100 * keys)}
    return replace(EMPTY, started=NOW + day * DAY, nodes=nodes, patterns=rows if keys else {})


def test_owners_and_patterns_with_what_came_and_what_went() -> None:
    old = replace(
        EMPTY, patterns={Place("a:*", "x"): PatternRow(keys=5, bytes=50), Place("b", "x"): PatternRow(keys=1, bytes=9)}
    )
    new = replace(
        EMPTY,
        started=NOW + DAY,
        patterns={
            Place("a:*", "x"): PatternRow(keys=7, bytes=950),
            Place("b", "x"): PatternRow(keys=1, bytes=9),
            Place("c", ""): PatternRow(keys=3, bytes=30),
        },
    )
    found = growth(old, new)
    assert [*found.apps.items()] == [("x", Change(6, 8, 59, 959)), ("", Change(0, 3, 0, 30))]
    assert [*found.patterns] == [Place("a:*", "x"), Place("c", "")]
    back = growth(replace(new, started=NOW), replace(old, started=NOW + DAY))
    assert [*back.apps.items()] == [("", Change(3, 0, 30, 0)), ("x", Change(8, 6, 959, 59))]


def test_the_bounds_are_the_least_and_the_most_rate_of_all_pairs() -> None:
    scans = [scan(0, 1e9, maxmemory=4e9), scan(1, 1.5e9, maxmemory=4e9), scan(2, 1.6e9, maxmemory=4e9)]
    memory, shard = growth(scans[0], scans[2], scans).forecasts
    assert (memory.what, memory.limit, shard.limit) == ("maxmemory", 4e9, SHARD_BYTES)
    assert [memory.least * DAY, memory.most * DAY] == pytest.approx([0.1e9, 0.5e9])
    assert [memory.soonest, memory.latest] == pytest.approx([4.8 * DAY, 24 * DAY])
    assert shard.soonest == pytest.approx((SHARD_BYTES - 1.6e9) / 0.5e9 * DAY)


@pytest.mark.parametrize("seed", range(20))
def test_a_steady_growth_is_foretold_whichever_scans_there_are(seed: int) -> None:
    random = Random(seed)
    rate = random.uniform(1e6, 1e9)
    days = sorted(random.uniform(0, 29) for _ in range(random.randint(2, 8)))
    scans = [scan(day, 1e9 + rate * day, maxmemory=1e12) for day in (*days[:-1], days[-1] + 1)]
    memory = growth(scans[0], scans[-1], random.sample(scans, len(scans))).forecasts[0]
    full = (1e12 - 1e9) / rate - (scans[-1].started - NOW) / DAY
    assert memory.soonest == pytest.approx(full * DAY, rel=1e-6)
    assert memory.latest == pytest.approx(full * DAY, rel=1e-6)


def test_where_nobody_can_tell_it_says_so() -> None:
    near = growth(scan(0, 1e9, maxmemory=4e9), scan((APART - 1) / DAY, 2e9, maxmemory=4e9))
    assert [each.problem for each in near.forecasts] == ["no two scans of it are an hour apart"] * 2
    assert near.forecasts[0].soonest is None
    unknown = growth(scan(0, 1e9), scan(1, 2e9)).forecasts
    assert (unknown[0].problem, unknown[0].soonest) == ("INFO does not say how much it may use", None)
    assert unknown[1].soonest is not None
    machine = growth(scan(0, 1e9, maxmemory=0, total_system_memory=8e9), scan(1, 2e9, total_system_memory=8e9))
    assert (machine.forecasts[0].what, machine.forecasts[0].limit) == ("the machine's memory", 8e9)
    silent = replace(scan(1, 0), nodes=[NodeFigures("n1")])
    assert [each.problem for each in growth(scan(0, 1), silent).forecasts] == ["INFO does not say how much it uses"]
    other = replace(scan(1, 2e9), nodes=[NodeFigures("n2", info={"used_memory": 2e9})])
    assert growth(scan(0, 1e9), other).forecasts[1].problem == "no two scans of it are an hour apart"


def test_what_shrinks_is_never_full_and_what_is_full_is_so_now() -> None:
    shrinks = growth(scan(0, 2e9, maxmemory=4e9), scan(1, 1e9, maxmemory=4e9)).forecasts[0]
    assert (shrinks.soonest, shrinks.latest) == (None, None)
    full = growth(scan(0, 1e9, maxmemory=4e9), scan(0.01, 4e9, maxmemory=4e9)).forecasts[0]
    assert full.soonest == 0
    unsteady = [scan(0, 1e9, maxmemory=4e9), scan(1, 2e9, maxmemory=4e9), scan(2, 1.9e9, maxmemory=4e9)]
    memory = growth(unsteady[1], unsteady[2], unsteady).forecasts[0]
    assert memory.soonest == pytest.approx(2.1 * DAY)
    assert memory.latest is None


def test_scans_that_are_long_ago_count_for_no_rate_but_the_one_that_is_compared() -> None:
    long_ago, last, new = scan(-LOOK_BACK / DAY - 1, 0), scan(-1, 1e9), scan(0, 2e9)
    assert growth(last, new, [long_ago]).scans == 2
    assert growth(long_ago, new, [last]).scans == 3


def test_what_does_not_fit_together_is_noted() -> None:
    notes = growth(replace(scan(0, 1), finished=False, upstream="redis://b", policy="p"), scan(1, 2)).notes
    assert [each[:40] for each in notes] == [
        "the old scan is a part: what it lacks lo",
        "the old scan is of another upstream: red",
        "the old scan has another policy, so owne",
    ]

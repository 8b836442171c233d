"""What a proxy adds to a command's time: a short run on every target, and what the report makes of samples."""

from __future__ import annotations

import os
import shutil

import pytest

from loadtest import latency, targets
from loadtest.latency import Sample
from loadtest.placement import PLACEMENTS
from loadtest.quick import Course
from loadtest.report import latency_markdown


def test_what_is_added_is_taken_within_a_round() -> None:
    times = {"direct": (20, 1000), "nutcracker": (40, 1200), "keyrail none": (42, 1600), "keyrail strict": (45, 1700)}
    samples = [
        Sample(target, number, alone + 10 * number, late + 100 * number)
        for number in (0, 1, 2)
        for target, (alone, late) in times.items()
    ]
    page = latency_markdown(samples, [0.52, 0.49, 0.61], {})
    assert "| keyrail none | 22.00 (22.00–22.00) | 1.10 (1.10–1.10) | 0.60 (0.60–0.60) |" in page
    assert "| one client: p50 added by keyrail none, of nutcracker's | ≤ 1.1 | 1.10 (1.10–1.10) | met |" in page
    assert "| at a fixed rate: p99 added by keyrail none, ms | ≤ 0.5 | 0.60 (0.60–0.60) | MISSED |" in page
    assert "| start of keyrail strict until PONG, s | ≤ 0.5 | 0.52 (0.49–0.61) | MISSED |" in page


@pytest.mark.long
def test_each_target_is_measured() -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed here")
    course = Course(1, 0.05, PLACEMENTS["together"](frozenset(os.sched_getaffinity(0))))
    with latency.all_targets("redis-server", targets.keyrail_program()) as (redis, ways):
        samples = list(latency.rounds(ways, course, lambda _: None))
        starts = list(latency.starts(targets.keyrail_program(), redis, 1, lambda _: None))
    assert {each.target for each in samples} >= {"direct", "keyrail none", "keyrail strict"}
    assert min(min(each.alone, each.open_p99) for each in samples) > 0
    assert all(0 < each < 60 for each in starts)

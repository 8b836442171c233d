"""Latency among many clients: a short run on every target, and what the report makes of samples."""

from __future__ import annotations

import os
import shutil

import pytest

from loadtest import crowd, targets
from loadtest.crowd import Sample
from loadtest.placement import PLACEMENTS
from loadtest.quick import Course
from loadtest.report import crowd_markdown


def test_ratios_are_taken_within_a_round() -> None:
    samples = [Sample("direct", 0, 10.0, 100.0), Sample("x", 0, 20.0, 400.0)]
    samples += [Sample("direct", 1, 20.0, 100.0), Sample("x", 1, 20.0, 200.0)]
    assert "| x | 20 | 1.50 (1.00–2.00) | 300 | 3.00 (2.00–4.00) |" in crowd_markdown(samples, {})


@pytest.mark.long
def test_each_target_is_measured() -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed here")
    course = Course(1, 0.05, PLACEMENTS["together"](frozenset(os.sched_getaffinity(0))))
    with crowd.all_targets("redis-server", targets.keyrail_program()) as ways:
        samples = list(crowd.rounds(ways, 150, course, lambda _: None))
    assert {each.target for each in samples} >= {"direct", "keyrail none", "keyrail default"}
    assert all(0 < each.p50 <= each.p99 for each in samples)

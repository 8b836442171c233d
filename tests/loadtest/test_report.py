"""The report compares within rounds, and names every missed goal."""

import os

import pytest

from loadtest import kernel, report
from loadtest.goals import goals, judge
from loadtest.memory import Measured
from loadtest.quick import Sample
from loadtest.targets import DIRECT, KEYRAIL_BENCH, NUTCRACKER


def sample(target: str, number: int, rate: float, cpu: float) -> Sample:
    return Sample("GET", 1, target, number, rate, p50=0.5, p99=2.0, proxy_cpu=cpu, redis_cpu=1.0)


def rounds(*ratios: float) -> list[Sample]:
    samples = []
    for number, ratio in enumerate(ratios):
        # The machine is slower in each round; a ratio within a round does not care.
        speed = 1000.0 / (number + 1)
        samples.append(sample(NUTCRACKER, number, speed, 3.0))
        samples.append(sample(KEYRAIL_BENCH, number, speed * ratio, 2.0))
    return samples


def test_ratios_are_taken_within_a_round() -> None:
    cpu, rate = judge(rounds(0.98, 1.1, 0.99), goals())
    measured = (rate.ratio.least, rate.ratio.median, rate.ratio.most)
    assert measured == pytest.approx((0.98, 0.99, 1.1))
    assert rate.met
    assert cpu.ratio.median == 0.75
    assert cpu.met


def test_a_missed_goal_is_called_missed() -> None:
    _, rate = judge(rounds(0.9, 1.1, 0.95), goals())
    assert not rate.met
    page = report.markdown(rounds(0.9, 1.1, 0.95), {"machine": "this one"})
    assert "| GET P=1: throughput, of nutcracker's | ≥ 0.97 | 0.95 (0.90–1.10) | MISSED |" in page
    assert "- machine: this one" in page


def test_beside_a_ratio_of_throughput_stands_what_redis_alone_reaches() -> None:
    samples = [*rounds(0.9, 1.1, 0.95), *(sample(DIRECT, number, 1100.0 / (number + 1), 0.0) for number in range(3))]
    cpu, rate = judge(samples, goals())
    assert cpu.best is None
    assert rate.best is not None
    assert rate.best.median == pytest.approx(1.1)
    assert "| MISSED | 1.10 (1.10–1.10) |" in report.markdown(samples, {})


def test_goals_whose_other_side_was_not_measured_are_left_out() -> None:
    assert judge([sample(KEYRAIL_BENCH, 0, 1000.0, 2.0)], goals()) == []


def test_memory_is_judged_only_where_there_is_a_bound() -> None:
    page = report.measurements_markdown(
        "Keyrail's memory", [Measured("a", 5000.0, "bytes", 4096.0), Measured("b", 1.0, "bytes", None)], {}
    )
    assert "| a | 5,000.0 bytes | ≤ 4,096 bytes | MISSED |" in page
    assert "| b | 1.0 bytes | stated |  |" in page


def test_the_kernel_knows_this_process() -> None:
    before = kernel.cpu_seconds(os.getpid())
    while kernel.cpu_seconds(os.getpid()) <= before:
        sum(range(200_000))  # the kernel counts in hundredths of a second
    assert os.getpid() in kernel.process_tree(os.getpid())
    assert kernel.memory(os.getpid()).pss > 1_000_000
    assert kernel.resident(os.getpid()) <= kernel.memory(os.getpid()).peak

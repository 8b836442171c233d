"""The benchmark of reads from replicas: its targets are what their names say, and its goal is that of all cells."""

from __future__ import annotations

import os
import shutil

import pytest

from loadtest import placement, replicas, targets, workloads
from loadtest.benchmark import RunError
from loadtest.quick import Course, Sample
from loadtest.replicas import KEYRAIL_REPLICAS
from loadtest.report import replicas_markdown
from loadtest.targets import KEYRAIL_NONE, Target


def sample(pipeline: int, target: str, number: int, cpu: float) -> Sample:
    return Sample("GET", pipeline, target, number, 100.0 / cpu, 0.1, 0.2, cpu, 1.0)


@pytest.mark.parametrize(("deep", "outcome"), [(1.05, "1.05 | met"), (1.2, "1.06 | MISSED")])
def test_the_goal_is_the_median_of_the_cells(deep: float, outcome: str) -> None:
    samples = []
    for pipeline, ratio in ((1, 1.02), (16, 1.06 if deep > 1.1 else deep), (64, deep)):
        for number in range(3):
            samples += [sample(pipeline, KEYRAIL_NONE, number, 1.0 + number)]
            samples += [sample(pipeline, KEYRAIL_REPLICAS, number, ratio * (1.0 + number))]
    page = replicas_markdown(samples, {"machine": "test"})
    assert f"| proxy CPU of the 3 cells, of that without the rule: median | ≤ 1.05 | {outcome} |" in page


@pytest.mark.parametrize(
    ("name", "answered"),
    [(KEYRAIL_REPLICAS, [5, 3, 2]), (KEYRAIL_REPLICAS, [0, 10, 0]), (KEYRAIL_NONE, [0, 5, 5])],
)
def test_reads_that_others_answer_are_no_result(name: str, answered: list[int]) -> None:
    with pytest.raises(RunError, match="answered"):
        replicas._check(Target(name, 0, 0, "compiled"), answered)


@pytest.mark.long
def test_a_short_run_measures_every_workload_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed here")
    monkeypatch.setattr(workloads, "KEYSPACE", 200)
    monkeypatch.setattr(replicas, "SPREAD", 0.5)  # so short a run is over before some clients have a replica
    course = Course(1, 0.005, placement.together(frozenset(os.sched_getaffinity(0))))
    with replicas.all_targets("redis-server", targets.keyrail_program()) as (servers, ways):
        samples = list(replicas.rounds(servers, ways, course, lambda _: None))
    measured = {(each.workload, each.pipeline, each.target) for each in samples}
    names = (KEYRAIL_NONE, KEYRAIL_REPLICAS)
    assert measured == {(each.name, each.pipeline, name) for each in replicas.WORKLOADS for name in names}
    assert all(each.proxy_cpu > 0 for each in samples)

"""A soak's verdict: it reports figures that grow without bound, and not those that settle."""

from __future__ import annotations

import re
import shutil

import pytest

from loadtest import soak, targets
from loadtest.soak import Plan, Sample, markdown, verdict

MB = 1_000_000


def sample(number: int, supervisor: float = 50, worker: float = 40, files: int = 20, p99: float = 1.0) -> Sample:
    memory = {"supervisor": int(supervisor * MB), "worker 0": int(worker * MB)}
    return Sample(number * 30.0, memory, {"supervisor": 10, "worker 0": files}, 60_000, 0.5, p99, 9.0, 1.5)


def broken(samples: list[Sample]) -> list[str]:
    return [what for what, _, held in verdict(samples, 64) if not held]


def test_what_settles_holds() -> None:
    assert broken([sample(n, supervisor=50 + min(n, 60), worker=40 + min(n, 5)) for n in range(1, 121)]) == []


def test_what_grows_is_found() -> None:
    assert broken([sample(n, supervisor=50 + n) for n in range(1, 121)]) == ["memory of the supervisor"]
    assert broken([sample(n, worker=40 + n / 10) for n in range(1, 121)]) == ["memory of the worker 0"]
    assert broken([sample(n, files=20 + n // 10) for n in range(1, 121)]) == ["open files of the worker 0"]
    assert broken([sample(n, p99=1 + n / 10) for n in range(1, 121)]) == ["p99 of a batch"]


def test_the_page_has_the_verdict_and_about_thirty_rows() -> None:
    page = markdown([sample(n) for n in range(1, 121)], {"time": "60.0 minutes"}, 64)
    assert "| open files of the worker 0 | 20, +0 | holds |" in page
    assert len(re.findall(r"^\| [\d.]+ min \|", page, re.MULTILINE)) == 30


@pytest.mark.long
def test_a_short_soak_sees_every_process() -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed here")
    said: list[str] = []
    plan = Plan(seconds=4.0, commands=200, clients=4, keys=1000, every=1.0, reload_every=0.5)
    form, samples = soak.run(targets.keyrail_program(), "redis-server", plan, said.append)
    assert form in {"compiled", "plain"}
    assert len(said) == len(samples) == 4
    for each in samples:
        assert set(each.memory) == set(each.files) == {"supervisor", "worker 0", "worker 1"}
        assert min(each.memory.values()) > 10 * MB
        assert each.commands > 0
        assert 0 < each.p50 <= each.p99 <= each.worst

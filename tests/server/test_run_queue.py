"""A worker that waits for a CPU does not hang; one that runs, sleeps or is stopped without a report does.

Histories of a worker are made up, and what the kernel would tell of them: a wait is added to its figure when it ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.server.hung_workers import SILENT_SECONDS, TURN_SECONDS, HungWorkers, silence
from proxy.server.run_queue import RunQueueWait, SchedulerTimes, scheduler_times
from proxy.server.worker_process import WorkerProcess
from tests.resp import eventually

Doing = Literal["run", "wait", "sleep", "stop"]
DOINGS: tuple[Doing, ...] = ("run", "wait", "sleep", "stop")
LOOKS = 40


@dataclass
class Kernel:
    """What the kernel tells of a thread that does this, for so many seconds each. Time goes on by ``until``."""

    history: list[tuple[Doing, float]]
    now: float = 0.0
    ran: float = 1.0
    waited: float = 0.0
    doing: Doing = "sleep"
    left: float = 0.0
    wait: float = 0.0
    own: float = 0.0
    """Seconds in which it did not wait."""

    def until(self, then: float) -> None:
        """Let it do what it does until then."""
        while self.now < then:
            if not self.left:
                self._next()
            step = min(self.left, then - self.now)
            # Not the sum of steps, so that no rounding leaves a remainder.
            self.now = then if step == then - self.now else self.now + step
            self.left -= step
            if self.doing == "wait":
                self.wait += step
            else:
                self.own += step
                self.ran += step if self.doing == "run" else 0.0

    def _next(self) -> None:
        doing, self.left = self.history.pop(0) if self.history else (self.doing, 1.0)
        if self.doing == "wait" and doing != "wait":
            # Whatever ends a wait, it gets a CPU for a moment.
            self.waited, self.wait, self.ran = self.waited + self.wait, 0.0, self.ran + 0.0001
        self.doing = doing

    def times(self) -> SchedulerTimes:
        """What it tells now."""
        return SchedulerTimes(self.ran, self.waited, self.doing in ("run", "wait"))


@dataclass
class Watched:
    """Two workers of a supervisor that looks each second. The first one has last reported at ``heard``; the other one
    reports all the time."""

    kernel: Kernel
    heard: float = 0.0
    worker: SimpleNamespace = field(init=False)
    other: SimpleNamespace = field(init=False)
    hung: HungWorkers = field(init=False)

    def __post_init__(self) -> None:
        self.worker, self.other = (
            SimpleNamespace(heard=0.0, forgiven=0.0, serving=True, process=SimpleNamespace(pid=pid)) for pid in (1, 2)
        )
        for each in (self.worker, self.other):
            each.run_queue = RunQueueWait()
        self.hung = HungWorkers(2, 0.0, lambda pid: self.kernel.times() if pid == 1 else None)

    def look(self, now: float) -> bool:
        """Whether the first worker is to be replaced."""
        self.kernel.until(now)
        self.other.heard, self.other.forgiven = now, 0.0
        found = self.hung.look(cast("list[WorkerProcess]", [self.worker, self.other]), now)
        assert found is not cast("WorkerProcess", self.other)
        return found is not None

    def report(self, now: float) -> None:
        """The first worker reports."""
        self.kernel.until(now)
        self.kernel.own = 0.0
        self.worker.heard, self.worker.forgiven = now, 0.0

    @property
    def silence(self) -> float:
        """What counts as silence of the first worker at the last look."""
        return silence(cast("WorkerProcess", self.worker), self.kernel.now)


PARTS = st.tuples(st.sampled_from(DOINGS), st.floats(0.01, 12.0))


@given(st.lists(PARTS, min_size=1, max_size=12), st.floats(0.0, 20.0))
def test_silence_is_the_time_in_which_it_does_not_wait(history: list[tuple[Doing, float]], reported: float) -> None:
    watched = Watched(Kernel(history))
    for second in range(LOOKS):
        if second <= reported < second + 1:
            watched.report(reported)
        replaced = watched.look(second + 1.0)
        if second + 1.0 <= reported:
            continue
        own = watched.kernel.own
        # A look may come a second after a wait has begun, and a wait that ends now may have begun before the report.
        assert own - 2 * TURN_SECONDS - 0.01 <= watched.silence <= own + TURN_SECONDS + 0.01, second
        assert not replaced or own > SILENT_SECONDS - TURN_SECONDS - 0.01
        assert replaced or own < SILENT_SECONDS + 2 * TURN_SECONDS + 0.01


@pytest.mark.parametrize("doing", DOINGS)
def test_what_it_does_all_the_time(doing: Doing) -> None:
    watched = Watched(Kernel([(doing, 100.0)]))
    assert any(watched.look(float(second)) for second in range(1, 60)) == (doing != "wait")


@pytest.mark.parametrize("share", [0.01, 0.04, 0.2])
def test_an_endless_loop_under_a_limit_of_its_container(share: float) -> None:
    """It runs for a part of each 100 ms, and is found after as much time on a CPU as without a limit."""
    kernel = Kernel([part for _ in range(9000) for part in (("run", share * 0.1), ("wait", (1 - share) * 0.1))])
    watched = Watched(kernel)
    assert any(watched.look(float(second)) for second in range(1, 800))
    assert SILENT_SECONDS - 2 * TURN_SECONDS < kernel.own < SILENT_SECONDS + TURN_SECONDS


def test_a_pause_of_both_counts_once() -> None:
    watched = Watched(Kernel([("wait", 30.0), ("sleep", 100.0)]))
    assert not watched.look(1.0)
    assert not watched.look(31.0)
    found = next(second for second in range(32, 60) if watched.look(float(second)))
    assert SILENT_SECONDS <= found - 30.0 <= SILENT_SECONDS + 3 * TURN_SECONDS


@pytest.mark.parametrize("doing", DOINGS)
def test_a_pause_before_the_last_report_does_not_hide_what_comes_behind_it(doing: Doing) -> None:
    watched = Watched(Kernel([(doing, 30.9), ("run", 100.0)]))
    watched.look(1.0)
    watched.report(31.0)
    found = next(second for second in range(31, 90) if watched.look(second + 0.5))
    assert SILENT_SECONDS <= found - 31.0 <= SILENT_SECONDS + 2 * TURN_SECONDS


def test_where_the_system_tells_nothing_all_time_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def told(schedstat: str | None) -> SchedulerTimes | None:
        def path(of: str) -> Path:
            return tmp_path / Path(of).name

        for name, text in (("schedstat", schedstat), ("stat", "7 (a) R b) S 1 2")):
            (tmp_path / name).unlink(missing_ok=True)
            if text is not None:
                (tmp_path / name).write_text(text)
        monkeypatch.setattr("proxy.server.run_queue.Path", path)
        return scheduler_times(7)

    assert told("2000000000 500000000 3\n") == SchedulerTimes(2.0, 0.5, runnable=False)
    assert [told(text) for text in (None, "0 0 0\n", "", "1 2")] == [None] * 4
    wait = RunQueueWait()
    assert [wait.further(None, now) for now in (1.0, 2.0)] == [0.0, 0.0]


@pytest.fixture
def busy() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts endless loops, all on the same CPU."""
    cpu, started = min(os.sched_getaffinity(0)), list[subprocess.Popen[bytes]]()

    def start() -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        started.append(process)
        os.sched_setaffinity(process.pid, {cpu})
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE") or scheduler_times(os.getpid()) is None, reason="not told here")
def test_a_real_process_that_waits_and_one_that_is_stopped(busy: Callable[[], subprocess.Popen[bytes]]) -> None:
    starved, stopped = busy(), busy()
    busy()  # the one that has the CPU
    os.sched_setscheduler(starved.pid, os.SCHED_IDLE, os.sched_param(0))
    os.kill(stopped.pid, signal.SIGSTOP)
    eventually(lambda: Path(f"/proc/{stopped.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    waits = {each.pid: RunQueueWait() for each in (starved, stopped)}
    waited = dict.fromkeys(waits, 0.0)
    began = time.monotonic()

    def seen() -> bool:
        for pid, wait in waits.items():
            waited[pid] += wait.further(scheduler_times(pid), time.monotonic())
        return waited[starved.pid] > 0.5

    eventually(seen)
    assert waited[starved.pid] > (time.monotonic() - began) / 4, "it waits most of the time"
    assert not waited[stopped.pid]

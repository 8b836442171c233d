"""A worker that hangs is replaced, one at a time; while one is missing, new connections go to the others at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from proxy.server.hung_workers import SILENT_SECONDS, TURN_SECONDS, HungWorkers
from proxy.server.run_queue import RunQueueWait
from proxy.server.worker_process import WorkerProcess
from tests.engines import Engine
from tests.server.running import Running, serve, ticks


@pytest.fixture
def two_workers(new_engine: Callable[..., Engine]) -> Iterator[Running]:
    with serve("--upstream", new_engine().url, "--policy", "none", "--workers", "2") as running:
        yield running.ready()


def another_worker(running: Running, before: set[int]) -> int:
    """Wait for the process that replaces another one."""
    for _ in ticks():
        for pid in set(running.workers()) - before:
            return pid
    raise AssertionError(f"none but {before}:\n{running.stderr}")


def test_connections_to_a_missing_worker_are_accepted_by_another_one(two_workers: Running) -> None:
    before = set(two_workers.workers())
    os.kill(min(before), signal.SIGKILL)
    # It never serves, so that whatever is answered has been answered by the one that is left.
    replacement = another_worker(two_workers, before)
    os.kill(replacement, signal.SIGSTOP)
    for _ in range(40):
        with two_workers.wire() as wire:
            assert wire.ask("PING") == b"+PONG\r\n"
    os.kill(replacement, signal.SIGCONT)
    two_workers.await_metric("keyrail_workers", 2)


@pytest.mark.parametrize("of", ["a worker", "the supervisor and a worker"])
def test_connections_do_not_wait_for_a_worker_that_hangs(two_workers: Running, of: str) -> None:
    stopped = [min(two_workers.workers())] + ([two_workers.process.pid] if "supervisor" in of else [])
    try:
        for pid in reversed(stopped):
            os.kill(pid, signal.SIGSTOP)
        for _ in range(40):
            with two_workers.wire() as wire:
                assert wire.ask("PING") == b"+PONG\r\n"
        assert stopped[0] in two_workers.workers(), "it has not been replaced"
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


def test_a_worker_that_hangs_is_replaced(two_workers: Running) -> None:
    before = set(two_workers.workers())
    os.kill(min(before), signal.SIGSTOP)
    replacement = another_worker(two_workers, before)
    two_workers.await_line(rf"^keyrail: worker \d \(pid {min(before)}\) has not reported for \d+ s: killing it$")
    two_workers.await_metric("keyrail_workers", 2)
    assert set(two_workers.workers()) == {max(before), replacement}
    for _ in range(20):
        with two_workers.wire() as wire:
            assert wire.ask("PING") == b"+PONG\r\n"


def workers(*heard: float, serving: bool = True) -> list[WorkerProcess]:
    workers = [
        SimpleNamespace(
            number=number,
            heard=at,
            forgiven=0.0,
            serving=serving,
            process=SimpleNamespace(pid=number),
            run_queue=RunQueueWait(),
        )
        for number, at in enumerate(heard)
    ]
    return cast("list[WorkerProcess]", workers)


def looks(workers: list[WorkerProcess], times: list[float], group_size: int = 2) -> list[int]:
    """The worker to replace after each look."""
    hung = HungWorkers(group_size, 0.0, lambda _: None)
    found = [hung.look(workers, now) for now in times]
    return [-1 if worker is None else worker.number for worker in found]


def test_the_pauses_of_the_supervisor_are_no_silence() -> None:
    steady = [float(second) for second in range(1, 8)]
    assert looks(workers(0.0, 6.5), steady) == [-1, -1, -1, -1, -1, 0, 0]
    assert looks(workers(0.0, 0.0), [1.0, 60.0, 61.0, 62.0]) == [-1] * 4
    assert looks(workers(0.0, 64.0), [1.0, 60.0, *(60.0 + second for second in steady)])[-1] == 0


def test_one_worker_is_replaced_at_a_time() -> None:
    late = SILENT_SECONDS + 2 * TURN_SECONDS
    times = [float(second) for second in range(1, int(late) + 1)]
    assert looks(workers(0.5, 0.0), times)[-1] == 1
    assert set(looks(workers(0.0), times)) == {-1}, "another one is missing"
    assert set(looks(workers(0.0, 0.0, serving=False), times)) == {-1}, "another one is starting"

"""Clients that stay connected are shared evenly between workers that accept from the same socket, and no connection
waits for a worker that has ended or hangs."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from proxy.net.downstream.worker_loads import WorkerLoads, cells


def group(workers: int) -> list[WorkerLoads]:
    memory = memoryview(bytearray(8 * cells(workers)))
    found = [WorkerLoads(memory, workers, number) for number in range(workers)]
    for each in found:
        each.begin()
    return found


@pytest.mark.parametrize("workers", [2, 3, 4, 16])
@pytest.mark.parametrize("clients", [4, 8, 50])
def test_no_worker_has_more_than_one_client_above_its_share(workers: int, clients: int) -> None:
    """One comes after the other, and whichever workers learn of it first."""
    for seed in range(100):
        chance = random.Random(seed)
        loads, here = group(workers), [0] * workers
        for _ in range(clients):
            for number in chance.sample(range(workers), workers):
                if loads[number].share(1) > 0:
                    loads[number].add(1)
                    here[number] += 1
                    break
            else:
                raise AssertionError(f"nobody takes the next client: {here}")
        assert max(here) <= -(-clients // workers) + 1
        if clients <= 4:
            assert max(here) - min(here) <= 1


@pytest.mark.parametrize("workers", [2, 3, 4, 16])
@pytest.mark.parametrize("clients", [4, 50, 1000])
def test_a_crowd_is_shared_evenly_in_whatever_order_workers_run(workers: int, clients: int) -> None:
    for seed in range(50):
        chance = random.Random(seed)
        loads, here, waiting = group(workers), [0] * workers, clients
        while waiting:
            number = chance.randrange(workers)
            taken = max(0, min(loads[number].share(waiting), waiting))
            loads[number].add(taken)
            here[number] += taken
            waiting -= taken
        assert max(here) <= -(-clients // workers) + max(1, clients // 16), here


@pytest.mark.parametrize("gone", [lambda loads: loads.end(), lambda loads: loads.away(1)])
def test_a_worker_that_has_ended_has_no_share(gone: Callable[[WorkerLoads], None]) -> None:
    here, other = group(2)
    assert here.share(10) == 5
    gone(other)
    assert here.share(10) == 10


def test_it_is_known_for_how_long_nobody_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    first, second = group(2)
    first.attend(99.5)
    second.attend(98.0)
    assert first.unattended() == second.unattended() == 0.5
    first.end()
    first.attend(100.0)
    assert second.unattended() == 0.5, "it accepts no more"

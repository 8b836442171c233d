"""No garbage collection stops the event loop while a policy is bound."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from proxy.net import garbage_collector
from proxy.net.plan_compiler import PlanCompiler, WantedPlans
from proxy.policy.plan_tables import NewParts
from tests.net.test_policies import TEXT, Bench, bench
from tests.policy.given import policy

__all__ = ["bench"]


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """The threads in which collections ran, where one is due after every few objects."""
    threads: list[int] = []

    def on_collection(phase: str, _info: dict[str, Any]) -> None:
        if phase == "start":
            threads.append(threading.get_ident())

    threshold = gc.get_threshold()
    gc.callbacks.append(on_collection)
    gc.set_threshold(20, 2, 2)
    try:
        yield threads
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(on_collection)
        gc.unfreeze()


def make_objects() -> list[list[int]]:
    return [[each] for each in range(1000)]


def test_nothing_is_collected_until_the_last_pause_ends(collections: list[int]) -> None:
    with garbage_collector.paused():
        with garbage_collector.paused():
            collections.clear()
            made = make_objects()
        made += make_objects()
        assert collections == []
    made += make_objects()
    assert collections
    frozen = gc.get_freeze_count()
    assert frozen >= 2000, "what was made in a pause is never visited"


def test_a_collector_that_is_off_stays_off(collections: list[int]) -> None:
    frozen = gc.get_freeze_count()
    gc.disable()
    try:
        with garbage_collector.paused():
            pass
        assert not gc.isenabled()
        assert gc.get_freeze_count() == frozen
    finally:
        gc.enable()


def test_no_thread_that_binds_a_policy_collects(bench: Bench, collections: list[int]) -> None:
    compiler = PlanCompiler(coming := policy(TEXT.replace("10/s", "20/s")))

    async def find(wanted: WantedPlans) -> NewParts:
        with garbage_collector.paused():  # elsewhere another process compiles
            return await compiler.find(wanted)

    bench.run(bench.policies.prepare(coming, 2, find))
    bench.commit()
    bench.settle()
    assert set(collections) == {threading.get_ident()}
    assert gc.isenabled()

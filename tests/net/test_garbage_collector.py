"""No garbage collection stops the event loop while a policy is bound."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from proxy.net.policy.garbage_collector import uncollected
from proxy.net.policy.plan_compiler import PlanCompiler, WantedPlans
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


def test_nothing_is_collected_until_the_last_call_ends(collections: list[int]) -> None:
    async def main() -> list[list[int]]:
        begun, ended = threading.Event(), threading.Event()

        def make_late() -> list[list[int]]:
            begun.set()
            assert ended.wait(30.0)
            return make_objects()

        late = asyncio.ensure_future(uncollected(make_late))
        await asyncio.to_thread(begun.wait, 30.0)
        collections.clear()
        made = await uncollected(make_objects)
        made += make_objects()
        ended.set()
        made += await late
        assert collections == []
        return made + make_objects()

    assert len(asyncio.run(main())) == 4000
    assert collections
    assert gc.get_freeze_count() >= 3000, "what was made meanwhile is never visited"


def test_a_collector_that_is_off_stays_off(collections: list[int]) -> None:
    frozen = gc.get_freeze_count()
    gc.disable()
    try:
        assert len(asyncio.run(uncollected(make_objects))) == 1000
        assert not gc.isenabled()
        assert gc.get_freeze_count() == frozen
    finally:
        gc.enable()


def test_no_thread_that_binds_a_policy_collects(bench: Bench, collections: list[int]) -> None:
    compiler = PlanCompiler(coming := policy(TEXT.replace("10/s", "20/s")))

    async def find(wanted: WantedPlans) -> NewParts:
        before = [*collections]
        found = await compiler.find(wanted)
        collections[:] = before  # elsewhere another process compiles
        return found

    bench.run(bench.policies.prepare(coming, 2, find))
    bench.commit()
    bench.settle()
    assert set(collections) == {threading.get_ident()}
    assert gc.isenabled()

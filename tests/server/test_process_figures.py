"""How busy each worker is: figures of the process itself, and as metrics of each worker by its number."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from proxy.server.process_figures import figures_of_this_process
from tests.engines import Engine
from tests.resp import eventually
from tests.server.running import serve


def test_figures_follow_what_the_process_does() -> None:
    before = figures_of_this_process(-1.0)
    assert before.lag == 0
    with ExitStack() as held:
        for _ in range(10):
            held.enter_context(Path(os.devnull).open("rb"))
        held_memory = bytearray(b"x" * (32 << 20))
        during = figures_of_this_process(0.5)
    assert during.files == before.files + 10
    assert during.memory - before.memory > len(held_memory) // 2
    assert during.cpu > before.cpu
    assert during.lag == 0.5


def test_each_worker_has_its_own(new_engine: Callable[..., Engine]) -> None:
    with serve("--upstream", new_engine().url, "--policy", "none", "--workers", "2") as running, ExitStack() as held:
        running.ready()

        def files() -> float:
            return sum(running.metric(f'keyrail_worker_open_files{{worker="{number}"}}') for number in range(2))

        eventually(
            lambda: all(running.metric(f'keyrail_worker_cpu_seconds_total{{worker="{n}"}}') > 0 for n in range(2))
        )
        before = files()
        for _ in range(20):
            held.enter_context(running.wire()).ask("PING")
        eventually(lambda: files() >= before + 20)
        assert all(running.metric(f'keyrail_worker_memory_bytes{{worker="{n}"}}') > 1 << 20 for n in range(2))
        assert all(running.metric(f'keyrail_worker_lag_seconds{{worker="{n}"}}') >= 0 for n in range(2))

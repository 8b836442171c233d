"""How busy each process is: figures of the process itself, and as metrics, of each worker by its number."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from proxy.server.hung_workers import HungWorkers
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


def test_the_supervisor_has_its_own(new_engine: Callable[..., Engine]) -> None:
    with serve("--upstream", new_engine().url, "--policy", "none", "--workers", "2", open_files=500) as running:
        running.ready()
        assert running.metric("keyrail_open_files_limit") == 500
        said = running.await_line(r"up to \d+ clients for each worker")
        assert running.metric("keyrail_max_clients") == int(said.split()[2])

        def files_as_metric() -> bool:
            """As many as /proc has, give or take the connection that asks."""
            return abs(running.metric("keyrail_supervisor_open_files") - len([*Path(f"/proc/{pid}/fd").iterdir()])) <= 1

        pid = running.process.pid
        eventually(files_as_metric)
        resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        assert abs(running.metric("keyrail_supervisor_memory_bytes") - resident) < resident / 4
        used = running.metric("keyrail_supervisor_cpu_seconds_total")
        assert 0 < used <= cpu_of(pid)


def test_the_lag_of_a_supervisor_that_stood_still() -> None:
    looks = HungWorkers(0, 0.0)
    for now, late in ((1.0, 0.0), (3.5, 1.5), (4.5, 0.0), (5.25, 0.0)):
        looks.look([], now)
        assert looks.late == late


def cpu_of(pid: int) -> float:
    """Seconds of CPU time that a process has used until now: the most that rounding down may have hidden."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12]) + 2) / os.sysconf("SC_CLK_TCK")

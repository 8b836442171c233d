"""``insight``: what traffic insight costs, all of it on against all of it off, GET at three depths.

On: keys are counted, commands are looked at, and a reader follows the page's stream of events. Off: neither counted nor
looked at, and no admin port. Both hold commands against bench.yaml.
"""

import contextlib
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import redis as redis_py
import yaml

from loadtest import targets, workloads
from loadtest.processes import free_port
from loadtest.quick import Sample, Workload, measure
from loadtest.targets import Redis, Target

ON = "insight on"
OFF = "insight off"
WORKLOADS = [Workload("GET", 1, 60_000), Workload("GET", 16, 400_000), Workload("GET", 64, 800_000)]


def uncounted(text: str) -> str:
    """The policy, counting no keys."""
    policy: dict[str, Any] = yaml.load(text, yaml.BaseLoader)  # noqa: S506  it makes text of every scalar
    policy.setdefault("traffic", {})["count_keys"] = "off"
    return yaml.safe_dump(policy, sort_keys=False)


@contextlib.contextmanager
def both(redis_program: str, keyrail_program: list[str]) -> Iterator[tuple[Redis, list[Target]]]:
    """A Redis and both ways to it, started and preloaded, ended with the block."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keyrail-loadtest-")))
        redis = stack.enter_context(targets.redis_server(folder, redis_program))
        with redis_py.Redis(port=redis.port, protocol=2) as connection:
            workloads.preload(connection)
        blind = folder / "uncounted.yaml"
        blind.write_text(uncounted(targets.BENCH_POLICY.read_text(encoding="utf-8")), encoding="utf-8")
        admin = f"127.0.0.1:{free_port()}"
        start = targets.keyrail
        off = stack.enter_context(start(OFF, keyrail_program, redis, str(blind), "--looks", "0"))
        on = stack.enter_context(start(ON, keyrail_program, redis, str(targets.BENCH_POLICY), "--admin", admin))
        stack.enter_context(_follower(f"http://{admin}/events"))
        yield redis, [off, on]


@contextlib.contextmanager
def _follower(url: str) -> Iterator[None]:
    ended = threading.Event()

    def follow() -> None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=10) as stream:  # noqa: S310  our own
            while not ended.is_set() and stream.readline():
                pass

    reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    try:
        yield
    finally:
        ended.set()
        reader.join(15.0)


def rounds(
    redis: Redis, ways: Sequence[Target], count: int, scale: float, say: Callable[[str], None]
) -> Iterator[Sample]:
    """``count`` rounds; in each every workload runs on both, which take turns in being first."""
    for number in range(count):
        for workload in WORKLOADS:
            for target in ways if number % 2 else ways[::-1]:
                sample = measure(redis, target, workload, number, scale)
                say(
                    f"round {number + 1}/{count}  {workload.name} P={workload.pipeline}  {target.name}: "
                    f"{sample.rate:,.0f}/s, {sample.proxy_cpu:.2f} + {sample.redis_cpu:.2f} µs"
                )
                yield sample

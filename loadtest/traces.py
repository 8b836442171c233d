"""``traces``: what traffic statistics cost, all of it on against all of it off, GET at three depths.

On: keys are counted, commands are traced, and a reader follows the page's stream of events. Off: neither counted nor
traced, and no admin port. Both check commands against bench.yaml.
"""

import contextlib
import http.client
import threading
from collections.abc import Callable, Iterator, Sequence

import yaml

from loadtest import targets
from loadtest.processes import free_port
from loadtest.quick import Course, Sample, Workload, measure, told
from loadtest.targets import Redis, Target

ON = "traces on"
OFF = "traces off"
WORKLOADS = [Workload("GET", 1, 60_000), Workload("GET", 16, 400_000), Workload("GET", 64, 800_000)]


def uncounted(text: str) -> str:
    """The policy, counting no keys."""
    policy = targets.as_written(text)
    policy.setdefault("traffic", {})["count_keys"] = "off"
    return yaml.safe_dump(policy, sort_keys=False)


@contextlib.contextmanager
def both(redis_program: str, keyrail_program: list[str]) -> Iterator[tuple[Redis, list[Target]]]:
    """A Redis and both ways to it, started and preloaded, ended with the block."""
    with contextlib.ExitStack() as stack:
        folder, redis = stack.enter_context(targets.preloaded(redis_program))
        blind = folder / "uncounted.yaml"
        blind.write_text(uncounted(targets.BENCH_POLICY.read_text(encoding="utf-8")), encoding="utf-8")
        port = free_port()
        admin = f"127.0.0.1:{port}"
        start = targets.keyrail
        off = stack.enter_context(start(OFF, keyrail_program, redis, str(blind), "--traces", "0"))
        on = stack.enter_context(start(ON, keyrail_program, redis, str(targets.BENCH_POLICY), "--admin", admin))
        stack.enter_context(_follower(port))
        yield redis, [off, on]


@contextlib.contextmanager
def _follower(port: int) -> Iterator[None]:
    ended = threading.Event()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)

    def follow() -> None:
        with contextlib.suppress(OSError), contextlib.closing(connection):
            connection.request("GET", "/events")
            stream = connection.getresponse()
            while not ended.is_set() and stream.readline():
                pass

    reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    try:
        yield
    finally:
        ended.set()
        reader.join(15.0)


def rounds(redis: Redis, ways: Sequence[Target], course: Course, say: Callable[[str], None]) -> Iterator[Sample]:
    """In each round every workload runs on both, in an order that rotates."""
    for number in range(course.rounds):
        for workload in WORKLOADS:
            for target in targets.rotated(ways, number):
                sample = measure([redis], target, workload, number, course)
                say(told(sample, course.rounds))
                yield sample

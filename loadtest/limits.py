"""``limits``: how far Keyrail is from what a machine allows.

It compares, in interleaved rounds, the proxy's CPU per command and per client that comes and goes: Keyrail without a
policy and under strict.yaml, nutcracker, another build of Keyrail, and other proxies that run already. ``cluster``,
``local-cache`` and ``memory`` have the limits of clusters, of the local cache and of large values.
"""

import argparse
import contextlib
from collections.abc import Callable, Iterator, Sequence

import redis as redis_py

from loadtest import benchmark, connects, targets, workloads
from loadtest.benchmark import RunError
from loadtest.quick import CLIENTS, WORKLOADS, Course, Sample, Workload, measure, run_benchmark, sampled, spent, told
from loadtest.rules import as_it_is
from loadtest.targets import KEYRAIL_NONE, Redis, Target

KEYRAIL_STRICT = "keyrail strict"
BEFORE = "keyrail none, before"
CLIENT = "connect+GET+close"
"""The workload of clients that come and go; its rate and its CPU time are those of a client."""
_AT_ONCE = 1000


def peer(text: str) -> Target:
    """A proxy that runs already: ``NAME=HOST:PORT,PID``. Raises ArgumentTypeError."""
    name, _, rest = text.partition("=")
    address, _, pid = rest.partition(",")
    host, _, port = address.rpartition(":")
    if not (name and port.isdecimal() and pid.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=HOST:PORT,PID")
    if host not in ("127.0.0.1", "localhost"):
        raise argparse.ArgumentTypeError(f"{host!r}: expected 127.0.0.1, since CPU time is read from this machine")
    return Target(name, int(port), int(pid), f"process {pid}")


@contextlib.contextmanager
def side_by_side(
    redis_program: str, program: list[str], before: list[str] | None, peers: Sequence[Target]
) -> Iterator[tuple[Redis, list[Target]]]:
    """A preloaded Redis and all ways to measure, ended with the block; the peers have a Redis of their own."""
    with contextlib.ExitStack() as stack:
        folder, redis = stack.enter_context(targets.preloaded(redis_program))
        ways = [stack.enter_context(targets.nutcracker(folder, redis))]
        ways.append(stack.enter_context(targets.keyrail(KEYRAIL_NONE, program, redis, "none")))
        ways.append(as_it_is(redis, stack.enter_context(targets.keyrail(KEYRAIL_STRICT, program, redis, "strict"))))
        if before is not None:
            ways.append(stack.enter_context(targets.keyrail(BEFORE, before, redis, "none")))
        for each in peers:
            _preload(each)
        yield redis, [*(way for way in ways if way is not None), *peers]


def rounds(
    redis: Redis, ways: Sequence[Target], peers: Sequence[Target], course: Course, say: Callable[[str], None]
) -> Iterator[Sample]:
    """In each round every workload runs on every way, in an order that rotates, and then clients come and go."""
    for number in range(course.rounds):
        for workload in (each for each in WORKLOADS if each.only is None):
            for way in targets.rotated(ways, number):
                of_peer = way in peers
                sample = (_measure_peer if of_peer else _measure_own)(redis, way, workload, number, course)
                say(told(sample, course.rounds))
                yield sample
        for way in targets.rotated(ways, number):
            sample = _measure_clients(way, number, course)
            say(told(sample, course.rounds))
            yield sample


def _measure_own(redis: Redis, way: Target, workload: Workload, number: int, course: Course) -> Sample:
    return measure([redis], way, workload, number, course)


def _measure_peer(_: Redis, way: Target, workload: Workload, number: int, course: Course) -> Sample:
    # Its Redis is unknown, so nobody can tell whether all commands arrived there.
    if not benchmark.available():
        raise RunError("peers are measured with redis-benchmark, which is not installed")
    commands = max(CLIENTS * workload.pipeline, int(workload.commands * course.scale))
    begun = spent(way, [])
    with course.placement.loading():
        measured = run_benchmark(way, workload, commands)
    return sampled((workload.name, workload.pipeline, way.name, number), measured, commands, begun, spent(way, []))


def _measure_clients(way: Target, number: int, course: Course) -> Sample:
    found = connects.measure(way, number, course)
    return Sample(CLIENT, 1, way.name, number, found.rate, 0.0, 0.0, found.proxy_cpu, 0.0)


def _preload(way: Target) -> None:
    with redis_py.Redis(port=way.port, protocol=2) as connection:
        for first in range(0, workloads.KEYSPACE, _AT_ONCE):
            pipeline = connection.pipeline(transaction=False)
            for number in range(first, first + _AT_ONCE):
                pipeline.set(f"{workloads.GET_PREFIX}{number:012d}", workloads.VALUE)
            pipeline.execute()

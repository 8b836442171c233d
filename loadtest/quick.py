"""``quick``: every target, every workload, in interleaved rounds.

The programs keep running from round to round, as in production: a new proxy is faster than one with the fragmented
memory of thousands of replies.
"""

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import redis as redis_py

from loadtest import benchmark, generator, targets, workloads
from loadtest.benchmark import Measured, RunError
from loadtest.kernel import cpu_seconds
from loadtest.placement import Placement
from loadtest.targets import KEYRAIL_BENCH, KEYRAIL_NONE, Redis, Target
from loadtest.workloads import Probe

CLIENTS = 50
_DISTINCT = 6_400
_SEED = 20
_MISSED_AT_MOST = 0.0001
"""The share of commands that may miss: Keyrail itself sometimes asks for the TTL of a hot key, which may have
expired."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload and its targets. ``commands`` is the number in one run, before scaling; ``only`` limits the
    targets."""

    name: str
    pipeline: int
    commands: int
    only: frozenset[str] | None = None

    def suits(self, target: Target) -> bool:
        """Whether this target gets this workload."""
        return self.only is None or target.name in self.only


_MIX_TARGETS = frozenset({targets.DIRECT, KEYRAIL_BENCH})
WORKLOADS = [
    Workload("GET", 1, 60_000),
    Workload("SET", 1, 60_000),
    Workload("GET", 16, 400_000),
    Workload("SET", 16, 400_000),
    Workload("GET", 64, 800_000),
    Workload("SET", 64, 800_000),
    Workload("GET (own generator)", 16, 200_000, _MIX_TARGETS),
    Workload("mix", 16, 200_000, _MIX_TARGETS),
]


@dataclass(frozen=True, slots=True)
class Course:
    """The number of rounds, the length of each run (1 is usual), and the processors."""

    rounds: int
    scale: float
    placement: Placement


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one workload on one target; CPU in microseconds per command that was sent."""

    workload: str
    pipeline: int
    target: str
    round: int
    rate: float
    p50: float
    p99: float
    proxy_cpu: float
    redis_cpu: float


@contextlib.contextmanager
def all_targets(redis_program: str, keyrail_program: list[str]) -> Iterator[tuple[Redis, list[Target]]]:
    """A Redis and every way to it, started and preloaded, ended with the block."""
    with contextlib.ExitStack() as stack:
        folder, redis = stack.enter_context(targets.preloaded(redis_program))
        found = [targets.direct(redis), stack.enter_context(targets.nutcracker(folder, redis))]
        for name, policy in ((KEYRAIL_NONE, "none"), (KEYRAIL_BENCH, str(targets.BENCH_POLICY))):
            found.append(stack.enter_context(targets.keyrail(name, keyrail_program, redis, policy)))
        yield redis, [target for target in found if target is not None]


def rounds(redis: Redis, ways: Sequence[Target], course: Course, say: Callable[[str], None]) -> Iterator[Sample]:
    """In each round every workload runs on every target, in an order that rotates."""
    for target in ways:
        check(redis, target)
    for number in range(course.rounds):
        for workload in WORKLOADS:
            for target in targets.rotated([target for target in ways if workload.suits(target)], number):
                sample = measure([redis], target, workload, number, course)
                say(told(sample, course.rounds))
                yield sample
    for target in ways:
        check(redis, target)


def told(sample: Sample, count: int) -> str:
    """A line of progress about one run of ``count`` rounds."""
    return (
        f"round {sample.round + 1}/{count}  {sample.workload} P={sample.pipeline}  {sample.target}: "
        f"{sample.rate:,.0f}/s, {sample.proxy_cpu:.2f} + {sample.redis_cpu:.2f} µs"
    )


def check(redis: Redis, target: Target) -> None:
    """Check that the target works as its name says; raises RunError if not."""
    key = b"%bcheck" % workloads.SET_PREFIX.encode()
    known = b"%b%012d" % (workloads.GET_PREFIX.encode(), 7)
    probes = [
        Probe((b"SET", key, workloads.VALUE), lambda reply: reply == b"OK"),
        Probe((b"GET", known), lambda reply: reply == workloads.VALUE),
    ]
    if target.stamps_lifetimes:
        probes.append(Probe((b"KEYS", b"nothing:like:this"), workloads.refused))
    if target.name == KEYRAIL_NONE:
        probes.append(Probe((b"KEYS", b"nothing:like:this"), lambda reply: reply == []))
    generator.rehearse(target.port, probes, len(probes))
    with redis_py.Redis(port=redis.port, protocol=2) as connection:
        lifetime = int(str(connection.ttl(key)))
    if target.stamps_lifetimes != (0 < lifetime <= workloads.LIFETIME * 1.1):
        raise RunError(f"{target.name}: a bare SET left a TTL of {lifetime} s")


def measure(servers: Sequence[Redis], target: Target, workload: Workload, number: int, course: Course) -> Sample:
    """One run, with its CPU time, and with a check that the servers behind the target ran the commands."""
    commands = max(CLIENTS * workload.pipeline, int(workload.commands * course.scale))
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(redis_py.Redis(port=each.port, protocol=2)) for each in servers]
        send = _sender(connections[0], target, workload, commands)
        before = _stats(connections)
        begun = spent(target, servers)
        with course.placement.loading():
            measured = send()
        ended = spent(target, servers)
        after = _stats(connections)
    arrived = after["total_commands_processed"] - before["total_commands_processed"]
    if arrived < commands * 0.9:
        raise RunError(f"{target.name}: only {arrived} of {commands} commands reached Redis")
    missed = after["keyspace_misses"] - before["keyspace_misses"]
    if workload.name.startswith(("GET", "MGET")) and missed > commands * _MISSED_AT_MOST:
        raise RunError(f"{target.name}: {missed} keys were not found")
    return sampled((workload.name, workload.pipeline, target.name, number), measured, commands, begun, ended)


class Spent(NamedTuple):
    """CPU seconds since the start of the processes."""

    proxy: float
    redis: float


def spent(target: Target, servers: Sequence[Redis]) -> Spent:
    """What the target and the servers behind it have taken so far."""
    return Spent(cpu_seconds(target.pid) if target.pid else 0.0, sum(cpu_seconds(each.pid) for each in servers))


def sampled(run: tuple[str, int, str, int], measured: Measured, commands: int, begun: Spent, ended: Spent) -> Sample:
    """The sample of a run (its workload, pipeline, target and round) of so many commands."""
    proxy, redis = ((each - before) / commands * 1e6 for each, before in zip(ended, begun, strict=True))
    return Sample(*run, measured.rate, measured.p50, measured.p99, proxy, redis)


def _stats(connections: Sequence[redis_py.Redis]) -> Counter[str]:
    """Redis's own figures, of all servers together."""
    names = ("total_commands_processed", "keyspace_misses")
    found: Counter[str] = Counter()
    for connection in connections:
        said = connection.info("stats")
        found.update({name: said[name] for name in names})
    return found


def run_benchmark(target: Target, workload: Workload, commands: int) -> Measured:
    """One run by redis-benchmark."""
    argv = ["GET", f"{workloads.GET_PREFIX}__rand_int__"]
    if workload.name == "SET":
        argv = ["SET", f"{workloads.SET_PREFIX}__rand_int__", workloads.VALUE.decode()]
        if not target.stamps_lifetimes:
            argv += ["EX", str(workloads.LIFETIME)]
    elif workload.name == "MGET":
        argv = ["MGET", *[f"{workloads.GET_PREFIX}__rand_int__"] * workloads.MGET_KEYS]
    return benchmark.run(
        target.port, argv, clients=CLIENTS, pipeline=workload.pipeline, commands=commands, keyspace=workloads.KEYSPACE
    )


def _sender(connection: redis_py.Redis, target: Target, workload: Workload, commands: int) -> Callable[[], Measured]:
    if workload.only is None and benchmark.available():
        return lambda: run_benchmark(target, workload, commands)
    chance = random.Random(_SEED)
    if workload.name == "mix":
        workloads.preload_mixed(connection)
        probes = workloads.mixed_probes(chance, _DISTINCT, refusals=target.name == KEYRAIL_BENCH)
    elif workload.name == "SET":
        probes = workloads.set_probes(chance, _DISTINCT, lifetime=not target.stamps_lifetimes)
    elif workload.name == "MGET":
        probes = workloads.mget_probes(chance, _DISTINCT)
    else:
        probes = workloads.get_probes(chance, _DISTINCT)
    batches = generator.rehearse(target.port, probes, workload.pipeline)
    return lambda: generator.run(target.port, batches, clients=CLIENTS, pipeline=workload.pipeline, commands=commands)

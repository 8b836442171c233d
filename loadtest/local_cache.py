"""``local-cache``: reads of hot keys that Keyrail answers from its memory, beside Redis itself.

One hot key, and a Zipf distribution over many keys with writes among the reads: direct to Redis, through Keyrail
without that rule, and through Keyrail with ``local_cache``, ``when: hot``. Each run begins when keys have had time to
become hot. A responder that only answers stands beside them: more than its figures, the load generator cannot show.

What the rule costs while no key is hot is measured by itself: random keys, beside the same policy without the rule.
"""

import bisect
import contextlib
import itertools
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import redis as redis_py

from loadtest import benchmark, generator, quick, targets, workloads
from loadtest.benchmark import Measured, RunError
from loadtest.generator import Batch
from loadtest.processes import free_port, running
from loadtest.quick import CLIENTS, Course, Sample, sampled, spent, told
from loadtest.rules import NO_RULE
from loadtest.targets import DIRECT, KEYRAIL_NONE, Redis, Target
from loadtest.workloads import Probe

KEYRAIL_CACHE = "keyrail local_cache"
NOTHING_HOT = "keyrail local_cache, nothing hot"
RESPONDER = "responder"
NO_RULES = "keyrail: 1\nrules: {}\n"
POLICY = (
    'keyrail: 1\nrules:\n  hot-reads:\n    local_cache:\n      keys: ["bench:*"]\n      when: hot\n    mode: enforce\n'
)
HOT_KEYS = {"hot GET, 64 B": (b"bench:hot", 64), "hot GET, 10 KB": (b"bench:large", 10_000)}
ZIPF = "Zipf, 5% SET"
EXPONENT = 0.99
WRITES = 0.05
_ZIPF_PREFIX = "bench:zipf:"
PROBES = 64_000
_SEED = 15
WARM_SECONDS = 2.5
_ZIPF_WARMS_LONGER = 2.4
"""So many times: keys that change too often are known late, and so are those with a few hundred reads a second."""
_REHEARSED_AT_ONCE = 64
_VALUE_REPLY = b"$%d\r\n%b\r\n" % (len(workloads.VALUE), workloads.VALUE)
_WARM_SHARE = 0.2
FROM_MEMORY = 0.9
"""The share of reads of a hot key that Keyrail answers at least."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload. ``commands`` is the number in one run, before scaling."""

    name: str
    pipeline: int
    commands: int

    @property
    def is_zipf(self) -> bool:
        """Whether it has many keys and writes."""
        return self.name == ZIPF


WORKLOADS = [
    Workload("hot GET, 64 B", 1, 120_000),
    Workload("hot GET, 64 B", 16, 800_000),
    Workload("hot GET, 64 B", 64, 1_600_000),
    Workload("hot GET, 10 KB", 1, 60_000),
    Workload(ZIPF, 1, 120_000),
    Workload(ZIPF, 16, 600_000),
]
COLD = [
    quick.Workload("GET", 1, 60_000),
    quick.Workload("SET", 1, 60_000),
    quick.Workload("GET", 16, 400_000),
    quick.Workload("SET", 16, 400_000),
    quick.Workload("GET", 64, 800_000),
]
"""With random keys, of which none becomes hot."""

Responders = Mapping[str, Target]
"""By workload."""


def zipf_keys(chance: random.Random, count: int) -> list[bytes]:
    """Names of keys: the n-th of all is used in proportion to 1 / n ** EXPONENT."""
    sums = list(itertools.accumulate(1 / n**EXPONENT for n in range(1, workloads.KEYSPACE + 1)))
    ranks = (bisect.bisect_left(sums, chance.random() * sums[-1]) for _ in range(count))
    return [b"%b%012d" % (_ZIPF_PREFIX.encode(), rank) for rank in ranks]


def zipf_probes(chance: random.Random, count: int) -> list[Probe]:
    """GETs of such keys, and a few SETs."""
    return [
        Probe((b"SET", key, workloads.VALUE), lambda reply: reply == b"OK")
        if chance.random() < WRITES
        else Probe((b"GET", key), lambda reply: reply == workloads.VALUE)
        for key in zipf_keys(chance, count)
    ]


def zipf_batches(probes: Sequence[Probe], pipeline: int) -> list[Batch]:
    """Batches of these probes, whose replies have been checked. All targets answer in as many bytes."""
    lengths = [len(b"+OK\r\n" if len(probe.argv) > 2 else _VALUE_REPLY) for probe in probes]
    return [
        Batch(
            b"".join(probe.encoded() for probe in probes[first : first + pipeline]),
            sum(lengths[first : first + pipeline]),
        )
        for first in range(0, len(probes) - pipeline + 1, pipeline)
    ]


def _hot_probe(workload: str) -> Probe:
    key, size = HOT_KEYS[workload]
    return Probe((b"GET", key), lambda reply: reply == b"v" * size)


@contextlib.contextmanager
def all_targets(redis_program: str, keyrail_program: list[str]) -> Iterator[tuple[Redis, list[Target], Responders]]:
    """A Redis, every way to it, and the responders, ended with the block. Raises StartError."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keyrail-loadtest-")))
        redis = stack.enter_context(targets.redis_server(folder, redis_program))
        with redis_py.Redis(port=redis.port, protocol=2) as connection:
            for key, size in HOT_KEYS.values():
                connection.set(key, b"v" * size)
            for prefix in (_ZIPF_PREFIX, workloads.GET_PREFIX):
                workloads.preload_as(connection, prefix)
        policy, without = folder / "cache.yaml", folder / "none.yaml"
        policy.write_text(POLICY, encoding="utf-8")
        without.write_text(NO_RULES, encoding="utf-8")
        ways = [
            targets.direct(redis),
            stack.enter_context(targets.keyrail(KEYRAIL_NONE, keyrail_program, redis, "none")),
            stack.enter_context(targets.keyrail(KEYRAIL_CACHE, keyrail_program, redis, str(policy))),
            stack.enter_context(targets.keyrail(NO_RULE, keyrail_program, redis, str(without))),
            stack.enter_context(targets.keyrail(NOTHING_HOT, keyrail_program, redis, str(policy))),
        ]
        yield redis, ways, {name: stack.enter_context(_responder(name)) for name in HOT_KEYS}


@contextlib.contextmanager
def _responder(workload: str) -> Iterator[Target]:
    probe, (_, size) = _hot_probe(workload), HOT_KEYS[workload]
    port = free_port()
    reply = b"$%d\r\n%b\r\n" % (size, b"v" * size)
    argv = [sys.executable, "-m", "loadtest.responder", str(port), probe.encoded().hex(), reply.hex()]
    with running(argv, cwd=targets.REPOSITORY) as program:
        program.wait_for_port(port)
        yield Target(RESPONDER, port, program.pid, "answers without reading")


def rounds(
    redis: Redis, ways: Sequence[Target], responders: Responders, course: Course, say: Callable[[str], None]
) -> Iterator[Sample]:
    """In each round every workload runs on each of its targets, in an order that rotates."""
    probes = zipf_probes(random.Random(_SEED), PROBES)
    cold = [way for way in ways if way.name in {NO_RULE, NOTHING_HOT}]
    hot = [way for way in ways if way not in cold]
    zipf = [way for way in ways if way.name in {DIRECT, NO_RULE, KEYRAIL_CACHE}]
    for way in ways:
        generator.rehearse(way.port, probes, _REHEARSED_AT_ONCE)
    batches = {each.pipeline: zipf_batches(probes, each.pipeline) for each in WORKLOADS if each.is_zipf}
    for number in range(course.rounds):
        for workload in WORKLOADS:
            measured = zipf if workload.is_zipf else [*hot, responders[workload.name]]
            for target in targets.rotated(measured, number):
                send = _sender(target, workload, batches.get(workload.pipeline, ()))
                sample = _measure(redis, target, workload, send, number, course)
                say(told(sample, course.rounds))
                yield sample
        for random_keys in COLD:
            for target in targets.rotated(cold, number):
                sample = quick.measure([redis], target, random_keys, number, course)
                say(told(sample, course.rounds))
                yield sample


def _sender(target: Target, workload: Workload, batches: Sequence[Batch]) -> Callable[[int], Measured]:
    pipeline = workload.pipeline
    if workload.is_zipf or not benchmark.available():
        known = batches or generator.rehearse(target.port, [_hot_probe(workload.name)] * pipeline, pipeline)
        return lambda commands: generator.run(target.port, known, clients=CLIENTS, pipeline=pipeline, commands=commands)
    argv = [part.decode() for part in _hot_probe(workload.name).argv]
    return lambda commands: benchmark.run(
        target.port, argv, clients=CLIENTS, pipeline=pipeline, commands=commands, keyspace=1
    )


def _measure(
    redis: Redis, target: Target, workload: Workload, send: Callable[[int], Measured], number: int, course: Course
) -> Sample:
    commands = max(CLIENTS * workload.pipeline, int(workload.commands * course.scale))
    with redis_py.Redis(port=redis.port, protocol=2) as connection, course.placement.loading():
        warm = time.monotonic() + WARM_SECONDS * (_ZIPF_WARMS_LONGER if workload.is_zipf else 1)
        while time.monotonic() < warm:
            send(max(CLIENTS * workload.pipeline, int(commands * _WARM_SHARE)))
        before = _processed(connection)
        begun = spent(target, [redis])
        measured = send(commands)
        ended = spent(target, [redis])
        arrived = (_processed(connection) - before) / commands
    _check(target, workload, arrived)
    return sampled((workload.name, workload.pipeline, target.name, number), measured, commands, begun, ended)


def _processed(connection: redis_py.Redis) -> int:
    return int(connection.info("stats")["total_commands_processed"])


def _check(target: Target, workload: Workload, arrived: float) -> None:
    """Raises RunError if the target did not answer as its name says."""
    if target.name in {DIRECT, KEYRAIL_NONE, NO_RULE} and arrived < FROM_MEMORY:
        raise RunError(f"{target.name}: only {arrived:.0%} of the commands reached Redis")
    if target.name == KEYRAIL_CACHE and not workload.is_zipf and 1 - arrived < FROM_MEMORY:
        raise RunError(f"{target.name}: {arrived:.0%} of the commands reached Redis")

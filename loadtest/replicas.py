"""``replicas``: what it costs Keyrail that reads are spread over two replicas, beside all of them at the primary.

Both ways lead to one primary with two replicas: one without a rule, one with ``--read-from replicas``. A write between
the reads of a client keeps them at the primary for a moment, so there are none.
"""

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import redis as redis_py

from loadtest import targets, workloads
from loadtest.benchmark import RunError
from loadtest.processes import StartError
from loadtest.quick import Course, Sample, Workload, measure, told
from loadtest.targets import KEYRAIL_NONE, Redis, Target

KEYRAIL_REPLICAS = "keyrail --read-from replicas"
WORKLOADS = [
    Workload("GET", 1, 60_000),
    Workload("GET", 16, 400_000),
    Workload("GET", 64, 800_000),
    Workload("MGET", 1, 30_000),
]
SPREAD = 0.9
"""The share of reads that replicas answer at least."""
_REPLICAS = 2
_START_SECONDS = 30.0


@contextlib.contextmanager
def all_targets(redis_program: str, keyrail_program: list[str]) -> Iterator[tuple[list[Redis], list[Target]]]:
    """A primary and its replicas, preloaded, and both ways to them, ended with the block. Raises StartError."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keyrail-loadtest-")))
        servers: list[Redis] = []
        for number in range(1 + _REPLICAS):
            own = folder / f"server{number}"
            own.mkdir()
            options = ("--replicaof", "127.0.0.1", str(servers[0].port)) if servers else ()
            options = (*options, "--repl-diskless-sync-delay", "0")
            servers.append(stack.enter_context(targets.redis_server(own, redis_program, *options)))
        with redis_py.Redis(port=servers[0].port, protocol=2) as connection:
            workloads.preload_as(connection, workloads.GET_PREFIX)
        _settle(servers)
        ways = [
            stack.enter_context(targets.keyrail(KEYRAIL_NONE, keyrail_program, servers[0], "none")),
            stack.enter_context(
                targets.keyrail(KEYRAIL_REPLICAS, keyrail_program, servers[0], "none", "--read-from", "replicas")
            ),
        ]
        _await_replicas(servers, ways[-1])
        yield servers, ways


def _settle(servers: Sequence[Redis]) -> None:
    last = b"%b%012d" % (workloads.GET_PREFIX.encode(), workloads.KEYSPACE - 1)

    def have_all() -> bool:
        return all(_get(server.port, last) == workloads.VALUE for server in servers)

    _until(have_all, "the replicas did not get the data")


def _await_replicas(servers: Sequence[Redis], way: Target) -> None:
    key = b"%b%012d" % (workloads.GET_PREFIX.encode(), 7)

    def answer() -> bool:
        before = _gets(servers)
        for _ in range(10):
            _get(way.port, key)
        return all(now > then for then, now in zip(before[1:], _gets(servers)[1:], strict=True))

    _until(answer, "the replicas answer no reads")


def _until(done: Callable[[], bool], else_: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise StartError(f"{else_} within {_START_SECONDS:g} s")
        time.sleep(0.05)


def _get(port: int, key: bytes) -> object:
    with redis_py.Redis(port=port, protocol=2) as connection:
        return connection.get(key)


def _gets(servers: Sequence[Redis]) -> list[int]:
    counted = []
    for server in servers:
        with redis_py.Redis(port=server.port, protocol=2) as connection:
            said = connection.info("commandstats")
        counted.append(sum(said.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("get", "mget")))
    return counted


def rounds(
    servers: Sequence[Redis], ways: Sequence[Target], course: Course, say: Callable[[str], None]
) -> Iterator[Sample]:
    """In each round every workload runs both ways, in an order that rotates."""
    for number in range(course.rounds):
        for workload in WORKLOADS:
            for target in targets.rotated(ways, number):
                before = _gets(servers)
                sample = measure(servers, target, workload, number, course)
                _check(target, [now - then for then, now in zip(before, _gets(servers), strict=True)])
                say(told(sample, course.rounds))
                yield sample


def _check(target: Target, answered: Sequence[int]) -> None:
    """Raises RunError if the reads were not answered as the target's name says."""
    share = sum(answered[1:]) / sum(answered)
    if (target.name == KEYRAIL_REPLICAS) != (share >= SPREAD):
        raise RunError(f"{target.name}: replicas answered {share:.0%} of the reads")
    if target.name == KEYRAIL_REPLICAS and min(answered[1:]) == 0:
        raise RunError(f"{target.name}: one replica answered everything")

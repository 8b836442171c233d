"""``connects``: what a new client costs, and how evenly workers share new clients.

A client connects, sends one GET, reads the reply and closes. Batches of clients come at once, as after a restart of an
application. The proxy's CPU under each packaged policy is compared with that under ``--policy none``, within a round.
"""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from loadtest import targets
from loadtest.benchmark import RunError
from loadtest.kernel import connections, cpu_seconds, process_tree
from loadtest.quick import Course
from loadtest.targets import KEYRAIL_NONE, Redis, Target

POLICIES = ("bench", "cache", "default", "observe", "strict", "tour")
"""The packaged policies; each is compared with no policy."""
TWO_WORKERS = "none, two workers"
"""Two workers, which share clients at some cost."""
BATCH = 50
CLIENTS = 4_000
"""The clients of one run, before scaling."""
SHARED = (4, 8, 50)
"""The numbers of clients that two workers share."""

GET = b"*2\r\n$3\r\nGET\r\n$10\r\ncache:none\r\n"
NIL = b"$-1\r\n"
"""A command that all policies let pass, and its reply."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One run against one target: microseconds of proxy CPU for each client, and clients per second."""

    target: str
    round: int
    proxy_cpu: float
    rate: float


@dataclass(frozen=True, slots=True)
class Share:
    """How often, of ``times``, a worker had more than one client above its share of ``clients``; the worst case."""

    clients: int
    times: int
    uneven: int
    worst: int


@contextlib.contextmanager
def all_policies(redis_program: str, program: list[str]) -> Iterator[tuple[Redis, list[Target]]]:
    """A Redis and a Keyrail for each policy, ended with the block."""
    with contextlib.ExitStack() as stack:
        _, redis = stack.enter_context(targets.preloaded(redis_program))
        found = [stack.enter_context(targets.keyrail(KEYRAIL_NONE, program, redis, "none"))]
        found.append(stack.enter_context(targets.keyrail(TWO_WORKERS, program, redis, "none", workers=2)))
        found += [stack.enter_context(targets.keyrail(name, program, redis, name)) for name in POLICIES]
        yield redis, found


def rounds(ways: Sequence[Target], course: Course, say: Callable[[str], None]) -> Iterator[Sample]:
    """In each round clients come to every target, in an order that rotates."""
    for number in range(course.rounds):
        for target in targets.rotated(ways, number):
            sample = measure(target, number, course)
            say(f"{number + 1}/{course.rounds} {target.name}: {sample.proxy_cpu:.1f} µs, {sample.rate:,.0f}/s")
            yield sample


def measure(target: Target, number: int, course: Course) -> Sample:
    """What clients that come and go cost this target, in one run."""
    assert target.pid is not None
    batches = max(2, round(CLIENTS * course.scale / BATCH))
    with course.placement.loading():
        come_and_go(target.port)
        before, began = cpu_seconds(target.pid), time.perf_counter()
        for _ in range(batches):
            come_and_go(target.port)
        seconds = time.perf_counter() - began
        used = cpu_seconds(target.pid) - before
    return Sample(target.name, number, used / (batches * BATCH) * 1e6, batches * BATCH / seconds)


def come_and_go(port: int, first: Sequence[tuple[bytes, bytes]] = ()) -> None:
    """A batch of clients. Each sends the commands in ``first``, one after another, and then one GET.

    Raises RunError if a reply is not the one in ``first``, or the GET's reply is not nil.
    """
    with _clients(port, BATCH) as clients:
        for command, expected in (*first, (GET, NIL)):
            for client in clients:
                client.sendall(command)
            for client in clients:
                if (reply := client.recv(64)) != expected:
                    raise RunError(f"{command!r} was answered with {reply!r}")


@contextlib.contextmanager
def _clients(port: int, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(("127.0.0.1", port), 10.0)) for _ in range(count)]


def shares(program: list[str], redis_program: str, times: int, say: Callable[[str], None]) -> list[Share]:
    """How two workers share clients that stay, ``times`` times for each number of clients."""
    found = []
    with contextlib.ExitStack() as stack:
        _, redis = stack.enter_context(targets.preloaded(redis_program))
        target = stack.enter_context(targets.keyrail(KEYRAIL_NONE, program, redis, "none", workers=2))
        assert target.pid is not None
        workers = [pid for pid in process_tree(target.pid) if pid != target.pid]
        for clients in SHARED:
            excesses = [_excess(target.port, workers, clients) for _ in range(times)]
            share = Share(clients, times, sum(excess > 1 for excess in excesses), max(excesses))
            say(f"{clients} clients: {share.uneven} of {times} times uneven, at worst {share.worst} above the share")
            found.append(share)
    return found


def _excess(port: int, workers: Sequence[int], count: int) -> int:
    # By how many clients the fullest worker exceeds its share; each client has got a reply, so it has arrived.
    with _clients(port, count) as clients:
        for client in clients:
            client.sendall(GET)
            client.recv(64)
        here = [connections(pid, port) for pid in workers]
    deadline = time.monotonic() + 10.0
    while any(connections(pid, port) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.01)
    if sum(here) != count:
        raise RunError(f"{count} clients came, and the workers have {here}")
    return max(here) - -(-count // len(workers))

"""``latency``: what a proxy adds to the time of a command, for one client alone and at a fixed rate, and how long
Keyrail takes to start.

At a fixed rate, commands do not wait for the replies to others, as in an application with many threads: a pause shows
in the latency of all commands that come meanwhile.
"""

import asyncio
import contextlib
import random
import socket
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import uvloop

from loadtest import targets
from loadtest.benchmark import RunError
from loadtest.connects import GET, NIL
from loadtest.limits import KEYRAIL_STRICT
from loadtest.processes import free_port, running
from loadtest.quick import CLIENTS, Course
from loadtest.targets import DIRECT, KEYRAIL_NONE, NUTCRACKER, Redis, Target

RATE = 20_000
"""Commands per second of all clients together: about half of what one process can send and time so."""
_SECONDS = 4.0
_ALONE = 10_000
"""Commands of the client that is alone, before scaling."""
_PING, _PONG = b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n"


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of one target, in microseconds: the median of a client alone, and the 99th percentile at the rate."""

    target: str
    round: int
    alone: float
    open_p99: float


@dataclass(frozen=True, slots=True)
class Added:
    """What a target adds to what direct Redis takes, in each round: microseconds of a client alone, these as a multiple
    of what nutcracker adds (empty without it), and milliseconds of the 99th percentile at the rate."""

    target: str
    alone: list[float]
    of_nutcracker: list[float]
    open_p99: list[float]


def added(samples: Sequence[Sample]) -> list[Added]:
    """For each target but direct."""
    rounds_of = {each.round: each for each in samples if each.target == DIRECT}
    alone = {(each.target, each.round): each.alone - rounds_of[each.round].alone for each in samples}
    found = []
    for target in dict.fromkeys(each.target for each in samples if each.target != DIRECT):
        own = [each for each in samples if each.target == target]
        ratios = [alone[target, n] / alone[NUTCRACKER, n] for n in rounds_of if (NUTCRACKER, n) in alone]
        late = [(each.open_p99 - rounds_of[each.round].open_p99) / 1000 for each in own]
        found.append(Added(target, [alone[target, each.round] for each in own], ratios, late))
    return found


class _Client(asyncio.Protocol):
    """One connection, on which commands do not wait for replies. ``latencies`` gets the seconds of each."""

    def __init__(self, latencies: list[float]) -> None:
        self._latencies = latencies
        self._due: deque[float] = deque()
        self._rest = b""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        now, self._rest = time.perf_counter(), self._rest + data
        while self._due and self._rest.startswith(NIL):
            self._rest = self._rest[len(NIL) :]
            self._latencies.append(now - self._due.popleft())

    def send(self, due: float) -> None:
        """Send a command that was to be sent at this time."""
        assert self._transport is not None
        self._due.append(due)
        self._transport.write(GET)

    def close(self) -> None:
        """End the connection."""
        assert self._transport is not None
        self._transport.close()


@contextlib.contextmanager
def all_targets(redis_program: str, program: list[str]) -> Iterator[tuple[Redis, list[Target]]]:
    """A Redis, and it direct, through nutcracker and through Keyrail, ended with the block."""
    with contextlib.ExitStack() as stack:
        folder, redis = stack.enter_context(targets.preloaded(redis_program))
        found = [targets.direct(redis), stack.enter_context(targets.nutcracker(folder, redis))]
        for name, policy in ((KEYRAIL_NONE, "none"), (KEYRAIL_STRICT, "strict")):
            found.append(stack.enter_context(targets.keyrail(name, program, redis, policy)))
        yield redis, [target for target in found if target is not None]


def rounds(ways: Sequence[Target], course: Course, say: Callable[[str], None]) -> Iterator[Sample]:
    """In each round every target gets both loads, in an order that rotates."""
    for number in range(course.rounds):
        for target in targets.rotated(ways, number):
            with course.placement.loading():
                alone = _alone(target.port, max(100, round(_ALONE * course.scale)))
                seconds = _SECONDS * course.scale
                latencies = sorted(uvloop.run(_at_a_rate(target.port, seconds)))
            sample = Sample(target.name, number, alone * 1e6, latencies[int(len(latencies) * 0.99)] * 1e6)
            say(
                f"{number + 1}/{course.rounds} {target.name}: alone {sample.alone:.0f} µs, p99 {sample.open_p99:.0f} µs"
            )
            yield sample


def starts(program: list[str], redis: Redis, times: int, say: Callable[[str], None]) -> Iterator[float]:
    """Seconds from each start of Keyrail to the first PONG. Raises StartError."""
    for number in range(times):
        port = free_port()
        argv = [*program, "serve", "--listen", f"redis://127.0.0.1:{port}", "--upstream", redis.url]
        began = time.perf_counter()
        with running([*argv, "--policy", "strict", "--workers", "1"], cwd=targets.REPOSITORY) as server:
            server.wait_for_line("ready on")
            with socket.create_connection(("127.0.0.1", port), 5.0) as connection:
                _ask(connection, _PING, _PONG)
            seconds = time.perf_counter() - began
        say(f"{number + 1}/{times} start: {seconds * 1000:.0f} ms")
        yield seconds


async def _at_a_rate(port: int, seconds: float) -> list[float]:
    """The seconds of each command, from when it was to be sent. Raises RunError where not all are answered."""
    loop, latencies = asyncio.get_running_loop(), list[float]()
    opened = [loop.create_connection(lambda: _Client(latencies), "127.0.0.1", port) for _ in range(CLIENTS)]
    clients = [client for _, client in await asyncio.gather(*opened)]
    began, sent = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        for number in range(sent, int(passed * RATE)):
            random.choice(clients).send(began + number / RATE)
            sent = number + 1
        await asyncio.sleep(0)
    await asyncio.sleep(1.0)
    for client in clients:
        client.close()
    await asyncio.sleep(0.1)  # in which they are closed
    if len(latencies) != sent:
        raise RunError(f"{len(latencies)} of {sent} commands were answered")
    return latencies


def _alone(port: int, commands: int) -> float:
    """The median time of a command, in seconds."""
    with socket.create_connection(("127.0.0.1", port), 5.0) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        taken = []
        for _ in range(commands):
            since = time.perf_counter()
            _ask(connection, GET, NIL)
            taken.append(time.perf_counter() - since)
    return statistics.median(taken)


def _ask(connection: socket.socket, request: bytes, expected: bytes) -> None:
    connection.sendall(request)
    reply = connection.recv(4096)
    if reply != expected:
        raise RunError(f"{request!r} was answered with {reply!r}")

"""``crowd``: how long commands take where thousands of clients are connected, at a fixed rate over all of them.

Each command is a GET of a client that has been picked at random; one that still waits for a reply is passed over. So
the load is the same for all targets, and what a proxy does for clients that send nothing shows in the latency.
"""

import asyncio
import random
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import cast

import uvloop

from loadtest import targets
from loadtest.benchmark import RunError
from loadtest.connects import GET, NIL
from loadtest.quick import Course
from loadtest.targets import KEYRAIL_NONE, Target

RATE = 2_000
"""Commands per second, of all clients together."""
SECONDS = 8.0
"""The length of one run, before scaling."""
KEYRAIL_DEFAULT = "keyrail default"
_DEFAULT = targets.REPOSITORY / "policies" / "default.yaml"
_AT_ONCE = 100
"""Clients that connect at once."""
_SETTLING = 2.0
"""Seconds after the last client has connected, before the first command."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One run on one target; latencies in microseconds."""

    target: str
    round: int
    p50: float
    p99: float


class Client(asyncio.Protocol):
    """One connection. ``latencies`` gets the seconds that each of its commands takes."""

    def __init__(self, latencies: list[float]) -> None:
        self._latencies = latencies
        self._since: float | None = None
        self._transport: asyncio.WriteTransport | None = None
        self.lost = False
        self.wrong = b""
        """The reply that was another one than expected, after which nothing more is sent."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def connection_lost(self, _error: Exception | None) -> None:
        self.lost = True

    def data_received(self, data: bytes) -> None:
        if data != NIL or self._since is None:
            self.wrong = self.wrong or data[:80]
        else:
            self._latencies.append(time.perf_counter() - self._since)
            self._since = None

    def send(self) -> bool:
        """Send one command, unless the last one is not answered; whether it was sent."""
        if self._since is not None or self._transport is None:
            return False
        self._since = time.perf_counter()
        self._transport.write(GET)
        return True

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()


@contextmanager
def all_targets(redis_program: str, program: list[str]) -> Iterator[list[Target]]:
    """Direct, through nutcracker and through Keyrail, ended with the block."""
    with ExitStack() as stack:
        folder, redis = stack.enter_context(targets.preloaded(redis_program))
        found = [targets.direct(redis), stack.enter_context(targets.nutcracker(folder, redis))]
        for name, policy in ((KEYRAIL_NONE, "none"), (KEYRAIL_DEFAULT, str(_DEFAULT))):
            found.append(stack.enter_context(targets.keyrail(name, program, redis, policy)))
        yield [target for target in found if target is not None]


def rounds(ways: Sequence[Target], clients: int, course: Course, say: Callable[[str], None]) -> Iterator[Sample]:
    """In each round the clients come to every target, in an order that rotates."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for number in range(course.rounds):
        for target in targets.rotated(ways, number):
            with course.placement.loading():
                latencies = sorted(uvloop.run(_latencies(target.port, clients, SECONDS * course.scale)))
            sample = Sample(target.name, number, *(latencies[int(len(latencies) * q)] * 1e6 for q in (0.5, 0.99)))
            say(f"{number + 1}/{course.rounds} {target.name}: p50 {sample.p50:.0f} µs, p99 {sample.p99:.0f} µs")
            yield sample


async def _latencies(port: int, count: int, seconds: float) -> list[float]:
    """Those of all commands of one run, in seconds. Raises RunError if a connection was lost, or few were answered."""
    loop, latencies, clients = asyncio.get_running_loop(), list[float](), list[Client]()
    for begin in range(0, count, _AT_ONCE):
        coming = range(min(_AT_ONCE, count - begin))
        opened = (loop.create_connection(lambda: Client(latencies), "127.0.0.1", port) for _ in coming)
        clients += [client for _, client in await asyncio.gather(*opened)]
    await asyncio.sleep(_SETTLING)
    began, due, sent = time.perf_counter(), 0, 0
    while (passed := time.perf_counter() - began) < seconds:
        for _ in range(due, due := int(passed * RATE)):
            sent += random.choice(clients).send()
        await asyncio.sleep(0.0005)
    await asyncio.sleep(1.0)
    lost, wrong = sum(client.lost for client in clients), [client.wrong for client in clients if client.wrong]
    for client in clients:
        client.close()
    await asyncio.sleep(0.1)  # in which they are closed
    if wrong:
        raise RunError(f"{len(wrong)} clients had wrong replies to GET, such as {wrong[0]!r}")
    if lost or len(latencies) < 0.9 * sent:
        raise RunError(f"{len(latencies)} of {sent} commands were answered, and {lost} clients disconnected")
    return latencies

"""A small asyncio load generator, for commands that redis-benchmark cannot send, and for machines without it.

The commands are encoded before the clock starts, one pipeline to a batch. Each batch is rehearsed once: its replies are
decoded, checked one by one, and measured. While the clock runs, only the bytes of replies are counted; another number
of bytes is an error.
"""

import asyncio
import socket
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from typing import cast

import hiredis
import uvloop

from loadtest.benchmark import Measured, RunError
from loadtest.workloads import Probe


@dataclass(frozen=True, slots=True)
class Batch:
    """A pipeline's worth of commands, and the length of their replies in bytes."""

    request: bytes
    reply_length: int


def rehearse(port: int, probes: Sequence[Probe], pipeline: int) -> list[Batch]:
    """Batches of ``pipeline`` commands each, every reply checked; raises RunError on a wrong one."""
    batches = []
    with socket.create_connection(("127.0.0.1", port), 10.0) as connection:
        for first in range(0, len(probes) - pipeline + 1, pipeline):
            members = probes[first : first + pipeline]
            request = b"".join(probe.encoded() for probe in members)
            connection.sendall(request)
            batches.append(Batch(request, _checked_length(connection, members)))
    return batches


def _checked_length(connection: socket.socket, probes: Sequence[Probe]) -> int:
    reader = hiredis.Reader()
    received = 0
    for probe in probes:
        reply = reader.gets(False)
        while reply is False:
            data = connection.recv(65536)
            if not data:
                raise RunError(f"closed instead of answering {probe.argv!r}")
            received += len(data)
            reader.feed(data)
            reply = reader.gets(False)
        if not probe.right(reply):
            raise RunError(f"{probe.argv!r} was answered with {reply!r}")
    return received


class _Client(asyncio.Protocol):
    """One connection that sends batch after batch, each after the replies to the last one."""

    def __init__(self, batches: list[Batch], latencies: list[float], done: asyncio.Future[None]) -> None:
        self._batches = iter(batches)
        self._latencies = latencies
        self.done = done
        self._awaited = 0
        self._sent_at = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send_next(self) -> None:
        batch = next(self._batches, None)
        assert self._transport is not None
        if batch is None:
            self.done.set_result(None)
            return
        self._awaited = batch.reply_length
        self._sent_at = time.perf_counter()
        self._transport.write(batch.request)

    def close(self) -> None:
        assert self._transport is not None
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._awaited -= len(data)
        if self._awaited == 0:
            self._latencies.append(time.perf_counter() - self._sent_at)
            self.send_next()
        elif self._awaited < 0 and not self.done.done():
            self.done.set_exception(RunError("more bytes than the rehearsal was answered with"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(RunError(f"connection lost: {exc}"))


def run(port: int, batches: Sequence[Batch], *, clients: int, pipeline: int, commands: int) -> Measured:
    """Send about ``commands`` commands over ``clients`` connections; raises RunError if a reply is off."""
    each = max(1, commands // pipeline // clients)
    latencies: list[float] = []
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        seconds = runner.run(_drive(port, batches, clients, each, latencies))
    cuts = statistics.quantiles(latencies, n=100, method="inclusive")
    return Measured(each * pipeline * clients / seconds, cuts[49] * 1000, cuts[98] * 1000)


async def _drive(port: int, batches: Sequence[Batch], clients: int, each: int, latencies: list[float]) -> float:
    loop = asyncio.get_running_loop()
    found = []
    for n in range(clients):
        start = n * len(batches) // clients
        client = _Client(list(islice(cycle(batches), start, start + each)), latencies, loop.create_future())
        await loop.create_connection(partial(_itself, client), "127.0.0.1", port)
        found.append(client)
    try:
        began = time.perf_counter()
        for client in found:
            client.send_next()
        async with asyncio.timeout(300):
            await asyncio.gather(*(client.done for client in found))
        return time.perf_counter() - began
    finally:
        for client in found:
            client.close()
        # One turn of the event loop, in which the connections are closed.
        await asyncio.sleep(0)


def _itself(client: _Client) -> _Client:
    return client

"""``scan``: what `keyrail scan` costs the Redis that it walks, and those who read beside it.

A reader sends GETs at a fixed rate, whether or not it has its replies: if Redis stalls, all commands that come
meanwhile are late. In each round it runs alone, and beside a scan. The scan runs on the reader's processor and yields
to it, as if it came from another machine. How much of Redis's CPU a scan takes, by INFO, is measured without the
reader.
"""

import asyncio
import contextlib
import json
import statistics
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import redis as redis_py
import uvloop

from loadtest import targets
from loadtest.benchmark import RunError
from loadtest.connects import GET, NIL
from loadtest.memory import Measured
from loadtest.quick import Course
from loadtest.targets import KEYRAIL_NONE, Redis

RATE = 20_000
"""Commands per second of the reader."""
CLIENTS = 50
KEYS, PROBES = 1_000_000, 1_000
SECONDS, LONG_SECONDS = 5.0, 20.0
"""The length of one run of the reader, and of a scan that need not come to its end, before scaling."""
MOST_SECONDS = 60.0
"""For a million keys at a share of 25 %."""
_AT_ONCE = 5_000
_IDLE = 5_000
"""Seconds for which nobody has used the probes, when they are made."""
_PATIENCE = 60.0
_POLICY = targets.REPOSITORY / "policies" / "default.yaml"


class Client(asyncio.Protocol):
    """One connection of the reader, which adds to ``latencies`` the seconds that each command takes."""

    def __init__(self, latencies: list[float]) -> None:
        self._latencies = latencies
        self._sent: deque[float] = deque()
        self._rest = b""
        self._transport: asyncio.WriteTransport | None = None
        self.wrong = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        data = self._rest + data
        while data.startswith(NIL) and self._sent:
            self._latencies.append(now - self._sent.popleft())
            data = data[len(NIL) :]
        self._rest = data
        if not NIL.startswith(data):
            self.wrong = data[:80]

    def send(self) -> None:
        """Send one command."""
        if self._transport is None:
            raise AssertionError("it is connected before it sends")
        self._sent.append(time.perf_counter())
        self._transport.write(GET)

    def close(self) -> int:
        """End the connection; so many commands were not answered."""
        if self._transport is not None:
            self._transport.abort()
        return len(self._sent)


async def read(port: int, seconds: float) -> tuple[float, list[float]]:
    """The rate at which commands were sent, and the seconds that each took. Raises RunError."""
    loop, latencies, clients = asyncio.get_running_loop(), list[float](), list[Client]()
    for _ in range(CLIENTS):
        _, client = await loop.create_connection(lambda: Client(latencies), "127.0.0.1", port)
        clients.append(client)
    began, sent = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        for number in range(sent, due := int(passed * RATE)):
            clients[number % CLIENTS].send()
        sent = due
        await asyncio.sleep(0.0002)
    rate = sent / (time.perf_counter() - began)
    await asyncio.sleep(0.5)
    missing = sum(client.close() for client in clients)
    if missing or any(client.wrong for client in clients):
        raise RunError(f"{missing} of {sent} GETs were not answered, or wrongly: {[c.wrong for c in clients][:1]}")
    return rate, latencies


class Scanning:
    """A scan that runs: at this ``share``, in percent."""

    def __init__(self, program: list[str], redis: Redis, share: int) -> None:
        words = ["scan", "--upstream", redis.url, "--policy", str(_POLICY), "--share", f"{share}%", "--json"]
        self._process = subprocess.Popen(
            ["nice", "-n", "19", *program, *words],
            cwd=targets.REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def await_its_first_page(self, redis: Redis) -> None:
        """Wait until it walks: what its start costs is not measured."""
        before, deadline = _calls(redis, "scan"), time.monotonic() + _PATIENCE
        while _calls(redis, "scan") == before:
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RunError("the scan does not begin")
            time.sleep(0.01)

    def result(self, after: float | None = None) -> dict[str, Any]:
        """What it has found at its end, or after so many seconds. Raises RunError."""
        try:
            told, _ = self._process.communicate(timeout=after)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            told, _ = self._process.communicate(timeout=_PATIENCE)
        try:
            return cast("dict[str, Any]", json.loads(told))
        except ValueError:
            raise RunError(f"the scan ended with {self._process.returncode}, and no result") from None


def measured(
    program: list[str], redis_program: str, course: Course, say: Callable[[str], None], keys: int = KEYS
) -> tuple[str, list[Measured]]:
    """The form of Keyrail, and all figures. Raises StartError and RunError."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keyrail-loadtest-")))
        redis = stack.enter_context(targets.redis_server(folder, redis_program))
        with targets.keyrail(KEYRAIL_NONE, program, redis, "none") as serving:
            form = serving.about
        fill(redis, keys)
        found = []
        for each in (*_beside(program, redis, course), *_alone(program, redis, course, keys), *_probed(program, redis)):
            say(f"{each.what}: {each.value:.2f} {each.unit}")
            found.append(each)
    return form, found


def fill(redis: Redis, keys: int) -> None:
    """Write so many keys of 64 bytes."""
    script = (
        "for i = ARGV[1], ARGV[2] - 1 do redis.call('SET', 'user:profile:' .. i, string.rep('x', 64), 'EX', 9000) end"
    )
    with redis_py.Redis(port=redis.port, protocol=2) as connection:
        for first in range(0, keys, _AT_ONCE):
            connection.eval(script, 0, first, min(first + _AT_ONCE, keys))


def _beside(program: list[str], redis: Redis, course: Course) -> Iterator[Measured]:
    """The reader's latency, alone and beside a scan, in pairs whose order changes."""
    by_way: dict[bool, list[float]] = {False: [], True: []}
    rates: list[float] = []
    for number in range(course.rounds):
        for with_scan in (False, True) if number % 2 else (True, False):
            with course.placement.loading():
                scanning = Scanning(program, redis, 5) if with_scan else None
                if scanning is not None:
                    scanning.await_its_first_page(redis)
                rate, latencies = uvloop.run(read(redis.port, SECONDS * course.scale))
                if scanning is not None:
                    scanning.result(after=0.0)
            rates.append(rate)
            by_way[with_scan].append(1000 * statistics.quantiles(latencies, n=100, method="inclusive")[98])
    more = [beside - alone for alone, beside in zip(by_way[False], by_way[True], strict=True)]
    reader = f"a reader at {min(rates):,.0f}/s"
    yield Measured(f"{reader}, alone: p99", statistics.median(by_way[False]), "ms", None)
    yield Measured(f"{reader}, beside a scan at 5 %: p99, more than alone", statistics.median(more), "ms", 1.0)
    yield Measured(f"{reader}, beside a scan at 5 %: p99, more than alone, the worst round", max(more), "ms", None)


def _alone(program: list[str], redis: Redis, course: Course, keys: int) -> Iterator[Measured]:
    """How much of Redis's CPU a scan takes, and how long it takes."""
    for share in (5, 25):
        with course.placement.loading():
            before = _cpu(redis)
            told = Scanning(program, redis, share).result(after=LONG_SECONDS * course.scale if share == 5 else None)
            used = _cpu(redis) - before
        took = (datetime.fromisoformat(told["ended"]) - datetime.fromisoformat(told["started"])).total_seconds()
        yield Measured(f"a scan at {share} %: of Redis's CPU, by INFO", 100 * used / took, "%", share)
        yield Measured(f"a scan at {share} %: keys per second", told["keys"] / took, "", None)
        if told["finished"]:
            bound = MOST_SECONDS if keys == KEYS and share > 5 else None
            yield Measured(f"a scan at {share} %: {told['keys']:,} keys", took, "s", bound)


def _probed(program: list[str], redis: Redis) -> Iterator[Measured]:
    """Probes whose idle time or frequency a whole scan has changed. Time alone makes them longer idle."""
    with redis_py.Redis(port=redis.port, protocol=2) as connection:
        names = [f"user:profile:{number}" for number in range(PROBES)]
        connection.config_set("lfu-decay-time", 0)
        for policy, word in (("allkeys-lru", "IDLETIME"), ("allkeys-lfu", "FREQ")):
            connection.config_set("maxmemory-policy", policy)
            for number, name in enumerate(names):
                value = cast("bytes", connection.dump(name))
                given = _IDLE if word == "IDLETIME" else number % 256
                connection.execute_command("RESTORE", name, 9_000_000, value, "REPLACE", word, given)
            before = [int(connection.execute_command("OBJECT", word, name)) for name in names]
            Scanning(program, redis, 100).result()
            after = [int(connection.execute_command("OBJECT", word, name)) for name in names]
            changed = sum(
                now < then or (word == "FREQ" and now > then) for then, now in zip(before, after, strict=True)
            )
            yield Measured(f"OBJECT {word} of {PROBES:,} probes: changed by a scan", changed, "", 0)


def _cpu(redis: Redis) -> float:
    with redis_py.Redis(port=redis.port, protocol=2) as connection:
        told = connection.info("cpu")
    return float(told["used_cpu_user"]) + float(told["used_cpu_sys"])


def _calls(redis: Redis, command: str) -> int:
    with redis_py.Redis(port=redis.port, protocol=2) as connection:
        return int(connection.info("commandstats").get(f"cmdstat_{command}", {}).get("calls", 0))

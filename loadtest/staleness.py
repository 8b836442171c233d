"""``staleness``: how late clients see a write that goes around their Keyrail, with a local cache and without.

Readers ask for one key all the time, through two workers. A writer, directly at Redis, writes the next number. An old
number that still comes behind the reply to the write is stale; how late the last one comes is the figure. Without a
cache it is the time that replies are on their way: a read that Redis has answered before the write may arrive behind
the reply to the write.
"""

import asyncio
import contextlib
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import hiredis

from loadtest import targets
from loadtest.benchmark import RunError
from loadtest.local_cache import KEYRAIL_CACHE
from loadtest.memory import Measured
from loadtest.targets import KEYRAIL_NONE, Redis, Target

POLICY = (
    "keyrail: 1\nrules:\n  all-reads:\n    local_cache:\n      keys: [bench:*]\n      when: always\n    mode: enforce\n"
)
READERS = 16
WORKERS = 2
_KEY = b"bench:written"
_GET = b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (len(_KEY), _KEY)
_PAUSE = 0.005
"""Seconds from the moment when all readers have seen a write to the next one."""
_PATIENCE = 60.0


class Watch:
    """Who has seen which number, and when an older one has come last."""

    def __init__(self, readers: int) -> None:
        self.written = 0
        self.acknowledged = 0.0
        self._seen = [0] * readers
        self._last_old = 0.0

    def write(self, number: int) -> None:
        """The number is about to be sent."""
        self.written = number
        self._last_old = self.acknowledged = 0.0

    def read(self, reader: int, number: int, now: float) -> None:
        """A reader has got this number."""
        if number < self._seen[reader]:
            raise RunError(f"a reader went back from {self._seen[reader]} to {number}")
        self._seen[reader] = number
        if number < self.written:
            self._last_old = now

    def seen_by_all(self) -> bool:
        """Whether every reader has got the number that was written last."""
        return min(self._seen) >= self.written

    def late(self) -> float:
        """By how many seconds the last old number came behind the reply to the write."""
        return max(0.0, self._last_old - self.acknowledged)


def measured(
    keyrail_program: list[str], redis_program: str, writes: int, say: Callable[[str], None]
) -> tuple[str, list[Measured]]:
    """The form of Keyrail, and the figures of each way to Redis. Raises StartError and RunError."""
    found = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keyrail-loadtest-")))
        redis = stack.enter_context(targets.redis_server(folder, redis_program))
        policy = folder / "cache.yaml"
        policy.write_text(POLICY, encoding="utf-8")
        start = targets.keyrail
        ways = [
            targets.direct(redis),
            stack.enter_context(start(KEYRAIL_NONE, keyrail_program, redis, "none", workers=WORKERS)),
            stack.enter_context(start(KEYRAIL_CACHE, keyrail_program, redis, str(policy), workers=WORKERS)),
        ]
        for way in ways:
            late = asyncio.run(_watched(redis, way, writes))
            found += figures(way.name, late)
            say(f"{way.name}: " + ", ".join(f"{each.value:.2f} ms" for each in found[-2:]))
        return ways[-1].about, found


def figures(name: str, late: Sequence[float]) -> list[Measured]:
    """The 99th percentile and the most, in milliseconds."""
    p99 = statistics.quantiles(late, n=100, method="inclusive")[98]
    return [
        Measured(f"{name}: an old value behind the reply to a write, p99", p99 * 1000, "ms", None),
        Measured(f"{name}: the latest of {len(late)} writes", max(late) * 1000, "ms", None),
    ]


async def _watched(redis: Redis, way: Target, writes: int) -> list[float]:
    watch, changed, late = Watch(READERS), asyncio.Event(), []
    async with asyncio.timeout(_PATIENCE + writes * 0.1), asyncio.TaskGroup() as group:
        _, write = writer = await asyncio.open_connection("127.0.0.1", redis.port)
        await _set(writer, 0)
        reading = [group.create_task(_read(way.port, number, watch, changed)) for number in range(READERS)]
        for number in range(1, writes + 1):
            watch.write(number)
            await _set(writer, number)
            watch.acknowledged = asyncio.get_running_loop().time()
            while not watch.seen_by_all():
                changed.clear()
                await changed.wait()
            late.append(watch.late())
            await asyncio.sleep(_PAUSE)
        for task in reading:
            task.cancel()
        write.close()
    return late


async def _set(writer: tuple[asyncio.StreamReader, asyncio.StreamWriter], number: int) -> None:
    replies, requests = writer
    requests.write(b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n%d\r\n" % (len(_KEY), _KEY, len(str(number)), number))
    if await replies.readline() != b"+OK\r\n":
        raise RunError("Redis refuses SET")


async def _read(port: int, number: int, watch: Watch, changed: asyncio.Event) -> None:
    replies, requests = await asyncio.open_connection("127.0.0.1", port)
    frames = hiredis.Reader()
    now = asyncio.get_running_loop().time
    try:
        while True:
            requests.write(_GET)
            while (value := frames.gets()) is False:
                frames.feed(await replies.read(256))
            watch.read(number, int(value), now())
            changed.set()
    finally:
        requests.close()

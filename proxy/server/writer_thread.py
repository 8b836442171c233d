"""Writes that somebody else can stall: to a pipe that nobody reads, a terminal that is stopped, a file system that is
away. A thread of its own makes them, one for each place, so that no event loop waits and no place waits for another.

What waits is bounded; more is dropped and counted. The threads do not keep the process from ending.
"""

import asyncio
import contextlib
import errno
import io
import os
import select
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

Result = TypeVar("Result")

MOST_WAITING = 1000
"""Writes that wait at one place."""
PIECE = 64 * 1024
"""The most characters of one write to standard error; more is cut off."""
ENDING_SECONDS = 1.0
"""How long the end of the process waits for standard error."""

dropped_lines: Counter[str] = Counter()
"""The lines of this process that could not be written, by place."""


class WriterThread:
    """A place to write to, by `name`. Jobs run one after another; what they raise is lost."""

    def __init__(self, name: str, most: int = MOST_WAITING) -> None:
        self.name = name
        self._most = most
        self._jobs: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._starting = threading.Lock()
        self._started = False
        dropped_lines[name] += 0

    @property
    def idle(self) -> bool:
        """Whether no job waits; one may still run."""
        return self._jobs.empty()

    def submit(self, job: Callable[[], object], lines: int = 1) -> None:
        """Have a job done that writes so many lines, or drop them if too many jobs wait."""
        if self._jobs.qsize() >= self._most:
            dropped_lines[self.name] += lines
        else:
            self._put(job)

    async def run(self, job: Callable[[], Result], seconds: float) -> Result:
        """Have a job done, and wait for what it returns or raises. Raises TimeoutError after so many seconds; the job
        may then still run, before any later one."""
        waiting: Future[Result] = Future()

        def act() -> None:
            if waiting.set_running_or_notify_cancel():
                try:
                    waiting.set_result(job())
                except Exception as error:  # noqa: BLE001 - whoever waits gets it
                    waiting.set_exception(error)

        if self._jobs.qsize() < self._most:
            self._put(act)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    return await asyncio.wrap_future(waiting)
        raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

    def drain(self, seconds: float) -> None:
        """Wait until all jobs are done, at most so long."""
        if self._started:
            done = threading.Event()
            self._put(done.set)
            done.wait(seconds)

    def _put(self, job: Callable[[], object]) -> None:
        self._jobs.put(job)
        with self._starting:
            if not self._started:
                threading.Thread(target=self._work, name=f"writes {self.name}", daemon=True).start()
                self._started = True

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            with contextlib.suppress(Exception):
                job()


class UnstallableStderr(io.TextIOBase):
    """Standard error for all code of the process, in whole lines. When it takes lines again, it says how many were
    dropped: `tell` makes that line."""

    def __init__(self, descriptor: int, tell: Callable[[int], str]) -> None:
        self._descriptor = descriptor
        self._tell = tell
        self._thread = WriterThread("stderr")
        self._told = dropped_lines[self._thread.name]
        self._lock = threading.Lock()
        self._part = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a constant here
        return "utf-8"

    def fileno(self) -> int:
        return self._descriptor

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            lines, end, self._part = (self._part + text).rpartition("\n")
            if len(self._part) > PIECE:
                self._part = ""
        if end:
            data = f"{lines[:PIECE]}\n".encode("utf-8", "backslashreplace")
            self._thread.submit(partial(self._write, data), lines.count("\n") + 1)
        return len(text)

    def drain(self) -> None:
        """Let the last lines out, at the end of the process."""
        self._thread.drain(ENDING_SECONDS)

    def _write(self, data: bytes) -> None:
        try:
            write_all(self._descriptor, data)
            dropped = dropped_lines[self._thread.name]
            if dropped > self._told and self._thread.idle:
                number, self._told = dropped - self._told, dropped
                write_all(self._descriptor, f"{self._tell(number)}\n".encode())
        except OSError:
            dropped_lines[self._thread.name] += 1


def write_all(descriptor: int, data: bytes) -> None:
    """Write in one piece where the system allows it, since other processes write to the same place. Raises OSError."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            select.select([], [descriptor], [])  # somebody has made the shared description non-blocking

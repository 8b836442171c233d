"""Work that somebody else can stall: files on a file system that is away, pipes that nobody reads. Event loops have it
done by a thread.

What waits is bounded. The threads do not keep the process from ending, as those of asyncio's executor do.
"""

import asyncio
import contextlib
import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

Result = TypeVar("Result")

MOST_WAITING = 1000
"""Jobs that wait for one thread."""


class BackgroundThread:
    """A thread by `name`, which begins with its first job. Jobs run one after another."""

    def __init__(self, name: str, most: int = MOST_WAITING) -> None:
        self.name = name
        self._most = most
        self._jobs: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._starting = threading.Lock()
        self._started = False

    @property
    def idle(self) -> bool:
        """Whether no job waits; one may still run."""
        return self._jobs.empty()

    def submit(self, job: Callable[[], object]) -> bool:
        """Have a job done, unless too many wait; what it raises is lost."""
        if self._jobs.qsize() >= self._most:
            return False
        self._enqueue(job)
        return True

    def begin(self, job: Callable[[], Result]) -> "Future[Result]":
        """Have a job done; the future gets what it returns or raises."""
        result: Future[Result] = Future()

        def act() -> None:
            if result.set_running_or_notify_cancel():
                try:
                    result.set_result(job())
                except Exception as error:  # noqa: BLE001 - whoever waits gets it
                    result.set_exception(error)

        if not self.submit(act):
            result.set_exception(_timed_out())
        return result

    async def run(self, job: Callable[[], Result], seconds: float | None = None) -> Result:
        """Have a job done, and wait for what it returns or raises. Raises TimeoutError after so many seconds; the job
        may then still run, before any later one."""
        waiting = asyncio.wrap_future(self.begin(job))
        try:
            async with asyncio.timeout(seconds):
                return await waiting
        except TimeoutError:
            raise _timed_out() from None

    def drain(self, seconds: float) -> None:
        """Wait until all jobs are done, at most so long."""
        if self._started:
            done = threading.Event()
            self._enqueue(done.set)
            done.wait(seconds)

    def _enqueue(self, job: Callable[[], object]) -> None:
        self._jobs.put(job)
        with self._starting:
            if not self._started:
                threading.Thread(target=self._work, name=self.name, daemon=True).start()
                self._started = True

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            with contextlib.suppress(Exception):
                job()


def _timed_out() -> TimeoutError:
    return TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

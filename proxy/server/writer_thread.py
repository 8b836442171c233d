"""Writes that somebody else can stall: to a pipe that nobody reads, a terminal that is stopped, a file system that is
away. A thread of its own makes them, one for each place, so that no event loop waits and no place waits for another.

What waits is bounded; more is dropped and counted.
"""

import io
import os
import select
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial

from proxy.net.config.background_thread import MOST_WAITING, BackgroundThread

PIECE = 64 * 1024
"""The most characters of one write to standard error; more is cut off."""
ENDING_SECONDS = 1.0
"""How long the end of the process waits for a log."""

dropped_lines: Counter[str] = Counter()
"""The lines of this process that could not be written, by place."""


class WriterThread(BackgroundThread):
    """Writes to the place of this `name`."""

    def __init__(self, name: str, most: int = MOST_WAITING) -> None:
        super().__init__(name, most)
        self.dropped = 0
        dropped_lines[name] += 0

    def write(self, job: Callable[[], object], lines: int = 1) -> None:
        """Have a job done that writes so many lines, or drop them if too many jobs wait."""
        if not self.submit(job):
            self.drop(lines)

    def drop(self, lines: int) -> None:
        """Count lines that could not be written."""
        self.dropped += lines
        dropped_lines[self.name] += lines


class UnstallableStderr(io.TextIOBase):
    """Standard error for all code of the process, in whole lines. When it takes lines again, it says how many were
    dropped: `tell` makes that line."""

    def __init__(self, descriptor: int, tell: Callable[[int], str]) -> None:
        self._descriptor = descriptor
        self._tell = tell
        self._thread = WriterThread("stderr")
        self._told = 0
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
            self._thread.write(partial(self._write, data), lines.count("\n") + 1)
        return len(text)

    def drain(self) -> None:
        """Let the last lines out, at the end of the process."""
        self._thread.drain(ENDING_SECONDS)

    def _write(self, data: bytes) -> None:
        try:
            write_all(self._descriptor, data)
            dropped = self._thread.dropped
            if dropped > self._told and self._thread.idle:
                number, self._told = dropped - self._told, dropped
                write_all(self._descriptor, f"{self._tell(number)}\n".encode())
        except OSError:
            self._thread.drop(1)


def write_all(descriptor: int, data: bytes) -> None:
    """Write in one piece where the system allows it, since other processes write to the same place. Raises OSError."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            select.select([], [descriptor], [])  # somebody has made the shared description non-blocking

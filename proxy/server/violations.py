"""The violations' lines: the newest are kept in memory, and all may be logged.

A log is standard error or the end of a file; each line is written in one piece.

If the file is rotated, Keyrail opens a new one: before each write, and at SIGHUP, it compares the name with the open
file. Lines that cannot be written (a full disk, a closed standard error) are dropped and reported, once a minute,
because a log must never delay the traffic. So they are if nobody reads a file that is a FIFO.
"""

import errno
import os
import sys
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from proxy.net.config.settings import ViolationsSettings
from proxy.server.line_writer import LineWriter
from proxy.server.notices import LostLines
from proxy.server.writer_thread import ENDING_SECONDS, WriterThread, dropped_lines, write_all

_NAME = "violations"
MOST_KEPT = 200
"""Lines in memory for each route."""


class ViolationsError(Exception):
    """The file cannot be written; the text names it and the reason."""


class ViolationLog:
    """A log of violations. A thread writes it; lines that cannot be written are counted in ``dropped_lines``."""

    def __init__(self, settings: ViolationsSettings) -> None:
        """Open the file. Raises ViolationsError."""
        self._path = settings.path
        self._open = -1
        self._lines = LineWriter()
        self._thread = WriterThread(_NAME)
        self._trouble = LostLines()
        if self._path is not None:
            try:
                self._open = _append_to(self._path)
            except OSError as error:
                if error.errno != errno.ENXIO:  # a FIFO that nobody reads yet
                    raise ViolationsError(f"cannot write violations to {self._path}: {error.strerror}") from None

    def write(self, lines: Sequence[bytes]) -> None:
        """Write the lines, or drop them. Without lines, only open the file again if it was rotated."""
        if self._path is None:
            self._thread.write(partial(self._write_to_stderr, lines), len(lines))
        else:
            self._thread.write(partial(self._write_to_file, self._path, lines), len(lines))

    def _write_to_stderr(self, lines: Sequence[bytes]) -> None:
        try:
            out = sys.stderr.fileno()
            for line in lines:
                write_all(out, line)
        except (OSError, ValueError):
            dropped_lines[_NAME] += len(lines)

    def _write_to_file(self, path: Path, lines: Sequence[bytes]) -> None:
        left = len(lines)
        try:
            if self._open < 0 or not _is_open(path, self._open):
                self._close()
                self._open, self._lines = _append_to(path), LineWriter()
            for line in lines:
                self._lines.write(self._open, line)
                left -= 1
        except OSError as error:
            dropped_lines[_NAME] += left
            self._trouble.lost(f"cannot write violations to {path}: {error.strerror}", left)
        else:
            if lines:
                self._trouble.written(str(path))

    def close(self) -> None:
        """Write what waits, if that is possible soon, and close the file."""
        self._thread.write(self._close, 0)
        self._thread.drain(ENDING_SECONDS)

    def _close(self) -> None:
        if self._open >= 0:
            os.close(self._open)
            self._open = -1


class Violations:
    """The newest lines of all routes of a process group; `log` is where all are written, if anywhere."""

    def __init__(self, routes: int, log: ViolationLog | None) -> None:
        self._log = log
        self._newest: tuple[deque[bytes], ...] = tuple(deque(maxlen=MOST_KEPT) for _ in range(routes))
        self._taken = [0] * routes

    def take(self, route: int, lines: Sequence[bytes]) -> None:
        """Keep and log a worker's lines of a route."""
        self._newest[route].extend(lines)
        self._taken[route] += len(lines)
        if self._log is not None:
            self._log.write(lines)

    def since(self, route: int, number: int) -> tuple[int, list[bytes]]:
        """The number of lines so far, and the kept lines after the first ``number``, the oldest first."""
        taken, kept = self._taken[route], self._newest[route]
        return taken, list(islice(kept, max(0, len(kept) - (taken - number)), None))


def _append_to(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o640)


def _is_open(path: Path, descriptor: int) -> bool:
    try:
        named, opened = path.stat(), os.fstat(descriptor)
    except OSError:
        return False
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)

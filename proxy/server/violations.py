"""Where the violations' lines go: the newest are kept for whoever looks, and all may be logged.

A log is standard error or the end of a file, and each line goes there in one piece.

A log rotation may rename the file at any time: before each write, and at SIGHUP, the name is held against the file that
is open, and a file that is not there any more is begun anew. What cannot be written (a full disk, a standard error that
nobody reads) is dropped and said once, for a log must never hold up the traffic that it is about.
"""

import os
import select
import sys
from collections import deque
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from proxy.net.settings import ViolationsSettings
from proxy.server.notices import notice

MOST_KEPT = 200
"""Lines of each route."""


class ViolationsError(Exception):
    """The file cannot be written; the text names it and the reason."""


class ViolationLog:
    """The end of the line. ``dropped`` counts lines that could not be written."""

    def __init__(self, settings: ViolationsSettings) -> None:
        """Open the file. Raises ViolationsError."""
        self.dropped = 0
        self._path = settings.path
        self._open = -1
        self._troubled = False
        if self._path is not None:
            try:
                self._open = _append_to(self._path)
            except OSError as error:
                raise ViolationsError(f"cannot write violations to {self._path}: {error.strerror}") from None

    def write(self, lines: Sequence[bytes]) -> None:
        """Write the lines, or drop them; with none, only see to it that the file is the one of that name."""
        if self._path is None:
            self._write_to_stderr(lines)
        else:
            self._write_to_file(self._path, lines)

    def _write_to_stderr(self, lines: Sequence[bytes]) -> None:
        try:
            out = sys.stderr.fileno()
            for line in lines:
                # A pipe that takes anything takes PIPE_BUF bytes, and no line is longer.
                if not select.select([], [out], [], 0.0)[1]:
                    self.dropped += 1
                    continue
                os.write(out, line)
        except (OSError, ValueError):
            self.dropped += len(lines)

    def _write_to_file(self, path: Path, lines: Sequence[bytes]) -> None:
        try:
            if self._open < 0 or not _is_open(path, self._open):
                self.close()
                self._open = _append_to(path)
            for line in lines:
                os.write(self._open, line)
        except OSError as error:
            self.dropped += len(lines)
            if not self._troubled:
                notice(f"cannot write violations to {path}: {error.strerror}")
            self._troubled = True
        else:
            self._troubled = False

    def close(self) -> None:
        """Close the file."""
        if self._open >= 0:
            os.close(self._open)
            self._open = -1


class Violations:
    """All lines of a process group with so many routes; `log` is where they are written, if anywhere."""

    def __init__(self, routes: int, log: ViolationLog | None) -> None:
        self._log = log
        self._newest: tuple[deque[bytes], ...] = tuple(deque(maxlen=MOST_KEPT) for _ in range(routes))
        self._taken = [0] * routes

    def take(self, route: int, lines: Sequence[bytes]) -> None:
        """Keep and log what a worker tells of a route."""
        self._newest[route].extend(lines)
        self._taken[route] += len(lines)
        if self._log is not None:
            self._log.write(lines)

    def since(self, route: int, number: int) -> tuple[int, list[bytes]]:
        """The number of lines so far, and those of the newest that came after so many, the oldest first."""
        taken, kept = self._taken[route], self._newest[route]
        return taken, list(islice(kept, max(0, len(kept) - (taken - number)), None))


def _append_to(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)


def _is_open(path: Path, descriptor: int) -> bool:
    try:
        named, opened = path.stat(), os.fstat(descriptor)
    except OSError:
        return False
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)

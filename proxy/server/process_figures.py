"""How busy one process is, a worker or the supervisor: CPU time, memory, open files, and how late its event loop is."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from proxy.server.writer_thread import dropped_lines

_STATM = Path("/proc/self/statm")
_FILES = Path("/proc/self/fd")


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """``cpu`` and ``lag`` are in seconds, ``memory`` (resident) in bytes; figures that the system does not have are 0.

    ``lag`` is the delay of the last timer: a worker's commands wait as long.
    """

    cpu: float
    memory: int
    files: int
    lag: float
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Lines that could not be written, by place."""


def figures_of_this_process(lag: float) -> ProcessFigures:
    """The figures now. They cost the same with any number of open files since Linux 6.2."""
    return ProcessFigures(time.process_time(), _memory(), _files(), max(0.0, lag), dict(dropped_lines))


def _memory() -> int:
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _files() -> int:
    try:
        return _FILES.stat().st_size or sum(1 for _ in _FILES.iterdir())
    except OSError:
        return 0

"""A CPU limit as containers have one: a control group of Linux, of either version, where this user may make it."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Collection, Iterator
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_PERIOD = 100_000
"""Microseconds."""


class CpuLimit:
    """The control group: its processes get a share of one CPU, all together."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._first_version = (folder / "cpu.cfs_quota_us").exists()

    def let(self, share: float | None) -> None:
        """Change the share; None is as much as there is."""
        quota = None if share is None else int(share * _PERIOD)
        if self._first_version:
            (self._folder / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))
        else:
            (self._folder / "cpu.max").write_text(f"{'max' if quota is None else quota} {_PERIOD}")

    def waited(self) -> float:
        """Seconds for which its processes have waited since it was made, as the limit was used up."""
        figures = dict(line.split() for line in (self._folder / "cpu.stat").read_text().splitlines())
        return int(figures["throttled_time"]) / 1e9 if self._first_version else int(figures["throttled_usec"]) / 1e6

    def take(self, pids: Collection[int]) -> None:
        """Limit these processes, with all of their threads."""
        for pid in pids:
            (self._folder / "cgroup.procs").write_text(str(pid))


@contextlib.contextmanager
def cpu_limit() -> Iterator[CpuLimit | None]:
    """A control group without a limit yet; None where none can be made. Its processes are back afterwards."""
    parent = _ROOT / "cpu" if (_ROOT / "cpu/cgroup.procs").exists() else _ROOT
    folder = parent / f"keyrail-test-{uuid.uuid4().hex}"
    try:
        folder.mkdir()
    except OSError:
        yield None
        return
    try:
        made = CpuLimit(folder)
        try:
            made.let(None)
            made.waited()
        except (OSError, KeyError):  # without the controller of CPU time
            yield None
        else:
            yield made
    finally:
        for pid in (folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (parent / "cgroup.procs").write_text(pid)
        folder.rmdir()

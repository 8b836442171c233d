"""CPU time and memory of a program, from the kernel, summed over its threads and child processes."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


def process_tree(pid: int) -> list[int]:
    """The process and all its living descendants."""
    tree = [pid]
    for parent in tree:
        for task in (_PROC / str(parent) / "task").glob("*"):
            try:
                tree += [int(child) for child in (task / "children").read_text().split()]
            except OSError:
                continue
    return tree


def cpu_seconds(pid: int) -> float:
    """CPU time that the tree has used so far, from the scheduler's own nanoseconds."""
    nanoseconds = 0
    for member in process_tree(pid):
        for task in (_PROC / str(member) / "task").glob("*"):
            try:
                nanoseconds += int((task / "schedstat").read_text().split()[0])
            except OSError:
                continue
    return nanoseconds / 1e9


def queued_seconds(pid: int) -> dict[str, float]:
    """By thread of this process: how long it has been ready to run while the kernel ran others."""
    waited: dict[str, float] = {}
    for task in (_PROC / str(pid) / "task").glob("*"):
        with contextlib.suppress(OSError):
            waited[task.name] = int((task / "schedstat").read_text().split()[1]) / 1e9
    return waited


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of a tree in bytes: ``pss`` now, with shared pages in part, and the sum of its peaks (``peak``)."""

    pss: int
    peak: int


def memory(pid: int) -> Memory:
    """The memory of the tree."""
    pss = peak = 0
    for member in process_tree(pid):
        pss += _field(member, "smaps_rollup", "Pss")
        peak += _field(member, "status", "VmHWM")
    return Memory(pss, peak)


def resident(pid: int) -> int:
    """Resident bytes of the tree."""
    return sum(map(resident_of, process_tree(pid)))


def resident_of(pid: int) -> int:
    """Resident bytes of this process alone."""
    return _field(pid, "status", "VmRSS")


def open_files(pid: int) -> int:
    """How many files this process alone has open."""
    try:
        return sum(1 for _ in (_PROC / str(pid) / "fd").iterdir())
    except OSError:
        return 0


def forget_peak(pid: int) -> None:
    """Reset the peaks of the tree to the current resident size."""
    for member in process_tree(pid):
        (_PROC / str(member) / "clear_refs").write_text("5")


def _field(pid: int, file: str, name: str) -> int:
    try:
        found = re.search(rf"^{name}:\s+(\d+) kB", (_PROC / str(pid) / file).read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


def connections(pid: int, port: int) -> int:
    """How many established connections to this local TCP port (IPv4) a process has open."""
    table = (_PROC / str(pid) / "net" / "tcp").read_text().splitlines()[1:]
    rows = [row.split() for row in table]
    ours = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "01"}
    return sum(name in ours for name in _open_files(pid))


def _open_files(pid: int) -> Iterator[str]:
    for file in (_PROC / str(pid) / "fd").iterdir():
        with contextlib.suppress(OSError):  # it may be closed by now
            yield str(file.readlink())


def machine() -> str:
    """The model and number of processors, for the report."""
    found = re.search(r"^model name\s*:\s*(.+)$", (_PROC / "cpuinfo").read_text(), re.MULTILINE)
    processors = len(re.findall(r"^processor\s*:", (_PROC / "cpuinfo").read_text(), re.MULTILINE))
    return f"{processors} × {found[1] if found else 'unknown processor'}"

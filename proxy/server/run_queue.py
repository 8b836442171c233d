"""How long a worker has waited for a CPU: other processes ran, or its container had used up its CPU limit.

Linux tells it of the main thread, which runs the worker's event loop, in ``/proc/PID/schedstat``: nanoseconds on a CPU,
nanoseconds in the run queue, number of times on a CPU (Documentation/scheduler/sched-stats.rst). A wait is added when
it ends. While one lasts, the state is R and the time on a CPU stands still. Stopped and sleeping processes do not wait.
"""

from dataclasses import dataclass
from pathlib import Path

_NANOSECOND = 1e-9


@dataclass(frozen=True, slots=True)
class SchedulerTimes:
    """Of one thread, in seconds: ``ran`` on a CPU, ``waited`` until it last got one. ``runnable``: in state R now."""

    ran: float
    waited: float
    runnable: bool


def scheduler_times(pid: int) -> SchedulerTimes | None:
    """Those of the process's main thread; None where the system does not tell them."""
    try:
        times = Path(f"/proc/{pid}/schedstat").read_text().split()
        stat = Path(f"/proc/{pid}/stat").read_text()
        ran, waited, turns = map(int, times)
    except (OSError, ValueError):
        return None
    if not turns:  # the kernel counts nothing
        return None
    return SchedulerTimes(ran * _NANOSECOND, waited * _NANOSECOND, stat.rpartition(")")[2].split()[0] == "R")


class RunQueueWait:
    """The time that one worker has waited, as it is looked at repeatedly."""

    __slots__ = ("_known", "_last", "_since")

    def __init__(self) -> None:
        self._last: SchedulerTimes | None = None
        self._since = 0.0
        """The first look at which the wait that lasts was seen."""
        self._known = 0.0

    def further(self, times: SchedulerTimes | None, now: float) -> float:
        """Return the seconds of waiting that these times show, and those of the look before did not."""
        before, self._last = self._last, times
        if times is None:
            return 0.0
        if before is None or not before.runnable or before.ran != times.ran:
            self._since = now
        known = times.waited + (now - self._since if times.runnable else 0.0)
        further = 0.0 if before is None else max(0.0, known - self._known)
        self._known = known
        return further

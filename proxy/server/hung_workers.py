"""Finds a worker that hangs: it lives, but has not reported to the supervisor for long.

Workers report about each second. While the supervisor itself was stopped (the machine was suspended, or has too little
CPU), it read no reports: that time does not count as a worker's silence. Neither does time in which the worker waited
for a CPU: a replacement would get no more of it. What counts is time in which the worker ran, slept or was stopped. So
one in an endless loop is found on a busy machine, too, after as much time on a CPU. Where the system does not tell how
long a process waits, all time counts.
"""

from collections.abc import Callable, Collection

from proxy.server.run_queue import SchedulerTimes, scheduler_times
from proxy.server.worker_process import WorkerProcess

SILENT_SECONDS = 5.0
TURN_SECONDS = 1.0
"""Seconds between two checks."""
_LATE = 0.25
"""Seconds by which a check may be late before the delay counts as a pause of the supervisor."""


class HungWorkers:
    """Checks the workers of a group that should have ``workers`` of them. ``times_of`` has those of a process ID."""

    def __init__(
        self, workers: int, now: float, times_of: Callable[[int], SchedulerTimes | None] = scheduler_times
    ) -> None:
        self.late = 0.0
        """Seconds by which the last look came late: the lag of the supervisor's event loop."""
        self._workers = workers
        self._times_of = times_of
        self._looked = now

    def look(self, workers: Collection[WorkerProcess], now: float) -> WorkerProcess | None:
        """The worker to replace now: one at a time, and none while another worker is missing."""
        self.late = max(0.0, now - self._looked - TURN_SECONDS)
        self._looked = now
        paused = self.late if self.late > _LATE else 0.0
        for worker in workers:
            waited = worker.run_queue.further(self._times_of(worker.process.pid), now)
            # Both may be the same time. A wait may have ended after the last report, and have begun before it.
            worker.forgiven = min(worker.forgiven + max(paused, waited), now - worker.heard)
        if len(workers) < self._workers or not all(worker.serving for worker in workers):
            return None
        silent = [worker for worker in workers if silence(worker, now) > SILENT_SECONDS]
        return max(silent, key=lambda worker: silence(worker, now), default=None)


def silence(worker: WorkerProcess, now: float) -> float:
    """Seconds since a worker's last message, without the supervisor's own pauses and the worker's waits for a CPU."""
    return now - worker.heard - worker.forgiven

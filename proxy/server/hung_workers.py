"""Finds a worker that hangs: it lives, but has not reported to the supervisor for long.

Workers report about each second. While the supervisor itself was stopped (the machine was suspended, or has too little
CPU), it read no reports: that time does not count as a worker's silence.
"""

from collections.abc import Collection

from proxy.server.worker_process import WorkerProcess

SILENT_SECONDS = 5.0
TURN_SECONDS = 1.0
"""Seconds between two checks."""
_LATE = 0.25
"""Seconds by which a check may be late before the delay counts as a pause of the supervisor."""


class HungWorkers:
    """Checks the workers of a group that should have ``workers`` of them."""

    def __init__(self, workers: int, now: float) -> None:
        self.late = 0.0
        """Seconds by which the last look came late: the lag of the supervisor's event loop."""
        self._workers = workers
        self._looked = now

    def look(self, workers: Collection[WorkerProcess], now: float) -> WorkerProcess | None:
        """The worker to replace now: one at a time, and none while another worker is missing."""
        self.late = max(0.0, now - self._looked - TURN_SECONDS)
        self._looked = now
        if self.late > _LATE:
            for worker in workers:
                worker.forgiven += self.late
        if len(workers) < self._workers or not all(worker.serving for worker in workers):
            return None
        silent = [worker for worker in workers if silence(worker, now) > SILENT_SECONDS]
        return max(silent, key=lambda worker: silence(worker, now), default=None)


def silence(worker: WorkerProcess, now: float) -> float:
    """Seconds since a worker's last message, without the supervisor's own pauses."""
    return now - worker.heard - worker.forgiven

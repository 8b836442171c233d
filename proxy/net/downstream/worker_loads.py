"""How many clients each worker has, where all workers of the group see it: who should accept the next ones.

All workers accept from the same listening sockets, so that no connection waits for a worker that has ended or hangs.
Who is first would have all of a crowd, so a worker that has its share leaves the rest to the others for a moment
(``acceptor``).

The memory is an array of 64-bit integers. Each of them has one writer, so nobody needs a lock:

    clients[worker]           of the worker itself; -1 while it takes none
    attended[worker]          when it was last there to accept, in milliseconds of the monotonic clock
"""

import time
from typing import Final

_AWAY: Final = -1
_FEW: Final = 4
_STEP: Final = 16
"""A worker with ``_FEW`` clients or more may have one more than its share, and one more in ``_STEP`` of many: that
makes no difference, and others need not be waited for."""


def cells(workers: int) -> int:
    """How many integers the memory has for so many workers."""
    return 2 * workers


class WorkerLoads:
    """What worker ``number`` sees and writes; ``away`` is for the supervisor, too."""

    def __init__(self, memory: memoryview, workers: int, number: int = 0) -> None:
        table = memory.cast("B").cast("q")
        self.alone = workers == 1
        self._number = number
        self._clients = table[:workers]
        self._attended = table[workers : 2 * workers]
        self._mine = 0
        self._open = False

    def begin(self) -> None:
        """This worker takes clients from now on."""
        self._open = True
        self.add(0)

    def end(self) -> None:
        """This worker takes no more clients."""
        self._open = False
        self.away(self._number)

    def away(self, worker: int) -> None:
        """That worker takes no clients."""
        self._clients[worker] = _AWAY

    def add(self, clients: int) -> None:
        """This worker has so many more clients."""
        self._mine += clients
        if self._open:
            self._clients[self._number] = self._mine

    def share(self, waiting: int) -> int:
        """How many of the connections that wait this worker should accept now."""
        if self.alone:
            return waiting
        count, total = 0, waiting
        for clients in self._clients:
            if clients != _AWAY:
                count += 1
                total += clients
        if count < 2:
            return waiting
        if self._mine < _FEW:
            most = (total + count - 1) // count
        else:
            most = total // count + max(1, self._mine // _STEP)
        return most - self._mine

    def attend(self, since: float) -> None:
        """This worker is there, since that second of the monotonic clock at the latest."""
        if self._open:
            self._attended[self._number] = int(since * 1000.0)

    def unattended(self) -> float:
        """For how many seconds connections may have waited to be accepted."""
        return max(0.0, time.monotonic() - max(self._attended) / 1000.0)


def loads_of_one_worker() -> WorkerLoads:
    """Those of a group that has one worker, which no other process sees."""
    found = WorkerLoads(memoryview(bytearray(8 * cells(1))), 1)
    found.begin()
    found.attend(time.monotonic())
    return found

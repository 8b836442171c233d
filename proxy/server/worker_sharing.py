"""Workers share memory with their loads and the counts of the group.

The supervisor makes it, and keeps it open: a worker that replaces another one finds what that one has left there.
"""

import mmap
import os
import tempfile
import time

from proxy.net.connection.group_counts import GroupCounts, counts_in
from proxy.net.downstream.worker_loads import WorkerLoads, cells

_CELL_BYTES = 8


class WorkerSharing:
    """The supervisor's side, for a group of ``workers``. Workers get the file ``descriptor``."""

    def __init__(self, workers: int) -> None:
        self.descriptor = _shared_memory((cells(workers) + 2 * workers) * _CELL_BYTES)
        for number in range(workers):
            loads = loads_in(self.descriptor, workers, number)
            loads.begin()
            loads.attend(time.monotonic())  # the sockets have just begun to listen
            loads.end()
        self._loads = loads_in(self.descriptor, workers, 0)

    def away(self, number: int) -> None:
        """Note that this worker is not running: the others leave it no clients."""
        self._loads.away(number)

    def close(self) -> None:
        """Close the file descriptor."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def loads_in(descriptor: int, workers: int, number: int) -> WorkerLoads:
    """The loads, for worker ``number`` of ``workers``."""
    return WorkerLoads(_mapped(descriptor)[: cells(workers) * _CELL_BYTES], workers, number)


def shared_counts(descriptor: int, workers: int, number: int) -> GroupCounts:
    """The counts of the group, for worker ``number``; they come behind the loads."""
    return counts_in(_mapped(descriptor)[cells(workers) * _CELL_BYTES :], workers, number)


def _mapped(descriptor: int) -> memoryview:
    return memoryview(mmap.mmap(descriptor, 0))


def _shared_memory(size: int) -> int:
    if hasattr(os, "memfd_create"):
        memory = os.memfd_create("keyrail-loads")
    else:
        with tempfile.TemporaryFile() as file:
            memory = os.dup(file.fileno())
    os.truncate(memory, size)
    return memory

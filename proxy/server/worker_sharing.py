"""Workers share memory with their loads and the counts of the group. Each has an inbox, so that each takes about
equally many clients.

The supervisor makes all of it, and keeps it open: if a worker ends, its replacement takes the connections in its inbox.
"""

import asyncio
import mmap
import os
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from proxy.net.group_counts import GroupCounts, counts_in
from proxy.net.handover import Handover, Place
from proxy.net.worker_loads import WorkerLoads, cells

_CELL_BYTES = 8
# Only Linux has it for unix sockets. Elsewhere the queue of datagrams is short, so fewer clients are handed over.
_INBOX = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_DGRAM


@dataclass(frozen=True, slots=True)
class SharingFiles:
    """The file descriptors that a worker inherits for this. In the memory, the loads come before the counts."""

    memory: int
    inbox: int
    outboxes: tuple[int, ...]


class WorkerSharing:
    """The supervisor's side, for a group of ``workers``."""

    def __init__(self, workers: int) -> None:
        self._memory = _shared_memory((cells(workers) + 2 * workers) * _CELL_BYTES)
        self._inboxes = [socket.socketpair(socket.AF_UNIX, _INBOX) for _ in range(workers)]
        for each in (each for pair in self._inboxes for each in pair):
            each.setblocking(False)
        self._loads = WorkerLoads(_loads_in(self._memory, workers), workers)
        for number in range(workers):
            self.away(number)

    def files_for(self, number: int) -> SharingFiles:
        """The file descriptors that worker ``number`` inherits."""
        outboxes = tuple(sending.fileno() for _, sending in self._inboxes)
        return SharingFiles(self._memory, self._inboxes[number][0].fileno(), outboxes)

    def away(self, number: int) -> None:
        """Note that this worker is not running: the others hand it no clients."""
        self._loads.away(number)

    def close(self) -> None:
        """Close all file descriptors."""
        os.close(self._memory)
        for each in (each for pair in self._inboxes for each in pair):
            each.close()


def loads_of(files: SharingFiles, number: int) -> WorkerLoads:
    """The loads, for worker ``number``."""
    workers = len(files.outboxes)
    return WorkerLoads(_loads_in(files.memory, workers), workers, number)


def counts_of(files: SharingFiles, number: int) -> GroupCounts:
    """The counts of the group, for worker ``number``."""
    workers = len(files.outboxes)
    return counts_in(_mapped(files.memory)[cells(workers) * _CELL_BYTES :], workers, number)


def handover_of(
    files: SharingFiles,
    number: int,
    loads: WorkerLoads,
    loop: asyncio.AbstractEventLoop,
    take: Callable[[Place, socket.socket], None],
) -> Handover:
    """The object with which worker ``number`` hands clients to the others."""
    inbox = socket.socket(fileno=files.inbox)
    inbox.setblocking(False)
    return Handover(loop, number, loads, inbox, [socket.socket(fileno=each) for each in files.outboxes], take)


def _loads_in(memory: int, workers: int) -> memoryview:
    return _mapped(memory)[: cells(workers) * _CELL_BYTES]


def _mapped(memory: int) -> memoryview:
    return memoryview(mmap.mmap(memory, 0))


def _shared_memory(size: int) -> int:
    if hasattr(os, "memfd_create"):
        memory = os.memfd_create("keyrail-loads")
    else:
        with tempfile.TemporaryFile() as file:
            memory = os.dup(file.fileno())
    os.truncate(memory, size)
    return memory

"""Connections that a worker has accepted, on their way to another worker that has fewer clients.

Each worker has an inbox, a pair of sockets that the supervisor keeps open: all others send to it, with the connection's
file descriptor (SCM_RIGHTS, ``man 7 unix``). What waits in the inbox of a worker that ends is its replacement's.
"""

import asyncio
import contextlib
import socket
import struct
from array import array
from collections.abc import Callable, Sequence
from typing import TypeAlias

from proxy.net.worker_loads import WorkerLoads

Place: TypeAlias = tuple[int, int]
"""A listener: the positions of its route and, in that, of itself."""

_LETTER = struct.Struct("=HHHH")
"""Who sends, the place, and how many connections: where this process may open no more files, fewer arrive."""
MOST_SENT = 64
"""Connections that may be put by before they are sent: the kernel takes up to 253 in a message."""
_ROOM = socket.CMSG_SPACE(MOST_SENT * array("i").itemsize)


class Handover:
    """One worker's way to the others. ``take`` gets what comes: a connection and the place where it was accepted."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        number: int,
        loads: WorkerLoads,
        inbox: socket.socket,
        outboxes: Sequence[socket.socket],
        take: Callable[[Place, socket.socket], None],
    ) -> None:
        self._loop = loop
        self._number = number
        self._loads = loads
        self._inbox = inbox
        self._outboxes = outboxes
        self._take = take
        self._leaving: list[tuple[int, Place, socket.socket]] = []

    def begin(self) -> None:
        """Take what waits and what comes from now on."""
        self._receive_all()
        self._loads.begin()
        self._loop.add_reader(self._inbox.fileno(), self._receive)

    def end(self) -> None:
        """Take what waits, and nothing more."""
        self._loads.end()
        self._loop.remove_reader(self._inbox.fileno())
        self._receive_all()

    def relieves(self) -> bool:
        """Whether another worker should have the next connection."""
        return self._loads.to_relieve() is not None

    def destination(self) -> int | None:
        """The worker that gets the next connection, to be given to ``hand_over``; None where it stays here."""
        worker = self._loads.to_relieve()
        if worker is not None:
            self._loads.sent(worker)
        return worker

    def hand_over(self, worker: int, place: Place, connection: socket.socket) -> None:
        """Send a connection before the event loop waits again, together with others."""
        if not self._leaving:
            self._loop.call_soon(self._send)
        self._leaving.append((worker, place, connection))

    def _send(self) -> None:
        # One message to each worker and place. What cannot be sent stays here.
        leaving, self._leaving = self._leaving, []
        letters: dict[tuple[int, Place], list[socket.socket]] = {}
        for worker, place, connection in leaving:
            letters.setdefault((worker, place), []).append(connection)
        for (worker, place), connections in letters.items():
            letter = _LETTER.pack(self._number, *place, len(connections))
            try:
                descriptors = array("i", [each.fileno() for each in connections])
                self._outboxes[worker].sendmsg([letter], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
            except OSError:  # its inbox is full
                self._loads.sent(worker, -len(connections))
                for connection in connections:
                    self._take(place, connection)
            else:
                for connection in connections:
                    connection.close()

    def _receive_all(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self._receive()

    def _receive(self) -> None:
        letter, attached, _, _ = self._inbox.recvmsg(_LETTER.size, _ROOM)
        sender, route, listener, count = _LETTER.unpack(letter)
        self._loads.taken(sender, count)
        for _, _, data in attached:
            for descriptor in array("i", data):
                self._take((route, listener), socket.socket(fileno=descriptor))

"""Notes that a worker is there to accept, and finds out when it was not: its process was stopped, or had no time.

The kernel does not tell how long a connection has waited on a unix socket, but whether any waits. So each worker tells
all others until when it was there (``worker_loads``). After a pause it is there again once nobody waits: what has
waited through the pause has been accepted. What was accepted just before the last turn is looked at just behind it, so
the turn before that one counts.
"""

import asyncio
import select
import time
from collections.abc import Callable, Iterable

from proxy.net.connection.periodic import Periodic
from proxy.net.downstream.worker_loads import WorkerLoads
from proxy.net.sockets.opening import ready_sockets

_MOST_SECONDS = 0.25
_LEAST_SECONDS = 0.02
_TURNS = 8
"""Turns within the patience of clients, and the seconds between two turns."""


class Attention:
    """That of one worker, to the unix sockets with these file ``descriptors``. ``paused`` is called behind each pause
    longer than the ``patience`` of clients, with its seconds; a patience of 0 knows no end."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        loads: WorkerLoads,
        descriptors: Iterable[int],
        patience: float,
        paused: Callable[[float], None],
        count: Callable[[str], object],
    ) -> None:
        self._loads = loads
        self._sockets = select.poll()
        for descriptor in descriptors:
            self._sockets.register(descriptor, select.POLLIN)
        self._patience = patience
        self._paused = paused
        self._ready_sockets = ready_sockets(loop)
        self._seconds = min(_MOST_SECONDS, max(_LEAST_SECONDS, patience / _TURNS)) if patience else _MOST_SECONDS
        self._turned = time.monotonic()
        self._attends = False
        self._turns = Periodic(loop, self._seconds, {"noting that this worker is there": self._turn}, count)

    def begin(self) -> None:
        """The worker is about to accept."""
        self._turned = time.monotonic()
        self._turns.begin()
        if self._ready_sockets is not None and self._patience > 0.0:
            # Their sockets may be read before timers run.
            self._ready_sockets.turned, self._ready_sockets.pause = self._turned, self._patience
            self._ready_sockets.on_pause = self._turn

    def end(self) -> None:
        """It accepts no more."""
        self._turns.end()
        if self._ready_sockets is not None:
            self._ready_sockets.on_pause = None

    def _turn(self) -> None:
        now = time.monotonic()
        before, self._turned = self._turned, now
        away = now - before
        if self._ready_sockets is not None:
            self._ready_sockets.turned = now
        if away > 2 * self._seconds and away > self._patience / 2:
            self._attends = False
            if 0.0 < self._patience < away:
                self._paused(away)
        elif self._attends:
            self._loads.attend(before)
        else:
            self._attends = not self._sockets.poll(0)

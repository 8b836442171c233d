"""Limits the clients of one worker: each one is an open file, and the open files of a process are limited.

A client above the limit gets the error of Redis, and is closed. If the process cannot open a file below the limit, it
does not accept the connection (``acceptor``).
"""

import logging

from proxy.net.downstream.worker_loads import WorkerLoads, loads_of_one_worker

MAX_CLIENTS = b"-ERR max number of clients reached\r\n"
"""The error of Redis (networking.c, acceptCommonHandler)."""

_log = logging.getLogger("keyrail.worker")


class Admission:
    """Counts the clients of one worker over all its routes, ``most`` at a time; 0 means no limit.

    ``loads`` shows other workers how many connections this one has.
    """

    def __init__(self, most: int, loads: WorkerLoads | None = None) -> None:
        self.most = most
        self.clients = 0
        self.loads = loads_of_one_worker() if loads is None else loads
        self._refused = 0
        self._refuses = False

    def admit(self) -> bool:
        """Whether one more client is admitted; it counts then."""
        if 0 < self.most <= self.clients:
            self._refused += 1
            return False
        self.clients += 1
        return True

    def leave(self) -> None:
        """An admitted client has left."""
        self.clients -= 1

    def accepted(self) -> None:
        """A connection was accepted."""
        self.loads.add(1)

    def closed(self) -> None:
        """A connection has closed, admitted or not."""
        self.loads.add(-1)

    def look(self) -> None:
        """Log when refusals begin. Called about each second."""
        refused, self._refused = self._refused, 0
        if refused and not self._refuses:
            _log.warning(
                "refusing clients: this worker has %d, and --max-clients allows %d for each worker",
                self.clients,
                self.most,
            )
        self._refuses = refused > 0

"""How many clients one worker takes: each is an open file, and a process may have only so many of these.

A client above the limit is told so in Redis's words, and closed. Where no file can be opened all the same (other parts
of the process use them, or the whole machine has none left), the connection is not accepted (``acceptor``).
"""

import logging

from proxy.net.worker_loads import WorkerLoads

MAX_CLIENTS = b"-ERR max number of clients reached\r\n"
"""As Redis says it (networking.c, acceptCommonHandler)."""

_log = logging.getLogger("keyrail.worker")


class Admission:
    """Counts the clients of one worker over all its routes, ``most`` at a time; 0 is without a limit.

    Where there are other workers, ``loads`` tells them how many connections this one has.
    """

    def __init__(self, most: int, loads: WorkerLoads | None = None) -> None:
        self.most = most
        self.clients = 0
        self._loads = loads
        self._refused = 0
        self._refuses = False

    def admit(self) -> bool:
        """Take one more client, or refuse it."""
        if 0 < self.most <= self.clients:
            self._refused += 1
            return False
        self.clients += 1
        return True

    def leave(self) -> None:
        """A client that was admitted has gone."""
        self.clients -= 1

    def accepted(self) -> None:
        """A connection has come, which may become a client."""
        if self._loads is not None:
            self._loads.add(1)

    def closed(self) -> None:
        """It has gone, whether or not it was a client."""
        if self._loads is not None:
            self._loads.add(-1)

    def look(self) -> None:
        """Log that clients are refused, when it begins. Called about each second."""
        refused, self._refused = self._refused, 0
        if refused and not self._refuses:
            _log.warning(
                "refusing clients: this worker has %d, and --max-clients allows %d for each worker",
                self.clients,
                self.most,
            )
        self._refuses = refused > 0

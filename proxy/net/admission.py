"""How many clients one worker takes: each is an open file, and a process may have only so many of these.

A client above the limit is told so in Redis's words, and closed. Where no file can be opened all the same (other parts
of the process use them, or the whole machine has none left), the kernel's connection is closed as it is accepted, and
nobody here sees it: so it is tried out each second whether a file can be opened.
"""

import logging
import os

MAX_CLIENTS = b"-ERR max number of clients reached\r\n"
"""As Redis says it (networking.c, acceptCommonHandler)."""

_log = logging.getLogger("keyrail.worker")


class Admission:
    """Counts the clients of one worker over all its routes, ``most`` at a time; 0 is without a limit."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.clients = 0
        self.lacks_files = False
        """No file could be opened when it was tried last."""
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

    def look(self) -> None:
        """Log what begins: clients are refused, or no file can be opened. Called about each second."""
        refused, self._refused = self._refused, 0
        if refused and not self._refuses:
            _log.warning(
                "refusing clients: this worker has %d, and --max-clients allows %d for each worker",
                self.clients,
                self.most,
            )
        self._refuses = refused > 0
        lacked, self.lacks_files = self.lacks_files, not _can_open_a_file()
        if self.lacks_files and not lacked:
            _log.warning("no file can be opened: new connections fail. Raise the limit (ulimit -n, LimitNOFILE)")


def _can_open_a_file() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    return True

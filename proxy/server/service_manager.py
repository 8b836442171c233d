"""Notifications to the service manager that started Keyrail: systemd with ``Type=notify``.

Each message is a datagram to the socket that ``NOTIFY_SOCKET`` names, as sd_notify(3) defines it. Without that variable
nothing is sent. Errors are ignored.
"""

import os
import socket
from collections.abc import Mapping

VARIABLE = "NOTIFY_SOCKET"


class ServiceManager:
    """The address on which the service manager listens."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get(VARIABLE, "")
        # A name that begins with @ is in Linux's abstract namespace, where names begin with a NUL.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address

    def ready(self, status: str) -> None:
        """Keyrail serves; `status` is one line for ``systemctl status``."""
        self._tell("READY=1", f"STATUS={status}")

    def stopping(self) -> None:
        """Keyrail has begun to stop."""
        self._tell("STOPPING=1", "STATUS=stopping")

    def replaced_by(self, pid: int) -> None:
        """Another process is the main process of the service from now on."""
        self._tell(f"MAINPID={pid}")

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
                connection.setblocking(False)
                connection.sendto("\n".join(lines).encode(), self._address)
        except OSError:
            pass  # the manager has ended

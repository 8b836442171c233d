"""What a closing connection has not sent yet: whether there is any, and how it is taken back."""

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
from typing import Protocol, cast

_RESET = struct.pack("ii", 1, 0)
"""For SO_LINGER: the kernel resets the connection, and drops what it has still to send."""


class WrittenTransport(Protocol):
    """A transport that something was written to."""

    def get_write_buffer_size(self) -> int:
        """Bytes that it still holds."""

    def get_extra_info(self, name: str) -> object:
        """Its socket."""


def has_arrived(transport: WrittenTransport) -> bool:
    """Whether the other side's system has acknowledged all that was written; no, where this system does not tell."""
    sock = cast("socket.socket | None", transport.get_extra_info("socket"))
    if sock is None or sock.fileno() < 0 or transport.get_write_buffer_size():
        return False
    try:
        unsent = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4))  # tcp(7): SIOCOUTQ
    except OSError:
        return False
    return unsent == bytes(4)


def discard_unsent(transport: asyncio.Transport | None) -> None:
    """When this connection is closed, nothing leaves this machine any more: the other side gets a reset."""
    sock = None if transport is None else transport.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:  # else it is closed already
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

"""Takes back what a closing connection has not sent yet."""

import asyncio
import contextlib
import socket
import struct

_RESET = struct.pack("ii", 1, 0)
"""For SO_LINGER: the kernel resets the connection, and drops what it has still to send."""


def discard_unsent(transport: asyncio.Transport | None) -> None:
    """When this connection is closed, nothing leaves this machine any more: the other side gets a reset."""
    sock = None if transport is None else transport.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:  # else it is closed already
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

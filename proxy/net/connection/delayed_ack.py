"""The delayed acknowledgement that makes a TLS client's first command wait.

In TLS 1.3 the client speaks last in the handshake (RFC 8446, figure 1), and then sends its first command. Without
TCP_NODELAY its system keeps that command until the end of the handshake is acknowledged (Nagle's algorithm, RFC 896).
Keyrail has nothing to send at that point, since it gives no session tickets. So Linux delays the acknowledgement by
40 ms or more.
"""

import contextlib
import socket


def acknowledge_at_once(connection: socket.socket) -> None:
    """Acknowledge received bytes now. The connection may be closed already, or be a unix socket."""
    if hasattr(socket, "TCP_QUICKACK"):  # not on macOS
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

"""TCP's own watch over connections: the other end may be gone without a word.

Redis asks a client that is idle for 300 s whether it is still there (``tcp-keepalive``, anetKeepAlive), and so does
Keyrail. Towards Redis it asks sooner: a client that blocks in Redis or subscribes has a connection of its own, on which
nothing of Keyrail's can be sent.
"""

import socket
from typing import Any

_CLIENT_IDLE = 300
_UPSTREAM_IDLE = 15
"""Seconds without a byte, before the first probe."""
_PROBES = 3
_UNACKNOWLEDGED = 30_000
"""Milliseconds for which what was sent to Redis may go without an acknowledgement."""


def watch_over(sock: Any) -> None:
    """Let TCP find out within half a minute that Redis is gone, whether or not anything is sent."""
    _keep_alive(sock, _UPSTREAM_IDLE)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # not on macOS
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED)


def watch_over_clients(listener: socket.socket) -> None:
    """The same for the clients that a listener accepts, as patiently as Redis: Linux hands the options on to them."""
    _keep_alive(listener, _CLIENT_IDLE)


def _keep_alive(sock: Any, idle: int) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # not on macOS
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, idle // _PROBES)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)

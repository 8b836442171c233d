"""TCP keepalive, which detects that the other end has disappeared.

Redis probes a client that is idle for 300 s (``tcp-keepalive``, anetKeepAlive), and so does Keyrail. Connections to
Redis are probed sooner: a client that blocks in Redis or subscribes has a private connection, on which Keyrail cannot
send a PING.
"""

import socket
from typing import Any

_CLIENT_IDLE = 300
_UPSTREAM_IDLE = 15
"""Seconds without traffic before the first probe."""
_PROBES = 3
_UNACKNOWLEDGED = 30_000
"""Milliseconds that bytes sent to Redis may stay unacknowledged."""


def watch_over(sock: Any) -> None:
    """Have TCP detect within half a minute that Redis has disappeared, with and without traffic."""
    _keep_alive(sock, _UPSTREAM_IDLE)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # not on macOS
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED)


def watch_over_clients(listener: socket.socket) -> None:
    """The same for the clients of a listener, with the times of Redis. Linux copies the options to accepted sockets."""
    _keep_alive(listener, _CLIENT_IDLE)


def _keep_alive(sock: Any, idle: int) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # not on macOS
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, idle // _PROBES)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)

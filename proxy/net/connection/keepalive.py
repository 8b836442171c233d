"""TCP keepalive, which detects that the other end has disappeared.

Redis probes a client that is idle for 300 s (``tcp-keepalive``, anetKeepAlive), and so does Keyrail, unless
``--client-keepalive`` says otherwise: some networks drop connections that are idle for less. Connections to Redis are
probed sooner: a client that blocks in Redis or subscribes has a private connection, on which Keyrail cannot send a
PING.
"""

import socket
from typing import Any

from proxy.net.config.settings import CLIENT_IDLE

_UPSTREAM_IDLE = 15
"""Seconds without traffic before the first probe."""
LONGEST_IDLE = 32_767
"""The most that Linux takes (MAX_TCP_KEEPIDLE)."""
_PROBES = 3
_UNACKNOWLEDGED = 30_000
"""Milliseconds that bytes sent to Redis may stay unacknowledged."""


def watch_over(sock: Any) -> None:
    """Have TCP detect within half a minute that Redis has disappeared, with and without traffic."""
    _keep_alive(sock, _UPSTREAM_IDLE)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # not on macOS
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED)


def watch_over_clients(listener: socket.socket, idle: int = CLIENT_IDLE) -> None:
    """Have TCP probe the clients of a listener that are idle for so many seconds; 0 probes none.

    Linux copies the options to accepted sockets.
    """
    if idle:
        _keep_alive(listener, idle)
    else:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0)


def _keep_alive(sock: Any, idle: int) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # not on macOS
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, idle // _PROBES))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)

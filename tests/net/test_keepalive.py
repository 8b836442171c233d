"""TCP keepalive checks connections on which Keyrail cannot send a PING."""

from __future__ import annotations

import contextlib
import socket
import sys

import pytest

from proxy.net.connection.keepalive import watch_over
from proxy.server.listeners import Listeners, listen_tcp
from tests.server.test_listeners import route

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the options are Linux's")


def option(sock: socket.socket, name: int) -> int:
    return sock.getsockopt(socket.IPPROTO_TCP, name)


def test_clients_are_watched_as_redis_does_it() -> None:
    """tcp-keepalive 300, and what anetKeepAlive makes of it: on what the listener accepts."""
    (listener,) = listen_tcp("127.0.0.1", 0)
    with listener, socket.create_connection(listener.getsockname()):
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            assert [option(accepted, each) for each in options] == [300, 100, 3]


@pytest.mark.parametrize(("idle", "options"), [(200, [1, 200, 66, 3]), (1, [1, 1, 1, 3]), (0, [0])])
def test_the_operator_says_when_clients_are_probed(idle: int, options: list[int]) -> None:
    listeners = Listeners()
    listeners.open([route("127.0.0.1:0")], keepalive=idle)
    ((_, _, listener),) = listeners.sockets()
    with contextlib.closing(listeners), socket.create_connection(listener.getsockname()):
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            found = [accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)]
            assert (found + [option(accepted, each) for each in names])[: len(options)] == options


def test_redis_is_missed_within_half_a_minute() -> None:
    with socket.socket() as sock:
        watch_over(sock)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        probes = option(sock, socket.TCP_KEEPINTVL) * option(sock, socket.TCP_KEEPCNT)
        assert option(sock, socket.TCP_KEEPIDLE) + probes == 30
        assert option(sock, socket.TCP_USER_TIMEOUT) == 30_000

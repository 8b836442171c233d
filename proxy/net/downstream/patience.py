"""Whether a client has given up what it sent: a command that its client has given up must not run later.

What waits, in a listen queue, a worker that stands still, or for something that Keyrail lacks, belongs to a client that
may have left meanwhile, and may have written something else elsewhere. The socket tells:

    a reset                                       it has left
    its end, behind a wait longer than patience   it has left; sooner, that is a half-close: it wants its replies
    bytes that have waited longer than that       what could change something may be given up, the rest harms nobody

TCP tells when bytes came last (``tcpi_last_data_recv``), but not how long they were on their way: a client that gives
up while its bytes are in its own kernel, or in the network, looks as if it had just sent them. For unix sockets, only
the time since a worker was last there to accept is known.
"""

import fcntl
import os
import select
import socket
import struct
import termios
from collections.abc import Callable
from typing import Any, Protocol, cast

from proxy.commands.possible_changes import may_change
from proxy.session.ports.client import ClientTransport

_STATE = 0
_LAST_DATA_RECEIVED = 52
_UNACKNOWLEDGED = 24
"""Offsets in ``struct tcp_info`` (linux/tcp.h). For a listening socket, the last one counts what waits to be accepted
(net/ipv4/tcp.c, tcp_get_info)."""
_INFO_BYTES = 104
_GUESS = 16
_RESET = select.POLLERR | select.POLLHUP
_END = getattr(select, "POLLRDHUP", 0)
_EVENTS_OF_STATES = {7: _RESET, 8: _END}
"""What ``poll`` tells of a connection of which only the client has closed its side: TCP_CLOSE after a reset, and
TCP_CLOSE_WAIT (net/ipv4/tcp.c, tcp_poll). One call tells that as well as the rest, and each new client is asked."""


class ClientSocket(Protocol):
    """A socket, or what the event loop shows of one."""

    def fileno(self) -> int:
        """Its file descriptor."""

    def getsockopt(self, level: int, name: int, size: int) -> bytes:
        """An option of the kernel."""


class Patience:
    """How long clients wait before they give up: ``seconds``, or 0 if nobody does.

    ``unattended`` says for how many seconds connections may have waited to be accepted.
    """

    def __init__(self, seconds: float, unattended: Callable[[], float]) -> None:
        self.seconds = seconds
        self._unattended = unattended

    def has_left(self, transport: ClientTransport | None, waited: float) -> bool:
        """Whether the client of something that has waited for so many seconds has left."""
        sock = _socket_of(transport)
        return sock is not None and self._has_left(sock, waited)

    def refuses(self, sock: ClientSocket, waited: float, *, encrypted: bool) -> bool:
        """Whether the client of a connection that was accepted so many seconds ago has left, or may have given up what
        it has sent. The first that comes ``encrypted`` is no command."""
        info = _tcp_info(sock)
        if info is None:
            age, events = self._unattended() + waited, _events(sock)
        else:
            age, events = _number(info, _LAST_DATA_RECEIVED) / 1000.0, _EVENTS_OF_STATES.get(info[_STATE], 0)
        if self._tell_end(events, age):
            return True
        return self._is_over(age) and not encrypted and may_change(_unread(sock))

    def gave_up(self, transport: ClientTransport | None, pause: float) -> bool:
        """Whether a client has left, or may have given up what has come and is unread: as for ``refuses``."""
        sock = _socket_of(transport)
        return sock is None or self.refuses(sock, pause, encrypted=False)

    def is_late(self, transport: ClientTransport | None, pause: float) -> bool:
        """Whether what came last from the client has waited too long, or the client has left. Where the system does not
        tell for how long it has waited, it is for this ``pause``."""
        sock = _socket_of(transport)
        if sock is None:
            return True
        info = _tcp_info(sock)
        age = pause if info is None else _number(info, _LAST_DATA_RECEIVED) / 1000.0
        return self._is_over(age) or self._has_left(sock, age)

    def _is_over(self, seconds: float) -> bool:
        return 0.0 < self.seconds < seconds

    def _has_left(self, sock: ClientSocket, waited: float) -> bool:
        return self._tell_end(_events(sock), waited)

    def _tell_end(self, events: int, waited: float) -> bool:
        return bool(events & _RESET) or (bool(events & _END) and self._is_over(waited))


def waiting_connections(listener: ClientSocket) -> int:
    """How many connections wait to be accepted; of a unix socket that is not known, and a guess."""
    info = _tcp_info(listener)
    return _GUESS if info is None else _number(info, _UNACKNOWLEDGED)


def _socket_of(transport: ClientTransport | None) -> ClientSocket | None:
    sock = None if transport is None else cast("Any", transport.get_extra_info("socket"))
    return None if sock is None or sock.fileno() < 0 else sock


def _events(sock: ClientSocket) -> int:
    poll = select.poll()
    poll.register(sock.fileno(), _END)
    for _, events in poll.poll(0):
        return events
    return 0


def _tcp_info(sock: ClientSocket) -> bytes | None:
    if not hasattr(socket, "TCP_INFO"):  # not on macOS
        return None
    try:
        return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    except OSError:  # a unix socket
        return None


def _number(info: bytes, offset: int) -> int:
    return cast("int", struct.unpack_from("=I", info, offset)[0])


def _unread(sock: ClientSocket) -> bytes:
    # What the event loop shows of a socket does not read.
    with socket.socket(fileno=os.dup(sock.fileno())) as copy:
        waiting = fcntl.ioctl(copy.fileno(), termios.FIONREAD, bytes(4))
        try:
            return copy.recv(max(1, int.from_bytes(waiting, "little")), socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError:
            return b""

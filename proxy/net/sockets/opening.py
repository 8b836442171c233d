"""Opening plain connections, and taking accepted ones.

With uvloop on Linux, they are ``SocketTransport``; elsewhere, and for TLS, the event loop's own transports.
"""

import asyncio
import errno
import os
import select
import socket
import weakref
from collections.abc import Callable
from typing import Any, cast

import uvloop

from proxy.net.sockets.ready_sockets import ReadySockets
from proxy.net.sockets.transport import SocketTransport

_OF_LOOPS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, ReadySockets] = weakref.WeakKeyDictionary()


def ready_sockets(loop: asyncio.AbstractEventLoop) -> ReadySockets | None:
    """The plain sockets of this loop; None if it has transports of its own for them."""
    if not isinstance(loop, uvloop.Loop) or not hasattr(select, "epoll"):
        return None
    found = _OF_LOOPS.get(loop)
    if found is None:
        found = _OF_LOOPS[loop] = ReadySockets(loop)
    return found


def schedule_of(loop: asyncio.AbstractEventLoop) -> Callable[[Callable[[], object]], object]:
    """What calls something when all that can be read now has been read."""
    sockets = ready_sockets(loop)
    return loop.call_soon if sockets is None else sockets.schedule


def take_accepted(
    sockets: ReadySockets, connection: socket.socket, peer: object, protocol: asyncio.BaseProtocol
) -> None:
    """Hand over an accepted connection to its protocol."""
    connection.setblocking(False)
    _send_at_once(connection)
    SocketTransport(sockets, connection, peer, protocol).begin()


async def connect_tcp(
    loop: asyncio.AbstractEventLoop, protocol: asyncio.BaseProtocol, host: str, port: int
) -> asyncio.Transport:
    """Connect to the first of the host's addresses that answers. Raises OSError."""
    sockets = ready_sockets(loop)
    if sockets is None:
        transport, _ = await loop.create_connection(lambda: protocol, host, port)
        return transport
    reasons: dict[str, int | None] = {}  # an exception that is kept would keep the protocol in a circle
    for family, kind, number, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            return await _connect(loop, sockets, protocol, socket.socket(family, kind, number), address)
        except OSError as error:
            reasons[str(error)] = error.errno
    if len(reasons) == 1 and None not in reasons.values():
        raise _failure(*reasons.values())
    raise OSError("; ".join(reasons) or f"{host} has no address")


async def connect_unix(loop: asyncio.AbstractEventLoop, protocol: asyncio.BaseProtocol, path: str) -> asyncio.Transport:
    """Connect to a unix socket. Raises OSError."""
    sockets = ready_sockets(loop)
    if sockets is None:
        transport, _ = await loop.create_unix_connection(lambda: protocol, path)
        return transport
    return await _connect(loop, sockets, protocol, socket.socket(socket.AF_UNIX), path)


async def _connect(
    loop: asyncio.AbstractEventLoop,
    sockets: ReadySockets,
    protocol: asyncio.BaseProtocol,
    connection: socket.socket,
    address: Any,
) -> asyncio.Transport:
    try:
        connection.setblocking(False)
        await _reach(loop, connection, address)
        _send_at_once(connection)
        transport = SocketTransport(sockets, connection, address, protocol)
    except BaseException:
        connection.close()
        raise
    transport.begin()
    return cast("asyncio.Transport", transport)  # it has the methods of one that Keyrail uses


async def _reach(loop: asyncio.AbstractEventLoop, connection: socket.socket, address: Any) -> None:
    # The loop's own ``sock_connect`` would resolve the address again, in a thread, and takes EAGAIN for a beginning,
    # which says of a unix socket that its server's queue is full.
    code = connection.connect_ex(address)
    if code == errno.EINPROGRESS:
        writable = loop.create_future()
        loop.add_writer(connection, _settle, writable)
        try:
            await writable
        finally:
            loop.remove_writer(connection)
        code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise _failure(code)


def _settle(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


def _failure(code: int | None) -> OSError:
    return OSError(code, os.strerror(code or 0))


def _send_at_once(connection: socket.socket) -> None:
    # Several commands and replies are written as one piece already: Nagle's algorithm would only delay it.
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

"""The listening sockets: bound once by the supervisor, kept open by it, handed to every worker and its replacement.

All workers accept from the same socket. With SO_REUSEPORT each would have its own, and what the kernel puts there would
wait for a worker that has ended or hangs; also, a second Keyrail could bind the port and silently take half of the
connections. The kernel's choice is uneven among few clients, too: of 50 on two workers, one got up to 35.

A stale socket file without a listening process is removed; at the end Keyrail removes its own.

A socket that a predecessor has handed on (``hot_restart``) is used and not bound again; it may be handed on again. One
of an older version has handed on a socket for each of its workers: all workers accept from all of them.
"""

import errno
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proxy.net.config.address import ListenAddress
from proxy.net.config.settings import CLIENT_IDLE, RouteSettings
from proxy.net.connection.keepalive import watch_over_clients
from proxy.server.hot_restart import Groups, Inheritance

BACKLOG = 4096


class ListenError(Exception):
    """Keyrail cannot listen on an address; the text names the address and the reason."""


@dataclass(slots=True)
class _Bound:
    """One address of a listener. There are several sockets only if an older version has bound them."""

    route: int
    listener: int
    asked: ListenAddress
    address: ListenAddress
    sockets: list[socket.socket]
    file: tuple[Path, int] | None = None


@dataclass(slots=True)
class Listeners:
    """All listeners of the process group."""

    _bound: list[_Bound] = field(default_factory=list)

    def open(
        self, routes: Sequence[RouteSettings], inherited: Inheritance | None = None, keepalive: int = CLIENT_IDLE
    ) -> None:
        """Bind every listener that is not inherited. Raises ListenError, and then leaves nothing open.

        TCP probes clients that are idle for ``keepalive`` seconds; 0 probes none.
        """
        try:
            for route_index, route in enumerate(routes):
                for index, listener in enumerate(route.listeners):
                    place = route_index, index, listener.address
                    taken = None if inherited is None else inherited.take(str(listener.address))
                    self._bound.extend(_bind(*place) if taken is None else _adopt(*place, taken))
        except ListenError:
            self.close()
            raise
        for _, _, sock in self.sockets():
            if sock.family != socket.AF_UNIX:
                watch_over_clients(sock, keepalive)

    def sockets(self) -> list[tuple[int, int, socket.socket]]:
        """Return the sockets, which each worker gets, as (route, listener, socket)."""
        return [(bound.route, bound.listener, each) for bound in self._bound for each in bound.sockets]

    def addresses(self, route: int) -> list[ListenAddress]:
        """Return the addresses on which a route listens; port 0 has become a number."""
        return list(dict.fromkeys(bound.address for bound in self._bound if bound.route == route))

    def handed_on(self) -> list[tuple[str, Groups]]:
        """Return the sockets for a successor, by the configured address."""
        found: dict[tuple[int, int], tuple[str, Groups]] = {}
        for bound in self._bound:
            found.setdefault((bound.route, bound.listener), (str(bound.asked), []))[1].append(bound.sockets)
        return list(found.values())

    def leave_files(self) -> None:
        """Leave the files of unix sockets to a successor."""
        for bound in self._bound:
            bound.file = None

    def close(self) -> None:
        """Close all sockets, and remove the files of unix sockets unless other files have replaced them."""
        for bound in self._bound:
            for each in bound.sockets:
                each.close()
            if bound.file is not None:
                path, inode = bound.file
                try:
                    if path.stat().st_ino == inode:
                        path.unlink()
                except OSError:
                    pass
        self._bound.clear()


def _adopt(route: int, listener: int, asked: ListenAddress, groups: Groups) -> list[_Bound]:
    if asked.path is not None:
        return [_Bound(route, listener, asked, asked, sockets, (asked.path, _inode(asked.path))) for sockets in groups]
    real = ListenAddress(asked.host, groups[0][0].getsockname()[1], tls=asked.tls)
    return [_Bound(route, listener, asked, real, sockets) for sockets in groups]


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _bind(route: int, listener: int, address: ListenAddress) -> list[_Bound]:
    try:
        if address.path is not None:
            return [_bind_unix(route, listener, address, address.path)]
        return _bind_tcp(route, listener, address)
    except OSError as error:
        raise ListenError(f"cannot listen on {address}: {listen_problem(error)}") from None


def _bind_tcp(route: int, listener: int, address: ListenAddress) -> list[_Bound]:
    sockets = listen_tcp(address.host, address.port)
    real = ListenAddress(address.host, sockets[0].getsockname()[1], tls=address.tls)
    return [_Bound(route, listener, address, real, [each]) for each in sockets]


def listen_tcp(host: str, port: int) -> list[socket.socket]:
    """Listen on every address of a host name; port 0 becomes the same number for all.

    Addresses that this machine does not have are left out, unless all are. Raises OSError and then leaves nothing open.
    """
    opened: list[socket.socket] = []
    failure = OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, _, _, _, place in dict.fromkeys(found):
        try:
            opened.append(_listen(family, (place[0], port, *place[2:])))
        except OSError as error:
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                for each in opened:
                    each.close()
                raise
            failure = error
            continue
        port = opened[0].getsockname()[1]
    if not opened:
        raise failure
    return opened


def _listen(family: int, place: tuple[object, ...]) -> socket.socket:
    made = _tcp_socket(family)
    try:
        made.bind(place)
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def _tcp_socket(family: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setblocking(False)
    # Not for sharing: with it a restart can bind while connections of the last run are in TIME_WAIT.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    watch_over_clients(made)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return made


def _bind_unix(route: int, listener: int, address: ListenAddress, path: Path) -> _Bound:
    _remove_stale(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        # Other users have no access until the file has the configured mode.
        mask = os.umask(0o177) if address.mode is not None else None
        try:
            made.bind(str(path))
        finally:
            if mask is not None:
                os.umask(mask)
        if address.mode is not None:
            path.chmod(address.mode)
        made.listen(BACKLOG)
        return _Bound(route, listener, address, address, [made], (path, path.stat().st_ino))
    except OSError:
        made.close()
        raise


def _remove_stale(path: Path) -> None:
    """Remove a socket file without a listening process. Raises OSError if the path is in use."""
    if not path.exists():
        return
    if not path.is_socket():
        raise FileExistsError(errno.EEXIST, "the file exists and is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def listen_problem(error: OSError) -> str:
    """Why a socket cannot listen, in a few words."""
    if error.errno == errno.EADDRINUSE:
        return "already in use"
    if isinstance(error, socket.gaierror):
        return "unknown host"
    return (error.strerror or str(error)).lower()

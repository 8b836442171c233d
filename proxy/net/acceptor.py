"""Accepts the clients of one listening socket in one worker.

All workers accept from the same socket. One that has its share of the clients leaves the connections that wait to the
others for a moment (``worker_loads``); what nobody has taken by then it accepts after all. So no connection waits for a
worker that has ended, hangs or is busy.

The event loop's own server is the cheapest way to accept. But at an error such as ENOBUFS it closes its socket for
good, and where no file can be opened it closes connections, and tells nobody. So at the first sign of that (``look``)
the acceptor goes on by itself, and counts and logs each failure by reason:

    the peer has gone, or the network has failed      the next one is accepted
    no file can be opened                             the connection is closed, so that its client learns of it
    anything else                                     tried again after a pause

It also accepts by itself for TLS, to learn why handshakes fail, and where there are other workers. No handshake begins
for a client that has left while its connection waited (``patience``).
"""

import asyncio
import contextlib
import errno
import os
import socket
import ssl
from collections.abc import Callable

from proxy.net.admission import Admission
from proxy.net.client import ClientConnection
from proxy.net.delayed_ack import acknowledge_at_once
from proxy.net.failures import Failures
from proxy.net.patience import Patience, waiting_connections
from proxy.net.tls import handshake_failure

_AT_ONCE = 64
_BACKLOG = 1024
_MOMENT = 0.001
"""Seconds for which connections are left to other workers."""
_PART = 4
"""Of those that nobody has taken by then, a worker takes one in so many: another one may only have been slow."""
_PAUSE = 0.1
"""Seconds between attempts where accepting fails for a reason that is not the connection's own."""
# ``man 2 accept``: errors of the new connection's network, which are to be treated like EAGAIN.
_OF_ONE_CONNECTION = frozenset(
    (
        errno.ECONNABORTED,
        errno.EPROTO,
        errno.ENETDOWN,
        errno.ENOPROTOOPT,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EOPNOTSUPP,
        errno.ENETUNREACH,
        errno.EPERM,
    )
)
_NO_FILE = frozenset((errno.EMFILE, errno.ENFILE))
_NAMED = frozenset(errno.errorcode[each] for each in (*_OF_ONE_CONNECTION, *_NO_FILE, errno.ENOBUFS, errno.ENOMEM))
_GAVE_UP, _UNKNOWN = "gave_up", "unknown"
ACCEPT_FAILURES = (*sorted(_NAMED), _GAVE_UP, _UNKNOWN)
"""The reasons that are counted. The set is closed, because metrics have to show each of them before it happens."""

NewClient = Callable[[], ClientConnection]


class Acceptor:
    """One listening socket in one worker, called ``name`` in logs."""

    def __init__(
        self,
        sock: socket.socket,
        name: str,
        loop: asyncio.AbstractEventLoop,
        new_client: NewClient,
        tls: ssl.SSLContext | None,
        failures: Failures,
        admission: Admission,
        patience: Patience,
    ) -> None:
        self._sock = sock
        self._name = name
        self._loop = loop
        self._new_client = new_client
        self._tls = tls
        self._failures = failures
        self._admission = admission
        self._loads = admission.loads
        self._patience = patience
        self._reserve: int | None = os.open(os.devnull, os.O_RDONLY)
        self._closed = False
        self._left = 0
        self._connecting: set[asyncio.Task[None]] = set()
        self._served: socket.socket | None = None
        self._server: asyncio.AbstractServer | None = None

    async def begin(self) -> None:
        """Accept from now on."""
        if self._tls is not None or not self._loads.alone:
            self.listen()
            return
        self._served = self._sock.dup()
        create = self._loop.create_unix_server if self._sock.family == socket.AF_UNIX else self._loop.create_server
        self._server = await create(self._protocol, sock=self._served, backlog=_BACKLOG)

    def look(self) -> None:
        """Find out whether the event loop can still accept. Called about each second."""
        if self._server is None or self._closed:
            return
        if self._served is not None and self._served.fileno() == -1:
            self._failures.note("accept", _UNKNOWN, f"{self._name}: a connection could not be accepted")
        elif _can_open_a_file():
            return
        self._server.close()
        self._server = None
        self.listen()

    def close(self) -> None:
        """Accept no more. Handshakes under way go on."""
        if self._closed:
            return
        self._closed = True
        if self._server is not None:
            self._server.close()
        else:
            self._loop.remove_reader(self._sock.fileno())
        self._sock.close()
        if self._reserve is not None:
            os.close(self._reserve)

    def _protocol(self) -> ClientConnection:
        self._admission.accepted()
        return self._new_client()

    # Accepting by itself

    def listen(self) -> None:
        """Accept from now on, without the event loop's server."""
        if not self._closed:
            self._loop.add_reader(self._sock.fileno(), self._ready)

    def _ready(self) -> None:
        if self._loads.alone:
            self._accept(_AT_ONCE)
            return
        waiting = max(1, waiting_connections(self._sock))
        share = max(0, min(self._loads.share(waiting), _AT_ONCE))
        if self._accept(share) and share < min(waiting, _AT_ONCE):
            self._loop.remove_reader(self._sock.fileno())
            self._leave(waiting - share)

    def _leave(self, count: int) -> None:
        self._left = count
        self._loop.call_later(_MOMENT, self._look_at_rest)

    def _look_at_rest(self) -> None:
        waiting = 0 if self._closed else waiting_connections(self._sock)
        if waiting == 0:
            self.listen()
            return
        share = max(0, self._loads.share(waiting))
        if waiting >= self._left:  # nobody else is about to take them
            share = max(1, share, waiting // _PART)
        share = min(share, _AT_ONCE)
        if self._accept(share):
            self._leave(max(1, waiting - share))

    def _accept(self, most: int) -> bool:
        # Whether more can be accepted. If not, the socket is listened on.
        for _ in range(most):
            try:
                connection, _ = self._sock.accept()
            except BlockingIOError:
                self.listen()
                return False
            except OSError as error:
                if not self._goes_on(error):
                    return False
                continue
            self._adopt(connection)
        return True

    def _adopt(self, connection: socket.socket) -> None:
        if self._patience.refuses(connection, encrypted=self._tls is not None):
            # Reset, and not closed, so that a client that has not left learns at once that nothing was answered.
            self._failures.note("accept", _GAVE_UP, f"{self._name}: a client has given up before it was accepted")
            connection.close()
            return
        self._admission.accepted()
        connecting = self._loop.create_task(self._connect(connection))
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)

    async def _connect(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._new_client, connection, ssl=self._tls)
        except BaseException as error:
            connection.close()
            self._admission.closed()
            if not isinstance(error, OSError):
                raise
            if self._tls is None:
                self._fail(error)
                return
            reason, words = handshake_failure(error)
            self._failures.note("tls_client", reason, f"{self._name}: the TLS handshake of a client failed: {words}")
            return
        if self._tls is not None:
            acknowledge_at_once(connection)

    # Failing

    def _goes_on(self, error: OSError) -> bool:
        # Whether the next connection can be accepted at once.
        self._fail(error)
        if error.errno in _OF_ONE_CONNECTION or (error.errno in _NO_FILE and self._turn_away()):
            return True
        self._loop.remove_reader(self._sock.fileno())
        self._loop.call_later(_PAUSE, self.listen)
        return False

    def _fail(self, error: OSError) -> None:
        name = errno.errorcode.get(error.errno or 0, _UNKNOWN)
        reason = name if name in _NAMED else _UNKNOWN
        advice = ". Raise the limit of open files (ulimit -n, LimitNOFILE)" if error.errno in _NO_FILE else ""
        self._failures.note("accept", reason, f"{self._name}: a connection could not be accepted: {error}{advice}")

    def _turn_away(self) -> bool:
        # With the file that is kept for this, the connection can be accepted, and so be closed.
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None
        try:
            self._sock.accept()[0].close()
        except OSError:
            return False
        finally:
            with contextlib.suppress(OSError):
                self._reserve = os.open(os.devnull, os.O_RDONLY)
        return True


def _can_open_a_file() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    return True

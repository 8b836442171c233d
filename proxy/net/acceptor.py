"""Accepts the clients of one listening socket in one worker.

A connection is kept, or handed over to a worker with fewer clients.

The event loop's own server is the cheapest way to accept. But at an error such as ENOBUFS it closes its socket for
good, and where no file can be opened it closes connections, and tells nobody. So at the first sign of that (``look``)
the acceptor goes on by itself, and counts and logs each failure by reason:

    the peer has gone, or the network has failed      the next one is accepted
    no file can be opened                             the connection is closed, so that its client learns of it
    anything else                                     tried again after a pause

It also accepts by itself for TLS, to learn why handshakes fail, and where there are other workers.
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
from proxy.net.handover import MOST_SENT, Handover, Place
from proxy.net.tls import handshake_failure

_AT_ONCE = MOST_SENT
_BACKLOG = 1024
_MOMENT = 0.001
"""Seconds for which a connection waits that another worker may get: in a crowd, that one mostly has as many by then."""
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

NewClient = Callable[[], ClientConnection]


class Acceptor:
    """One listening socket of one worker, called ``name`` in logs. Without ``handover`` all clients stay here."""

    def __init__(
        self,
        sock: socket.socket,
        name: str,
        place: Place,
        loop: asyncio.AbstractEventLoop,
        new_client: NewClient,
        tls: ssl.SSLContext | None,
        failures: Failures,
        admission: Admission,
        handover: Handover | None = None,
    ) -> None:
        self._sock = sock
        self._name = name
        self._place = place
        self._loop = loop
        self._new_client = new_client
        self._tls = tls
        self._failures = failures
        self._admission = admission
        self._handover = handover
        self._reserve: int | None = os.open(os.devnull, os.O_RDONLY)
        self._closed = False
        self._held: list[socket.socket] = []
        self._connecting: set[asyncio.Task[None]] = set()
        self._served: socket.socket | None = None
        self._server: asyncio.AbstractServer | None = None

    async def begin(self) -> None:
        """Accept from now on."""
        if self._tls is not None or self._handover is not None:
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
            self._failures.note("accept", "unknown", f"{self._name}: a connection could not be accepted")
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
        if self._held:
            self._decide()
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
        for _ in range(_AT_ONCE):
            try:
                connection, _ = self._sock.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if not self._goes_on(error):
                    return
                continue
            if self._handover is not None and self._handover.relieves():
                self._hold(connection)
            else:
                self.adopt(connection)

    def _hold(self, connection: socket.socket) -> None:
        # Other workers may be about to accept as many.
        self._admission.accepted()
        if not self._held:
            self._loop.call_later(_MOMENT, self._decide)
        self._held.append(connection)

    def _decide(self) -> None:
        assert self._handover is not None
        held, self._held = self._held, []
        for connection in held:
            self._admission.closed()
            worker = self._handover.destination()
            if worker is None:
                self.adopt(connection)
            else:
                self._handover.hand_over(worker, self._place, connection)

    def adopt(self, connection: socket.socket) -> None:
        """Make a client of a connection that was accepted here or by another worker."""
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
        reason = errno.errorcode.get(error.errno or 0, "unknown")
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

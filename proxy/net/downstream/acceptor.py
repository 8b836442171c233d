"""Accepts the clients of one listening socket in one worker.

All workers accept from the same socket. One that has its share of the clients leaves the connections that wait to the
others for a moment (``worker_loads``); what nobody has taken by then it accepts after all. So no connection waits for a
worker that has ended, hangs or is busy.

A crowd must not keep a worker from those whom it serves already: else each of the crowd would wait until it gives up,
and come again, for ever. So all of it is accepted, which costs little, but only a few connections in each turn of the
event loop become clients, the latest ones first: they have the longest time left before they give up. One in a few is
the one that has waited longest, so that all are served who are patient. Who has given up meanwhile costs little
(``patience``); no TLS handshake begins for it.

The event loop's own server would close its socket for good at an error such as ENOBUFS, close connections where no file
can be opened, and tell nobody. Here each failure is counted and logged by reason:

    the peer has gone, or the network has failed      the next one is accepted
    no file can be opened                             the connection is closed, so that its client learns of it
    anything else                                     tried again after a pause
"""

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable

from proxy.net.connection.delayed_ack import acknowledge_at_once
from proxy.net.connection.failures import Failures
from proxy.net.connection.tls import handshake_failure
from proxy.net.downstream.admission import Admission
from proxy.net.downstream.client import ClientConnection
from proxy.net.downstream.patience import Patience, waiting_connections
from proxy.net.sockets.opening import ready_sockets, take_accepted
from proxy.net.sockets.ready_sockets import ReadySockets

_AT_ONCE = 64
"""Connections that are accepted in a turn of the event loop."""
_CLIENTS_AT_ONCE, _SHARE = 4, 16
"""Connections that become clients in a turn where more wait, and more if that takes less than one in so many seconds
of the worker's CPU time: the turns of a worker that has much to do are long."""
_GONE_AT_ONCE = 64
"""Connections of clients that have given up, which are closed in a turn."""
_OLDEST = 4
"""One in so many is the one that has waited longest."""
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
        self._turned = 0.0
        self._sockets = ready_sockets(loop) if tls is None else None
        self._waiting: deque[tuple[socket.socket, object, float]] = deque()
        self._taking = 0
        self._connecting: set[asyncio.Task[None]] = set()

    def listen(self) -> None:
        """Accept from now on."""
        if not self._closed:
            self._loop.add_reader(self._sock.fileno(), self._ready)

    def close(self) -> None:
        """Accept no more, and close whoever waits: nothing of it was read. Handshakes under way go on."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._sock.fileno())
        self._sock.close()
        if self._reserve is not None:
            os.close(self._reserve)
        while self._waiting:
            self._close(self._waiting.pop()[0])

    def _ready(self) -> None:
        waiting = max(1, waiting_connections(self._sock))
        share = waiting if self._loads.alone else max(0, self._loads.share(waiting))
        share = min(share, self._room())
        if self._accept(share) and share < min(waiting, _AT_ONCE):
            self._loop.remove_reader(self._sock.fileno())
            self._leave(waiting - share)

    def _room(self) -> int:
        # Who waits needs an open file, as a client does.
        most = self._admission.most
        coming = self._taking + len(self._connecting) + len(self._waiting)
        free = most - self._admission.clients - coming if most > 0 else _AT_ONCE
        return max(min(free, _AT_ONCE), 0 if self._waiting else 1)

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
        share = min(share, self._room())
        if self._accept(share):
            self._leave(max(1, waiting - share))

    def _accept(self, most: int) -> bool:
        # Whether more can be accepted. If not, the socket is listened on.
        begins = not self._waiting
        try:
            return self._accept_some(most)
        finally:
            if begins and self._waiting:
                self._turned = time.thread_time()
                self._adopt_next()

    def _accept_some(self, most: int) -> bool:
        for _ in range(most):
            try:
                connection, peer = self._sock.accept()
            except BlockingIOError:
                self.listen()
                return False
            except OSError as error:
                if not self._goes_on(error):
                    return False
                continue
            self._admission.accepted()
            self._waiting.append((connection, peer, self._loop.time()))
        return True

    def _adopt_next(self) -> None:
        # In each turn, as long as any wait.
        now = time.thread_time()
        try:
            self._adopt_some(now + (now - self._turned) / _SHARE)
        finally:
            self._turned = time.thread_time()
            if self._waiting:
                self._loop.call_soon(self._adopt_next)

    def _adopt_some(self, until: float) -> None:
        crowd = len(self._waiting) > _CLIENTS_AT_ONCE
        clients = gone = 0
        while self._waiting and gone < _GONE_AT_ONCE and (clients < _CLIENTS_AT_ONCE or time.thread_time() < until):
            oldest = not crowd or clients % _OLDEST == 0
            connection, peer, since = self._waiting.popleft() if oldest else self._waiting.pop()
            if self._adopt(connection, peer, self._loop.time() - since):
                clients += 1
            else:
                gone += 1

    def _adopt(self, connection: socket.socket, peer: object, waited: float) -> bool:
        # Whether it becomes a client.
        if self._patience.refuses(connection, waited, encrypted=self._tls is not None):
            # Reset, and not closed, so that a client that has not left learns at once that nothing was answered.
            self._failures.note("accept", _GAVE_UP, f"{self._name}: a client has given up before it was accepted")
            self._close(connection)
            return False
        if self._sockets is not None:
            # In the next turn: what was sent during a pause of this process may end a shared connection in this one,
            # with all clients that have sent something on it.
            self._taking += 1
            self._loop.call_soon(self._take, self._sockets, connection, peer)
            return True
        connecting = self._loop.create_task(self._connect(connection))
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)
        return True

    def _take(self, sockets: ReadySockets, connection: socket.socket, peer: object) -> None:
        self._taking -= 1
        try:
            take_accepted(sockets, connection, peer, self._new_client())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is reported, and the next client is served
            self._close(connection)
            if isinstance(error, OSError):
                self._fail(error)
            else:
                self._loop.call_exception_handler({"message": "a client could not be served", "exception": error})

    async def _connect(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._new_client, connection, ssl=self._tls)
        except BaseException as error:
            self._close(connection)
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

    def _close(self, connection: socket.socket) -> None:
        connection.close()
        self._admission.closed()

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

"""One client's connection: passes the events of its transport to the session that it holds.

The session drives the transport (``session/client_link.py``).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol, cast

from proxy.net.connection.tls import ClientTls, subject_of
from proxy.session.dispatcher.injected import handlers_of
from proxy.session.ports.login_port import LoginPort
from proxy.session.ports.pool_key import PoolKey
from proxy.session.ports.ports import Ports
from proxy.session.session import Session
from proxy.wire.request import RequestLimits

_HIGH_WATER = 1 << 20
_LOW_WATER = 1 << 18

_log = logging.getLogger("keyrail.client")


class Route(Protocol):
    """Keeps the clients of a route."""

    def client_connected(self, client: Session) -> None:
        """A client has come."""

    def client_closed(self, client: Session, cause: str) -> None:
        """A client has gone; ``cause`` is the label that metrics show."""


class ClientConnection(asyncio.BaseProtocol):
    """A client's TCP, TLS or unix socket connection."""

    __slots__ = ("_route", "_tls", "data_received", "session")

    data_received: Callable[[bytes], None]
    """The intake's own: a call here would cost one more for each read."""

    def __init__(
        self,
        route: Route,
        ports: Ports,
        home: PoolKey,
        limits: RequestLimits,
        listener: str,
        logins: LoginPort | None = None,
    ) -> None:
        self._route = route
        self._tls: ClientTls | None = None
        self.session = Session(handlers_of(ports), ports, home, limits, listener, logins)
        self.data_received = self.session.intake.receive

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give the session its transport."""
        wire = cast("asyncio.Transport", transport)
        wire.set_write_buffer_limits(high=_HIGH_WATER, low=_LOW_WATER)
        peer = wire.get_extra_info("peername")
        address = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "unix"
        tls = wire.get_extra_info("ssl_object")
        certificate = None if tls is None else wire.get_extra_info("peercert")
        self.session.connected(wire, address, subject_of(certificate) if certificate else "")
        if isinstance(tls, ClientTls):
            self._tls = tls
            tls.on_close_notify = self._close_notify
        self._route.client_connected(self.session)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has left, or was closed."""
        self._follow_close_notify(None)
        self._tls = None
        self.session.when_read_again = None
        self.session.connection_lost()
        self._route.client_closed(self.session, self.session.end_cause)

    def eof_received(self) -> bool:
        """The client half-closed: answer its commands, then close. Not called for TLS: see ``ClientTls``."""
        return self.session.end_of_stream()

    def _follow_close_notify(self, call: Callable[[], None] | None) -> None:
        if self._tls is not None:
            self._tls.on_close_notify = call

    def _close_notify(self) -> None:
        self._follow_close_notify(_nothing)
        self._end_soon()

    def _end_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._half_closed)

    def _half_closed(self) -> None:
        session = self.session
        if session.transport is None:
            return
        if session.paused:  # as with TCP, where the end is not seen while reading is paused
            session.when_read_again = self._end_soon
        elif not session.end_of_stream():
            session.transport.close()

    def pause_writing(self) -> None:
        """The client does not read."""
        self.session.pause_writing()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.session.resume_writing()


def _nothing() -> None:
    pass


def log_fault() -> None:
    """Log the exception that is being handled, which ends a client's session."""
    _log.exception("a client's session failed; the client is closed")

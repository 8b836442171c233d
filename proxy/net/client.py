"""One client's connection: a session with a transport.

Reading is paused for two reasons, apart from each other: bytes wait in the session (``hold``), or the client's private
upstream is congested. A client that is blocked in Redis is read all the same, up to a cap: while reading is paused its
leaving would not be seen, and something would be popped for nobody.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

from proxy.hotpath.intake import Intake
from proxy.hotpath.reply_order import MOST_HELD
from proxy.net.tls import subject_of
from proxy.net.upstream import UpstreamConnection
from proxy.session.dispatcher import Dispatcher
from proxy.session.ports import PoolKey, Ports
from proxy.wire.request import RequestLimits

_HIGH_WATER = 1 << 20
_LOW_WATER = 1 << 18
_UNREAD_WHILE_BLOCKED = 1 << 20

_BYTES_WAIT = 1
_UPSTREAM_CONGESTED = 2

_log = logging.getLogger("keyrail.client")


class Route(Protocol):
    """The route, as its client connections see it. ``query_limit`` is in bytes."""

    query_limit: int

    def client_connected(self, client: "ClientConnection") -> None:
        """A client has come."""

    def client_closed(self, client: "ClientConnection", cause: str) -> None:
        """A client has gone; ``cause`` is the label that metrics show."""


class ClientConnection(Dispatcher, asyncio.Protocol):
    """A client's TCP, TLS or unix socket connection."""

    __slots__ = ("cause", "held_upstreams", "leaving", "paused", "route", "transport")

    def __init__(self, route: Route, ports: Ports, home: PoolKey, limits: RequestLimits, listener: str) -> None:
        super().__init__(ports, home, limits, listener)
        self.route = route
        self.transport: asyncio.Transport | None = None
        self.cause = "client"
        self.paused = 0
        self.leaving = False
        self.held_upstreams: list[UpstreamConnection] | None = None

    data_received = Intake.receive

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wire the session to the transport."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=_HIGH_WATER, low=_LOW_WATER)
        self.write = self.transport.write
        peer = self.transport.get_extra_info("peername")
        self.address = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "unix"
        certificate = self.transport.get_extra_info("peercert")
        if certificate:
            self.certificate = subject_of(certificate)
            self.adopt()
        self.route.client_connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has left, or was closed."""
        if not self.gone:
            self.on_close()
        self._release_upstreams()
        self.route.client_closed(self, self.cause)

    def eof_received(self) -> bool:
        """A half-close: what was asked is answered, then the connection is closed. A blocked client has left."""
        if self.blocked:
            return False
        self.leaving = True
        if self._done():
            return False
        self.notify_when_idle = True
        return True

    def pause_writing(self) -> None:
        """The client does not take what it is sent: nothing more is forwarded for it."""
        self.full = True

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.full = False
        self._release_upstreams()
        self._guarded(self.resume)

    def waiting(self) -> int:
        """Bytes that the client has been sent and has not taken, or that wait for replies before them."""
        held = 0 if self.order is None else self.order.size
        return held if self.transport is None else held + self.transport.get_write_buffer_size()

    def hold_upstream(self, upstream: UpstreamConnection) -> None:
        """Resume the upstream when the client has caught up."""
        if self.held_upstreams is None:
            self.held_upstreams = [upstream]
        else:
            self.held_upstreams.append(upstream)

    def _release_upstreams(self) -> None:
        held = self.held_upstreams
        if held is not None:
            self.held_upstreams = None
            for upstream in held:
                upstream.resume_for(self)

    def unpin(self) -> None:
        """Give the private upstream back, reading again where it was held for this client."""
        if isinstance(self.pinned, UpstreamConnection):
            self.pinned.resume_for(self)
        super().unpin()

    # What the session asks for

    def on_idle(self) -> None:
        """No reply is pending."""
        self._guarded(super().on_idle)
        self._close_if_done()

    def advance(self) -> None:
        """Some of the replies that several sources send have come."""
        self._guarded(super().advance)
        if not self.full and (self.order is None or self.order.size <= MOST_HELD):
            self._release_upstreams()

    def on_resume(self) -> None:
        """Few enough replies are pending."""
        self._guarded(super().on_resume)
        self._close_if_done()

    def arrived(self) -> None:
        """What the session waited for may be there."""
        self._guarded(super().arrived)
        self._close_if_done()

    def on_large_reply(self, run: bytes, index: int, size: int) -> None:
        """A large reply has begun."""
        self._guarded(partial(super().on_large_reply, run, index, size))

    def _guarded(self, step: Callable[[], None]) -> None:
        # A fault in one client's session must not reach the upstream or the client that set it off.
        try:
            step()
        except Exception:  # noqa: BLE001 - whatever it is, it is this client's own
            _log.exception("a client's session failed; the client is closed")
            self.close("internal_error")

    def hold(self) -> None:
        """Bytes wait: read no more, except from a client that is blocked in Redis."""
        if self.blocked and self.unread() <= _UNREAD_WHILE_BLOCKED:
            self._unpause(_BYTES_WAIT)
        else:
            self._pause(_BYTES_WAIT)

    def drained(self) -> None:
        """No command waits any more."""
        self._unpause(_BYTES_WAIT)

    def pause_source(self) -> None:
        """The private upstream takes no more."""
        self._pause(_UPSTREAM_CONGESTED)

    def resume_source(self) -> None:
        """The private upstream takes more again."""
        self._unpause(_UPSTREAM_CONGESTED)

    def _pause(self, reason: int) -> None:
        if self.paused == 0 and self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()
        self.paused |= reason

    def _unpause(self, reason: int) -> None:
        if self.paused == 0:
            return
        self.paused &= ~reason
        if self.paused == 0 and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def assembling(self, size: int) -> None:
        """An unfinished command grows."""
        if size > self.route.query_limit:
            self.close("query_limit")

    def rests(self) -> bool:
        """Whether the client waits for nothing, and nothing of it is on its way."""
        waits = self.pending_replies > 0 or self.halted or self.stalled or self.full or self.subscriptions is not None
        comes = self.pending is not None or self.assembly is not None or self.stream is not None
        return not waits and not comes and not (self.pinned is not None and self.pinned.relay)

    # Closing

    def _done(self) -> bool:
        return self.pending_replies == 0 and not self.halted and not self.stalled and not (self.full and self.pending)

    def _close_if_done(self) -> None:
        if not self.leaving or self.gone:
            return
        if self._done():
            self._finish()
        else:
            self.notify_when_idle = True

    def close_when_drained(self, cause: str) -> None:
        """Read no more, and close when no reply is pending."""
        self.cause = cause
        self.leaving = True
        self.ended = True
        self.halted = False
        self.pending = None
        self._close_if_done()

    def turn_away(self, error: bytes, cause: str) -> None:
        """Close it with an error that Redis would have given, behind the replies that it still gets."""
        if self.pending_replies == 0:
            self.ports.route.count_error(error)
            self.out.append(error)
            self.close(cause)
        else:
            self.answer(error)
            self.close_when_drained(cause)

    def close(self, cause: str) -> None:
        """Close now; what was written before still leaves, except to a client that does not read."""
        if self.gone:
            return
        self.cause = cause
        self.flush()
        self.on_close()
        if self.transport is not None:
            if self.full:
                self.transport.abort()
            else:
                self.transport.close()

    def _finish(self) -> None:
        if self.transport is not None:
            self.flush()
            self.on_close()
            self.transport.close()

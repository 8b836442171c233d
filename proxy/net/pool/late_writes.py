"""Looks, after a pause of this process, at what leaves for Redis: commands that waited in it may have been given up.

After a pause (the process was stopped, or the machine had no time for it) clients' commands are looked at, for as long
as what is late may still come:

    unread           a plain client is looked at before it is read for the first time: one that may have given up a
                     write is closed, alone
    read, or of TLS  a connection to Redis looks before it writes. One that would send something of a client who may
                     have given up is closed, with all whose replies are pending on it: nobody can take a client's
                     bytes out of what leaves. Whoever writes looks for a pause first
"""

import asyncio
from collections.abc import Collection
from functools import partial

from proxy.commands.possible_changes import may_change
from proxy.hotpath.intake.intake import WAITING
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.downstream.client import ClientConnection
from proxy.net.downstream.patience import Patience
from proxy.net.pool.connection_set import ConnectionSet
from proxy.net.sockets.opening import ready_sockets
from proxy.session.session import Session
from proxy.session.state import POOLED

_AT_ONCE = 0.25
"""Seconds in which the event loop has surely read from every client, on its way back from a pause."""


class LateWrites:
    """Those of the ``clients`` of one route, on its connections."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connections: ConnectionSet,
        clients: Collection[Session],
        patience: Patience,
    ) -> None:
        self._loop = loop
        self._sockets = ready_sockets(loop)
        self._connections = connections
        self._clients = clients
        self._harmless: set[Session] = set()
        """Clients of whom nothing was in Keyrail when they were looked at, and nothing unread could change anything."""
        self._patience = patience
        self._paused = self._ended = 0.0
        self._end: asyncio.TimerHandle | None = None

    def look(self, paused: float) -> None:
        """From now on for a while, look before anything is written. The process has ``paused`` for so many seconds."""
        self._paused, self._ended = paused, self._loop.time()
        self._harmless.clear()
        if self._sockets is not None:
            self._sockets.looks[self] = self._may_read
        self._connections.added = self._watch
        for upstream in self._connections.members.values():
            self._watch(upstream)
        if self._end is not None:
            self._end.cancel()
        self._end = self._loop.call_later(max(_AT_ONCE, self._patience.seconds), self._look_no_more)

    def _look_no_more(self) -> None:
        self._end = None
        self._harmless.clear()
        if self._sockets is not None:
            self._sockets.looks.pop(self, None)
        self._connections.added = lambda _: None
        for upstream in self._connections.members.values():
            upstream.writing.go_through(None)

    def _may_read(self, protocol: object) -> bool:
        client = protocol.session if isinstance(protocol, ClientConnection) else None
        if client is None or client in self._harmless or client not in self._clients:
            return True
        if not _has_nothing_here(client):
            return True
        if self._patience.gave_up(client.transport, self._pause()):
            self._connections.events["late_writes"] += 1
            client.close("gave_up")
            return False
        self._harmless.add(client)
        return True

    def _pause(self) -> float:
        return self._paused if self._loop.time() - self._ended < _AT_ONCE else 0.0

    def _watch(self, upstream: UpstreamConnection) -> None:
        upstream.writing.go_through(partial(self._write, upstream))

    def _write(self, upstream: UpstreamConnection, data: bytes) -> None:
        assert upstream.transport is not None, "only connections that are open are looked at"
        pipeline = upstream.pipeline
        changes = pipeline.partial is not None or not data.startswith(b"*") or may_change(data)
        if changes and any(self._is_late(entry.sink.client()) for entry in pipeline.entries()):
            self._connections.events["late_writes"] += 1
            upstream.drop()
        else:
            upstream.transport.write(data)

    def _is_late(self, client: object) -> bool:
        if not isinstance(client, Session) or client in self._harmless:
            return False  # or a command of Keyrail's own
        return self._patience.is_late(client.transport, self._pause())


def _has_nothing_here(client: Session) -> bool:
    """Whether all that a client has asked is answered or unread: no reply is pending, no transaction open."""
    at_rest = client.state is POOLED and client.sender.pending_replies == 0
    return at_rest and client.intake.phase != WAITING and client.intake.unread() == 0

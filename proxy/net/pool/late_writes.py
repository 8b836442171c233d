"""Looks, after a pause of this process, at what leaves for Redis: commands that waited in it may have been given up.

After a pause (the process was stopped, or the machine had no time for it) the event loop reads what clients have sent
meanwhile, perhaps before anybody learns of the pause; but it writes to Redis in its next turn only. So whoever finds a
pause has each connection look before it writes, for as long as what is late may still come. A connection that would
send something of a client who has given up is closed: nobody can take a client's bytes out of what leaves.
"""

import asyncio
from functools import partial

from proxy.commands.possible_changes import may_change
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.downstream.patience import Patience
from proxy.net.pool.connection_set import ConnectionSet
from proxy.session.session import Session

_AT_ONCE = 0.25
"""Seconds in which the event loop has surely read from every client, on its way back from a pause."""


class LateWrites:
    """Those on the connections of one route."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connections: ConnectionSet, patience: Patience) -> None:
        self._loop = loop
        self._connections = connections
        self._patience = patience
        self._paused = self._ended = 0.0
        self._end: asyncio.TimerHandle | None = None

    def look(self, paused: float) -> None:
        """From now on for a while, look before anything is written. The process has ``paused`` for so many seconds."""
        self._paused, self._ended = paused, self._loop.time()
        self._connections.added = self._watch
        for upstream in self._connections.members.values():
            self._watch(upstream)
        if self._end is not None:
            self._end.cancel()
        self._end = self._loop.call_later(max(_AT_ONCE, self._patience.seconds), self._look_no_more)

    def _look_no_more(self) -> None:
        self._end = None
        self._connections.added = lambda _: None
        for upstream in self._connections.members.values():
            if upstream.transport is not None and not upstream.closed:
                upstream.pipeline.write = upstream.transport.write

    def _watch(self, upstream: UpstreamConnection) -> None:
        if upstream.transport is not None and not upstream.closed:
            upstream.pipeline.write = partial(self._write, upstream)

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
        if not isinstance(client, Session):
            return False  # a command of Keyrail's own
        pause = self._paused if self._loop.time() - self._ended < _AT_ONCE else 0.0
        return self._patience.is_late(client.transport, pause)

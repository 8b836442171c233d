"""Clients that do not read their replies.

Keyrail stops reading from the upstream connection until the client has caught up. If others wait behind it on a shared
connection, the client has a second; then Keyrail closes it.
"""

import asyncio
from collections.abc import Callable

from proxy.hotpath.upstream.sender_listener import ReplyRecipient
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline

PATIENCE = 1.0
"""Seconds for a client to catch up while others wait behind it."""
LATER_PATIENCE = 0.1
"""The same for the next slow clients on the same connection, so that their times do not add up."""


class SlowReader:
    """The client for which reading from a connection is paused."""

    __slots__ = ("_loop", "_pipeline", "_timer", "client")

    def __init__(self, client: ReplyRecipient, pipeline: UpstreamPipeline, loop: asyncio.AbstractEventLoop) -> None:
        self.client = client
        self._pipeline = pipeline
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    def waiting(self) -> int:
        """Bytes that it has been sent and has not read."""
        return self.client.waiting()

    def close_after(self, seconds: float, closed: Callable[[], None]) -> None:
        """Close the client if it has not caught up in time, then call ``closed``.

        While it reads and no other client waits behind it, the time starts again.
        """
        self._timer = self._loop.call_later(seconds, self._look, self.waiting(), closed)

    def cancel(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, before: int, closed: Callable[[], None]) -> None:
        self._timer = None
        if self.waiting() < before and not self._others_wait():
            self.close_after(PATIENCE, closed)
            return
        self.client.close("slow_reader")
        closed()

    def _others_wait(self) -> bool:
        clients = (entry.sink.client() for entry in self._pipeline.entries())
        return any(each is not None and each is not self.client for each in clients)

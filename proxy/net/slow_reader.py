"""A client that does not read its replies, while the upstream connection that feeds it is not read.

A client on a shared connection has a second to catch up if others wait behind it. Then it is closed.
"""

import asyncio
from collections.abc import Callable

from proxy.hotpath.sender_listener import ReplyRecipient
from proxy.hotpath.upstream_pipeline import UpstreamPipeline

PATIENCE = 1.0
"""Seconds for a client to catch up while others wait behind it."""
LATER_PATIENCE = 0.1
"""The same for the next ones of the same blockage, so that many slow readers in a row don't add up."""


class SlowReader:
    """The client for which a connection is held."""

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
        """Close the client unless it catches up in time, and call ``closed`` then.

        As long as it reads and nobody waits behind it, it has more time.
        """
        self._timer = self._loop.call_later(seconds, self._look, self.waiting(), closed)

    def cancel(self) -> None:
        """It has caught up, or its connection is lost."""
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

"""What a node says of its keys and its memory: INFO, every 15 seconds, on the connection of its health checks."""

import asyncio
from collections.abc import Mapping
from functools import partial

from proxy.net.connection.info_figures import figures_of, read_info
from proxy.net.connection.upstream import UpstreamConnection
from proxy.wire.decode import read_reply

SECONDS = 15.0


class NodeInfo:
    """The figures of one node (``info_figures``)."""

    def __init__(self) -> None:
        self._figures: Mapping[str, float] | None = None
        self._due = self._asked = 0.0
        self._pending = False
        self._refused: UpstreamConnection | None = None

    def figures(self, now: float) -> Mapping[str, float] | None:
        """The last ones, unless they are old."""
        return self._figures if now - self._asked < 2 * SECONDS else None

    def ask(self, link: UpstreamConnection, now: float) -> None:
        """Ask if it is time, and nothing is pending. A user who may not ask does so once for each connection: each
        refusal is a line in Redis's ACL LOG."""
        if now < self._due or self._pending or link is self._refused or link.closed or not link.vacant():
            return
        self._due, self._pending = now + SECONDS, True
        link.ask(["INFO"]).add_done_callback(partial(self._answered, link, now))

    def _answered(self, link: UpstreamConnection, asked: float, question: "asyncio.Future[bytes]") -> None:
        self._pending = False
        if question.cancelled() or question.exception() is not None:
            return
        reply = question.result()
        if reply.startswith(b"$"):
            self._figures, self._asked = figures_of(read_info(read_reply(reply))), asked
        else:
            self._refused = link

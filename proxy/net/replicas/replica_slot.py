"""The connection of one pool to one replica, while there is one, and when there may be another one."""

import asyncio
from dataclasses import dataclass

from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.replicas.replica_watch import process_of
from proxy.net.replicas.watched_replicas import WatchedReplica

_MOST_LOADED = 1_000
"""Scripts of which it is known that a connection has loaded them."""


@dataclass(slots=True, eq=False)
class ReplicaSlot:
    """The ``upstream`` to a replica. No other one is opened before ``pause_until``. It was opened at the version
    ``since`` of the replica's group. ``problem`` is the reason why there is none, as it was logged.

    On it these scripts are ``loaded``, None if its replica takes none. Its last ``ping`` was sent when the pipeline had
    made this ``progress``.
    """

    replica: WatchedReplica
    upstream: UpstreamConnection | None = None
    opening: bool = False
    pause_until: float = 0.0
    since: int = -1
    problem: str = ""
    loaded: set[bytes] | None = None
    ping: asyncio.Future[bytes] | None = None
    progress: tuple[object, ...] = ()

    def fill(self, upstream: UpstreamConnection) -> None:
        """A new connection is open."""
        self.upstream = upstream
        self.problem, self.loaded, self.ping = "", set(), None

    def leads_there(self, upstream: UpstreamConnection) -> bool:
        """Whether a connection leads to the server that has told how far the replica is."""
        return self.replica.process != "" and process_of(upstream) == self.replica.process

    def is_silent(self) -> bool:
        """Whether its PING was sent before the look at the replica, which has answered that since, and nothing has come
        here. Asks again, if it has been answered."""
        upstream, ping = self.upstream, self.ping
        if upstream is None or not upstream.reading:
            return False
        if ping is not None and not ping.done():
            before, self.progress = self.progress, upstream.pipeline.progress()
            return before == self.progress
        self.ping = upstream.ask(["PING"])
        self.ping.add_done_callback(_seen)
        self.progress = upstream.pipeline.progress()
        return False

    def load(self, text: bytes) -> bool:
        """Load this script, unless that was done: whether the replica takes scripts."""
        if self.upstream is None or self.loaded is None:
            return False
        if text not in self.loaded:
            if len(self.loaded) >= _MOST_LOADED:
                self.loaded.clear()
            self.loaded.add(text)
            self.upstream.ask(["SCRIPT", "LOAD", text]).add_done_callback(_seen)
        return True


def _seen(asked: "asyncio.Future[bytes]") -> None:
    # The connection may be lost: its keeper is told.
    if not asked.cancelled():
        asked.exception()

"""The keeper of connections that no client and no pool gets: on them Keyrail asks a node about itself."""

from collections.abc import Callable

from proxy.net.connection.upstream import UpstreamConnection


class OwnConnections:
    """``count`` counts an event for the metrics."""

    output_limit = 0
    errors = None
    redirects = None

    def __init__(self, count: Callable[[str], None]) -> None:
        self._count = count

    def lost(self, upstream: UpstreamConnection) -> None:
        """Nobody waits for its replies but those who asked, and they are told."""
        upstream.pipeline.abandon()

    def on_resume(self, upstream: UpstreamConnection) -> None:
        """None of them is shared."""

    def doubted(self, upstream: UpstreamConnection) -> None:
        """None of them carries what says READONLY."""

    def command_refused(self, upstream: UpstreamConnection, line: bytes) -> None:
        """Those who ask see that a command is not allowed."""

    def retired(self, upstream: UpstreamConnection) -> None:
        """None of them is retired."""

    def count(self, event: str) -> None:
        """Count an event for the metrics."""
        self._count(event)

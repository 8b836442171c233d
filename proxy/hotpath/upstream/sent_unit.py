"""Transactions that were sent in one piece, and whom a reply concerns that sends a client elsewhere."""

from collections.abc import Iterable

from proxy.hotpath.upstream.in_flight import InFlightEntry, ReplySink
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline


class SentUnit:
    """A transaction that ``sender`` has sent in one piece. It can be sent again only as a whole, if it is ``kept``:
    ``chunks`` are its bytes, to which ``frames`` replies come."""

    __slots__ = ("chunks", "frames", "kept", "sender")

    def __init__(self, sender: ReplySink, kept: bool) -> None:
        self.sender = sender
        self.kept = kept
        self.chunks: list[bytes] = []
        self.frames = 0

    def add(self, chunk: bytes, replies: Iterable[InFlightEntry]) -> None:
        """The next piece of it, and the entries for its replies."""
        if self.kept:
            self.chunks.append(chunk)
        for entry in replies:
            entry.sent = self
            self.frames += entry.due


def follow(upstream: UpstreamPipeline, entry: InFlightEntry, error: bytes) -> bytes | None:
    """What to tell in place of an error that sends the client elsewhere: see ``Outgoing``."""
    sink = entry.sent.sender if isinstance(entry.sent, SentUnit) else entry.sink
    client = sink.client()
    return error if client is None else client.on_redirect(upstream, entry, error)

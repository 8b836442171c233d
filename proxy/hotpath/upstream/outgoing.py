# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""The bytes that leave for Redis on one upstream connection, and the senders that may send now.

The sender of a command matters while one of these is open on the connection:

    unit      a client's MULTI or WATCH, up to its EXEC: another sender's command would be queued in the transaction,
              answered inside EXEC's array, or make EXEC fail
    partial   a client's command that is sent in pieces: any other byte would become part of it, or complete it; or a
              login that is not answered yet

So each command names its sender, and while something is open, commands of other senders are refused here.

What is sent, and the entry that says whose its replies are, go out in one call where most commands do: ``send_run``.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from proxy.hotpath.upstream.in_flight import (
    FORWARD,
    JOIN,
    LOCAL,
    InFlightEntry,
    InFlightQueue,
    ReplyPart,
    ReplySink,
    taken,
)

_SHORT = 4096  # bytes; a longer run is not kept, so pending replies need little memory
# Under two names: a C integer in here, Python's for everybody else.
_MOST_KEPT = 16 << 20
MOST_KEPT = _MOST_KEPT
"""Bytes of what one connection has sent; beyond that, no more is kept to be sent again."""

Schedule: TypeAlias = Callable[[Callable[[], object]], object]
Redirects: TypeAlias = Callable[[Any, InFlightEntry, bytes], bytes | None]
"""Called with the upstream pipeline, its head, and an error that sends the head's command elsewhere."""


def _never() -> None:
    """In place of a flush, where nothing can be written any more."""


class Outgoing(InFlightQueue):
    """The bytes of one connection on their way to Redis.

    ``write`` is the transport's, and None before there is one. ``schedule`` arranges a call in the next turn of the
    event loop. ``owner`` is the only client of a private upstream, and None for a shared one. ``unit`` and ``partial``
    are the client that has one open, or None. ``commands`` counts what clients have sent.

    With a cluster upstream, ``redirects`` gets each error that sends a command elsewhere, or says that it can be sent
    again: MOVED, ASK, TRYAGAIN and CLUSTERDOWN. It returns what to tell in its place, or None: then the reply comes
    from elsewhere. Connections without an owner keep what they have sent, up to a bound, until it is answered.
    """

    def __init__(self, schedule: Schedule, redirects: Redirects | None = None) -> None:
        super().__init__()
        # Bound once: at one command a flush, binding each time would cost 25 ns a command.
        self.schedule: Callable[[], object] = partial(schedule, self.flush)
        self.outgoing: list[bytes] = []
        self.scheduled = False
        self.sent_calls: list[Callable[[], object]] | None = None
        self.closed = False
        self.owner: ReplySink | None = None
        self.commands = 0
        self.redirects = redirects
        self.unit: ReplySink | None = None
        self.partial: ReplySink | None = None
        self.withheld = b""
        self.write: Callable[[bytes], object] | None = None

    def admits(self, sender: ReplySink) -> bool:
        """Whether commands of this sender may be written now: none of others within an open unit, and none within a
        command that is sent in pieces. A connection that admits no sender can only be completed or closed."""
        return self.partial is None and (self.unit is None or self.unit is sender)

    def send_commands(self, sender: ReplySink, chunk: bytes) -> None:
        """Queue whole commands for the next ``flush``. The sender must be admitted."""
        assert self.admits(sender), "a unit of another client, or a command in pieces, is open"
        self._put(chunk)

    def offer_commands(self, sender: ReplySink, chunk: bytes) -> bool:
        """The same for a sender that may not be admitted; False if nothing was sent."""
        if not self.admits(sender):
            return False
        self._put(chunk)
        return True

    def send_run(self, sink: ReplySink, chunk: bytes, count: int) -> None:
        """Send a run of ``count`` commands whose replies go to ``sink`` as they are."""
        assert self.owner is None or self.owner is sink, "a private upstream serves its owner alone"
        admitted = self.partial is None and (self.unit is None or self.unit is sink)
        assert admitted, "a unit of another client, or a command in pieces, is open"
        self._put(chunk)
        self.commands += count
        sink.pending_replies += count
        sink.requested += count
        sink.run = chunk if len(chunk) <= _SHORT else None
        sink.commands = count
        if self.owner is not None:
            self.forward(sink, count)
        else:
            self._await(sink, count, FORWARD, None, chunk)

    def send_parts(self, sink: ReplySink, chunk: bytes, count: int, part: ReplyPart) -> None:
        """Send ``count`` commands whose replies are parts of one reply to the client of ``sink``."""
        assert self.owner is None, "only shared connections are sent parts"
        assert self.admits(sink), "a unit of another client, or a command in pieces, is open"
        self._put(chunk)
        self.commands += count
        sink.pending_replies += count
        self._await(sink, count, JOIN, part, chunk)

    def _await(self, sink: ReplySink, count: int, action: int, payload: Any, chunk: bytes) -> None:
        if self.kept < _MOST_KEPT:
            self.await_frames(sink, count, action, payload, chunk, len(chunk))
        else:
            self.await_frames(sink, count, action, payload, None, 0)

    def enqueue(self, sink: ReplySink, due: int, action: int, payload: Any) -> None:
        self.expect(InFlightEntry(sink, due, action, payload))

    def expect(self, entry: InFlightEntry) -> None:
        """Queue an entry for a command that ``send_commands`` has sent, or for a LOCAL answer.

        A private upstream serves only its owner, and Keyrail itself, whose sink has no ``write``.
        """
        sink, due, action = entry.sink, entry.due, entry.action
        assert action == LOCAL or self.owner is None or self.owner is sink or sink.write is None, "not its owner"
        if action == LOCAL and self.head is None:
            sink.out.append(entry.payload)
            sink.flush()
            return
        sink.pending_replies += due if due > 0 else 1
        sink.requested += due if due > 0 else 1
        sink.run = None
        sink.wrote = sink.wrote or action != LOCAL
        self.kept += entry.size
        self.add(entry)

    def send_again(self, entry: InFlightEntry, sender: ReplySink, sent: bytes) -> None:
        """Send again what another connection was ``sent`` for its entry, and expect the replies here. Who awaits them
        awaits as many as before. A LOCAL answer only takes its place: nothing is sent for it."""
        again = InFlightEntry(entry.sink, entry.due, entry.action, entry.payload)
        if entry.action != LOCAL:
            assert self.admits(sender), "a unit of another client, or a command in pieces, is open"
            self._put(sent)
            self.commands += entry.due
            again.sent = entry.sent
            if isinstance(again.sent, bytes):
                again.sent, again.size = sent, len(sent)
                self.kept += again.size
        self.add(again)

    def when_drained(self, act: Callable[[], object]) -> None:
        """Call ``act`` after the replies that are pending now."""
        marker = ReplySink()
        marker.write = lambda _: act()
        self.enqueue(marker, 1, LOCAL, b" ")

    def begin_partial(self, sender: ReplySink) -> None:
        """From now on only pieces of one command of this sender are written."""
        assert self.admits(sender), "a unit of another client, or a command in pieces, is open"
        self.partial = sender

    def send_partial(self, sender: ReplySink, piece: bytes, withhold: bool) -> None:
        """Send the next piece of the command. With ``withhold`` its last byte is kept until more comes.

        Redis 6.2 and 7.0 do not check the line end after a bulk string (networking.c, processMultibulkBuffer): any byte
        in place of the withheld one would complete the command. So only ``end_partial`` sends the withheld byte.
        """
        assert self.partial is sender, "only the command under way is sent on"
        if withhold:
            piece = self.withheld + piece
            kept = max(0, len(piece) - 1)
            self.withheld = piece[kept:]
            piece = piece[:kept]
        self._put(piece)

    def end_partial(self, sender: ReplySink) -> None:
        """The command may run: send the withheld byte. Other commands may follow."""
        assert self.partial is sender, "only the command under way is completed"
        if self.withheld:
            self._put(self.withheld)
            self.withheld = b""
        self.partial = None

    def when_sent(self, act: Callable[[], object]) -> None:
        """Call ``act`` when the queued bytes are written."""
        if self.sent_calls is None:
            self.sent_calls = [act]
        else:
            self.sent_calls.append(act)

    def _put(self, chunk: bytes) -> None:
        self.outgoing.append(chunk)
        if not self.scheduled:
            self.scheduled = True
            self.schedule()

    def release(self) -> None:
        """The connection is lost: write nothing, and refer neither to the transport, nor to this object itself, nor to
        clients, who may refer to it: only the garbage collector could free them."""
        self.write = None
        self.schedule = _never
        self.sent_calls = None
        self.owner = self.unit = self.partial = None

    def flush(self) -> None:
        """Write the queued bytes, as one piece."""
        self.scheduled = False
        outgoing = self.outgoing
        if outgoing:
            data = taken(outgoing)
            if not self.closed and self.write is not None:
                self.write(data)
        calls = self.sent_calls
        if calls is not None:
            self.sent_calls = None
            for act in calls:
                act()

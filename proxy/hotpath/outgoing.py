# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""The bytes that leave for Redis on one upstream connection, and the senders that may send now.

The sender of a command matters while one of these is open on the connection:

    unit      a client's MULTI or WATCH, up to its EXEC: another sender's command would be queued in the transaction,
              answered inside EXEC's array, or make EXEC fail
    partial   a client's command that is sent in pieces: any other byte would become part of it, or complete it

So each command names its sender, and while something is open, commands of other senders are refused here.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from proxy.hotpath.in_flight import InFlightQueue, ReplySink

Schedule: TypeAlias = Callable[[Callable[[], object]], object]


def _never() -> None:
    """In place of a flush, where nothing can be written any more."""


class Outgoing(InFlightQueue):
    """The bytes of one connection on their way to Redis.

    ``write`` is the transport's, and None before there is one. ``schedule`` arranges a call in the next turn of the
    event loop. ``unit`` and ``partial`` are the client that has one open, or None.
    """

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        # Bound once: at one command a flush, binding each time would cost 25 ns a command.
        self.schedule: Callable[[], object] = partial(schedule, self.flush)
        self.outgoing: list[bytes] = []
        self.scheduled = False
        self.sent_calls: list[Callable[[], object]] | None = None
        self.closed = False
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
        """The connection is lost: write nothing, and refer neither to the transport nor to this object itself, which
        only the garbage collector could free."""
        self.write = None
        self.schedule = _never

    def flush(self) -> None:
        """Write the queued bytes, as one piece."""
        self.scheduled = False
        outgoing = self.outgoing
        if outgoing:
            data = outgoing[0] if len(outgoing) == 1 else b"".join(outgoing)
            outgoing.clear()
            if not self.closed and self.write is not None:
                self.write(data)
        calls = self.sent_calls
        if calls is not None:
            self.sent_calls = None
            for act in calls:
                act()

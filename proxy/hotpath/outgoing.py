# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""The bytes that leave for Redis on one upstream connection, and who may send there.

Whose a command is on a connection matters as long as something is open on it:

    unit      a client's MULTI or WATCH, up to its EXEC: a command of anybody else's would be queued in the transaction,
              answered inside EXEC's array, or make EXEC fail
    partial   a client's command that is sent in pieces: any other byte would become part of it, or complete it

So a command says who sends it, and where something is open it is refused here, whoever asks.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from proxy.hotpath.in_flight import InFlightQueue, ReplySink

Schedule: TypeAlias = Callable[[Callable[[], object]], object]


class Outgoing(InFlightQueue):
    """The bytes of one connection on their way to Redis.

    ``write`` is the transport's, and None until there is one. ``schedule`` calls what it is given in the next
    turn of the event loop. ``unit`` and ``partial`` are the client that has one open, or None.
    """

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        # Bound once: at one command a flush, binding each time would cost 25 ns a command.
        self.schedule = partial(schedule, self.flush)
        self.outgoing: list[bytes] = []
        self.scheduled = False
        self.sent_calls: list[Callable[[], object]] | None = None
        self.closed = False
        self.unit: ReplySink | None = None
        self.partial: ReplySink | None = None
        self.withheld = b""
        self.write: Callable[[bytes], object] | None = None

    def admits(self, sender: ReplySink) -> bool:
        """Whether commands of this sender may be written now: nobody's come between those of an open unit, and none
        into a command that is under way in pieces. A connection that admits nobody can only be completed or closed."""
        return self.partial is None and (self.unit is None or self.unit is sender)

    def send_commands(self, sender: ReplySink, chunk: bytes) -> None:
        """Put whole commands behind what leaves at the next ``flush``. The sender must be admitted."""
        assert self.admits(sender), "a unit of another client, or a command in pieces, is open"
        self._put(chunk)

    def offer_commands(self, sender: ReplySink, chunk: bytes) -> bool:
        """The same for a sender who may not be admitted: False if nothing was sent."""
        if not self.admits(sender):
            return False
        self._put(chunk)
        return True

    def begin_partial(self, sender: ReplySink) -> None:
        """From now on nothing is written but the pieces of one command of this sender."""
        assert self.admits(sender), "a unit of another client, or a command in pieces, is open"
        self.partial = sender

    def send_partial(self, sender: ReplySink, piece: bytes, withhold: bool) -> None:
        """Send the next piece of the command. With ``withhold`` its last byte stays here until more comes.

        Redis 6.2 and 7.0 do not look at the line end behind a bulk string (networking.c, processMultibulkBuffer): any
        byte would complete the command in place of the one that is withheld. So it is kept here, and only
        ``end_partial`` sends it.
        """
        assert self.partial is sender, "only the command under way is sent on"
        if withhold:
            piece = self.withheld + piece
            kept = max(0, len(piece) - 1)
            self.withheld = piece[kept:]
            piece = piece[:kept]
        self._put(piece)

    def end_partial(self, sender: ReplySink) -> None:
        """The command may run: what was withheld is sent, and other commands may follow it."""
        assert self.partial is sender, "only the command under way is completed"
        if self.withheld:
            self._put(self.withheld)
            self.withheld = b""
        self.partial = None

    def when_sent(self, act: Callable[[], object]) -> None:
        """Call ``act`` when what has gathered is written."""
        if self.sent_calls is None:
            self.sent_calls = [act]
        else:
            self.sent_calls.append(act)

    def _put(self, chunk: bytes) -> None:
        self.outgoing.append(chunk)
        if not self.scheduled:
            self.scheduled = True
            self.schedule()

    def flush(self) -> None:
        """Write what has gathered, as one piece."""
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

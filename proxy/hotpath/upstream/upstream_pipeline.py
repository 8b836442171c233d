# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""One upstream connection without its socket: routes each reply to its client, by the queue of replies in flight.

    head        reply frame                         error frame            push frame (``>``)          end of stream
    (empty)     ``uninvited``: close both sides     ``uninvited``          to the owner                close
    FORWARD     to the sink, one less due           same                   to the owner                close sinks
    HIDE        dropped, one less due               same                   to the owner                close sinks
    CONFIRM     one less due if it confirms         ends the whole entry   counts if it confirms       close sinks

A push that is not among ``wire.reply.PUSHES``, and one without an owner, is dropped, and so are attributes (``|``).
If a frame does not fit the queue, the pipeline is out of step: the connection and its clients must be closed.
"""

import os
from collections.abc import Callable

from proxy.hotpath.counting.error_counts import ErrorCounts
from proxy.hotpath.upstream.in_flight import CONFIRM, FORWARD, InFlightEntry, ReplySink
from proxy.hotpath.upstream.outgoing import Redirects, Schedule
from proxy.hotpath.upstream.pipeline_listener import CONFIRMATION, MESSAGE, REPLY, PipelineListener, SubscriptionReader
from proxy.hotpath.upstream.reply_actions import LATE, ReplyActions

_MINUS = 45
_STAR = 42
_PUSH = 62
_ATTRIBUTE = 124

MARK = b"KEYRAIL-MARK-%b" % os.urandom(16).hex().encode()
"""A command that no engine knows. While an upstream relays, each awaited reply is its error, which says the name. No
client is shown it, not even by MONITOR, so none can put it into an error of a script's."""

_LAST_BIT = 62


class UpstreamPipeline(ReplyActions):
    """One upstream connection: the bytes to send, and the pending replies.

    ``usable``: clients may send commands. ``subscriptions`` are those of the owner, which gets pushes by ``push_edit``.
    ``relay``: what comes is no reply any more, and goes to the owner, but for the error of a ``MARK``. ``strays``
    counts pushes that nobody was sent. ``rest`` waits for more bytes; ``late_made`` bytes of a late reply have left.
    ``node_bit`` stands for its node: see ``bit_of``. ``reads_only``: it leads to a replica, whose node has the
    ``number``.
    """

    def __init__(
        self,
        listener: PipelineListener,
        schedule: Schedule,
        errors: ErrorCounts | None = None,
        redirects: Redirects | None = None,
    ) -> None:
        super().__init__(listener, schedule, errors, redirects)
        self.rest = b""
        self.late_made = 0
        self.usable = False
        self.relay = False
        self.read_only_told = False
        self.subscriptions: SubscriptionReader | None = None
        self.push_edit: Callable[[bytes], bytes] | None = None
        self.strays = 0
        self.node_bit = 0
        self.number = 0

    def follow(self, subscriptions: SubscriptionReader | None) -> None:
        """Set the subscriptions of the owner; None if it has none."""
        self.subscriptions = subscriptions
        self.arrays = subscriptions is not None and subscriptions.protocol == 2

    # From Redis

    def receive(self, data: bytes) -> None:
        """Take bytes from Redis, and pass each reply to its sink."""
        if self.closed:
            return
        if self.rest:
            data = self.rest + data
            self.rest = b""
        if self.late:
            self.rest = data
            return
        position = self._distribute(data, data, len(data))
        if position >= 0 and position < len(data) and not self.closed:
            self.rest = data[position:]
        self._end()
        if position < 0 and not self.closed:
            self.listener.out_of_step()

    def _distribute(self, data: bytes, p: bytes, size: int) -> int:
        # Returns the offset of the first byte that must wait for more bytes, or -1 when out of step.
        i = 0
        while i < size and not self.closed:
            if self.scanner.elements > 0:
                n = self._continue(data, p, i, size)
            elif p[i] == _ATTRIBUTE:
                n = self._attribute(p, i, size)
            elif self.relay and p[i] != _PUSH:
                n = self._relayed(data, p, i, size)
            elif p[i] == _PUSH or (self.arrays and p[i] == _STAR):
                n = self._push(data, p, i, size)
            elif self.head is None:
                n = self._uninvited(data, p, i, size)
            elif self.head.action == FORWARD:
                n = self._forward(self.head, data, p, i, size)
            else:
                n = self._special(self.head, data, p, i, size)
            if n == -2:
                return i
            if n < 0:
                return -1 if n > LATE else LATE - n
            i = n
        return i

    def _relayed(self, data: bytes, p: bytes, i: int, size: int) -> int:
        # Whose a reply is, nobody can tell, but for the error of a MARK: what has been asked before it is answered.
        head = self.head
        if head is not None and p[i] == _MINUS:
            n = self.scanner.line_end(p, i, size)
            if n < 0:
                return n
            line = data[i:n]
            if MARK in line:
                self.deliver(head.sink, head.payload(line))
                self.complete(head, 1)
                return n
        return self._stream(data, p, i, size, self.owner, False)

    def _push(self, data: bytes, p: bytes, i: int, size: int) -> int:
        # A push frame, or an array in subscribed state: RESP2 sends messages and confirmations as arrays.
        said = MESSAGE
        n = self.scanner.first_word_end(p, i, size)
        if n == -2:
            return -2
        if p[i] == _PUSH and (self.owner is None or self.arrays or not self.scanner.may_pass(p, i, n)):
            self.strays += 1
            return self._stream(data, p, i, size, None, False)
        if self.subscriptions is not None and not self.relay:
            said = self.subscriptions.hears(data[i:n]) if n > 0 else REPLY
        if said == MESSAGE:
            if self.subscriptions is not None and self.subscriptions.edit is not None and not self.relay:
                return self._edited_message(self.subscriptions.edit, data, p, i, size)
            if self.push_edit is not None:
                return self._edited_message(self.push_edit, data, p, i, size)
            return self._stream(data, p, i, size, self.owner, False)
        alone = self.head is None or self.head.action == CONFIRM or self.head.sink is not self.owner
        if said == CONFIRMATION and (p[i] == _PUSH or alone):
            return self._confirm(data, p, i, size)
        if self.head is None:
            return self._uninvited(data, p, i, size)
        if self.head.action == FORWARD:
            return self._stream(data, p, i, size, self.head.sink, True)
        return self._special(self.head, data, p, i, size)

    def _edited_message(self, edit: Callable[[bytes], bytes], data: bytes, p: bytes, i: int, size: int) -> int:
        n = self.scanner.whole(p, i, size)
        if n > 0 and self.owner is not None:
            self.deliver(self.owner, edit(data[i:n]))
        return n

    def _attribute(self, p: bytes, i: int, size: int) -> int:
        # It says something about the reply behind it, and no client is told.
        n = self.scanner.begin_attribute(p, i, size)
        if n >= 0:
            self.destination = None
            self.counts = False
        return n

    def _confirm(self, data: bytes, p: bytes, i: int, size: int) -> int:
        n = self.scanner.whole(p, i, size)
        if n < 0:
            return n
        head, subscriptions = self.head, self.subscriptions
        assert subscriptions is not None, "only subscriptions recognize a confirmation"
        frame = data[i:n]
        if head is not None and (head.action != CONFIRM or not subscriptions.confirms(frame, head.payload[0])):
            head = None
        if head is not None and head.due < 0:
            head.due = head.payload[1]()
            head.sink.pending_replies += head.due - 1
        subscriptions.confirm(frame)
        if self.owner is not None:
            self.deliver(self.owner, frame if subscriptions.edit is None else subscriptions.edit(frame))
        if head is not None:
            self.complete(head, 1)
        return n

    def _uninvited(self, data: bytes, p: bytes, i: int, size: int) -> int:
        n = self.scanner.whole(p, i, size)
        if n >= 0:
            self.listener.uninvited(data[i:n])
        return n

    def _end(self) -> None:
        self.end_round()
        if self.read_only and not self.read_only_told:
            self.read_only_told = True
            self.listener.doubt_role()

    def abandon(self, lose: Callable[[list[ReplySink]], object] | None = None) -> list[ReplySink]:
        """The connection is lost: return the sinks that expect a reply of Redis. LOCAL answers of others are sent.

        ``lose`` gets these sinks, too, and closes their clients: no reply is pending for them any more after that.
        """
        self.closed = True
        self.usable = False
        self.collected.clear()
        lost = self.clear()
        self.outgoing.clear()
        self._end()
        unanswered = list(dict.fromkeys([entry.sink for entry in lost]))
        if lose is not None:
            lose(unanswered)
        self.settle(lost)
        self._end()
        for entry in lost:
            if entry.on_lost is not None:
                entry.on_lost()
        return unanswered

    def release(self) -> None:
        """The connection is lost, and all who used it know."""
        ReplyActions.release(self)  # by name: a method that is compiled as one of C does not know its class
        self.subscriptions = None
        self.push_edit = None
        self.destination = None

    # A reply whose edit takes several turns: see ``late_replies``

    def begin_late(self) -> None:
        """The head's reply has come. Until it has left, nothing behind it is looked at."""
        self.late = True
        self.late_made = 0
        self.listener.hold()

    def is_long(self) -> None:
        """Who asks something now need not wait for it."""
        if self.head is not None:
            self.listener.on_large_head(self.head.sink)

    def is_unwanted(self) -> bool:
        """Whether nobody gets it any more."""
        return self.closed or self.head is None or self.head.sink.gone

    def take_late(self, piece: bytes) -> None:
        """Its next bytes leave."""
        if self.head is not None:
            self.late_made += len(piece)
            self.deliver(self.head.sink, piece)
            self.end_round()

    def end_late(self) -> None:
        """It has left: go on behind it."""
        if self.closed or self.head is None:
            return
        sink = self.head.sink
        self.complete_edited(self.head, self.late_sent, self.late_made)
        self.late = False
        self.listener.resume_for(None)
        if sink.full:
            self.overflowing(sink)
        self.receive(b"")

    def fail_late(self) -> None:
        """It cannot be made."""
        if not self.closed:
            self.listener.out_of_step()

    # For the connection

    def overflowing(self, sink: ReplySink) -> None:
        self.listener.overflowing(sink)

    def suspect_role(self) -> None:
        """The role of the server is being asked: further READONLY errors are not reported until ``trust_role``."""
        self.read_only = self.read_only_told = True

    def trust_role(self) -> None:
        """The server is no replica: the next READONLY error is reported again."""
        self.read_only = self.read_only_told = False

    def unfinished(self, sink: ReplySink) -> InFlightEntry | None:
        """The entry with which a reply ends of which ``sink`` has been sent a part; None if there is no such reply."""
        head = self.head
        if head is None or head.sink is not sink:
            return None
        if self.array_end is not None:
            return self.array_end
        if not self.late and (self.scanner.elements == 0 or self.destination is not sink):
            return None
        if head.due > 1:
            self.split_head()
            head.sent = None  # those behind it can be sent again
        return head

    def whole_frames(self) -> bool:
        """Whether no part of a reply has been passed on of which the rest is missing."""
        return not self.late and self.scanner.elements == 0 and self.scanner.bulk == 0

    def between_frames(self) -> bool:
        """Whether no part of a reply has come, so that Keyrail could send an error of its own."""
        return not self.late and not self.rest and self.scanner.elements == 0 and self.scanner.bulk == 0

    def progress(self) -> tuple[object, ...]:
        """The head, and numbers: at least one of them changes with each piece of a reply. While somebody has the head,
        none that follows has its address. What is late is in the hands of this process."""
        due = 0 if self.head is None else self.head.due
        late = object() if self.late else None
        return self.head, due, self.scanner.elements, self.scanner.bulk, len(self.rest), late


def bit_of(node: int) -> int:
    """The bit that stands for the node of this number in a set of nodes; all large numbers share one."""
    return 0 if node < 0 else 1 << min(node, _LAST_BIT)

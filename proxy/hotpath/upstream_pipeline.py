# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""One upstream connection without its socket: routes each reply to its client, by the queue of replies in flight.

    head        reply frame                         error frame            push frame (``>``)          end of stream
    (empty)     ``uninvited``: close both sides     ``uninvited``          to the owner, else dropped  close
    FORWARD     to the sink, one less due           same                   to the owner                close sinks
    HIDE        dropped, one less due               same                   to the owner                close sinks
    CONFIRM     one less due if it confirms         ends the whole entry   counts if it confirms       close sinks

If a frame does not fit the queue, the pipeline is out of step: the connection and its clients must be closed.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from proxy.hotpath.error_counts import ErrorCounts
from proxy.hotpath.in_flight import (
    CONFIRM,
    EDIT,
    FORWARD,
    HIDE,
    JOIN,
    LOCAL,
    MEMBERS,
    NOTE,
    PEEK,
    REPLACE,
    TRACE,
    UNWRAP,
    InFlightEntry,
    ReplyPart,
    ReplySink,
)
from proxy.hotpath.outgoing import Outgoing, Schedule
from proxy.hotpath.pipeline_listener import CONFIRMATION, MESSAGE, REPLY, PipelineListener, SubscriptionReader
from proxy.wire.reply import ReplyScanner

_SHORT = 4096  # bytes; a longer run is not kept, so pending replies need little memory
# Under two names: a C integer in here, Python's for everybody else.
_MOST_KEPT = 16 << 20
MOST_KEPT = _MOST_KEPT
"""Bytes of what one connection has sent; beyond that, no more is kept to be sent again."""
_MINUS = 45
_STAR = 42
_PUSH = 62

_LAST_BIT = 62

_ANSWERS = frozenset((EDIT, CONFIRM, UNWRAP, TRACE))
"""Actions that send an error reply to a client, and are not followed by another action."""

Redirects: TypeAlias = Callable[["UpstreamPipeline", InFlightEntry, bytes], bytes | None]


class UpstreamPipeline(Outgoing):
    """One upstream connection: the bytes to send, and the pending replies.

    ``listener`` runs the connection. ``owner`` is the only client of a private upstream, and None for a shared one.
    ``usable``: clients may send commands. ``subscriptions`` are those of the owner; ``arrays``: they use RESP2.
    ``errors`` counts the error replies that clients get. ``node_bit`` stands for its node: see ``bit_of``.

    Before a cluster, ``redirects`` gets each error that sends a command elsewhere, or says that it can be sent again:
    MOVED, ASK, TRYAGAIN and CLUSTERDOWN. It returns what to tell in its place, or None: then the reply comes from
    elsewhere. Shared connections keep what they have sent, up to a bound, until it is answered.
    """

    def __init__(
        self,
        listener: PipelineListener,
        schedule: Schedule,
        errors: ErrorCounts | None = None,
        redirects: Redirects | None = None,
    ) -> None:
        super().__init__(schedule)
        self.listener = listener
        self.scanner = ReplyScanner()
        self.rest = b""
        self.destination: ReplySink | None = None
        self.counts = False
        self.usable = False
        self.relay = False
        self.read_only = self.read_only_told = False
        self.owner: ReplySink | None = None
        self.subscriptions: SubscriptionReader | None = None
        self.arrays = False
        self.commands = self.strays = 0
        self.errors = errors
        self.large = 1 << 20
        self.redirects = redirects
        self.node_bit = 0

    # Towards Redis

    def send_run(self, sink: ReplySink, chunk: bytes, count: int) -> None:
        """Send a run of ``count`` commands whose replies go to ``sink`` as they are."""
        assert self.owner is None or self.owner is sink, "a private upstream serves its owner alone"
        admitted = self.partial is None and (self.unit is None or self.unit is sink)
        assert admitted, "a unit of another client, or a command in pieces, is open"
        self._put(chunk)
        self.commands += count
        sink.pending_replies += count
        sink.run = chunk if len(chunk) <= _SHORT else None
        sink.commands = count
        if self.redirects is None or self.owner is not None:
            self.forward(sink, count)
        elif self.kept < _MOST_KEPT:
            self.forward_kept(sink, count, chunk, len(chunk))
        else:
            self.forward_kept(sink, count, None, 0)

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
        sink.run = None
        sink.wrote = sink.wrote or action != LOCAL
        self.kept += entry.size
        self.add(entry)

    def when_drained(self, act: Callable[[], object]) -> None:
        """Call ``act`` after the replies that are pending now."""
        marker = ReplySink()
        marker.write = lambda _: act()
        self.enqueue(marker, 1, LOCAL, b" ")

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
            elif self.relay:
                n = self._stream(data, p, i, size, self.owner, False)
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
                return -1
            i = n
        return i

    def _continue(self, data: bytes, p: bytes, i: int, size: int) -> int:
        n = self.scanner.walk(p, i, size)
        if n < 0:
            return -1
        if n == i:
            return -2
        if self.destination is not None:
            self.deliver(self.destination, self._cut(data, p, i, n))
        if self.counts and self.head is not None:
            if self.head.action == TRACE:
                self.head.payload.comes(n - i, self.scanner.elements == 0)
            elif self.head.action == JOIN:
                part: ReplyPart = self.head.payload
                part.take(self._cut(data, p, i, n), self.scanner.elements == 0)
        if self.scanner.elements == 0 and self.counts:
            self._complete_head()
        return n

    def _complete_head(self) -> None:
        entry = self.head
        assert entry is not None, "a frame that counts was begun for the head"
        self.complete(entry, 1)

    def _forward(self, entry: InFlightEntry, data: bytes, p: bytes, start: int, size: int) -> int:
        scanner = self.scanner
        i = start
        begun = start
        done = 0
        due = entry.due
        while True:
            n = scanner.walk(p, i, size)
            if n < 0:
                return -1
            if n == i:
                break
            if p[i] == _MINUS:
                if self.redirects is not None and _is_redirect(p, i, n):
                    if i == start:
                        return self._redirected(entry, p, i, n)
                    break
                self._read_error(p, i, n)
                if self.errors is not None:
                    self.errors.add(p, i, n)
            begun = i
            i = n
            if scanner.elements > 0:
                break
            done += 1
            if done == due or i >= size or p[i] == _PUSH or (self.arrays and p[i] == _STAR):
                break
        if i == start:
            return -2
        sink = entry.sink
        self.deliver(sink, self._cut(data, p, start, i))
        if scanner.elements > 0:
            self.destination = sink
            self.counts = True
            if scanner.bulk > self.large:
                sink.large_reply_begins(due, done, i - begun + scanner.bulk)
                self.listener.on_large_head(sink)
        if done > 0:
            self.complete(entry, done)
        return i

    def _stream(self, data: bytes, p: bytes, i: int, size: int, sink: ReplySink | None, counts: bool) -> int:
        # Passes one frame to a sink, or drops it, in the pieces in which it comes.
        n = self.scanner.walk(p, i, size)
        if n < 0:
            return -1
        if n == i:
            return -2
        if sink is not None:
            self.deliver(sink, self._cut(data, p, i, n))
        if self.scanner.elements > 0:
            self.destination = sink
            self.counts = counts
        elif counts:
            self._complete_head()
        return n

    def _special(self, entry: InFlightEntry, data: bytes, p: bytes, i: int, size: int) -> int:
        action = entry.action
        if p[i] == _MINUS:
            n = self.scanner.line_end(p, i, size)
            if n < 0:
                return n
            if self.redirects is not None and _is_redirect(p, i, n):
                return self._redirected(entry, p, i, n)
            self._read_error(p, i, n)
            if self.errors is not None and action in _ANSWERS and entry.sink.client() is not None:
                self.errors.add(p, i, n)
        if action == HIDE:
            return self._stream(data, p, i, size, None, True)
        if action == TRACE:
            return self._trace(entry, data, p, i, size)
        if action == JOIN:
            return self._take(entry, data, p, i, size)
        if action == PEEK or action == MEMBERS or (action == UNWRAP and p[i] == _STAR):
            n = self.scanner.line_end(p, i, size)
            if n < 0:
                return n
            if action == PEEK:
                entry.action = FORWARD
                entry.payload(data[i:n])
                return i
            return self._expand(entry, data, p, i, n)
        n = self.scanner.whole(p, i, size)
        if n < 0:
            return n
        if action == REPLACE:
            self.deliver(entry.sink, entry.payload)
        elif action == EDIT:
            self.deliver(entry.sink, entry.payload(data[i:n]))
        elif action == NOTE:
            entry.payload(data[i:n])
        elif action == UNWRAP:
            self.deliver(entry.sink, entry.payload[1](data[i:n]))
        elif p[i] == _MINUS:  # CONFIRM: one error for the whole command
            self.deliver(entry.sink, data[i:n])
            self.complete(entry, entry.due if entry.due > 0 else 1, True)
            return n
        else:
            return -1
        self.complete(entry, 1)
        return n

    def _redirected(self, entry: InFlightEntry, p: bytes, i: int, n: int) -> int:
        # The head's next frame is an error that says where else its command can run.
        redirects = self.redirects
        assert redirects is not None
        error = redirects(self, entry, p[i:n])
        if error is None:
            self.complete(entry, 1)
            return n
        self.redirects = None
        taken = 0
        if entry.action != FORWARD:
            taken = self._special(entry, error, error, 0, len(error))
        if taken == 0 and not self.closed:  # only looked at
            taken = self._forward(entry, error, error, 0, len(error))
        self.redirects = redirects
        return n if taken >= 0 else taken

    def _trace(self, entry: InFlightEntry, data: bytes, p: bytes, i: int, size: int) -> int:
        n = self.scanner.line_end(p, i, size)
        if n < 0:
            return n
        entry.payload.begins(data[i:n])
        n = self._stream(data, p, i, size, entry.sink, True)
        if n >= 0:
            entry.payload.comes(n - i, self.scanner.elements == 0)
            if self.scanner.bulk > self.large:
                self.listener.on_large_head(entry.sink)
        return n

    def _take(self, entry: InFlightEntry, data: bytes, p: bytes, i: int, size: int) -> int:
        n = self._stream(data, p, i, size, None, True)
        if n >= 0:
            part: ReplyPart = entry.payload
            part.take(self._cut(data, p, i, n), self.scanner.elements == 0)
            if self.scanner.bulk > self.large:
                self.listener.on_large_head(entry.sink)
        return n

    def _expand(self, entry: InFlightEntry, data: bytes, p: bytes, i: int, n: int) -> int:
        # The head is replaced by an entry for each member of EXEC's array. A null or an error passes unchanged.
        unwraps = entry.action == UNWRAP
        actions = entry.payload[0] if unwraps else entry.payload
        digits = data[i + 1 : n - 2]
        if p[i] == _STAR and not digits.isdigit() and digits != b"-1":
            return -1
        count = int(digits) if p[i] == _STAR else -1
        if unwraps and count != len(actions):
            return -1
        if count <= 0:
            entry.action = FORWARD
            return i
        hidden = self.expand(entry, actions, count)
        if hidden < 0:
            return -1
        if not unwraps:
            self.deliver(entry.sink, b"*%d\r\n" % (count - hidden))
        return n

    def _push(self, data: bytes, p: bytes, i: int, size: int) -> int:
        # A push frame, or an array in subscribed state: RESP2 sends messages and confirmations as arrays.
        said = MESSAGE
        if self.subscriptions is not None:
            n = self.scanner.first_word_end(p, i, size)
            if n == -2:
                return -2
            said = self.subscriptions.hears(data[i:n]) if n > 0 else REPLY
        if said == MESSAGE:
            if self.owner is None:
                self.strays += 1
            return self._stream(data, p, i, size, self.owner, False)
        if said == CONFIRMATION and (p[i] == _PUSH or self.head is None or self.head.action == CONFIRM):
            return self._confirm(data, p, i, size)
        if self.head is None:
            return self._uninvited(data, p, i, size)
        if self.head.action == FORWARD:
            return self._stream(data, p, i, size, self.head.sink, True)
        return self._special(self.head, data, p, i, size)

    def _confirm(self, data: bytes, p: bytes, i: int, size: int) -> int:
        n = self.scanner.whole(p, i, size)
        if n < 0:
            return n
        head, subscriptions = self.head, self.subscriptions
        assert subscriptions is not None, "only subscriptions recognize a confirmation"
        frame = data[i:n]
        if head is not None and (head.action != CONFIRM or not subscriptions.confirms(frame, head.payload[0])):
            head = None
        if head is None and subscriptions.ends_by_itself(frame):
            return n
        if head is not None and head.due < 0:
            head.due = head.payload[1]()
            head.sink.pending_replies += head.due - 1
        subscriptions.confirm(frame)
        if self.owner is not None:
            self.deliver(self.owner, frame)
        if head is not None:
            self.complete(head, 1)
        return n

    def _uninvited(self, data: bytes, p: bytes, i: int, size: int) -> int:
        n = self.scanner.whole(p, i, size)
        if n >= 0:
            self.listener.uninvited(data[i:n])
        return n

    def _read_error(self, p: bytes, i: int, size: int) -> None:
        if self.read_only:
            return
        # -READONLY: the server is a replica now, or a script has returned such an error.
        if size - i > 9 and p[i + 1] == 82 and p[i + 2] == 69 and p[i + 3] == 65 and p[i + 4] == 68 and p[i + 5] == 79:
            self.read_only = True
            return
        # -NOPERM, or -ERR unknown …: the known permissions of this user may be out of date.
        if size - i > 9 and (
            (p[i + 1] == 78 and p[i + 2] == 79 and p[i + 3] == 80 and p[i + 4] == 69)
            or (p[i + 1] == 69 and p[i + 5] == 117 and p[i + 6] == 110 and p[i + 7] == 107)
        ):
            n = self.scanner.line_end(p, i, size)
            if n > 0:
                self.listener.command_refused(p[i:n])

    def _cut(self, data: bytes, p: bytes, start: int, end: int) -> bytes:
        # Compiled, this cuts from the pointer; a cut from the object would create a slice object.
        return data if start == 0 and end == len(data) else p[start:end]

    def _end(self) -> None:
        self.end_round()
        if self.read_only and not self.read_only_told:
            self.read_only_told = True
            self.listener.doubt_role()

    def abandon(self) -> list[ReplySink]:
        """The connection is lost: return the sinks that expect a reply of Redis. LOCAL answers of others are sent."""
        self.closed = True
        self.usable = False
        unanswered = self.clear()
        self.outgoing.clear()
        self._end()
        return unanswered

    # For the connection

    def overflowing(self, sink: ReplySink) -> None:
        self.listener.overflowing(sink)

    def suspect_role(self) -> None:
        """The role of the server is being asked: further READONLY errors are not reported until ``trust_role``."""
        self.read_only = self.read_only_told = True

    def trust_role(self) -> None:
        """The server is no replica: the next READONLY error is reported again."""
        self.read_only = self.read_only_told = False

    def between_frames(self) -> bool:
        """Whether no part of a reply has come, so that Keyrail could send an error of its own."""
        return not self.rest and self.scanner.elements == 0 and self.scanner.bulk == 0

    def progress(self) -> tuple[int, ...]:
        """Numbers; at least one of them changes with each piece of a reply."""
        due = 0 if self.head is None else self.head.due
        return id(self.head), due, self.scanner.elements, self.scanner.bulk, len(self.rest)


def bit_of(node: int) -> int:
    """The bit that stands for the node of this number in a set of nodes; all large numbers share one."""
    return 0 if node < 0 else 1 << min(node, _LAST_BIT)


def _is_redirect(p: bytes, i: int, end: int) -> bool:
    # -MOVED, -ASK, -TRYAGAIN, -CLUSTERDOWN
    if end - i < 8:
        return False
    if p[i + 1] == 77:
        return p[i + 2] == 79 and p[i + 3] == 86 and p[i + 4] == 69 and p[i + 5] == 68 and p[i + 6] == 32
    if p[i + 1] == 65:
        return p[i + 2] == 83 and p[i + 3] == 75 and p[i + 4] == 32
    if p[i + 1] == 84:
        return p[i + 2] == 82 and p[i + 3] == 89 and p[i + 4] == 65 and p[i + 5] == 71 and p[i + 6] == 65
    return p[i + 1] == 67 and p[i + 2] == 76 and p[i + 3] == 85 and p[i + 4] == 83 and p[i + 5] == 84 and p[i + 6] == 69

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""What becomes of one reply frame: the action of the entry at the head of the queue is applied to it.

Each method takes the frame that begins at an offset, of which perhaps not all has come. It returns the offset behind
what it took, -2 where more bytes are needed first, or -1 if the frame does not fit the entry.
"""

from proxy.hotpath.counting.error_counts import ErrorCounts
from proxy.hotpath.upstream.error_words import read_only, redirected, refuses_command, unable
from proxy.hotpath.upstream.in_flight import (
    CONFIRM,
    EDIT,
    EDIT_ERROR,
    EDIT_SOME,
    FORWARD,
    HIDE,
    JOIN,
    MEMBERS,
    NOTE,
    PEEK,
    REPLACE,
    TRACE,
    UNWRAP,
    InFlightEntry,
    ReplyPart,
    ReplySink,
    taken,
)
from proxy.hotpath.upstream.outgoing import Outgoing, Redirects, Schedule
from proxy.hotpath.upstream.pipeline_listener import PipelineListener
from proxy.wire.reply import ReplyScanner

_MINUS = 45
_DOLLAR = 36
_STAR = 42
_PUSH = 62
_ATTRIBUTE = 124
_BEGINNING = 3
"""So many bytes behind the first line tell whether a value is compressed."""
_LATE = -4
LATE = _LATE

_ANSWERS = frozenset((EDIT, EDIT_ERROR, EDIT_SOME, CONFIRM, UNWRAP, TRACE))
"""Actions that send an error reply to a client, and are not followed by another action."""


class ReplyActions(Outgoing):
    """The pending replies of one connection, and what to do with each.

    ``listener`` runs the connection. ``arrays``: its owner gets messages as arrays, as RESP2 has them. ``errors``
    counts the error replies that clients get. Of a frame that has come in part, the rest goes to ``destination``, if
    any, and ``counts`` says that it is a reply; of one that is needed whole, ``collected`` has what has come. While the
    head's reply is ``late``, it has come, but its edit takes several turns (``late_replies``), of ``late_sent`` bytes.
    ``read_only``: Redis has said READONLY. ``reads_only``: it leads to a replica, of which clients read. With
    ``doubts``, that replica may say of a key which is elsewhere that it does not exist, and ``redirects`` gets each
    reply that could mean that.
    """

    def __init__(
        self, listener: PipelineListener, schedule: Schedule, errors: ErrorCounts | None, redirects: Redirects | None
    ) -> None:
        super().__init__(schedule, redirects)
        self.listener = listener
        self.scanner = ReplyScanner()
        self.destination: ReplySink | None = None
        self.collected: list[bytes] = []
        self.counts = False
        self.late = False
        self.late_sent = 0
        self.arrays = False
        self.read_only = False
        self.errors = errors
        self.large = 1 << 20
        self.reads_only = False
        self.doubts = False

    def _continue(self, data: bytes, p: bytes, i: int, size: int) -> int:
        n = self.scanner.walk(p, i, size)
        if n < 0:
            return -1
        if n == i:
            return -2
        if self.collected:
            assert self.head is not None, "a frame is collected for the head"
            self.collected.append(self._cut(data, p, i, n))
            if self.scanner.elements > 0:
                return n
            pieces = self.collected
            self.collected = []
            return self._complete_frame(self.head, pieces, n)
        if self.destination is not None:
            self.deliver(self.destination, self._cut(data, p, i, n))
        if self.counts and self.head is not None:
            if self.head.action == TRACE:
                self.head.payload.comes(n - i, self.scanner.elements == 0)
            elif self.head.action == JOIN:
                part: ReplyPart = self.head.payload
                whole = self.scanner.elements == 0
                part.take(self._cut(data, p, i, n), 1 if whole else 0, whole)
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
            if self.doubts and self.redirects is not None:
                n = scanner.nothing_end(p, i, size)
                if n != 0:
                    if n > 0 and i == start:
                        return self._redirected(entry, p, i, n)
                    break
            n = scanner.walk(p, i, size)
            if n < 0:
                return -1
            if n == i:
                break
            if p[i] == _MINUS:
                if self.redirects is not None and (redirected(p, i, n) or (self.reads_only and unable(p, i, n))):
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
            if done == due or i >= size or p[i] == _PUSH or p[i] == _ATTRIBUTE or (self.arrays and p[i] == _STAR):
                break
        if i == start:
            return -2
        return self._pass_on(entry, data, p, start, begun, i, done)

    def _pass_on(self, entry: InFlightEntry, data: bytes, p: bytes, start: int, begun: int, i: int, done: int) -> int:
        # Of the head's replies, those up to ``i`` leave as they are: so many whole ones, and a part of what has begun.
        scanner, sink = self.scanner, entry.sink
        self.deliver(sink, self._cut(data, p, start, i))
        if scanner.elements > 0:
            self.destination = sink
            self.counts = True
            if scanner.bulk > self.large:
                sink.large_reply_begins(entry.due, done, i - begun + scanner.bulk, 0)
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
            if self.redirects is not None and (redirected(p, i, n) or (self.reads_only and unable(p, i, n))):
                return self._redirected(entry, p, i, n)
            self._read_error(p, i, n)
            if self.errors is not None and action in _ANSWERS and entry.sink.client() is not None:
                self.errors.add(p, i, n)
        if action == HIDE:
            return self._stream(data, p, i, size, None, True)
        if action == EDIT_ERROR and p[i] != _MINUS:
            entry.action = FORWARD
            return i
        if self.doubts and self.redirects is not None and (action == TRACE or action == EDIT or action == EDIT_SOME):
            n = self.scanner.nothing_end(p, i, size)
            if n != 0:
                return n if n < 0 else self._redirected(entry, p, i, n)
        if action == EDIT_SOME and p[i] != _MINUS:
            return self._edit_some(entry, data, p, i, size)
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
        return self._collect(entry, data, p, i, size)

    def _edit_some(self, entry: InFlightEntry, data: bytes, p: bytes, start: int, size: int) -> int:
        # Frames that pass leave as they are, as many as have come; then, or at first, one is collected.
        scanner = self.scanner
        i = begun = start
        done, passes = 0, 1
        while done < entry.due and i < size and p[i] != _MINUS and p[i] != _PUSH and p[i] != _ATTRIBUTE:
            passes = self._passes(entry, p, i, size)
            if passes <= 0:
                break
            n = scanner.walk(p, i, size)
            if n < 0:
                return -1
            begun = i
            i = n
            if scanner.elements > 0:
                break
            done += 1
        if i == start:
            return -2 if passes < 0 else self._collect(entry, data, p, i, size)
        return self._pass_on(entry, data, p, start, begun, i, done)

    def _passes(self, entry: InFlightEntry, p: bytes, i: int, size: int) -> int:
        # Whether a frame passes as it is: 1 if so, 0 if not, and -1 if more bytes are needed.
        n = self.scanner.line_end(p, i, size)
        if n < 0:
            return -1
        opening: bytes = entry.payload.opening
        told = len(opening) == _BEGINNING and p[i] == _DOLLAR and n + _BEGINNING <= size
        if told and (p[n] != opening[0] or p[n + 1] != opening[1] or p[n + 2] != opening[2]):
            return 1  # also if the string is shorter than that: no opening has the end of a line
        passes: int = entry.payload.passes(p[i : min(size, n + _BEGINNING)])
        return passes

    def _collect(self, entry: InFlightEntry, data: bytes, p: bytes, i: int, size: int) -> int:
        # A frame that is needed whole. What has come of it is not scanned again when more comes, and is joined once.
        n = self.scanner.walk(p, i, size)
        if n < 0:
            return -1
        if n == i:
            return -2
        if self.scanner.elements > 0:
            self.collected.append(self._cut(data, p, i, n))
            self.destination = None  # its client has been sent nothing of it
            return n
        return self._complete_frame(entry, [self._cut(data, p, i, n)], n)

    def _complete_frame(self, entry: InFlightEntry, pieces: list[bytes], n: int) -> int:
        # A frame that was needed whole ends at ``n``. Returns LATE - n if nothing behind it may be looked at yet.
        begun: bytes = pieces[0]
        if entry.action != EDIT_SOME or begun[0] == _MINUS:
            return n if self._whole(entry, taken(pieces)) else -1
        self.late_sent = sum(map(len, pieces))
        parts: list[bytes] | None = entry.payload.begin(pieces, self)
        if parts is None:
            return _LATE - n
        self._bring_edited(entry, self.late_sent, taken(parts))
        return n

    def _whole(self, entry: InFlightEntry, frame: bytes) -> bool:
        # Whether the frame fits the entry.
        action = entry.action
        if action == REPLACE:
            self.deliver(entry.sink, entry.payload)
        elif action == EDIT or action == EDIT_ERROR or action == EDIT_SOME:
            self._bring_edited(entry, len(frame), entry.payload(frame))
            return True
        elif action == NOTE:
            entry.payload(frame)
        elif action == UNWRAP:
            self.deliver(entry.sink, entry.payload[1](frame))
        elif frame[0] == _MINUS:  # CONFIRM: one error for the whole command
            self.deliver(entry.sink, frame)
            self.complete(entry, entry.due if entry.due > 0 else 1, True)
            return True
        else:
            return False
        self.complete(entry, 1)
        return True

    def _bring_edited(self, entry: InFlightEntry, sent: int, edited: bytes) -> None:
        self.deliver(entry.sink, edited)
        self.complete_edited(entry, sent, len(edited))

    def complete_edited(self, entry: InFlightEntry, sent: int, size: int) -> None:
        """Of the head's frame of ``sent`` bytes the client has got ``size`` ones."""
        if size > self.large:
            entry.sink.large_reply_begins(entry.due, 0, size, sent if sent < size else 0)
        self.complete(entry, 1)

    def _redirected(self, entry: InFlightEntry, p: bytes, i: int, n: int) -> int:
        # The head's next frame is an error that says where else its command can run.
        redirects = self.redirects
        assert redirects is not None
        error = redirects(self, entry, p[i:n])
        if self.closed:
            return n  # all that it owes comes from elsewhere
        if error is None:
            self.complete(entry, 1)
            return n
        self.redirects = None
        went = 0
        if entry.action != FORWARD:
            went = self._special(entry, error, error, 0, len(error))
        if went == 0 and not self.closed:  # only looked at
            went = self._forward(entry, error, error, 0, len(error))
        self.redirects = redirects
        return n if went >= 0 else went

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
        # All frames that have come, up to the next error: who looks at errors sees each of them first.
        scanner = self.scanner
        start, done, due = i, 0, entry.due
        while True:
            n = scanner.walk(p, i, size)
            if n < 0:
                return -1
            if n == i:
                break
            i = n
            if scanner.elements > 0:
                break
            done += 1
            if done == due or i >= size or p[i] == _MINUS or p[i] == _PUSH or p[i] == _ATTRIBUTE:
                break
            if self.arrays and p[i] == _STAR:
                break
        if i == start:
            return -2
        whole = scanner.elements == 0
        if not whole:
            self.destination = None
            self.counts = True
            if scanner.bulk > self.large:
                self.listener.on_large_head(entry.sink)
        if done > 0:
            self.complete(entry, done)
        part: ReplyPart = entry.payload
        part.take(self._cut(data, p, start, i), done, whole)
        return i

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
        if unwraps:
            self.array_end = None  # each member is a reply by itself
        else:
            self.deliver(entry.sink, b"*%d\r\n" % (count - hidden))
        return n

    def _read_error(self, p: bytes, i: int, size: int) -> None:
        if self.read_only:
            return
        if read_only(p, i, size):
            self.read_only = True  # the server is a replica now, or a script has returned such an error
        elif refuses_command(p, i, size):
            # The known permissions of this user may be out of date.
            n = self.scanner.line_end(p, i, size)
            if n > 0:
                self.listener.command_refused(p[i:n])

    def _cut(self, data: bytes, p: bytes, start: int, end: int) -> bytes:
        # Compiled, this cuts from the pointer; a cut from the object would create a slice object.
        return data if start == 0 and end == len(data) else p[start:end]

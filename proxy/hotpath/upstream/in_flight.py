# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""Replies in flight: the queue that says for each reply of an upstream whose it is.

Redis answers in order, so one queue of entries is all there is to reply handling. An entry names its sink, how
many frames are due, and the action on them:

    FORWARD   to the sink, as they are; neighbouring entries of one sink are one entry with a larger count
    HIDE      dropped: the reply to a command that the proxy added
    LOCAL     no frame at all: ``payload`` leaves in this place. Never at the head between calls: it is flushed when
              it is queued and after every entry that ends, hidden ones too
    REPLACE   the frame is dropped and ``payload`` leaves in its place (a refusal inside MULTI)
    EDIT      the whole frame is handed to ``payload(frame)``, and what that returns is sent
    EDIT_ERROR as EDIT if the frame is an error, otherwise as FORWARD
    EDIT_SOME as EDIT, but ``payload`` is a LateEdit: it may take several turns of the event loop, and lets frames pass
              as they are by how they begin
    PEEK      the first line is shown to ``payload(line)``; then as FORWARD
    MEMBERS   EXEC's array: ``payload`` maps positions to entries for these members; the rest is forwarded
    CONFIRM   SUBSCRIBE and its relatives: ``payload`` is (verb, count); count() gives the number of confirmations where
              the command did not name it
    NOTE      the whole frame is handed to ``payload(frame)``, and nothing is sent: a hidden reply that tells something
    UNWRAP    EXEC's reply where the proxy itself has put MULTI and EXEC around a client's command: ``payload`` is
              (members, instead). Of the array each member has an entry, and its head is dropped; any other reply is
              handed whole to instead(frame), and what that returns is sent
    TRACE     as FORWARD, one frame; ``payload.begins(line)`` is told its first line, ``payload.comes(size, whole)``
              each piece of it
    JOIN      nothing is sent: ``payload``, a ReplyPart, takes the frames in the pieces in which they come

What they bring gathers with their sinks until the round ends, so each is written to once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from proxy.hotpath.upstream.sender_listener import ReplyRecipient

# Under two names each: C integers in here, Python's for everybody else.
_FORWARD = 0
_HIDE = 1
_LOCAL = 2
_REPLACE = 3
_EDIT = 4
_PEEK = 5
_MEMBERS = 6
_CONFIRM = 7
_NOTE = 8
_UNWRAP = 9
_TRACE = 10
_JOIN = 11
_EDIT_ERROR = 12
_EDIT_SOME = 13
FORWARD, HIDE, LOCAL, REPLACE, EDIT, EDIT_ERROR, PEEK = _FORWARD, _HIDE, _LOCAL, _REPLACE, _EDIT, _EDIT_ERROR, _PEEK
MEMBERS, CONFIRM, NOTE, UNWRAP, TRACE, JOIN = _MEMBERS, _CONFIRM, _NOTE, _UNWRAP, _TRACE, _JOIN
EDIT_SOME = _EDIT_SOME

RAN = object()
"""In ``InFlightEntry.sent``: the command may have run, even if its reply reads as a node's refusal: it was part of a
transaction that has run, or answers errors of its own making."""
ONCE = object()
"""In ``InFlightEntry.sent``: the command is for this node alone, and must not be sent again."""
AS_IT_IS = object()
"""In ``InFlightEntry.sent``: the action on the reply gets a node's refusal as it is, and decides what becomes of it."""
READ_AS_IT_IS = object()
"""The same of a command that only reads, and whose reply only tells whether another one counts: its order does not
matter."""


class ReplySink:
    """Where replies go: a client's sender, or Keyrail itself. ``write`` takes their bytes.

    Of all replies that were ``requested``, so many are pending. While there are some, ``run`` is the last run that it
    has sent, of ``commands`` commands, unless that is long, and ``wrote`` says that not all of them are to commands
    that only read. ``ordered`` says that several sources still send it something.
    """

    def __init__(self) -> None:
        self.reset()
        self.out: list[bytes] = []

    def reset(self) -> None:
        """Nothing is pending. Compiled, a call of ``__init__`` would take several times as long."""
        self.pending_replies = 0
        self.requested = 0
        self.gone = False
        self.full = False
        self.notify_when_idle = False
        self.stalled = False
        self.ordered = False
        self.wrote = False
        self.low_water = 0
        self.run: bytes | None = None
        self.commands = 0
        self.write: Callable[[bytes], object] | None = None

    def put(self, chunk: bytes) -> bool:
        """Take bytes that leave at the end of the round; whether they are the first ones."""
        out = self.out
        out.append(chunk)
        return len(out) == 1

    def flush(self) -> None:
        """Send what this round has brought, in one write."""
        out = self.out
        if out:
            data = taken(out)
            if not self.gone and self.write is not None:
                self.write(data)

    def finished(self, position: int) -> bool:
        """Whether the commands whose replies were among the first ``position`` requested ones can no longer run, or
        nobody is there who would notice. Where several sources reply, they have come in the order of the commands."""
        return self.gone or self.requested - self.pending_replies >= position

    def large_reply_begins(self, due: int, done: int, size: int, stored: int) -> None:
        """Of the ``due`` replies that come next, the one behind ``done`` is large: see ``on_large_reply``."""
        # Whose reply it is can be told where all pending replies are to the last run.
        place = self.commands - (due - done)
        if self.pending_replies == due and self.run is not None and place >= 0:
            self.on_large_reply(self.run, place, size, stored)

    def on_large_reply(self, run: bytes, index: int, size: int, stored: int) -> None:
        """Of this run, the reply to the command at ``index`` is large: see ``SenderListener``."""

    def on_idle(self) -> None:
        """No reply is pending any more; called only while ``notify_when_idle``."""

    def on_resume(self) -> None:
        """At most ``low_water`` replies are pending; called only while ``stalled``."""

    def advance(self) -> None:
        """A pending reply has come; called only while ``ordered``, in place of ``on_idle`` and
        ``on_resume``."""

    def client(self) -> ReplyRecipient | None:
        """The client that gets what is delivered here; None where that is Keyrail itself."""
        return None


def taken(pieces: list[bytes]) -> bytes:
    """The pieces as one, taken out of the list."""
    whole = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    pieces.clear()
    return whole


class ReplyPart:
    """Takes frames that are parts of one reply."""

    def take(self, piece: bytes, frames: int, whole: bool) -> None:
        """The next bytes, in which so many frames end; ``whole`` says that the last one ends with them. An error
        comes at their beginning."""
        raise NotImplementedError


class InFlightEntry:
    """So many frames for one sink, and the action on them.

    ``sent`` is what was sent for them, where it can be sent again: the bytes of as many commands as frames are due at
    first, or the transaction that these commands are part of. Its bytes, of ``size``, are kept up to the last frame.
    ``on_lost`` is called if the connection is lost before that one."""

    def __init__(self, sink: ReplySink, due: int, action: int, payload: Any) -> None:
        self.sink = sink
        self.due = due
        self.action = action
        self.payload = payload
        self.sent: Any = None
        self.size = 0
        self.on_lost: Callable[[], object] | None = None
        self.next: InFlightEntry | None = None


class InFlightQueue:
    """The queue: what ``head`` has due comes next. ``dirty`` were brought something in this round, and ``calls`` have
    to be told that fewer replies are pending. ``kept`` is the size of the bytes that are kept to be sent again.
    ``array_end`` is the entry of the last member of an array that was expanded, while some of them are due."""

    def __init__(self) -> None:
        self.head: InFlightEntry | None = None
        self.tail: InFlightEntry | None = None
        self.array_end: InFlightEntry | None = None
        self.kept = 0
        self.dirty: list[ReplySink] = []
        self.calls: list[ReplySink] = []

    def entries(self) -> Iterator[InFlightEntry]:
        """All entries, the next one first."""
        entry = self.head
        while entry is not None:
            yield entry
            entry = entry.next

    def add(self, entry: InFlightEntry) -> None:
        """Put an entry behind all others."""
        if self.tail is None:
            self.head = entry
        else:
            self.tail.next = entry
        self.tail = entry

    def forward(self, sink: ReplySink, due: int) -> None:
        """Expect so many more frames for this sink, to be forwarded as they are."""
        tail = self.tail
        if tail is not None and tail.sink is sink and tail.action == _FORWARD:
            tail.due += due
            return
        self.await_frames(sink, due, _FORWARD, None, None, 0)

    def await_frames(self, sink: ReplySink, due: int, action: int, payload: Any, sent: bytes | None, size: int) -> None:
        """Expect so many frames for this sink, in an entry of their own that keeps what was ``sent``."""
        # Almost every command needs one of these. Compiled, a call of __init__ would take twice as long.
        entry = InFlightEntry.__new__(InFlightEntry)
        entry.sink = sink
        entry.due = due
        entry.action = action
        entry.payload = payload
        entry.sent = sent
        entry.size = size
        entry.next = entry.on_lost = None
        self.kept += size
        self.add(entry)

    def split_head(self) -> None:
        """Let the head be of one frame, and another entry of those behind it."""
        head = self.head
        if head is None or head.due == 1:
            return
        rest = InFlightEntry(head.sink, head.due - 1, head.action, head.payload)
        rest.sent, rest.size, rest.next = head.sent, head.size, head.next
        head.due, head.size, head.next = 1, 0, rest
        if self.tail is head:
            self.tail = rest

    def spread_head(self, commands: Sequence[bytes]) -> None:
        """Let the head be of one frame, and so the entries of those behind it, which keep these ``commands``."""
        head = self.head
        assert head is not None, "something is due"
        assert head.due == len(commands), "each of them is due"
        behind = head.next
        self.kept -= head.size
        entry = head
        for number, command in enumerate(commands):
            if number > 0:
                entry.next = InFlightEntry(head.sink, 1, head.action, head.payload)
                entry = entry.next
            entry.due, entry.sent, entry.size = 1, command, len(command)
            self.kept += entry.size
        entry.next = behind
        if self.tail is head:
            self.tail = entry

    def insert_behind(self, entry: InFlightEntry, payload: bytes) -> InFlightEntry:
        """Bytes for the entry's sink that are no reply leave behind its frames. Nothing of the entry that this returns
        is due once they have left."""
        entry.sink.pending_replies += 1
        entry.sink.run = None
        local = InFlightEntry(entry.sink, 1, _LOCAL, payload)
        local.next, entry.next = entry.next, local
        if self.tail is entry:
            self.tail = local
        return local

    def deliver(self, sink: ReplySink, chunk: bytes) -> None:
        """Put bytes behind what the sink gets at the end of the round."""
        if sink.gone or not chunk:
            return
        if sink.put(chunk):
            self.dirty.append(sink)

    def leave_early(self, answers: Sequence[InFlightEntry]) -> None:
        """These LOCAL answers wait behind nothing of their own client, only behind others: they leave now."""
        for entry in answers:
            self.deliver(entry.sink, entry.payload)
            self._answered(entry.sink, 1)
            entry.sink, entry.payload = ReplySink(), b""
            entry.sink.pending_replies = 1
        self.end_round()

    def complete(self, entry: InFlightEntry, done: int, whole: bool = False) -> None:
        """The head has ``done`` frames less due, or nothing with ``whole``; LOCAL answers behind it are delivered."""
        entry.due -= done
        self._answered(entry.sink, done)
        if entry.due > 0 and not whole:
            return
        self.kept -= entry.size
        # An entry that has left refers to none behind it: whoever keeps one would keep all that ever follow, and to
        # free so long a chain takes more stack than there is.
        self.head, entry.next = entry.next, None
        if entry is self.array_end:
            self.array_end = None
        while self.head is not None and self.head.action == _LOCAL:
            local = self.head
            self.deliver(local.sink, local.payload)
            self._answered(local.sink, 1)
            local.due = 0
            self.head, local.next = local.next, None
        if self.head is None:
            self.tail = None

    def _answered(self, sink: ReplySink, done: int) -> None:
        sink.pending_replies -= done
        if sink.pending_replies == 0:
            sink.run = None
            sink.wrote = False
            if sink.notify_when_idle or sink.stalled or sink.ordered:
                self._call(sink)
        elif sink.ordered or (sink.stalled and sink.pending_replies <= sink.low_water):
            self._call(sink)

    def _call(self, sink: ReplySink) -> None:
        # Once for all replies that come one after the other: the parts of one reply may be many.
        calls = self.calls
        count = len(calls)
        if count == 0 or calls[count - 1] is not sink:
            calls.append(sink)

    def expand(self, entry: InFlightEntry, actions: Mapping[int, tuple[int, Any]], count: int) -> int:
        """The head becomes entries for ``count`` frames: ``actions`` by position, the others are forwarded.

        Returns how many of them are hidden, or -1 if an action is for a frame that will not come.
        """
        entries = []
        position = 0
        for index in sorted(actions):
            action, payload = actions[index]
            if index >= count:
                return -1
            if index > position:
                entries.append(InFlightEntry(entry.sink, index - position, _FORWARD, None))
            entries.append(InFlightEntry(entry.sink, 1, action, payload))
            position = index + 1
        if position < count:
            entries.append(InFlightEntry(entry.sink, count - position, _FORWARD, None))
        entry.sink.pending_replies += count - 1
        self.kept -= entry.size
        behind, entry.next = entry.next, None
        for each in reversed(entries):
            each.sent = RAN
            each.next = behind
            behind = each
        self.array_end = entries[len(entries) - 1]
        if self.tail is entry:
            self.tail = self.array_end
        self.head = behind
        return sum(1 for each in entries if each.action in (_HIDE, _NOTE))

    def end_round(self) -> None:
        """Send what was delivered, and tell those who have few enough replies pending."""
        dirty = self.dirty
        if dirty:
            self.dirty = []
            for sink in dirty:
                sink.flush()
                if sink.full:
                    self.overflowing(sink)
        while self.calls:
            calls = self.calls
            self.calls = []
            for sink in calls:
                if sink.ordered:
                    sink.advance()
                    continue
                # What ends with the last reply has ended before the next command is looked at.
                if sink.notify_when_idle and sink.pending_replies == 0:
                    sink.on_idle()
                if sink.stalled:
                    sink.on_resume()

    def clear(self) -> list[InFlightEntry]:
        """No reply comes any more: return the entries of those who still expect one, in their order. LOCAL answers of
        others are delivered. See ``settle``."""
        unanswered: set[ReplySink] = set()
        lost: list[InFlightEntry] = []
        entry = self.head
        while entry is not None:
            if entry.action != _LOCAL:
                unanswered.add(entry.sink)
            if entry.sink in unanswered:
                lost.append(entry)
            else:
                self.deliver(entry.sink, entry.payload)
                self._answered(entry.sink, 1)
                entry.due = 0
            next_entry = entry.next
            entry.next = None
            entry = next_entry
        self.kept = 0
        self.head = None
        self.tail = None
        self.array_end = None
        return lost

    def settle(self, lost: list[InFlightEntry]) -> None:
        """Those who have gone wait for none of these any more. A client refers to its sender, and that to the client,
        until nothing is pending: so one that was not told would never be freed."""
        for entry in lost:
            if entry.sink.gone:
                self._answered(entry.sink, entry.due if entry.due > 0 else 1)

    def overflowing(self, sink: ReplySink) -> None:
        """``sink`` was sent more although it does not take what it has."""

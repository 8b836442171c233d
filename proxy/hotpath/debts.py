# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""What is owed: the queue that says for each reply of an upstream whose it is.

Redis answers in order, so one queue of entries is all there is to reply handling. An entry names its creditor, how
many frames are due, and their fate:

    FORWARD   to the creditor, as they are; neighbouring entries of one creditor are one entry with a larger count
    HIDE      dropped: the reply to a command that the proxy added
    LOCAL     no frame at all: ``payload`` leaves in this place. Never at the head between calls: it is flushed when
              it is queued and after every entry that ends, hidden ones too
    REPLACE   the frame is dropped and ``payload`` leaves in its place (a refusal inside MULTI)
    EDIT      the whole frame is handed to ``payload(frame)``, and what that returns is sent
    PEEK      the first line is shown to ``payload(line)``; then as FORWARD
    MEMBERS   EXEC's array: ``payload`` maps positions to entries for these members; the rest is forwarded
    CONFIRM   SUBSCRIBE and its kin: ``payload`` is (verb, count); count() gives the number of confirmations where the
              command did not name it
    NOTE      the whole frame is handed to ``payload(frame)``, and nothing is sent: a hidden reply that tells something
    UNWRAP    EXEC's reply where the proxy itself has put MULTI and EXEC around a client's command: ``payload`` is
              (members, instead). Of the array each member has an entry, and its head is dropped; any other reply is
              handed whole to instead(frame), and what that returns is sent
    MEASURE   as FORWARD, one frame; ``payload.begins(line)`` is told its first line, ``payload.comes(size, whole)``
              each piece of it

What they bring gathers with their creditors until the round ends, so each is written to once.
"""

from collections.abc import Callable, Iterator
from typing import Any

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
_MEASURE = 10
FORWARD = _FORWARD
HIDE = _HIDE
LOCAL = _LOCAL
REPLACE = _REPLACE
EDIT = _EDIT
PEEK = _PEEK
MEMBERS = _MEMBERS
CONFIRM = _CONFIRM
NOTE = _NOTE
UNWRAP = _UNWRAP
MEASURE = _MEASURE


class Creditor:
    """One to whom replies are owed: a client. ``write`` takes bytes for it.

    While replies are owed, ``run`` is the last run that it has sent, of ``commands`` commands, unless that is long, and
    ``wrote`` says that not all of them are to commands that only read. ``ordered`` says that several sources owe it
    something.
    """

    def __init__(self) -> None:
        self.owed = 0
        self.gone = False
        self.full = False
        self.attentive = False
        self.stalled = False
        self.ordered = False
        self.wrote = False
        self.low_water = 0
        self.run: bytes | None = None
        self.commands = 0
        self.out: list[bytes] = []
        self.write: Callable[[bytes], object] | None = None

    def flush(self) -> None:
        """Send what this round has brought, in one write."""
        out = self.out
        if out:
            data = out[0] if len(out) == 1 else b"".join(out)
            out.clear()
            if not self.gone and self.write is not None:
                self.write(data)

    def weighed(self, run: bytes, index: int, size: int) -> None:
        """Of this run, the command at ``index`` has a reply of ``size`` bytes and more, which is large."""

    def settled(self) -> None:
        """Nothing is owed any more; called only while ``attentive``."""

    def relieved(self) -> None:
        """At most ``low_water`` replies are owed; called only while ``stalled``."""

    def advance(self) -> None:
        """Something that was owed has come; called only while ``ordered``, in place of ``settled`` and ``relieved``."""

    def client(self) -> "Creditor | None":
        """The client that gets what is delivered here; None where that is Keyrail itself."""
        return None


class Entry:
    """So many frames for one creditor, and their fate."""

    def __init__(self, creditor: Creditor, due: int, fate: int, payload: Any) -> None:
        self.creditor = creditor
        self.due = due
        self.fate = fate
        self.payload = payload
        self.next: Entry | None = None


class Debts:
    """The queue: what ``head`` has due comes next. ``dirty`` were brought something in this round, and ``calls`` have
    to be told that they are owed less."""

    def __init__(self) -> None:
        self.head: Entry | None = None
        self.tail: Entry | None = None
        self.dirty: list[Creditor] = []
        self.calls: list[Creditor] = []

    def entries(self) -> Iterator[Entry]:
        """All that is owed now, what comes next first."""
        entry = self.head
        while entry is not None:
            yield entry
            entry = entry.next

    def add(self, entry: Entry) -> None:
        """What this one is owed comes behind all others."""
        if self.tail is None:
            self.head = entry
        else:
            self.tail.next = entry
        self.tail = entry

    def forward(self, creditor: Creditor, due: int) -> None:
        """So many frames more are owed to this one, as they are."""
        tail = self.tail
        if tail is not None and tail.creditor is creditor and tail.fate == _FORWARD:
            tail.due += due
            return
        # Almost every command needs one of these. Compiled, a call of __init__ would take twice as long.
        entry = Entry.__new__(Entry)
        entry.creditor = creditor
        entry.due = due
        entry.fate = _FORWARD
        entry.payload = None
        entry.next = None
        self.add(entry)

    def deliver(self, creditor: Creditor, chunk: bytes) -> None:
        """Put bytes behind what the creditor gets at the end of the round."""
        if creditor.gone or not chunk:
            return
        if not creditor.out:
            self.dirty.append(creditor)
        creditor.out.append(chunk)

    def settle(self, entry: Entry, done: int, whole: bool = False) -> None:
        """The head has ``done`` frames less due, or nothing with ``whole``; LOCAL answers behind it are delivered."""
        entry.due -= done
        self._paid(entry.creditor, done)
        if entry.due > 0 and not whole:
            return
        self.head = entry.next
        while self.head is not None and self.head.fate == _LOCAL:
            local = self.head
            self.deliver(local.creditor, local.payload)
            self._paid(local.creditor, 1)
            self.head = local.next
        if self.head is None:
            self.tail = None

    def _paid(self, creditor: Creditor, done: int) -> None:
        creditor.owed -= done
        if creditor.owed == 0:
            creditor.run = None
            creditor.wrote = False
            if creditor.attentive or creditor.stalled or creditor.ordered:
                self.calls.append(creditor)
        elif creditor.ordered or (creditor.stalled and creditor.owed <= creditor.low_water):
            self.calls.append(creditor)

    def end_round(self) -> None:
        """Send what was delivered, and tell those who are owed little enough."""
        dirty = self.dirty
        if dirty:
            self.dirty = []
            for creditor in dirty:
                creditor.flush()
                if creditor.full:
                    self.overflowing(creditor)
        while self.calls:
            calls = self.calls
            self.calls = []
            for creditor in calls:
                if creditor.ordered:
                    creditor.advance()
                    continue
                # What ends with the last reply has ended before the next command is looked at.
                if creditor.attentive and creditor.owed == 0:
                    creditor.settled()
                if creditor.stalled:
                    creditor.relieved()

    def forfeit(self) -> list[Creditor]:
        """No reply comes any more: who is still owed one. LOCAL answers of others are delivered."""
        losers: list[Creditor] = []
        entry = self.head
        while entry is not None:
            if entry.fate != _LOCAL and entry.creditor not in losers:
                losers.append(entry.creditor)
            elif entry.fate == _LOCAL and entry.creditor not in losers:
                self.deliver(entry.creditor, entry.payload)
                self._paid(entry.creditor, 1)
            following = entry.next
            entry.next = None
            entry = following
        self.head = None
        self.tail = None
        return losers

    def overflowing(self, creditor: Creditor) -> None:
        """``creditor`` was sent more although it does not take what it has."""

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""Replies of several nodes that become one reply, in the place where the client awaits it.

    MGET a b c d    node 1: *2 va vd    *1 vb
                    node 2: *1 vc                  the client: *4 va vb vc vd

Each connection has one entry in its queue for all commands of the join that it was sent; its payload is a ``JoinPart``.
What it sends is kept as it comes, a run of frames, and looked at when the last frame of the join has come: then
``joined`` makes one reply of all frames. It is a plain function, and reads errors, too. Values by key and sums, which
are frequent, are made one in here. No more than ``most`` bytes are kept: behind that all is dropped, and the reply is
an error. While joins keep many bytes for a client, it asks for no more.

``edit``, if set, is applied to the joined reply. If ``joined`` or ``edit`` returns nothing, the segment's reply is
still to come: another join has been begun for it, or the edit takes several turns of the event loop.
"""

from collections.abc import Callable, Sequence

from proxy.hotpath.order.reply_order import MOST_HELD, LatePlace, Segment
from proxy.hotpath.upstream.in_flight import ReplyPart, taken
from proxy.hotpath.upstream.late_replies import LateEdit
from proxy.wire.reply import ReplyScanner

_MOST_JOINED = 256 << 20
MOST_JOINED = _MOST_JOINED
"""Bytes of one joined reply."""
TOO_LARGE = b"-ERR keyrail: the reply is larger than %d bytes: ask for less at a time\r\n"

_OTHER_KEYS = b"-ERR keyrail: a node has answered for another number of keys than it was asked for\r\n"

_MINUS = 45
_COLON = 58


class JoinPart(ReplyPart):
    """The frames that one connection sends for a join: the next one is of command ``index``. ``whole``: what has come
    ends with a frame."""

    def __init__(self, join: "Join", index: int) -> None:
        self.join = join
        self.index = index
        self.whole = True
        self.run = self.join.begin_run(index)

    def set_apart(self) -> "JoinPart":
        """The next frame comes from another connection, to the part that this returns."""
        apart = self.join.expect(self.index)
        self.index += 1
        self.run = self.join.begin_run(self.index)
        return apart

    def take(self, piece: bytes, frames: int, whole: bool) -> None:
        """The next bytes, in which so many frames end."""
        join = self.join
        if self.whole and piece[0] == _MINUS:
            join.errors += 1
        self.whole = whole
        if join.keeps(len(piece)):
            self.run.append(piece)
        self.index += frames
        if frames > 0:
            join.came(frames)


class Join:
    """The frames of ``commands`` commands, and the segment where their joined reply goes.

    ``runs`` are the frames that came one after the other from one connection, and ``firsts`` says of which command the
    first one of each run is.
    """

    def __init__(
        self, segment: Segment, commands: int, joined: Callable[[Sequence[bytes]], bytes] | None = None
    ) -> None:
        assert commands > 0, "the client would wait for ever"
        self.segment: Segment | None = segment
        self.commands = commands
        self.missing = commands
        self.runs: list[list[bytes]] = []
        self.firsts: list[int] = []
        self.size = 0
        self.dropped = False
        self.most = _MOST_JOINED
        self.errors = 0
        self.joined = joined
        self.edit: Callable[[bytes], bytes] | None = None

    def expect(self, index: int) -> JoinPart:
        """Whoever is sent command ``index``, and those behind it, has this as payload of its entry."""
        return JoinPart(self, index)

    def begin_run(self, index: int) -> list[bytes]:
        """What comes from command ``index`` on, from one connection, goes here."""
        run: list[bytes] = []
        self.runs.append(run)
        self.firsts.append(index)
        return run

    def keeps(self, size: int) -> bool:
        """Whether bytes of this size are kept. Where it were too many, by themselves or with those of other joins of
        the client, none of this join are."""
        segment = self.segment
        assert segment is not None, "a frame has come after the last one"
        order = segment.order
        if self.dropped:
            return False
        self.size += size
        order.joining += size
        if order.joining > MOST_HELD:
            order.asker.stalled = True
        if self.size <= self.most and order.joining <= _MOST_JOINED:
            return True
        self.dropped = True
        for run in self.runs:
            run.clear()
        order.joining -= self.size
        self.size = 0
        return False

    def came(self, frames: int) -> None:
        """So many more replies have come."""
        self.missing -= frames
        if self.missing == 0:
            self._finish()

    def _finish(self) -> None:
        segment = self.segment
        assert segment is not None, "a join is finished once"
        if self.dropped:
            reply = TOO_LARGE % self.most
        elif self.errors > 0:
            reply = self.failed()
        else:
            reply = self.reply()
        # Nothing of a circle stays: a segment's entry has this as payload.
        self.segment = None
        self.runs = []
        segment.order.joining -= self.size
        if reply and self.edit is not None:
            reply = _edited(self.edit, reply, segment)
        if reply:
            segment.order.bring(segment, reply)

    def frames(self) -> list[bytes]:
        """The replies to all commands."""
        frames: list[bytes] = [b""] * self.commands
        scanner = ReplyScanner()
        number = 0
        while number < len(self.runs):
            run = b"".join(self.runs[number])
            index = self.firsts[number]
            i = 0
            while i < len(run):
                end = scanner.whole(run, i, len(run))
                frames[index] = run[i:end]
                index += 1
                i = end
            number += 1
        return frames

    def failed(self) -> bytes:
        """The joined reply, where a frame is an error."""
        assert self.joined is not None, "where it is None, a subclass makes the reply"
        return self.joined(self.frames())

    def reply(self) -> bytes:
        """The joined reply, where no frame is an error."""
        assert self.joined is not None, "where it is None, a subclass makes the reply"
        return self.joined(self.frames())


def _edited(edit: Callable[[bytes], bytes], reply: bytes, segment: Segment) -> bytes:
    if not isinstance(edit, LateEdit):
        return edit(reply)
    parts = edit.begin([reply], LatePlace(segment))
    return b"" if parts is None else taken(parts)


class ValuesJoin(Join):
    """Arrays of values by key: ``places`` says for each command where its values go."""

    def __init__(
        self, segment: Segment, places: list[list[int]], keys: int, joined: Callable[[Sequence[bytes]], bytes]
    ) -> None:
        super().__init__(segment, len(places), joined)
        self.places = places
        self.keys = keys

    def reply(self) -> bytes:
        """One array, in the order of the keys."""
        return values_by_key(self.frames(), self.places, self.keys)


def values_by_key(frames: list[bytes], places: list[list[int]], keys: int) -> bytes:
    """One array of the values in these arrays; ``places`` says for each array where its values go."""
    values: list[bytes] = [b""] * (keys + 1)
    values[0] = b"*%d\r\n" % keys
    command = 0
    while command < len(places):
        into = places[command]
        frame = frames[command]
        if len(into) == 1 and frame.startswith(b"*1\r\n"):
            values[into[0] + 1] = frame[4:]
        elif not _place(frame, len(frame), into, values):
            return _OTHER_KEYS
        command += 1
    return b"".join(values)


def _place(p: bytes, size: int, places: list[int], values: list[bytes]) -> bool:
    # The elements of one array, each at its place.
    i = 1
    count = 0
    while i < size and p[i] >= 48 and p[i] <= 57:
        count = count * 10 + p[i] - 48
        i += 1
    i += 2
    if p[0] != 42 or count != len(places):
        return False
    scanner = ReplyScanner()
    for place in places:
        n = scanner.whole(p, i, size)
        if n < 0:
            return False
        values[place + 1] = p[i:n]
        i = n
    return True


class SumJoin(Join):
    """Integers, summed."""

    def reply(self) -> bytes:
        """The sum."""
        return sum_of(self.frames())


def sum_of(frames: list[bytes]) -> bytes:
    """The sum of integers; a frame that is none, if there is one."""
    total = 0
    for frame in frames:
        if frame[0] != _COLON:
            return frame
        total += int(frame[1 : len(frame) - 2])
    return b":%d\r\n" % total

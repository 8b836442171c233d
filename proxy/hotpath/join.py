# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""Replies of several nodes that become one reply, in the place where the client awaits it.

    MGET a b c d    node 1: *2 va vd    *1 vb
                    node 2: *1 vc                  the client: *4 va vb vc vd

Each connection has one entry in its queue for all commands of the join that it was sent; its payload is a ``JoinPart``.
When the last frame has come, ``joined`` makes one reply of them; it is a plain function, and reads errors, too. Values
by key and sums, which are frequent, are made one in here. No more than ``most`` bytes are kept: behind that the rest is
dropped, and the reply is an error.

``edit``, if set, is applied to the joined reply. If ``joined`` or ``edit`` returns nothing, the segment's reply is
still to come: another join has been begun for it.
"""

from collections.abc import Callable, Sequence

from proxy.hotpath.in_flight import ReplyPart
from proxy.hotpath.reply_order import Segment
from proxy.wire.reply import ReplyScanner

_MOST_JOINED = 256 << 20
MOST_JOINED = _MOST_JOINED
"""Bytes of one joined reply."""

_MINUS = 45
_COLON = 58


class JoinPart(ReplyPart):
    """The frames that one connection sends for a join: the next one is of command ``index``."""

    def __init__(self, join: "Join", index: int) -> None:
        self.join = join
        self.index = index
        self.pieces: list[bytes] = []

    def set_apart(self) -> "JoinPart":
        """The next frame comes from another connection, to the part that this returns."""
        self.index += 1
        return self.join.expect(self.index - 1)

    def take(self, piece: bytes, whole: bool) -> None:
        """The next piece of a frame."""
        join = self.join
        join.size += len(piece)
        if join.size > join.most:
            self.pieces.clear()
            piece = b""
        if not whole:
            self.pieces.append(piece)
            return
        if self.pieces:
            self.pieces.append(piece)
            piece = b"".join(self.pieces)
            self.pieces.clear()
        index = self.index
        self.index = index + 1
        join.came(index, piece)


class Join:
    """The frames of ``commands`` commands, and the segment where their joined reply goes."""

    def __init__(self, segment: Segment, commands: int, joined: Callable[[Sequence[bytes]], bytes]) -> None:
        self.segment: Segment | None = segment
        self.frames: list[bytes] = [b""] * commands
        self.missing = commands
        self.size = 0
        self.most = _MOST_JOINED
        self.errors = 0
        self.joined = joined
        self.edit: Callable[[bytes], bytes] | None = None

    def expect(self, index: int) -> JoinPart:
        """Whoever is sent command ``index``, and those behind it, has this as payload of its entry."""
        return JoinPart(self, index)

    def came(self, index: int, frame: bytes) -> None:
        """The reply to command ``index`` has come; empty if it was dropped."""
        if frame and frame[0] == _MINUS:
            self.errors += 1
        self.frames[index] = frame
        self.missing -= 1
        if self.missing == 0:
            self._finish()

    def _finish(self) -> None:
        segment = self.segment
        assert segment is not None, "a join is finished once"
        if self.size > self.most:
            reply = b"-ERR keyrail: the reply is larger than %d bytes: ask for less at a time\r\n" % self.most
        elif self.errors > 0:
            reply = self.joined(self.frames)
        else:
            reply = self.reply()
        # Nothing of a circle stays: a segment's entry has this as payload.
        self.segment = None
        self.frames = []
        if reply and self.edit is not None:
            reply = self.edit(reply)
        if reply:
            segment.order.bring(segment, reply)

    def reply(self) -> bytes:
        """The joined reply, where no frame is an error."""
        return self.joined(self.frames)


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
        values: list[bytes] = [b""] * (self.keys + 1)
        values[0] = b"*%d\r\n" % self.keys
        command = 0
        while command < len(self.places):
            places = self.places[command]
            frame = self.frames[command]
            if len(places) == 1 and frame.startswith(b"*1\r\n"):
                values[places[0] + 1] = frame[4:]
            elif not _place(frame, len(frame), places, values):
                return b"-ERR keyrail: a node has answered for another number of keys than it was asked for\r\n"
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
        total = 0
        for frame in self.frames:
            if frame[0] != _COLON:
                return frame
            total += int(frame[1 : len(frame) - 2])
        return b":%d\r\n" % total

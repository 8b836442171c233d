# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""Replies of several connections to what a client has sent in one read, in the client's order.

A pipeline has keys of several nodes. Each node gets its commands in one piece, with one entry in the queue of its
connection, and one strand takes the replies:

    the client sends    a1 b1 b2 a2 c1
    connection A        a1 a2               a strand of 2 replies
    connection B        b1 b2               a strand of 2 replies
    connection C        c1                  a strand of 1 reply
    turns               A B B A C

They leave together when all have come, as those of one Redis do that has read so many commands: each write to the
client costs as much as several commands. Where many bytes wait, those leave that have their turn. Where replies are
large, or one of them is to come from elsewhere, this is taken apart: each turn becomes a segment of its own, which the
other kinds of replies know how to deal with.
"""

from collections.abc import Iterator
from itertools import groupby

from proxy.hotpath.order.reply_order import MOST_HELD, ReplyOrder, Segment
from proxy.hotpath.upstream.in_flight import FORWARD, InFlightEntry, ReplySink
from proxy.hotpath.upstream.sender_listener import ReplyRecipient
from proxy.hotpath.upstream.splice import Splice
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.wire.reply import ReplyScanner
from proxy.wire.request import COMPLETE, Request, RequestLimits

_ENOUGH = 16384
"""Bytes that leave although replies are still to come."""
_MOST_WAITING = 65536
"""Bytes of one strand that wait for their turn, or for the rest of a reply."""
_SPACE = Splice()
_SCANNER = ReplyScanner()
_ANYTHING = RequestLimits(1 << 31, 1 << 31, 1 << 31, True)


class Strand(ReplySink):
    """The replies of one connection. ``chunk`` are the bytes that have come, of which those up to ``at`` have left.
    ``fresh``: some have come in this round. They are kept here alone: the sink's list stays empty."""

    def __init__(self, whole: "Interleaved", source: UpstreamPipeline) -> None:
        self.take_part(whole, source)

    def take_part(self, whole: "Interleaved", source: UpstreamPipeline) -> None:
        """Be empty, in this whole."""
        self.reset()
        self.whole = whole
        self.source = source
        self.chunk = b""
        self.at = 0
        self.fresh = False
        self.ordered = True

    def put(self, chunk: bytes) -> bool:
        """Put what has come behind what waits."""
        self.whole.order.size += len(chunk)
        self.whole.waiting += len(chunk)
        self.chunk = chunk if self.at == len(self.chunk) else self.chunk[self.at :] + chunk
        self.at = 0
        first = not self.fresh
        self.fresh = True
        return first

    def flush(self) -> None:
        """What this round has brought may have its turn."""
        if not self.fresh:
            return
        self.fresh = False
        whole = self.whole
        order = whole.order
        if self.pending_replies == 0:
            whole.unfinished -= 1
        if whole.unfinished == 0 or whole.waiting > _ENOUGH:
            whole.merge()
        # What is next waits for none of those that are held back, and must come.
        self.full = order.asker.full if order.is_next(whole) else order.size > MOST_HELD
        if len(self.chunk) - self.at > _MOST_WAITING:
            whole.take_apart()

    def advance(self) -> None:
        """A pending reply has come."""
        whole = self.whole
        if whole.unfinished == 0 or whole.asked > whole.pending_replies:
            whole.order.asker.advance()

    def on_large_reply(self, run: bytes, index: int, size: int, stored: int) -> None:
        """The reply to a command of this run is large."""
        self.whole.order.asker.on_large_reply(run, index, size, stored)

    def client(self) -> ReplyRecipient | None:
        """The client that gets what is delivered here."""
        return self.whole.order.asker.client()

    # Taken apart

    def hand_over(self, segment: Segment) -> None:
        """The next replies of this strand are the segment's from now on: as many as it was asked for."""
        segment.pending_replies = segment.asked
        while segment.pending_replies > 0:
            end = _SCANNER.whole(self.chunk, self.at, len(self.chunk))
            if end < 0:
                break
            segment.held.append(self.chunk[self.at : end])
            segment.pending_replies -= 1
            self.at = end
        if segment.pending_replies > 0:
            if self.at < len(self.chunk):
                segment.held.append(self.chunk[self.at :])
                self.at = len(self.chunk)
            if self.source.destination is self:
                self.source.destination = segment
            self._hand_over_entry(segment)

    def _hand_over_entry(self, segment: Segment) -> None:
        source, due = self.source, segment.pending_replies
        entry = next(each for each in source.entries() if each.sink is self)
        rest = entry.due - due
        if rest > 0:
            behind = InFlightEntry(self, rest, FORWARD, None)
            behind.next, entry.next = entry.next, behind
            if source.tail is entry:
                source.tail = behind
            if entry.sent is not None:
                commands = [*_commands(entry.sent)][-entry.due :]
                entry.sent, behind.sent = b"".join(commands[:due]), b"".join(commands[due:])
                source.kept -= entry.size
                entry.size, behind.size = len(entry.sent), len(behind.sent)
                source.kept += entry.size + behind.size
        entry.sink, entry.due = segment, due


def _commands(sent: bytes) -> Iterator[bytes]:
    request = Request()
    while request.scan(sent, request.end, _ANYTHING) == COMPLETE:
        yield sent[request.start : request.end]


class Interleaved(Segment):
    """The segment of all these replies: ``turns`` has the number of a strand for each, and ``done`` have left.
    ``waiting`` bytes have not, and of ``unfinished`` strands replies are still to come; of none once this is taken
    apart."""

    def __init__(self, order: ReplyOrder, turns: bytes) -> None:
        self.begin(order, turns)

    def begin(self, order: ReplyOrder, turns: bytes) -> None:
        """Be at the first turn."""
        self.stand(order, None)
        self.turns = turns
        self.done = 0
        self.waiting = 0
        self.unfinished = 0
        self.strands: list[Strand] = []

    def strand(self, source: UpstreamPipeline) -> Strand:
        """One more strand."""
        strand = Strand.__new__(Strand)
        strand.take_part(self, source)
        self.strands.append(strand)
        self.unfinished += 1
        return strand

    def merge(self) -> None:
        """Let all leave their strands that have their turn."""
        turns = self.turns
        total = len(self.turns)
        done = self.done
        end = 0
        while done < total and end >= 0:
            number = turns[done]
            strand: Strand = self.strands[number]
            chunk = strand.chunk
            size = len(chunk)
            first = at = strand.at
            while done < total and turns[done] == number:
                end = _SCANNER.string_end(chunk, at, size)
                if end == 0:
                    end = _SCANNER.whole(chunk, at, size)
                if end < 0:
                    break
                at = end
                done += 1
            _SPACE.put(chunk, first, at)
            strand.at = at
        if done > self.done:
            self.pending_replies -= done - self.done
            self.done = done
            if done == total:
                self.strands = []  # no circle stays
            self.waiting -= _SPACE.size
            self.order.size -= _SPACE.size
            self.order.bring(self, _SPACE.take())

    def take_apart(self) -> None:
        """From now on each turn that is left is a segment of its own."""
        if self.pending_replies == 0:
            return
        assert self.pending_replies == len(self.turns) - self.done, "each pending reply has its turn"
        last: Segment = self
        behind = self.next_entry
        for number, turn in groupby(self.turns[self.done :]):
            strand = self.strands[number]
            segment = Segment(self.order, strand.source)
            segment.asked = len(list(turn))
            strand.hand_over(segment)
            last.next_entry = segment
            last = segment
        last.next_entry = behind
        if self.order.last is self:
            self.order.last = last
        self.asked -= self.pending_replies
        self.pending_replies = 0
        self.unfinished = 0
        self.done = len(self.turns)
        self.strands = []
        self.order.advance()

    def sources(self) -> list[UpstreamPipeline | None]:
        """The connections that still send replies."""
        return [strand.source for strand in self.strands if strand.pending_replies > 0]

    def abandon(self) -> None:
        """The client has gone."""
        self.gone = True
        self.held.clear()
        self.out.clear()
        for strand in self.strands:
            strand.gone = True
        self.strands = []
        self.pending_replies = 0


def interleave(order: ReplyOrder, turns: bytes) -> Interleaved:
    """So many replies, one for each turn, come behind all others."""
    whole = Interleaved.__new__(Interleaved)
    whole.begin(order, turns)
    order.append(whole)
    order.ask(whole, len(turns))
    whole.pending_replies = len(turns)
    return whole

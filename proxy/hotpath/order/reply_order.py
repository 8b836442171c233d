# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""The order in which a client asked, where more than one source sends its replies.

While all pending replies of a client come from one upstream connection, that connection's queue is its order. As soon
as a second source has a reply for it (another connection, or Keyrail itself) there is a ``ReplyOrder``. It vanishes
when no reply is pending any more:

    client ──> the replies of its first connection, as before
               Segment of connection B    3 replies, held back until all before it has left
               Segment of Keyrail's own   an answer, ready
               Segment of connection A    2 replies

A connection sends its replies to a segment in the client's place, and notices nothing. What reaches the first segment
leaves at once; what reaches a later one is held back. The client's ``window`` bounds how many replies can be held back,
and ``MOST_HELD`` stops the client from asking for more while their bytes are many.

Several connections can send parts of one reply to one segment. A command can be sent again, to another
connection, in the place where its reply is awaited: whoever hears its first reply expects another one for the segment.

A segment has one of four types, and what the client asks next goes on in the last one in two cases only:

    Segment with a source   awaits replies of that connection: its next commands go on in it, until all have come
    Segment without one     one joined or redirected reply, or several that were set apart: nothing else ever goes there
    OwnAnswers              Keyrail's own answers, all of them there: the next answer goes on in it
    Interleaved             the replies to one read: nothing else ever goes there
"""

from collections.abc import Sequence

from proxy.hotpath.upstream.in_flight import InFlightEntry, ReplySink, taken
from proxy.hotpath.upstream.sender_listener import ReplyRecipient
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline

MOST_HELD = 1 << 20
"""Bytes; while more are held back for a client, none of its commands is forwarded."""
_LARGE = 65536
"""Bytes of a piece that leaves by itself: to join many of these would take long."""


class Segment(ReplySink):
    """Neighbouring replies of one ``source``, or one reply that is made from those of several (None), in the client's
    order.

    ``asked`` is how many of the client's pending replies are this segment's. ``held`` are its bytes that wait
    for all segments before it.
    """

    def __init__(self, order: "ReplyOrder", source: UpstreamPipeline | None) -> None:
        self.stand(order, source)

    def stand(self, order: "ReplyOrder", source: UpstreamPipeline | None) -> None:
        """Be empty, in this order."""
        self.reset()
        self.out = []
        self.order = order
        self.source = source
        self.asked = 0
        self.held: list[bytes] = []
        self.next_entry: Segment | None = None
        self.ordered = True

    def flush(self) -> None:
        """Let what this round has brought leave, or hold it back."""
        if self.out:
            self.order.take(self)

    def advance(self) -> None:
        """A pending reply has come."""
        self.order.asker.advance()

    def on_large_reply(self, run: bytes, index: int, size: int, stored: int) -> None:
        """The reply to a command of this run is large."""
        self.order.asker.on_large_reply(run, index, size, stored)

    def client(self) -> ReplyRecipient | None:
        """The client that gets what is delivered here."""
        return self.order.asker.client()

    def sources(self) -> list[UpstreamPipeline | None]:
        """The connections that still send replies; None among them stands for some that are not known here."""
        return [self.source] if self.pending_replies > 0 else []

    def take_apart(self) -> None:
        """Be segments of one source each."""

    def abandon(self) -> None:
        """The client has gone."""
        self.gone = True
        self.held.clear()
        self.out.clear()


class LatePlace:
    """Brings a segment, which is nobody else's, a reply whose edit takes several turns of the event loop: see
    ``LateReply``. It leaves at once: who sends the client a message meanwhile could not tell that a part has left."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._pieces: list[bytes] = []

    def begin_late(self) -> None:
        """One more reply is pending there."""
        self._segment.pending_replies += 1
        self._segment.order.ask(self._segment, 1)

    def is_long(self) -> None:
        """No other client waits behind it."""

    def is_unwanted(self) -> bool:
        """Whether its client has gone."""
        return self._segment.gone

    def take_late(self, piece: bytes) -> None:
        """Its next bytes."""
        self._pieces.append(piece)

    def end_late(self) -> None:
        """It may leave."""
        segment = self._segment
        if segment.gone:
            return
        for piece in self._pieces:
            segment.order.bring(segment, piece)
        segment.pending_replies -= 1
        segment.advance()

    def fail_late(self) -> None:
        """It cannot be made."""
        client = self._segment.client()
        if client is not None:
            client.close("internal_error")


class OwnAnswers(Segment):
    """Neighbouring answers of Keyrail's own: none of them is pending."""


class ReplyOrder:
    """The replies that several sources send to ``asker``, a client's sender, in the order in which it asked.

    Of the client's pending replies, ``beyond`` belong to segments. The others come first: they are of the
    connection that was its only source, ``before``. ``size`` is how many bytes are held back, and ``joining`` how many
    are kept as parts of replies.
    """

    def __init__(self, asker: ReplySink, before: UpstreamPipeline | None = None) -> None:
        self.begin(asker, before)

    def begin(self, asker: ReplySink, before: UpstreamPipeline | None) -> None:
        """Nothing is asked yet. Compiled, a call of ``__init__`` would take several times as long."""
        self.asker = asker
        self.before = before
        self.first: Segment | None = None
        self.last: Segment | None = None
        self.beyond = 0
        self.size = 0
        self.joining = 0

    # What is asked

    def answer(self, payload: bytes) -> None:
        """An answer of Keyrail's own comes behind all others."""
        segment = self.last
        if not isinstance(segment, OwnAnswers):
            segment = OwnAnswers.__new__(OwnAnswers)
            segment.stand(self, None)
            self.append(segment)
        self.ask(segment, 1)
        self.bring(segment, payload)

    def segment(self, source: UpstreamPipeline) -> Segment:
        """The segment behind all others, for what this connection is asked next."""
        last = self.last
        if last is not None and last.source is source and last.pending_replies > 0:
            return last
        return self._behind_all(source)

    def place(self) -> Segment:
        """The place behind all others, for one reply that is joined, or comes from elsewhere: see ``bring``. It is
        nobody else's before and after that."""
        return self._behind_all(None)

    def _behind_all(self, source: UpstreamPipeline | None) -> Segment:
        segment = Segment.__new__(Segment)
        segment.stand(self, source)
        self.append(segment)
        return segment

    def append(self, segment: Segment) -> None:
        """Put a segment behind all others."""
        if self.last is None:
            self.first = segment
        else:
            self.last.next_entry = segment
        self.last = segment

    def ask(self, segment: Segment, count: int) -> None:
        """So many commands were sent whose replies come in this segment's place."""
        segment.asked += count
        self.beyond += count
        self.asker.pending_replies += count
        self.asker.requested += count

    def take_apart(self) -> None:
        """From now on each segment has one source, or is Keyrail's own."""
        segments, segment = [], self.first
        while segment is not None:
            segments.append(segment)
            segment = segment.next_entry
        for each in segments:  # what leaves meanwhile refers to none behind it
            each.take_apart()

    def set_apart(self, source: UpstreamPipeline, moved: Sequence[InFlightEntry]) -> Segment:
        """The replies of these entries, which are the next of one sink, come from elsewhere: to the segment that this
        returns, in their place. Those that ``source`` still sends to that sink come behind it."""
        sink = moved[0].sink
        if isinstance(sink, Segment) and sink.source is None:
            return sink
        place, behind = Segment(self, None), Segment(self, source)
        entry = source.head
        while entry is not None:
            if entry.sink is sink:
                part = place if entry in moved else behind
                entry.sink = part
                part.asked += entry.due
            entry = entry.next
        place.pending_replies, behind.pending_replies = place.asked, behind.asked
        place.next_entry = behind if behind.asked > 0 else None
        last = place if place.next_entry is None else behind
        if isinstance(sink, Segment):
            assert sink.pending_replies == place.asked + behind.asked, "a segment has one source"
            sink.asked -= sink.pending_replies
            sink.pending_replies = 0
            last.next_entry, sink.next_entry = sink.next_entry, place
        else:
            assert sink.pending_replies - self.beyond == place.asked + behind.asked, "one source came before all others"
            self.beyond = sink.pending_replies
            last.next_entry, self.first = self.first, place
        if last.next_entry is None:
            self.last = last
        return place

    def spread(self, place: Segment) -> list[Segment]:
        """Give each reply that is awaited in this place of several a place of its own: they may come from several
        connections. Returns all of them."""
        places = [place]
        while place.pending_replies > 1:
            each = Segment(self, None)
            each.asked = each.pending_replies = 1
            place.asked -= 1
            place.pending_replies -= 1
            each.next_entry, place.next_entry = place.next_entry, each
            if self.last is place:
                self.last = each
            places.insert(1, each)
        return places

    # What comes

    def bring(self, segment: Segment, payload: bytes) -> None:
        """These bytes are (the next) of the segment's."""
        asker = self.asker
        if not segment.out and not segment.held and not asker.gone and self.is_next(segment):
            asker.out.append(payload)
            asker.flush()
            segment.full = asker.full
        else:
            segment.out.append(payload)
            self.take(segment)

    def take(self, segment: Segment) -> None:
        """What was brought to the segment leaves if its turn has come, and is held back otherwise."""
        asker = self.asker
        if asker.gone:
            segment.out.clear()
        elif self.is_next(segment):
            self._leave(segment)
            asker.flush()
            segment.full = asker.full
        else:
            chunk = taken(segment.out)
            segment.held.append(chunk)
            self.size += len(chunk)
            segment.full = self.size > MOST_HELD
            if segment.full:
                asker.stalled = True

    def is_next(self, segment: Segment) -> bool:
        """Whether all before this segment have left."""
        return segment is self.first and self.asker.pending_replies == self.beyond

    def _leave(self, segment: Segment) -> None:
        if segment.held:
            for chunk in segment.held:
                self.size -= len(chunk)
                self.asker.out.append(chunk)
                if len(chunk) >= _LARGE:
                    self.asker.flush()
            segment.held.clear()
        if segment.out:
            self.asker.out.append(taken(segment.out))

    def advance(self) -> None:
        """Let leave whatever has its turn now, and forget the segments that are complete."""
        asker = self.asker
        if asker.pending_replies > self.beyond:
            return
        segment = self.first
        while segment is not None:
            self._leave(segment)
            done = segment.asked - segment.pending_replies
            if done > 0:
                segment.asked -= done
                self.beyond -= done
                asker.pending_replies -= done
            if segment.pending_replies > 0:
                break
            # Whoever keeps it keeps none of those behind it.
            next_entry = segment.next_entry
            segment.next_entry = None
            segment = next_entry
        self.first = segment
        if segment is None:
            self.last = None
        asker.flush()

    def abandon(self) -> None:
        """The client has gone: what still comes is dropped."""
        segment = self.first
        while segment is not None:
            segment.abandon()
            next_entry = segment.next_entry
            segment.next_entry = None
            segment = next_entry
        self.first = None
        self.last = None

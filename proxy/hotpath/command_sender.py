# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""One client towards Redis: the only place through which bytes of a client leave, each with what its replies become.

A command and the entries for its replies go out in one call, so neither can be without the other:

    forward       a command that goes on as it is, or a run of them: the hot path
    issue         commands with replies of their own kind, and Keyrail's own commands in the client's name
    send_part     commands whose replies become part of one reply
    send_piece    a command that is under way in pieces, up to ``end_pieces``

No other module asks an ``UpstreamPipeline`` to send something for a client; a test reads the source for that.
"""

from proxy.hotpath.in_flight import JOIN, InFlightEntry, ReplySink
from proxy.hotpath.join import Join
from proxy.hotpath.reply_order import MOST_HELD, ReplyOrder, Segment
from proxy.hotpath.upstream_pipeline import UpstreamPipeline


class CommandSender(ReplySink):
    """What a client has sent, and where its replies come from.

    ``upstream`` is the connection that it used last, ``nodes`` are those that it uses by node, where a topology has
    several. While several sources owe it replies, ``order`` keeps them apart. ``forwarded`` counts its commands.
    """

    # Not compiled, a dictionary of so many names would be a kilobyte larger for each client.
    __slots__ = ("forwarded", "nodes", "order", "upstream")

    def __init__(self) -> None:
        super().__init__()
        self.upstream: UpstreamPipeline | None = None
        self.nodes: list[UpstreamPipeline | None] | None = None
        self.order: ReplyOrder | None = None
        self.forwarded = 0

    def client(self) -> ReplySink | None:
        """The client itself."""
        return self

    # Towards Redis

    def forward(self, upstream: UpstreamPipeline, chunk: bytes) -> None:
        """Send one command on this connection; its reply comes as it is, behind all others."""
        self.forward_run(upstream, chunk, 1, True)

    def forward_run(self, upstream: UpstreamPipeline, chunk: bytes, count: int, wrote: bool) -> None:
        """The same for ``count`` commands; whether one of them may write. Compiled, only the intake can call it."""
        self.forwarded += count
        self.wrote = self.wrote or wrote
        if upstream is not self.upstream:
            if self.pending_replies > 0:
                self.begin_order()
            self.upstream = upstream
        if self.order is None:
            upstream.send_run(self, chunk, count)
        else:
            segment = self.order.segment(upstream)
            upstream.send_run(segment, chunk, count)
            self.order.ask(segment, count)

    def issue(self, upstream: UpstreamPipeline, chunk: bytes, *replies: InFlightEntry, commands: int = 0) -> None:
        """Send whole commands on this connection, and expect these replies; ``commands`` of them are the client's."""
        upstream.send_commands(self, chunk)
        upstream.commands += commands
        for entry in replies:
            upstream.expect(entry)

    def send_for(
        self, segment: Segment, upstream: UpstreamPipeline, chunk: bytes, action: int, payload: object
    ) -> None:
        """Send one command on this connection; its reply comes in the place of this segment."""
        self.issue(upstream, chunk, InFlightEntry(segment, 1, action, payload), commands=1)
        segment.order.ask(segment, 1)

    def send_part(self, join: Join, upstream: UpstreamPipeline, chunk: bytes, index: int, count: int) -> None:
        """Send the commands from ``index`` on, so many, on this connection; their replies are parts of one reply."""
        segment = join.segment
        assert segment is not None, "a join whose reply has left takes no more parts"
        self.issue(upstream, chunk, InFlightEntry(segment, count, JOIN, join.expect(index)), commands=count)
        segment.order.ask(segment, count)

    def send_piece(self, upstream: UpstreamPipeline, piece: bytes, withhold: bool) -> None:
        """Send the next piece of a command, the first one included; see ``Outgoing.send_partial``."""
        if upstream.partial is None:
            upstream.begin_partial(self)
        upstream.send_partial(self, piece, withhold)

    def end_pieces(self, upstream: UpstreamPipeline) -> None:
        """Send what was withheld of that command: it may run."""
        upstream.end_partial(self)

    # The order of its replies

    def begin_order(self) -> ReplyOrder:
        """From now on, until no reply is pending, replies may come from several sources."""
        if self.order is None:
            self.order = ReplyOrder(self)
            self.ordered = True
        return self.order

    def advance(self) -> None:
        """Some of the replies that several sources send have come."""
        order = self.order
        if order is None:
            return
        order.advance()
        if self.pending_replies == 0:
            self.order = None
            self.ordered = False
            self.run = None
            self.wrote = False
        # What ends with the last reply has ended before the next command is looked at.
        if self.notify_when_idle and self.pending_replies == 0:
            self.on_idle()
        if self.stalled and self.pending_replies <= self.low_water and order.size <= MOST_HELD:
            self.on_resume()

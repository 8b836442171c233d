# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""One client towards Redis: the only place through which bytes of a client leave, each with what its replies become.

A command and the entries for its replies go out in one call, so neither can be without the other:

    forward       a command that goes on as it is, or a run of them: the hot path
    issue         commands with replies of their own kind, and Keyrail's own commands in the client's name
    send_part     commands whose replies become part of one reply
    send_piece    a command that is under way in pieces, up to ``end_pieces``
    log_in        a login, which is alone on its connection

No other module asks an ``UpstreamPipeline`` to send something for a client; a test reads the source for that.

The replies come to the sender, and it tells its ``listener`` when few enough, or none, are pending.
"""

from collections.abc import Callable, Sequence

from proxy.hotpath.cluster.key_splitter import KeySplitter
from proxy.hotpath.cluster.portions import Portions
from proxy.hotpath.cluster.router import Router
from proxy.hotpath.order.interleaved import interleave
from proxy.hotpath.order.join import Join
from proxy.hotpath.order.reply_order import MOST_HELD, ReplyOrder, Segment
from proxy.hotpath.order.split_join import SplitCommands, SplitJoin
from proxy.hotpath.replicas.client_reads import ClientReads
from proxy.hotpath.upstream.in_flight import EDIT, FORWARD, HIDE, JOIN, LOCAL, InFlightEntry, ReplySink
from proxy.hotpath.upstream.outgoing import MOST_KEPT
from proxy.hotpath.upstream.sender_listener import SenderListener
from proxy.hotpath.upstream.sent_unit import SentUnit
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline

EVERY_NODE = -1
"""In ``CommandSender.written_nodes``: the slot map has changed since the first write, so it may have gone to any."""


class CommandSender(ReplySink):
    """What a client has sent, and where its replies come from.

    ``upstream`` is the connection that it used last, ``nodes`` are those that it uses by node, where a topology has
    several. While several sources owe it replies, ``order`` keeps them apart. ``forwarded`` counts its commands.

    With a cluster upstream, all pending replies are to commands that were sent where the slot map of ``map_version``
    says. While ``redirecting``, some commands are being sent again, and none may follow them. ``unit`` is the
    transaction that is being sent on a shared connection. ``written_nodes`` has the bits of the nodes to which writes
    have gone (``bit_of``); while ``writes``, all that is sent is one. ``notify_on_advance``: the listener
    wants to know of replies that have come, as connections or messages wait for them. ``reads`` says from where it
    reads, where a policy lets replicas answer.

    ``remembered`` counts what was answered from memory, and ``behind`` the bytes of Keyrail's own answers that wait
    behind replies.
    """

    # Not compiled, a dictionary of so many names would be a kilobyte larger for each client.
    __slots__ = (
        "behind",
        "forwarded",
        "listener",
        "map_version",
        "nodes",
        "notify_on_advance",
        "order",
        "reads",
        "redirecting",
        "remembered",
        "unit",
        "upstream",
        "writes",
        "written_nodes",
    )

    def __init__(self, listener: SenderListener, low_water: int) -> None:
        super().__init__()
        self.listener: SenderListener | None = listener
        self.low_water = low_water
        self.upstream: UpstreamPipeline | None = None
        self.nodes: list[UpstreamPipeline | None] | None = None
        self.order: ReplyOrder | None = None
        self.forwarded = self.remembered = self.behind = 0
        self.map_version = self.written_nodes = 0
        self.redirecting = self.notify_on_advance = self.writes = False
        self.unit: SentUnit | None = None
        self.reads: ClientReads | None = None

    # What its listener is told

    def client(self) -> SenderListener | None:
        """The client itself; None once it has left and no reply is pending."""
        return self.listener

    def on_idle(self) -> None:
        """No reply is pending any more."""
        self.notify_when_idle = False
        if self.listener is not None:
            self.listener.on_idle()

    def on_resume(self) -> None:
        """Few enough replies are pending again."""
        self.stalled = False
        if self.listener is not None:
            self.listener.on_resume()

    def on_large_reply(self, run: bytes, index: int, size: int, stored: int) -> None:
        """The reply to a command of this run is large."""
        if self.listener is not None:
            self.listener.on_large_reply(run, index, size, stored)

    # Towards Redis

    def forward(self, upstream: UpstreamPipeline, chunk: bytes) -> None:
        """Send one command on this connection; its reply comes as it is, behind all others."""
        if self.writes:
            self.note_write(upstream)
        self.forward_run(upstream, chunk, 1, True)

    def forward_run(self, upstream: UpstreamPipeline, chunk: bytes, count: int, wrote: bool) -> None:
        """The same for ``count`` commands; whether one of them may write. Compiled, only the intake can call it."""
        self.forwarded += count
        self.wrote = self.wrote or wrote
        self.use(upstream)
        if self.order is None:
            upstream.send_run(self, chunk, count)
        else:
            segment = self.order.segment(upstream)
            upstream.send_run(segment, chunk, count)
            self.order.ask(segment, count)
        if self.unit is not None and upstream.tail is not None:
            self.unit.add(chunk, (upstream.tail,))

    def forward_portions(self, portions: Portions) -> None:
        """Send what several nodes get of one read; the replies come as they are, in the order of its commands."""
        self.forwarded += portions.count
        whole = interleave(self.begin_order(), portions.turns.take())
        for portion in portions.used:
            upstream = portion.upstream
            assert upstream is not None, "it is set with what is put"
            if portion.wrote:
                self.wrote = True
                self.note_write(upstream)
            upstream.send_run(whole.strand(upstream), portion.splice.take(), portion.count)
            self.upstream = upstream
        portions.clear()

    def forward_split(
        self, portions: Portions, splitter: KeySplitter, commands: SplitCommands, command_id: int, name: bytes
    ) -> None:
        """Send what several nodes get of one command; their replies become one."""
        self.forwarded += 1
        order = self.begin_order()
        segment = order.place()
        turns, nodes = portions.turns.take(), len(portions.used)
        join = SplitJoin(segment, commands, command_id, name, turns, splitter.grouped(), splitter.keys, nodes)
        index = 0
        for portion in portions.used:
            upstream = portion.upstream
            assert upstream is not None, "it is set with what is put"
            if portion.wrote:
                self.wrote = True
                self.note_write(upstream)
            upstream.send_parts(segment, portion.splice.take(), portion.count, join.expect(index))
            index += portion.count
            self.upstream = upstream
        order.ask(segment, index)
        portions.clear()

    def use(self, upstream: UpstreamPipeline) -> None:
        """Take this connection for the next command, also while replies of another one are pending."""
        if upstream is not self.upstream:
            if self.pending_replies > 0:
                self.begin_order()
            self.upstream = upstream

    def issue(self, upstream: UpstreamPipeline, chunk: bytes, *replies: InFlightEntry, commands: int = 0) -> None:
        """Send whole commands on this connection, and expect these replies; ``commands`` of them are the client's."""
        if self.writes:
            self.note_write(upstream)
        upstream.send_commands(self, chunk)
        upstream.commands += commands
        if upstream.owner is None:
            self._keep(upstream, chunk, replies)
        for entry in replies:
            upstream.expect(entry)

    def resend(self, upstream: UpstreamPipeline, entry: InFlightEntry, chunk: bytes) -> None:
        """Send a command once more, on this connection: see ``Outgoing.send_again``."""
        upstream.send_again(entry, self, chunk)

    def note_write(self, upstream: UpstreamPipeline) -> None:
        """What is sent on this connection may write."""
        self.written_nodes |= upstream.node_bit

    def _keep(self, upstream: UpstreamPipeline, chunk: bytes, replies: Sequence[InFlightEntry]) -> None:
        if self.unit is not None:
            self.unit.add(chunk, replies)
            if self.unit.kept and replies:
                replies[len(replies) - 1].size = len(chunk)
        elif len(replies) == 1 and replies[0].sent is None and upstream.kept < MOST_KEPT:
            replies[0].sent = chunk
            replies[0].size = len(chunk)

    def begin_unit(self, upstream: UpstreamPipeline) -> None:
        """What is sent on this connection up to ``end_unit`` is a transaction."""
        if upstream.redirects is not None and upstream.owner is None:
            self.unit = SentUnit(self, upstream.kept < MOST_KEPT)

    def end_unit(self) -> None:
        """The transaction has been sent whole, if one was begun."""
        self.unit = None

    def fits(self, router: Router) -> bool:
        """Whether commands may be sent as this router says: not while others are pending that were sent by another
        map, since their slot may have moved, and Redis might run them behind those."""
        if self.pending_replies == 0 and self.map_version != router.version:
            self.map_version = router.version
            if self.written_nodes != 0:
                self.written_nodes = EVERY_NODE
        return self.map_version == router.version

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

    def hold(self, segment: Segment) -> None:
        """The reply in this place comes from none of these connections: see ``release``."""
        segment.pending_replies += 1
        segment.order.ask(segment, 1)

    def release(self, segment: Segment, reply: bytes) -> None:
        """The reply in a place that was held; empty where the client gets nothing there."""
        if reply:
            segment.order.bring(segment, reply)
        segment.pending_replies -= 1
        segment.advance()

    def submit_with_action(self, raw: bytes, action: int, payload: object, due: int = 1) -> None:
        """Send one command on the current connection; its reply has an action of its own."""
        upstream = self.upstream
        assert upstream is not None
        if self.order is None:
            self.issue(upstream, raw, InFlightEntry(self, due, action, payload), commands=1)
            return
        assert due == 1, "only a private upstream has commands with several replies"
        assert self.nodes is not None or not self.awaits_elsewhere(), "what comes behind waits for that reply"
        self.send_for(self.order.segment(upstream), upstream, raw, action, payload)
        self.wrote = True

    def send_elsewhere(
        self, upstream: UpstreamPipeline, raw: bytes, edit: Callable[[bytes], bytes] | None, sent: object = None
    ) -> None:
        """Send one command on another connection than the current one. Its reply keeps its place among the client's.

        ``sent`` is for ``InFlightEntry.sent``: ONCE or RAN where it is not sent again, whatever the node answers.
        """
        segment = self.begin_order().segment(upstream)
        self.forwarded += 1
        entry = InFlightEntry(segment, 1, FORWARD if edit is None else EDIT, edit)
        entry.sent = sent
        self.issue(upstream, raw, entry, commands=1)
        segment.order.ask(segment, 1)

    def awaits_elsewhere(self) -> bool:
        """Whether a command that was sent elsewhere is unanswered."""
        segment = None if self.order is None else self.order.first
        while segment is not None:
            if segment.pending_replies > 0 and segment.source is not self.upstream:
                return True
            segment = segment.next_entry
        return False

    def send_unanswered(self, raw: bytes) -> None:
        """Send a command on the current connection to which no reply comes."""
        assert self.upstream is not None
        self.issue(self.upstream, raw)

    def log_in(self, raw: bytes, answered: Callable[[bytes], bytes], behind: InFlightEntry | None = None) -> None:
        """Send a login on the current connection, which is this client's own. Until ``answered`` gets the reply,
        nothing else is sent there. Nothing is unanswered before it; the reply to ``behind`` has just come.

        Redis 7.2 to 8 do not answer a failing login while other replies are on their way to its client (acl.c,
        addAuthErrReply).
        """
        upstream = self.upstream
        assert upstream is not None
        assert upstream.owner is self, "a login changes whom all commands run as"
        assert upstream.head is behind is upstream.tail, "a login behind what is unanswered may get no reply"
        upstream.begin_partial(self)
        upstream.send_partial(self, raw, False)
        upstream.commands += 1

        def over(frame: bytes) -> bytes:
            upstream.end_partial(self)
            return answered(frame)

        upstream.enqueue(self, 1, EDIT, over)

    def hide(self, upstream: UpstreamPipeline, raw: bytes) -> None:
        """Send a command of Keyrail's own on this connection; its reply is dropped."""
        self.issue(upstream, raw, InFlightEntry(self, 1, HIDE, None))

    def room(self, window: int) -> int:
        """How many of the next commands may be taken now, where ``window`` replies may be pending: none while large
        answers wait behind replies."""
        if self.behind > MOST_HELD:
            if self.pending_replies > 0:
                return 0
            self.behind = 0
        return window - self.pending_replies

    def answer(self, payload: bytes) -> bool:
        """Put an answer of Keyrail's own behind all pending replies; True if there are none, and ``flush`` sends it."""
        if self.pending_replies == 0:
            self.behind = 0
            self.out.append(payload)
            return True
        self.behind += len(payload)
        if self.order is None and self.upstream is not None and self.upstream.reads_only:
            self.begin_order()  # what a replica owes may be sent again, and this comes in between
        if self.order is not None:
            self.order.answer(payload)
        else:
            assert self.upstream is not None
            self.upstream.enqueue(self, 1, LOCAL, payload)
        return False

    def interject(self, payload: bytes, last: InFlightEntry | None) -> InFlightEntry | None:
        """Send bytes that answer nothing: now, or where the reply ends that is on its way. Then this returns the entry
        in which they wait; nothing of it is due once they have left. ``last`` is that of those before, if they wait."""
        order, source, segment = self.order, self.upstream, None
        sink: ReplySink = self
        if order is not None and self.pending_replies > order.beyond:
            source = order.before
        elif order is not None and order.first is not None:
            segment = sink = order.first
            source = order.first.source
        end = None if source is None else source.unfinished(sink)
        if source is None or end is None:
            self.out.append(payload)
            self.flush()
            return None
        waiting = source.insert_behind(end if last is None else last, payload)
        if segment is not None and order is not None:
            order.ask(segment, 1)
        self.begin_order()  # so that its end is told
        return waiting

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
        order = self.order
        if order is None:
            order = self.order = ReplyOrder.__new__(ReplyOrder)
            order.begin(self, self.upstream)
            self.ordered = True
        return order

    def advance(self) -> None:
        """Some of the replies that several sources send have come."""
        order = self.order
        if order is not None:
            order.advance()
            if self.pending_replies == 0:
                self.order = None
                self.ordered = False
                self.run = None
                self.wrote = False
            # What ends with the last reply has ended before the next command is looked at.
            if self.notify_when_idle and self.pending_replies == 0:
                self.on_idle()
            self.go_on()
        if self.notify_on_advance and self.listener is not None:
            self.listener.on_advance()

    def go_on(self) -> None:
        """Send more again, if nothing stands against it any more."""
        if not self.stalled or self.redirecting or self.pending_replies > self.low_water:
            return
        if self.order is None or (self.order.size <= MOST_HELD and self.order.joining <= MOST_HELD):
            self.on_resume()

"""Commands that a node of a cluster has refused because of their slot: sent again, each alone, in the client's order.

    MOVED, ASK                the command goes to the node that is named; behind ASK in one piece with ASKING
    TRYAGAIN, CLUSTERDOWN     it goes to the slot's owner again after a moment, for up to ``HELD_SECONDS``

From the first of these errors on, nothing more of the client is sent, and its commands that are on their way to that
node already are awaited. A command is not sent again behind a later one of its slot that has run, or, where both only
read, of one of its keys, as it would show what is newer: the client gets the error, in a form that names no node. All
others are sent again in their order, and each reply comes in the place of its command. A transaction is sent again as a
whole, if it is proved that nothing of it has run: EXEC was refused, or a command before it, and EXEC answers EXECABORT.

Nothing else is ever sent twice: a command that was answered with another error, or was lost with a connection, may have
run. So may one that answers errors of its own making, such as a script, unless it stands in a transaction
(``script_units``): nothing tells its errors from those of the node.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from proxy.cluster.hidden_nodes import hidden_own_error, hidden_redirect
from proxy.commands.error_texts import ASKS
from proxy.hotpath.order.reply_order import Segment
from proxy.hotpath.upstream.in_flight import (
    AS_IT_IS,
    HIDE,
    JOIN,
    MEMBERS,
    NOTE,
    RAN,
    READ_AS_IT_IS,
    UNWRAP,
    InFlightEntry,
    ReplySink,
)
from proxy.hotpath.upstream.outgoing import MOST_KEPT
from proxy.hotpath.upstream.sent_unit import SentUnit
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.session.cluster.node_connections import ready_connection
from proxy.session.cluster.refused_commands import Frame, RefusedCommand, SentRound, is_kept
from proxy.session.commands.switching import HELD_SECONDS
from proxy.session.guarded import guarded
from proxy.session.item import HeardReply, RanOn
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.node_port import NodePort
from proxy.session.ports.pool_key import Node
from proxy.session.session import Session
from proxy.wire.encode import encode_command

_ASKING = encode_command([b"ASKING"])
_MOST_HOPS = 3
_AGAIN_SECONDS = 0.02
_SLOWER_SECONDS = 0.05
"""How long a command waits before it is sent again where no other node was named, or too many were: at first, and
at most."""
_NOBODY = ReplySink()
"""Receives replies that no client gets."""


class Redirects:
    """The commands of one client that were refused, until all of them are answered.

    ``_queue`` has those that are to be sent again. They leave in groups for one node; the next group waits until the
    one before it is answered, since some of that may be refused once more.
    """

    def __init__(self, session: Session, nodes: NodePort) -> None:
        self.ports = session.ports
        self._session = session
        self._nodes = nodes
        self._rounds: dict[UpstreamPipeline, SentRound] = {}
        self._queue: list[RefusedCommand] = []
        self._sent: dict[object, RefusedCommand] = {}
        self._under_way = False
        self._timed = False

    def begin(self) -> None:
        """No further command of the client leaves until all are answered."""
        self._session.sender.redirecting = True
        self._session.sender.stalled = True

    def close(self, cause: str) -> None:
        """Close the client."""
        self._session.close(cause)

    # What is refused

    @guarded
    def meet(self, upstream: UpstreamPipeline, entry: InFlightEntry, error: bytes) -> None:
        """The next frame of this connection's head is such an error."""
        self._session.sender.begin_order().take_apart()
        under_way = self._rounds.get(upstream)
        if under_way is None:
            under_way = self._rounds[upstream] = SentRound(self._session, upstream)
            upstream.when_drained(partial(self._drained, upstream))
        command, unit = under_way.command(entry), entry.sent if isinstance(entry.sent, SentUnit) else None
        known = self._sent.get(entry if unit is None else unit)
        errors = [error]
        if unit is None:
            place, frames, answered = self._alone(upstream, entry)
        else:
            place, frames, answered = self._whole(upstream, entry, unit, errors)
        place.pending_replies += 1  # until it is sent again
        now = self.ports.route.now()
        since, times = (now, 1) if known is None else (known.since, known.times + 1)
        refused = RefusedCommand(
            command.raw, command.facts, unit, place, frames, answered, errors, upstream, since, times
        )
        if not refused.names_node or times > _MOST_HOPS:
            refused.due = now + min(_AGAIN_SECONDS * times, _SLOWER_SECONDS)
        command.refused = refused

    def _alone(self, upstream: UpstreamPipeline, entry: InFlightEntry) -> tuple[Segment, list[Frame], int]:
        if entry.action == JOIN:
            assert isinstance(entry.sink, Segment), "a joined reply has a place of its own"
            return entry.sink, [Frame(True, JOIN, entry.payload.set_apart())], 0
        frame = Frame(True, entry.action, entry.payload)
        upstream.split_head()
        return self._session.sender.begin_order().set_apart(upstream, [entry]), [frame], 0

    def _whole(
        self, upstream: UpstreamPipeline, entry: InFlightEntry, unit: SentUnit, errors: list[bytes]
    ) -> tuple[Segment, list[Frame], int]:
        # Redis answers the rest of the transaction, too, but runs nothing of it.
        upstream.split_head()
        rest = [each for each in upstream.entries() if each.sent is unit]
        own = [each for each in rest if each.sink.client() is not None]
        place = self._session.sender.begin_order().set_apart(upstream, own)
        frames = [Frame(each in own, each.action, each.payload) for each in rest for _ in range(each.due)]
        for each in rest[1:]:
            each.action, each.payload, each.sent = NOTE, errors.append, None
        return place, frames, unit.frames - len(frames)

    # What becomes of it

    @guarded
    def _drained(self, upstream: UpstreamPipeline) -> None:
        # All that this client had under way there is answered; or lost, and then the client is closed at once.
        if upstream.closed:
            self.ports.route.after(0.0, partial(self._decide, upstream))
        else:
            self._decide(upstream)

    @guarded
    def _decide(self, upstream: UpstreamPipeline) -> None:
        if self._session.gone:
            return
        again = []
        for refused, in_order in self._rounds.pop(upstream).decide():
            if in_order:
                again.append(refused)
            else:
                _give_up(refused)
        self._queue[:0] = again
        self._go_on()

    @guarded
    def _answered(self, upstream: UpstreamPipeline) -> None:
        self._under_way = False
        if upstream.closed:
            self._wait(0.0)
        else:
            self._go_on()

    def _wait(self, seconds: float) -> None:
        if not self._timed:
            self._timed = True
            self.ports.route.after(seconds, self._waited)

    @guarded
    def _waited(self) -> None:
        self._timed = False
        self._go_on()

    def _go_on(self) -> None:
        # Sends the next group, unless something of the one before it may come back in front of it.
        if self._session.gone or self._rounds or self._under_way:
            return
        now = self.ports.route.now()
        while self._queue and now - self._queue[0].since > HELD_SECONDS:
            _give_up(self._queue.pop(0))
        if not self._queue:
            self._session.redirects = None
            self._session.sender.redirecting = False
            self._session.sender.go_on()
        elif self._queue[0].due > now:
            self._wait(self._queue[0].due - now)
        elif self._session.has_left(self._queue[0].since):
            return
        elif not self._send(self._queue[0], now):
            self._wait(_AGAIN_SECONDS)

    def _send(self, first: RefusedCommand, now: float) -> bool:
        target = node, asks = self._target(first)
        if node is None:
            return False
        upstream = ready_connection(self._session, node, first.facts.lane)
        if upstream is None or not upstream.admits(self._session.sender):
            return False
        self._sent.clear()
        while self._queue and self._queue[0].due <= now and self._target(self._queue[0]) == target:
            self._send_one(self._queue.pop(0), upstream, _ASKING if asks else b"")
        self._under_way = True
        upstream.when_drained(partial(self._answered, upstream))
        return True

    def _target(self, refused: RefusedCommand) -> tuple[Node | None, bool]:
        assert isinstance(refused.upstream, PrivatePipeline), "each connection to a node has a key"
        node = None
        if refused.names_node:
            node = self._nodes.redirected(refused.errors[0], refused.upstream.key.node)
        if node is not None:
            return node, ASKS.hinted(refused.errors[0])
        slots = refused.facts.slots
        return self._nodes.owner(min(slots)) if slots else None, False

    def _send_one(self, refused: RefusedCommand, upstream: UpstreamPipeline, asking: bytes) -> None:
        replies = [InFlightEntry(_NOBODY, 1, HIDE, None)] if asking else []
        sent: object = refused.raw if refused.unit is None else refused.unit
        for ran_on in _heard(refused.frames):
            ran_on.upstream, ran_on.asks = upstream, bool(asking)
        for frame in [Frame(False, HIDE, None)] * refused.answered + refused.frames:
            entry = InFlightEntry(refused.place if frame.own else _NOBODY, 1, frame.action, frame.payload)
            if upstream.kept < MOST_KEPT:
                entry.sent = sent
                self._sent[entry if refused.unit is None else refused.unit] = refused
            replies.append(entry)
        replies[-1].size = len(refused.raw)
        if not refused.facts.reads:
            self._session.sender.note_write(upstream)
        self._session.sender.issue(upstream, asking + refused.raw, *replies, commands=1)
        refused.place.pending_replies -= 1


def _heard(frames: Sequence[Frame]) -> Iterator[RanOn]:
    # What follows the commands with these replies is told where they run.
    for frame in frames:
        within = [frame.payload]
        if frame.action in (MEMBERS, UNWRAP):
            actions = frame.payload if frame.action == MEMBERS else frame.payload[0]
            within = [payload for _, payload in actions.values()]
        yield from (payload.ran_on for payload in within if isinstance(payload, HeardReply))


def told_instead(session: Session, upstream: UpstreamPipeline, entry: InFlightEntry, error: bytes) -> bytes | None:
    """What to tell in place of such an error, which is the next frame of this connection's head; None where the reply
    comes from elsewhere."""
    nodes = session.ports.nodes
    if entry.sent is RAN:
        return hidden_own_error(error)
    if session.ports.caches is not None and isinstance(upstream, PrivatePipeline):
        session.ports.caches.sent_elsewhere(upstream.key.node)
    if entry.sent in (AS_IT_IS, READ_AS_IT_IS) or session.gone:
        return error
    if not is_kept(entry.sent) or nodes is None:
        if nodes is not None and isinstance(upstream, PrivatePipeline):
            nodes.redirected(error, upstream.key.node)  # it is not sent again, but the slot map is asked for
        return hidden_redirect(error)
    if session.redirects is None:
        redirects = Redirects(session, nodes)
        session.redirects = redirects.meet
        redirects.begin()
    session.redirects(upstream, entry, error)
    return None


def _give_up(refused: RefusedCommand) -> None:
    # The errors, without the names of nodes, take the place of the replies, with all that is to be done to those.
    place, source = refused.place, refused.upstream
    errors = UpstreamPipeline(source.listener, lambda _: None, source.errors)
    for frame in refused.frames:
        errors.expect(InFlightEntry(place if frame.own else _NOBODY, 1, frame.action, frame.payload))
    place.pending_replies -= 1
    hidden = hidden_redirect if refused.has_not_run else hidden_own_error
    errors.receive(b"".join(map(hidden, refused.errors)))

"""Commands that a node of a cluster has refused because of their slot: sent again, each alone, in the client's order.

    MOVED, ASK                the command goes to the node that is named; behind ASK in one piece with ASKING
    TRYAGAIN, CLUSTERDOWN     it goes to the slot's owner again after a moment, for up to ``HELD_SECONDS``

From the first of these errors on, nothing more of the client is sent, and its commands that are on their way to that
node already are awaited. A command is not sent again behind a later one of its slot that has run, unless both only
read: the client gets the error, in a form that names no node. All others are sent again in their order, and each reply
comes in the place of its command. A transaction is sent again as a whole, if it is proved that nothing of it has run:
EXEC was refused, or a command before it, and EXEC answers EXECABORT.

Nothing else is ever sent twice: a command that was answered with another error, or was lost with a connection, may have
run. So may one that answers errors of its own making, such as a script, unless it stands in a transaction
(``script_units``): nothing tells its errors from those of the node.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from proxy.cluster.hidden_nodes import hidden_own_error, hidden_redirect
from proxy.commands.command import Command
from proxy.commands.error_texts import ASKS, EXEC_NOT_RUN, NAMES_NODE
from proxy.commands.slots import slot_of
from proxy.commands.table import Lane
from proxy.hotpath.command_sender import SentUnit
from proxy.hotpath.in_flight import (
    AS_IT_IS,
    HIDE,
    JOIN,
    LOCAL,
    MEMBERS,
    NOTE,
    ONCE,
    RAN,
    READ_AS_IT_IS,
    UNWRAP,
    InFlightEntry,
    ReplySink,
)
from proxy.hotpath.outgoing import MOST_KEPT
from proxy.hotpath.reply_order import Segment
from proxy.hotpath.upstream_pipeline import UpstreamPipeline
from proxy.rules.own_scripts import OWN_SCRIPTS
from proxy.session.guarded import guarded
from proxy.session.item import HeardReply, RanOn
from proxy.session.keyed_pipeline import PrivatePipeline
from proxy.session.node_connections import connection_to
from proxy.session.node_port import NodePort
from proxy.session.pool_key import Node
from proxy.session.session import Session
from proxy.session.switching import HELD_SECONDS
from proxy.wire.encode import encode_command
from proxy.wire.request import COMPLETE, Request

_ASKING = encode_command([b"ASKING"])
_MOST_HOPS = 3
_AGAIN_SECONDS = 0.02
_SLOWER_SECONDS = 0.05
"""How long a command waits before it is sent again where no other node was named, or too many were: at first, and
at most."""
_NOBODY = ReplySink()
"""Receives replies that no client gets."""


class _Facts(NamedTuple):
    """What matters of a command, or of a transaction, for its order. ``slots`` is None where nobody can tell them;
    ``own_errors`` says that an error may be its own, and not the node's."""

    slots: frozenset[int] | None
    reads: bool
    lane: Lane = Lane.FAST
    own_errors: bool = False

    def disturbs(self, other: "_Facts") -> bool:
        """Whether the two may not change places."""
        if self.reads and other.reads:
            return False
        return self.slots is None or other.slots is None or not self.slots.isdisjoint(other.slots)


@dataclass(slots=True, eq=False)
class _Command:
    """A command, or a transaction, that was under way to a node when some other was refused there. ``refused`` if it
    was, too."""

    raw: bytes
    facts: _Facts
    refused: "_Refused | None" = None


class _Frame(NamedTuple):
    """What is to become of one frame; ``own`` if the client gets it."""

    own: bool
    action: int
    payload: Any


@dataclass(slots=True, eq=False)
class _Refused:
    """A command that was refused. Its reply is awaited at ``place``, and is ``frames``, of which ``answered`` others of
    its transaction have come before. ``errors`` are what came in their place from ``upstream``. ``due`` says when it
    may be sent again."""

    raw: bytes
    facts: _Facts
    unit: SentUnit | None
    place: Segment
    frames: list[_Frame]
    answered: int
    errors: list[bytes]
    upstream: UpstreamPipeline
    since: float
    times: int
    due: float = 0.0

    @property
    def names_node(self) -> bool:
        """Whether the error names the node to which the command goes."""
        return NAMES_NODE.hinted(self.errors[0])

    @property
    def has_not_run(self) -> bool:
        """Whether it is proved that the node has run nothing of it."""
        if self.unit is None:
            return not self.facts.own_errors
        # Refused at EXEC; or before it, inside MULTI. Where the MULTI was refused, each command has run by itself.
        return len(self.errors) == 1 or EXEC_NOT_RUN.begin(self.errors[-1])


class _Round:
    """What a client has under way to one connection, from the first command on that was refused there."""

    def __init__(self, session: Session, upstream: UpstreamPipeline) -> None:
        self._session = session
        self._commands: list[_Command] = []
        self._by_sent: dict[int, tuple[object, list[_Command]]] = {}
        for entry in upstream.entries():
            self._add(entry)

    def _add(self, entry: InFlightEntry) -> None:
        sent, unit = entry.sent, isinstance(entry.sent, SentUnit)
        sink = sent.sender if unit else entry.sink
        if entry.action == LOCAL or sink.client() is not self._session or sent is READ_AS_IT_IS:
            return
        if sent is RAN or not _is_kept(sent):
            self._commands.append(_Command(b"", _Facts(None, False)))
        elif id(sent) not in self._by_sent:
            found = [_unit(self._session, sent)] if unit else list(_commands(self._session, sent))
            self._by_sent[id(sent)] = sent, found
            self._commands += found if unit else found[len(found) - entry.due :]

    def command(self, entry: InFlightEntry) -> _Command:
        """The command that the next frame of this entry is the reply to."""
        _, found = self._by_sent[id(entry.sent)]
        return found[0] if isinstance(entry.sent, SentUnit) else found[len(found) - entry.due]

    def decide(self) -> Sequence[tuple[_Refused, bool]]:
        """All that were refused, and whether each can be sent again, now that all of these are answered."""
        ran: list[_Facts] = []
        found = []
        for command in reversed(self._commands):
            refused, may_have_run = command.refused, command.refused is None or not command.refused.has_not_run
            if refused is not None:
                found.append((refused, not may_have_run and not any(map(command.facts.disturbs, ran))))
            if may_have_run:
                ran.append(command.facts)
        return found[::-1]


def _commands(session: Session, raw: bytes) -> Iterator[_Command]:
    request, table = Request(), session.effective_policy.table
    while request.scan(raw, request.end, session.intake.limits) == COMPLETE:
        command = Command(table, request.arguments())
        slots = frozenset(slot_of(key.name) for key in command.known_keys)
        unknown = not slots and command.spec.may_have_keys
        spec, known = command.spec, not OWN_SCRIPTS.isdisjoint(command.argv[1:2])
        facts = _Facts(None if unknown else slots, spec.only_reads, spec.lane, spec.own_errors and not known)
        yield _Command(raw[request.start : request.end], facts)


def _unit(session: Session, unit: SentUnit) -> _Command:
    raw = b"".join(unit.chunks)
    facts = [each.facts for each in _commands(session, raw)]
    lane = Lane.SLOW if any(each.own_errors for each in facts) else Lane.FAST
    return _Command(raw, _Facts(frozenset().union(*(each.slots or () for each in facts)), False, lane))


class Redirects:
    """The commands of one client that were refused, until all of them are answered.

    ``_queue`` has those that are to be sent again. They leave in groups for one node; the next group waits until the
    one before it is answered, since some of that may be refused once more.
    """

    def __init__(self, session: Session, nodes: NodePort) -> None:
        self.ports = session.ports
        self._session = session
        self._nodes = nodes
        self._rounds: dict[UpstreamPipeline, _Round] = {}
        self._queue: list[_Refused] = []
        self._sent: dict[object, _Refused] = {}
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
            under_way = self._rounds[upstream] = _Round(self._session, upstream)
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
        refused = _Refused(command.raw, command.facts, unit, place, frames, answered, errors, upstream, since, times)
        if not refused.names_node or times > _MOST_HOPS:
            refused.due = now + min(_AGAIN_SECONDS * times, _SLOWER_SECONDS)
        command.refused = refused

    def _alone(self, upstream: UpstreamPipeline, entry: InFlightEntry) -> tuple[Segment, list[_Frame], int]:
        if entry.action == JOIN:
            assert isinstance(entry.sink, Segment), "a joined reply has a place of its own"
            return entry.sink, [_Frame(True, JOIN, entry.payload.set_apart())], 0
        frame = _Frame(True, entry.action, entry.payload)
        upstream.split_head()
        return self._session.sender.begin_order().set_apart(upstream, [entry]), [frame], 0

    def _whole(
        self, upstream: UpstreamPipeline, entry: InFlightEntry, unit: SentUnit, errors: list[bytes]
    ) -> tuple[Segment, list[_Frame], int]:
        # Redis answers the rest of the transaction, too, but runs nothing of it.
        upstream.split_head()
        rest = [each for each in upstream.entries() if each.sent is unit]
        own = [each for each in rest if each.sink.client() is not None]
        place = self._session.sender.begin_order().set_apart(upstream, own)
        frames = [_Frame(each in own, each.action, each.payload) for each in rest for _ in range(each.due)]
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

    def _send(self, first: _Refused, now: float) -> bool:
        target = node, asks = self._target(first)
        if node is None:
            return False
        upstream = connection_to(self._session, node, first.facts.lane)
        if upstream is None or not upstream.admits(self._session.sender):
            return False
        self._sent.clear()
        while self._queue and self._queue[0].due <= now and self._target(self._queue[0]) == target:
            self._send_one(self._queue.pop(0), upstream, _ASKING if asks else b"")
        self._under_way = True
        upstream.when_drained(partial(self._answered, upstream))
        return True

    def _target(self, refused: _Refused) -> tuple[Node | None, bool]:
        assert isinstance(refused.upstream, PrivatePipeline), "each connection to a node has a key"
        node = None
        if refused.names_node:
            node = self._nodes.redirected(refused.errors[0], refused.upstream.key.node)
        if node is not None:
            return node, ASKS.hinted(refused.errors[0])
        slots = refused.facts.slots
        return self._nodes.owner(min(slots)) if slots else None, False

    def _send_one(self, refused: _Refused, upstream: UpstreamPipeline, asking: bytes) -> None:
        replies = [InFlightEntry(_NOBODY, 1, HIDE, None)] if asking else []
        sent: object = refused.raw if refused.unit is None else refused.unit
        for ran_on in _heard(refused.frames):
            ran_on.upstream, ran_on.asks = upstream, bool(asking)
        for frame in [_Frame(False, HIDE, None)] * refused.answered + refused.frames:
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


def _heard(frames: Sequence[_Frame]) -> Iterator[RanOn]:
    # What follows the commands with these replies is told where they run.
    for frame in frames:
        within = [frame.payload]
        if frame.action in (MEMBERS, UNWRAP):
            actions = frame.payload if frame.action == MEMBERS else frame.payload[0]
            within = [payload for _, payload in actions.values()]
        yield from (payload.ran_on for payload in within if isinstance(payload, HeardReply))


def _is_kept(sent: object) -> bool:
    return sent not in (None, ONCE, AS_IT_IS, READ_AS_IT_IS) and (not isinstance(sent, SentUnit) or sent.kept)


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
    if not _is_kept(entry.sent) or nodes is None:
        if nodes is not None and isinstance(upstream, PrivatePipeline):
            nodes.redirected(error, upstream.key.node)  # it is not sent again, but the slot map is asked for
        return hidden_redirect(error)
    if session.redirects is None:
        redirects = Redirects(session, nodes)
        session.redirects = redirects.meet
        redirects.begin()
    session.redirects(upstream, entry, error)
    return None


def _give_up(refused: _Refused) -> None:
    # The errors, without the names of nodes, take the place of the replies, with all that is to be done to those.
    place, source = refused.place, refused.upstream
    errors = UpstreamPipeline(source.listener, lambda _: None, source.errors)
    for frame in refused.frames:
        errors.expect(InFlightEntry(place if frame.own else _NOBODY, 1, frame.action, frame.payload))
    place.pending_replies -= 1
    hidden = hidden_redirect if refused.has_not_run else hidden_own_error
    errors.receive(b"".join(map(hidden, refused.errors)))

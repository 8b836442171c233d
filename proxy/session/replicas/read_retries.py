"""Reads that a replica does not answer, or not as their client may see it: they are sent again, to the primary.

Reads change nothing, so they may run twice. With a cluster upstream they go to the node which owns the slot by then.

- When the connection to a replica is lost, so are all that it owes.
- A command that it refuses (NOPERM, NOSCRIPT, MOVED …), and all behind it of the same client there: what a replica has
  run must not come behind what the primary has run later. The connection stays, and so do the reads of others.
- That a key does not exist, a replica of Redis Cluster also says of one that is on its way to another node. So its
  owner is asked, too. Where the owner does not send the read elsewhere, what the replica has said counts.
"""

from collections import deque
from collections.abc import Iterator

from proxy.commands.command import Command
from proxy.commands.error_texts import READ_ELSEWHERE
from proxy.commands.table import Lane
from proxy.hotpath.order.reply_order import Segment
from proxy.hotpath.upstream.in_flight import (
    EDIT,
    EDIT_SOME,
    FORWARD,
    JOIN,
    READ_AS_IT_IS,
    TRACE,
    InFlightEntry,
    ReplyPart,
    ReplySink,
)
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.session.cluster.node_connections import CLUSTERDOWN, connection_again, in_flight_to
from proxy.session.commands.switching import HELD_SECONDS
from proxy.session.guarded import guarded
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.pool_key import Node
from proxy.session.replicas.sent_again import commands_of, drop
from proxy.session.session import Session
from proxy.wire.request import Request

_EDITED = frozenset({EDIT, EDIT_SOME})
"""Rules edit the reply."""
_SENT_AGAIN = _EDITED | {FORWARD, TRACE}
"""Of reads that are sent again."""


class ReadRetries:
    """Commands of one client that the connection ``source`` to a replica was sent, with the places of their replies."""

    def __init__(self, session: Session, source: UpstreamPipeline) -> None:
        self.ports = session.ports
        self.client = session
        self._since = session.ports.route.now()
        self.errors = source.errors
        self._source = source
        self._commands: deque[tuple[bytes, InFlightEntry]] = deque()

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self._commands)

    @property
    def asks_owner(self) -> bool:
        """Whether the owner of another key is being asked."""
        reads = self.client.sender.reads
        return reads is not None and reads.asks_owner

    @asks_owner.setter
    def asks_owner(self, asks: bool) -> None:
        if self.client.sender.reads is not None:
            self.client.sender.reads.asks_owner = asks

    @property
    def gone(self) -> bool:
        """Whether the client has left."""
        return self.client.gone

    # What is sent again

    def take(self) -> bool:
        """Take all that the connection owes the client; False if not all of it can be sent again. Replies that still
        come are dropped."""
        if not all(map(_is_kept, self._theirs())):
            return False
        order = self.client.sender.begin_order()
        order.take_apart()
        sinks: dict[ReplySink, list[InFlightEntry]] = {}
        for entry in self._theirs():
            sinks.setdefault(entry.sink, []).append(entry)
        for entries in sinks.values():
            places = iter(order.spread(order.set_apart(self._source, entries)))
            for entry in entries:
                for command in commands_of(self.client, entry.sent, entry.due):
                    again = InFlightEntry(next(places), 1, entry.action, entry.payload)
                    self._commands.append((command, again))
            drop(entries)
        self._learns()
        return True

    def take_doubtful(self, reply: bytes) -> bool:
        """Take the read at the head, whose key does not exist by the ``reply`` of the replica. Sent again, it only
        tells whether that counts. False if that cannot be."""
        source = self._source
        if source.head is None or not _is_kept(source.head):
            return False
        order = self.client.sender.begin_order()
        order.take_apart()
        source.spread_head(commands_of(self.client, source.head.sent, source.head.due))
        entry = source.head
        place = order.set_apart(source, [entry])
        asked = InFlightEntry(place, 1, JOIN, OwnersReply(self, place, entry, reply))
        asked.sent = READ_AS_IT_IS
        self._commands.append((entry.sent, asked))
        drop([entry])
        self.asks_owner = True
        return True

    def has_own_errors(self) -> bool:
        """Whether the read at the head may answer any error, as a script does."""
        head = self._source.head
        if head is None or not _is_kept(head):
            return False
        raw, request = commands_of(self.client, head.sent, head.due)[0], Request()
        request.scan(raw, 0, self.client.intake.limits)
        return Command(self.client.effective_policy.table, request.arguments()).spec.own_errors

    def _theirs(self) -> list[InFlightEntry]:
        return [entry for entry in self._source.entries() if _is_of(entry.sink, self.client)]

    def _learns(self) -> None:
        # The primary may answer newer than any replica.
        reads = self.client.sender.reads
        for place in () if reads is None else reads.places:
            if place.upstream is self._source:
                place.note(False)

    def ask_elsewhere(self, raw: bytes, entry: InFlightEntry) -> None:
        """The read has another owner, or none now: its reply is what that one says."""
        entry.sink.pending_replies += 1  # until it is sent
        entry.sent, entry.size = raw, len(raw)  # it may be sent elsewhere once more
        self._commands.append((raw, entry))
        self._learns()
        self.send()

    def arrived(self) -> None:
        """There may be a connection to the primary."""
        self.send()

    def close(self, cause: str) -> None:
        """None came in time. With a cluster upstream, another node may own the slot by now."""
        if self.ports.nodes is None:
            self.client.close(cause)
        else:
            self.ports.nodes.await_look(self)

    def turn_away(self, error: bytes, cause: str) -> None:
        """The primary refuses connections."""
        if self.ports.nodes is None:
            self.client.turn_away(error, cause)
        else:
            self.ports.nodes.await_look(self)

    @guarded
    def send(self) -> None:
        """Send them to the primary of each, when it can be reached."""
        session = self.client
        while self._commands and not session.gone:
            raw, entry = self._commands[0]
            node, lane = self._way(raw)
            if self.ports.nodes is None:
                upstream = _to_primary(session, lane)
            else:
                upstream = None if node is None else connection_again(session, node, lane)
            if upstream is None or not upstream.admits(session.sender):
                if self.ports.nodes is not None and self.ports.route.now() - self._since > HELD_SECONDS:
                    self._give_up()
                else:
                    self._wait(node, lane)
                    return
            else:
                self._commands.popleft()
                if isinstance(entry.sink, Segment) and entry.action != JOIN:
                    entry.sink.source = upstream  # the client's next commands for that server take it, too
                session.sender.issue(upstream, raw, entry, commands=1)
                entry.sink.pending_replies -= 1  # it has been awaited since the replica was asked

    def _way(self, raw: bytes) -> tuple[Node | None, Lane]:
        # With a cluster upstream, the node for the command; the lane of its pool.
        config, nodes, request = self.client.intake.config, self.ports.nodes, Request()
        request.scan(raw, 0, self.client.intake.limits)
        command_id = config.lookup.find(request)
        lane = self.client.effective_policy.table.specs[command_id].lane
        if nodes is None or config.router is None:
            return None, lane
        return nodes.node(config.router.node(command_id, request, raw, config.keys)), lane

    def _wait(self, node: Node | None, lane: Lane) -> None:
        key = self.client.key
        if self.ports.nodes is None:
            self.ports.pools.await_shared(self, key, lane)
        elif node is None or in_flight_to(self.client, node) is not None:
            self.ports.nodes.await_look(self)
        else:
            self.ports.pools.await_shared(self, key._replace(node=node), lane)

    def _give_up(self) -> None:
        _, entry = self._commands.popleft()
        answers = UpstreamPipeline(self._source.listener, lambda _: None, self.errors)
        answers.expect(entry)
        entry.sink.pending_replies -= 1
        answers.receive(CLUSTERDOWN)


class OwnersReply(ReplyPart):
    """Takes what the owner of a key answers to a read. If it sends the read elsewhere, the read goes there; an error is
    the client's; and any other reply proves that the key is not on its way, so what the replica has said counts.
    ``raw`` is the read."""

    def __init__(self, reads: ReadRetries, place: Segment, entry: InFlightEntry, reply: bytes) -> None:
        self._reads = reads
        self._place = place
        self.raw = entry.sent
        self._action, self._payload = entry.action, entry.payload
        self._reply = reply
        self._begun = False

    def take(self, piece: bytes, frames: int, whole: bool) -> None:
        """The next bytes of it."""
        if not self._begun and piece.startswith(b"-"):
            self._reply = b"" if READ_ELSEWHERE.hinted(piece) else piece
        self._begun = True
        if not whole:
            return
        self._reads.asks_owner = False
        if not self._reply:
            self._reads.ask_elsewhere(self.raw, InFlightEntry(self._place, 1, self._action, self._payload))
            return
        errors = self._reads.errors
        if errors is not None and self._reply.startswith(b"-"):
            errors.add(self._reply, 0, len(self._reply))
        if self._action == TRACE:
            self._payload.begins(self._reply[: self._reply.index(b"\n") + 1])
            self._payload.comes(len(self._reply), whole=True)
        elif self._action in _EDITED:
            self._reply = self._payload(self._reply)
        self._place.order.bring(self._place, self._reply)


def _is_of(sink: ReplySink, client: object) -> bool:
    return sink.client() is client


def _is_kept(entry: InFlightEntry) -> bool:
    return entry.action in _SENT_AGAIN and isinstance(entry.sent, bytes)


def _to_primary(session: Session, lane: Lane) -> UpstreamPipeline | None:
    # Where it awaits replies of the primary, on that connection, or Redis might run its commands in another order.
    reads, sender = session.sender.reads, session.sender
    for source in _sources(session):
        if isinstance(source, PrivatePipeline) and not source.reads_only:
            return source
    primary = None if reads is None or lane is Lane.SLOW else reads.primary
    if primary is None or not primary.usable or primary.closed:
        primary = session.ports.pools.shared(session.key, lane)
        session.intake.direct = primary is not None and lane is Lane.FAST
    if reads is not None and primary is not None:
        reads.primary = primary
        sender.upstream = primary
    return primary


def _sources(session: Session) -> Iterator[UpstreamPipeline | None]:
    sender = session.sender
    order = sender.order
    if sender.pending_replies > (0 if order is None else order.beyond):
        yield sender.upstream if order is None else order.before
    segment: Segment | None = None if order is None else order.first
    while segment is not None:
        if segment.pending_replies > 0:
            yield segment.source
        segment = segment.next_entry

"""Reads that a policy lets replicas answer, for one client: from which replica, and when the primary answers instead.

The intake sends plain reads to a replica by itself (``ClientReads``). Here is what happens less often:

- the client chooses a replica, and keeps it as long as it can
- a command that the session handles waits until replicas owe the client nothing, and goes to the primary; a read that
  was judged or is traced can go to the replica
- what a replica owes when its connection is lost is sent again, to the primary: reads change nothing. Before a cluster
  that is the node which owns the slot by then

Clients with a connection of their own, with a user of their own, in MULTI or WATCH read from the primary.
"""

from collections.abc import Iterator
from functools import cache
from typing import Protocol

from proxy.commands.table import ConnectionState, Lane
from proxy.hotpath.client_reads import ClientReads, ReaderPlace
from proxy.hotpath.in_flight import FORWARD, TRACE, InFlightEntry, ReplySink
from proxy.hotpath.replica_reads import ReplicaTerms
from proxy.hotpath.reply_order import Segment
from proxy.hotpath.upstream_pipeline import UpstreamPipeline
from proxy.policy.compile import NOTHING
from proxy.policy.decision import Decision
from proxy.rules.verdict import PASS
from proxy.session import switching
from proxy.session.guarded import guarded
from proxy.session.item import Item
from proxy.session.judging import JudgedClient, reads_from_replicas, shares_replicas
from proxy.session.node_connections import CLUSTERDOWN, NodeClient, connection_again, in_flight_to
from proxy.session.pool_key import SOLE_NODE, Node
from proxy.session.ports import EffectivePolicy, PrivatePipeline, TracedCommand
from proxy.session.state import POOLED
from proxy.session.switching import HELD_SECONDS
from proxy.wire.request import COMPLETE, Request


class ReadingClient(NodeClient, JudgedClient, Protocol):
    """A session that may read from replicas."""

    effective_policy: EffectivePolicy
    trace: TracedCommand | None

    def choose_reader(self, place: ReaderPlace) -> None:
        """Choose the replica from which the client reads at this place."""


def begin(session: ReadingClient) -> None:
    """The policy lets replicas answer some reads: from now on what the client sends is followed."""
    port = session.ports.replicas
    if port is None:
        return
    port.begin()
    session.sender.reads = ClientReads(session.sender, port.unknown, port.clock, session.choose_reader)
    session.sender.reads.choose_anew(shares_replicas(session.key, session.ports.route))


def choose(session: ReadingClient, place: ReaderPlace) -> None:
    """Choose the replica from which the client reads, among those of the place's primary."""
    port = session.ports.replicas
    assert port is not None, "its reads are followed"
    group = port.group(place.number)
    if place.group is not group:
        place.attach(group)
    terms = session.effective_policy.config.plan.replica_reads
    found = None
    if shares_replicas(session.key, session.ports.route):
        same_zone = terms is not None and any(each.same_zone for each in terms.terms)
        found = port.reader(session.key, place.number, place.upstream, same_zone=same_zone)
    place.choose(*(found or (None, None)))


# Commands that the session handles


def passed(session: ReadingClient, command_id: int, data: bytes, request: Request) -> Decision:
    """The decision about a command that the plan lets go on: by which terms a replica may answer it."""
    config = session.effective_policy.config
    plan = config.plan
    if plan.replica_reads is None or not plan.asks_replicas(command_id):
        return NOTHING
    plan.find_terms(request, data, config.keys, config.keys.find(command_id, request))
    if reads_from_replicas(session):
        plan.count_terms()
    return _passed(plan.replica_reads.terms[plan.terms]) if plan.terms >= 0 else NOTHING


@cache
def _passed(terms: ReplicaTerms) -> Decision:
    return Decision(PASS, replica=terms)


def waits(session: ReadingClient) -> bool:
    """Whether such a command waits until replicas owe the client nothing. The connection to a replica is not what
    handlers take for the client's."""
    reads, sender = session.sender.reads, session.sender
    if reads is None:
        return False
    if reads.away and sender.pending_replies > 0:
        switching.wait_until_drained(session)
        return True
    reads.end_round()
    sender.upstream = reads.home(sender.upstream)
    return False


def note(session: ReadingClient, item: Item) -> None:
    """The command goes to the primary: by it the client may learn or change what it reads."""
    reads = session.sender.reads
    if reads is None or session.effective_policy.config.beside[item.command.spec.id]:
        return
    number = _number(session)
    if number is None:
        reads.note_everywhere(not item.reads)
    else:
        reads.note(number, not item.reads)


def _number(session: ReadingClient) -> int | None:
    # Of the primary that the command at hand is for; None for several, or where nobody can tell.
    if session.ports.nodes is None:
        return SOLE_NODE.number
    return None if session.node is None else session.node.number


def forward(session: ReadingClient, item: Item, terms: ReplicaTerms) -> bool:
    """Send a read to the client's replica; False if that cannot be, and the primary has to answer."""
    port, sender = session.ports.replicas, session.sender
    if sender.reads is None:
        begin(session)
    reads = sender.reads
    number = _number(session)
    if port is None or reads is None or number is None or session.state is not POOLED or not _is_plain(item):
        return False
    cached = session.intake.cached_reads
    if cached is not None and any(cached.may_serve_name(key.name) for key in item.command.known_keys):
        return False  # the replica may know more than memory
    router = session.intake.config.router
    if router is not None:
        reads.follow(router.version)
    place = reads.place(number)
    upstream = place.reader(terms.max_lag, port.clock())
    if upstream is None:
        return False
    if sender.pending_replies == 0:
        _go_on_without_session(session, reads)
    reads.away = True
    place.asked = reads.round
    item.trace, session.trace = session.trace, None
    wrote = sender.wrote
    sender.use(upstream)
    sender.forwarded += 1
    action, payload = (FORWARD, None) if item.trace is None else (TRACE, item.trace)
    if sender.order is None:
        sender.issue(upstream, item.raw, InFlightEntry(sender, 1, action, payload), commands=1)
    else:
        sender.send_for(sender.order.segment(upstream), upstream, item.raw, action, payload)
    sender.wrote = wrote
    if item.trace is not None:
        upstream.when_sent(item.trace.leaves)
    return True


def _go_on_without_session(session: ReadingClient, reads: ClientReads) -> None:
    # Else all of a client that only reads would come through here.
    if session.ports.nodes is not None:
        session.settle_nodes()
        session.intake.direct = True
    elif reads.primary is None:
        reads.primary = session.ports.pools.ready(session.key)
        session.intake.direct = reads.primary is not None


def _is_plain(item: Item) -> bool:
    spec = item.command.spec
    changed = item.edit is not None or item.hidden or item.wrapper is not None or item.instead_of is not None
    return spec.state is ConnectionState.POOL and spec.lane is Lane.FAST and not changed


# Replicas whose connection is lost


class LostReads:
    """What a ``lost`` connection to a replica owed a client: commands to send again, with the places of the replies."""

    def __init__(self, session: ReadingClient, lost: UpstreamPipeline) -> None:
        self.ports = session.ports
        self.client = session
        self._since = session.ports.route.now()
        self._lost = lost
        self._commands: list[tuple[bytes, InFlightEntry]] = []

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self._commands)

    @property
    def gone(self) -> bool:
        """Whether the client has left."""
        return self.client.gone

    def take(self) -> bool:
        """Take all that the connection owes the client out of its queue; False if not all of it can be sent again."""
        upstream = self._lost
        theirs = [each for each in upstream.entries() if _is_of(each.sink, self.client)]
        if any(each.action not in (FORWARD, TRACE) or not isinstance(each.sent, bytes) for each in theirs):
            return False
        order = self.client.sender.begin_order()
        order.take_apart()
        theirs = [each for each in upstream.entries() if _is_of(each.sink, self.client)]
        sinks: dict[ReplySink, list[InFlightEntry]] = {}
        for entry in theirs:
            sinks.setdefault(entry.sink, []).append(entry)
        for entries in sinks.values():
            place = order.set_apart(upstream, entries)
            for entry in entries:
                raws = list(_commands(self.client, entry.sent))[-entry.due :]
                self._commands += [(raw, InFlightEntry(place, 1, entry.action, entry.payload)) for raw in raws]
        return True

    def arrived(self) -> None:
        """There may be a connection to the primary."""
        self.send()

    def close(self, cause: str) -> None:
        """None came in time. Before a cluster, another node may own the slot by now."""
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
            node = self._owner(raw)
            upstream = _to_primary(session) if self.ports.nodes is None else _to_node(session, node)
            if upstream is None or not upstream.admits(session.sender):
                if self.ports.nodes is not None and self.ports.route.now() - self._since > HELD_SECONDS:
                    self._give_up()
                else:
                    self._wait(node)
                    return
            else:
                self._commands.pop(0)
                session.sender.issue(upstream, raw, entry, commands=1)
                entry.sink.pending_replies -= 1  # it has been awaited since the replica was asked

    def _owner(self, raw: bytes) -> Node | None:
        config, nodes, request = self.client.intake.config, self.ports.nodes, Request()
        if nodes is None or config.router is None:
            return None
        request.scan(raw, 0, self.client.intake.limits)
        return nodes.node(config.router.node(config.lookup.find(request), request, raw, config.keys))

    def _wait(self, node: Node | None) -> None:
        key = self.client.key
        if self.ports.nodes is None:
            self.ports.pools.await_shared(self, key, Lane.FAST)
        elif node is None or in_flight_to(self.client, node) is not None:
            self.ports.nodes.await_look(self)
        else:
            self.ports.pools.await_shared(self, key._replace(node=node), Lane.FAST)

    def _give_up(self) -> None:
        _, entry = self._commands.pop(0)
        answers = UpstreamPipeline(self._lost.listener, lambda _: None, self._lost.errors)
        answers.expect(entry)
        entry.sink.pending_replies -= 1
        answers.receive(CLUSTERDOWN)


def _is_of(sink: ReplySink, client: object) -> bool:
    return sink.client() is client


def _to_primary(session: ReadingClient) -> UpstreamPipeline | None:
    # Where it awaits replies of the primary, on that connection, or Redis might run its commands in another order.
    reads, sender = session.sender.reads, session.sender
    for source in _sources(session):
        if isinstance(source, PrivatePipeline) and not source.reads_only:
            return source
    primary = None if reads is None else reads.primary
    if primary is None or not primary.usable or primary.closed:
        primary = session.ports.pools.shared(session.key, Lane.FAST)
    if reads is not None and primary is not None:
        reads.primary = primary
        sender.upstream = primary
    return primary


def _to_node(session: ReadingClient, node: Node | None) -> UpstreamPipeline | None:
    return None if node is None else connection_again(session, node)


def _sources(session: ReadingClient) -> Iterator[UpstreamPipeline | None]:
    sender = session.sender
    order = sender.order
    if sender.pending_replies > (0 if order is None else order.beyond):
        yield sender.upstream if order is None else order.before
    segment: Segment | None = None if order is None else order.first
    while segment is not None:
        if segment.pending_replies > 0:
            yield segment.source
        segment = segment.next_entry


def _commands(session: ReadingClient, raw: bytes) -> Iterator[bytes]:
    request = Request()
    while request.scan(raw, request.end, session.intake.limits) == COMPLETE:
        yield raw[request.start : request.end]

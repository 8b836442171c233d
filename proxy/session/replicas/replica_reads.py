"""Reads that a policy lets replicas answer, for one client: from which replica, and when the primary answers instead.

The intake sends plain reads to a replica by itself (``ClientReads``). Here is what happens less often:

- the client chooses a replica, and keeps it as long as it can
- a command that the session handles waits until replicas owe the client nothing, and goes to the primary; a read that
  was judged or is traced can go to the replica

What a replica does not answer is sent again: see ``read_retries``.

Clients with a connection of their own, with a user of their own, in MULTI or WATCH read from the primary.
"""

from functools import cache, partial

from proxy.commands.command import Command
from proxy.commands.replica_reads import hides_absence, read_only_script
from proxy.commands.table import ConnectionState
from proxy.hotpath.plan.replica_reads import ReplicaTerms
from proxy.hotpath.replicas.client_reads import ClientReads
from proxy.hotpath.replicas.reader_place import ReaderPlace
from proxy.hotpath.upstream.in_flight import FORWARD, TRACE, InFlightEntry
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.policy.decision import NOTHING, Decision
from proxy.rules.verdict import PASS
from proxy.session.commands import switching
from proxy.session.commands.sending import action_of
from proxy.session.guarded import guarded
from proxy.session.item import Item
from proxy.session.policy.judging import reads_from_replicas
from proxy.session.ports.node_port import KnownScriptsPort, ReplicaPort
from proxy.session.ports.pool_key import SOLE_NODE
from proxy.session.session import Session
from proxy.wire.request import Request


def begin(session: Session) -> None:
    """The policy lets replicas answer some reads: from now on what the client sends is followed."""
    port = session.ports.replicas
    if port is None:
        return
    port.begin()
    session.sender.reads = ClientReads(session.sender, port.unknown, port.clock, partial(_choose, session))
    session.sender.reads.choose_anew(session.shares_replicas())


@guarded
def _choose(session: Session, place: ReaderPlace) -> None:
    """Choose the replica from which the client reads, among those of the place's primary."""
    port = session.ports.replicas
    assert port is not None, "its reads are followed"
    group = port.group(place.number)
    if place.group is not group:
        place.attach(group)
    reads = session.effective_policy.config.plan.replica_reads
    terms = [] if reads is None else [each for each in reads.terms if each.enforced]
    found = None
    if terms and session.shares_replicas():
        found = port.reader(session.key, place, terms)
    place.choose(*(found or (None, None)))


def scripts(session: Session) -> KnownScriptsPort | None:
    """The scripts that the primary knows, if the client may run some of them on replicas."""
    port = session.ports.replicas
    return None if port is None or session.sender.reads is None else port.scripts


# Commands that the session handles


def passed(session: Session, command_id: int, data: bytes, request: Request) -> Decision:
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


def waits(session: Session) -> bool:
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


def note(session: Session, item: Item) -> None:
    """The command goes to the primary: by it the client may learn or change what it reads."""
    if not session.effective_policy.config.beside[item.command.spec.id]:
        _note(session, wrote=not item.reads)


def told(session: Session) -> None:
    """Keyrail answers a command with what it has asked the primary: replicas may be older."""
    _note(session, wrote=False)


def _note(session: Session, *, wrote: bool) -> None:
    reads = session.sender.reads
    if reads is None:
        return
    number = _number(session)
    if number is None:
        reads.note_everywhere(wrote)
    else:
        reads.note(number, wrote)


def _number(session: Session) -> int | None:
    # Of the primary that the command at hand is for; None for several, or where nobody can tell.
    if session.ports.nodes is None:
        return SOLE_NODE.number
    return None if session.node is None else session.node.number


def forward(session: Session, item: Item, terms: ReplicaTerms) -> bool:
    """Send a read to the client's replica; False if that cannot be, and the primary has to answer."""
    if not reads_from_replicas(session):
        return False  # before a replica is looked for: that there is none for this client is no lack of them
    port, sender = session.ports.replicas, session.sender
    reads, number = _followed(session), _number(session)
    if port is None or reads is None or number is None or not _is_plain(item):
        return False
    cached = session.intake.cached_reads
    if cached is not None and any(cached.may_serve_name(key.name) for key in item.command.known_keys):
        return False  # the replica may know more than memory
    router = session.intake.config.router
    if router is not None:
        reads.follow(router.version)
    place = reads.place(number)
    if terms.same_zone:
        reads.prefer_zone(place)
    hidden = len(item.command.known_keys) > 1 or hides_absence(item.command.spec)
    now = port.clock()
    if place.may_read(terms.max_lag, now, hidden) and not _has_script(port, item.command, place.upstream):
        return False
    upstream = place.reader(terms.max_lag, now, hidden)
    if upstream is None:
        return False
    if item.command.spec.process_bound:
        session.ports.pools.relies_on_process(session)
    if session.effective_policy.compiled.policy.count_keys:
        for key in item.command.known_keys:
            session.intake.config.counters.move(key.name, 0, len(key.name))
    if sender.pending_replies == 0:
        _go_on_without_session(session, reads, number)
    reads.away = True
    place.asked = reads.round
    item.trace, session.trace = session.trace, None
    wrote = sender.wrote
    sender.use(upstream)
    sender.forwarded += 1
    action, payload = _reply_action(item)
    if sender.order is None:
        sender.issue(upstream, item.raw, InFlightEntry(sender, 1, action, payload), commands=1)
    else:
        sender.send_for(sender.order.segment(upstream), upstream, item.raw, action, payload)
    sender.wrote = wrote
    if item.trace is not None:
        upstream.when_sent(item.trace.leaves)
    return True


def _followed(session: Session) -> ClientReads | None:
    if session.sender.reads is None:
        begin(session)
    return session.sender.reads


def _go_on_without_session(session: Session, reads: ClientReads, number: int) -> None:
    # Else all of a client that only reads would come through here, one read behind the reply to the other: the intake
    # needs a connection to the primary, too, and knows none instead of one that is lost.
    if session.ports.nodes is not None:
        session.settle_nodes()
        used = session.sender.nodes
        upstream = None if used is None or number >= len(used) else used[number]
        if used is not None and upstream is not None and not upstream.usable:
            used[number] = None
        session.intake.direct = True
    elif not session.intake.direct or reads.primary is None or not reads.primary.usable:
        reads.primary = session.ports.pools.ready(session.key)
        session.intake.direct = reads.primary is not None


def _reply_action(item: Item) -> tuple[int, object]:
    # How the reply becomes the client's. No names are in it, so a tenant's is edited by rules alone.
    trace, edit = item.trace, item.value_edit
    if edit is None:
        return (FORWARD, None) if trace is None else (TRACE, trace)
    edit = edit if trace is None else trace.around(edit)
    return action_of(edit), edit


def _is_plain(item: Item) -> bool:
    return item.may_be_answered_elsewhere and item.command.spec.state is ConnectionState.POOL


def _has_script(port: ReplicaPort, command: Command, upstream: UpstreamPipeline | None) -> bool:
    # A text that the primary does not know yet has gone there: its reply is edited, by which it is remembered.
    if read_only_script(command.spec) != "sha":
        return True
    text = port.scripts.text_of(command.argv[1])
    return text is not None and upstream is not None and port.load(upstream, text)

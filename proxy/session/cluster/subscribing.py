"""SUBSCRIBE and its relatives with a cluster upstream, and what a client may do while it is subscribed.

A command about subscriptions runs alone: the replies before it have come, and the client's next command waits until all
nodes that it is about have confirmed. Then Keyrail makes the confirmations, with the client's own counts. All other
commands of the client go their usual ways, since no subscription is on their connections; in RESP2 there are few that
Redis allows a subscribed client.
"""

from collections.abc import Iterator, Sequence

from proxy.cluster.own_answers import has_its_arguments
from proxy.commands.slots import slot_of
from proxy.commands.spec import ConnectionState, Spec
from proxy.rules.verdict import chained
from proxy.session.cluster.node_connections import has_waited, unserved
from proxy.session.cluster.subscriber import Subscriber
from proxy.session.cluster.subscription_link import CLOSING, OPENING, SHARD_CHANNELS
from proxy.session.commands import sending, switching
from proxy.session.commands.keyrail_command import confined_error
from proxy.session.commands.switching import HELD_SECONDS
from proxy.session.item import Change, Item
from proxy.session.policy import tenancy
from proxy.session.ports.node_port import NodePort
from proxy.session.progress import Refused, Step
from proxy.session.session import Session
from proxy.session.state import Awaited
from proxy.wire.encode import encode_bulk, encode_error, encode_null

_STATES = frozenset({ConnectionState.SUBSCRIBE, ConnectionState.UNSUBSCRIBE})
_ALLOWED = frozenset({*_STATES, ConnectionState.RESET, ConnectionState.QUIT})
_PING = "PING"
_CROSSSLOT = encode_error("CROSSSLOT Keys in request don't hash to the same slot")
_A_MOMENT = 0.01


def send(session: Session, nodes: NodePort, item: Item) -> Step[None] | bool:
    """Deal with a command about subscriptions, or one that a subscribed client may not send: whether that is done, or
    what is left of it. Not for any other."""
    spec, transaction = item.command.spec, session.state.transaction
    if spec.state in _STATES and transaction is None and has_its_arguments(item.command):
        return _change(session, nodes, item)
    subscriber = _subscriber(session)
    if subscriber is None or not subscriber.confines():
        return False
    if item.trace is not None:
        item.trace.without_reply()
        item.trace = None
    if spec.name == _PING and has_its_arguments(item.command):
        return _ping(session, subscriber, item)
    if spec.state not in _ALLOWED:
        sending.answer(session, confined_error(spec))
        return True
    return False


def _subscriber(session: Session) -> Subscriber | None:
    subscriber = session.subscriber
    assert subscriber is None or isinstance(subscriber, Subscriber)
    return subscriber


def is_confined(session: Session) -> bool:
    """Whether the client is subscribed, and may do little else."""
    return session.subscriber is not None and session.subscriber.confines()


def _ping(session: Session, subscriber: Subscriber, item: Item) -> bool:
    # It asks a connection that carries subscriptions, as the client wants to know whether messages can come. Where that
    # is lost, another one is asked.
    switching.drained(session)
    if item.ping is not None and item.ping.reply:
        session.sender.forwarded += 1
        session.sender.answer(_pong(item.ping.reply))
        session.sender.flush()
        return True
    if item.ping is None or not subscriber.awaits(item.ping):
        item.ping = subscriber.ping(item.raw)
    if item.ping is not None:
        switching.must_wait(session, Awaited.SUBSCRIPTION)
    item.edit = chained(_pong, item.edit)
    return False


def _pong(frame: bytes) -> bytes:
    # PING is answered in another way while a RESP2 client is subscribed.
    if frame.startswith((b"-", b"*")):
        return frame
    return b"*2\r\n$4\r\npong\r\n" + (frame if frame.startswith(b"$") else b"$0\r\n\r\n")


def _change(session: Session, nodes: NodePort, item: Item) -> Step[None]:
    switching.drained(session)
    verb = item.command.name.lower().encode()
    opening = verb in OPENING
    kind = (OPENING if opening else CLOSING).index(verb)
    subscriber = _subscriber(session)
    if kind == SHARD_CHANNELS and _crosses_slots(session, nodes, item.command.argv[1:]):
        raise Refused(_CROSSSLOT)
    if subscriber is None:
        subscriber = session.subscriber = Subscriber(session, nodes)
        session.sender.notify_on_advance = True
    known = subscriber.names[kind]
    names = frozenset(item.command.argv[1:]) or frozenset(known)
    change = Change(kind, opening, names - known if opening else names & known)
    if change.names:
        subscriber.begin(change)
    return _until_done(session, nodes, subscriber, item, change)


def _crosses_slots(session: Session, nodes: NodePort, channels: Sequence[bytes]) -> bool:
    # One Redis takes shard channels of any slots together.
    return nodes.presented(session.origin.listener) is not None and len(set(map(slot_of, channels))) > 1


def _until_done(session: Session, nodes: NodePort, subscriber: Subscriber, item: Item, change: Change) -> Step[None]:
    cancel = session.ports.route.after(HELD_SECONDS + _A_MOMENT, session.arrived)
    try:
        while not (done := subscriber.is_done(change)) and not change.error and not has_waited(session, item):
            session.wait_for(Awaited.SUBSCRIPTION)
            yield
    finally:
        cancel()
    done = done and not change.error
    named = item.command.argv[1:] or list(subscriber.names[change.kind])
    count = subscriber.count(change.kind)
    subscriber.end(change, done=done)
    session.intake.simple = session.plain_commands()
    if not done:
        raise Refused(change.error or unserved(session, nodes.primaries()))
    session.sender.forwarded += 1
    frames = _confirmations(item.command.spec, session.key.protocol, named, count, change)
    edit = tenancy.message_edit(session.tenant)
    session.sender.answer(b"".join(frames if edit is None else map(edit, frames)))
    session.sender.flush()


def _confirmations(spec: Spec, protocol: int, named: Sequence[bytes], count: int, change: Change) -> Iterator[bytes]:
    # One for each name, with the count behind it; a single one without a name where there is none.
    new = set(change.names)
    head = (b"*" if protocol == 2 else b">") + b"3\r\n" + encode_bulk(spec.name.lower().encode())
    for name in named:
        if name in new:
            new.discard(name)
            count += 1 if change.opening else -1
        yield head + encode_bulk(name) + b":%d\r\n" % count
    if not named:
        yield head + encode_null(protocol) + b":%d\r\n" % count

"""Commands of a client before a cluster that are not for one node: to several of them as parts of one reply, to all one
after the other, or answered in their place.

The row of a command says what it is (``Destination``). The client's next command waits for the joined reply. A command
of the slow lane also waits for the replies before it, so that a client never has commands on two connections to a node.
"""

from collections.abc import Sequence
from functools import partial

from proxy.cluster.fan_out import fan_out, goes_to_several
from proxy.cluster.hidden_nodes import Shown, hidden
from proxy.cluster.own_answers import own_answer
from proxy.cluster.scan_walk import scan
from proxy.cluster.sending import send_fan_out, send_rounds, send_split
from proxy.commands.over_nodes import Destination
from proxy.commands.rows import ROWS
from proxy.commands.spec import ConnectionState
from proxy.commands.table import Lane
from proxy.hotpath.intake import TAKEN, WAIT
from proxy.hotpath.router import SEVERAL_SLOTS
from proxy.hotpath.split import Split, split
from proxy.hotpath.upstream_pipeline import UpstreamPipeline
from proxy.rules.verdict import chained
from proxy.session import sending, switching
from proxy.session.item import Item
from proxy.session.ports import Node, NodePort
from proxy.session.session import Session
from proxy.session.state import Awaited
from proxy.wire.encode import encode_error
from proxy.wire.numbers import read_digits
from proxy.wire.request import Request

_CROSSSLOT = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"
_DEFAULT_PORT = 6379


def route(session: Session, item: Item) -> int | None:
    """What has become of the command; None for one that goes to one node, or is about the client's connection."""
    nodes = session.ports.nodes
    if nodes is None:
        return None
    command = item.command
    own = own_answer(command, None, session.key.protocol, valkey=False)
    if own is not None:
        return _answered(session, item, own)
    row = ROWS.get(command.spec.name)
    if row is not None and row.shows_nodes is not None:
        item.edit = chained(partial(hidden, row.shows_nodes, _shown(session)), item.edit)
    if goes_to_several(command) or command.spec.over_nodes.destination is Destination.WALK:
        if session.state.transaction is None:
            return _to_several(session, nodes, item)
        if command.spec.over_nodes.destination is Destination.PUBLISH:
            return None
        return _answered(session, item, encode_error(f"ERR keyrail: {command.name} is of all nodes: not inside MULTI"))
    return _by_keys(session, nodes, item)


def _answered(session: Session, item: Item, reply: bytes) -> int:
    if item.trace is not None:
        item.trace.without_reply()
    if session.state.transaction is not None:
        error = encode_error(f"ERR keyrail: {item.command.name} is answered by Keyrail: not inside MULTI")
        sending.refuse(session, reply if reply.startswith(b"-") else error)
    else:
        sending.answer(session, reply)
    return TAKEN


def _shown(session: Session) -> Shown:
    host, _, port = session.origin.listener.rpartition(":")
    return Shown(host, read_digits(port) or _DEFAULT_PORT)


# Keys of several slots


def _by_keys(session: Session, nodes: NodePort, item: Item) -> int | None:
    command, config = item.command, session.intake.config
    router, request = config.router, Request()
    if router is None or not command.spec.may_have_keys:
        return None
    request.scan(item.raw, 0, session.intake.limits)
    if router.node(command.spec.id, request, item.raw, config.keys) != SEVERAL_SLOTS:
        return None
    parts = split(command.spec.id, request, item.raw, config.keys, router)
    splits = command.spec.over_nodes.destination is Destination.SPLIT and session.state.transaction is None
    if parts is None or not splits or item.hidden:
        return _answered(session, item, _CROSSSLOT)
    owners = [nodes.node(number) for number in parts.nodes]
    if any(owner is None for owner in owners):
        session.wait_for(Awaited.UPSTREAM)
        nodes.await_look(session)
        return WAIT
    upstreams = _connections(session, [owner for owner in owners if owner is not None], Lane.FAST)
    if upstreams is None:
        return WAIT
    _send_split(session, item, parts, upstreams)
    return TAKEN


def _send_split(session: Session, item: Item, parts: Split, upstreams: Sequence[UpstreamPipeline]) -> None:
    _note(session, item)
    send_split(session.sender, item.command, parts, upstreams, item.edit)
    switching.wait_until_drained(session)


# All nodes


def _to_several(session: Session, nodes: NodePort, item: Item) -> int:
    command = item.command
    alone = command.spec.lane is Lane.SLOW or command.spec.state is not ConnectionState.POOL
    if alone and session.sender.pending_replies > 0:
        switching.wait_until_drained(session)
        return WAIT
    primaries = nodes.primaries()
    upstreams = _connections(session, primaries, command.spec.lane)
    if upstreams is None or not primaries:
        if not primaries:
            session.wait_for(Awaited.UPSTREAM)
            nodes.await_look(session)
        return WAIT
    _note(session, item)
    if command.spec.over_nodes.destination is Destination.WALK:
        _walk(session, nodes, primaries, upstreams, item)
    else:
        names = [nodes.alias(node) for node in primaries]
        out = fan_out(command, names, session.key.protocol, session.ports.route.chance())
        send_fan_out(session.sender, out, upstreams, item.edit)
    if session.sender.pending_replies > 0:
        switching.wait_until_drained(session)
    return TAKEN


def _walk(
    session: Session, nodes: NodePort, primaries: Sequence[Node], upstreams: Sequence[UpstreamPipeline], item: Item
) -> None:
    rounds = scan(item.command.argv, [nodes.identity(node) for node in primaries], session.key.database)
    reply = send_rounds(session.sender, rounds, upstreams.__getitem__, item.edit)
    if reply is not None:
        sending.answer(session, reply)


def _note(session: Session, item: Item) -> None:
    session.sender.forwarded += 1
    session.sender.wrote = session.sender.wrote or not item.reads
    if item.trace is not None:
        item.trace.without_reply()


def _connections(session: Session, nodes: Sequence[Node], lane: Lane) -> list[UpstreamPipeline] | None:
    # A connection to each; None where the command waits for one.
    found = []
    for node in nodes:
        upstream = _connection(session, node, lane)
        if upstream is None:
            key = session.key._replace(node=node)
            session.wait_for(Awaited.UPSTREAM)
            session.ports.pools.await_shared(session, key, lane)
            return None
        found.append(upstream)
    return found


def _connection(session: Session, node: Node, lane: Lane) -> UpstreamPipeline | None:
    # On the fast lane the one that the client's other commands to the node use.
    key, used = session.key._replace(node=node), session.sender.nodes
    keeps = lane is Lane.FAST and used is not None and node.number < len(used)
    if keeps and used is not None:
        current = used[node.number]
        if current is not None and current.usable:
            return current
    found = session.ports.pools.shared(key, lane)
    if keeps and used is not None:
        used[node.number] = found
    return found

"""Which connection a client's next command takes, where a topology has several nodes: that of the command's node.

A client that has no state on any connection uses one for each node (``sender.nodes``), and the intake sends plain
commands on them by itself. It never has commands in flight on two connections to one node.

A command whose node has no connection waits for one, and for other slot maps, up to ``HELD_SECONDS`` in all. Then it is
answered CLUSTERDOWN, and the client stays. If the node has refused the login, the error says so.
"""

from collections.abc import Iterable, Sequence
from typing import NoReturn

from proxy.commands.table import Lane
from proxy.hotpath.intake.command_sender import CommandSender
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.session.commands import switching
from proxy.session.commands.switching import HELD_SECONDS
from proxy.session.item import Item
from proxy.session.policy.node_questions import stood_for
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.node_port import NodePort
from proxy.session.ports.pool_key import Node
from proxy.session.ports.pool_waiter import LOGIN_LOST
from proxy.session.progress import NotYet, Refused
from proxy.session.session import Session
from proxy.session.state import Awaited
from proxy.wire.encode import encode_error

CLUSTERDOWN = b"-CLUSTERDOWN Hash slot not served\r\n"


def any_node(session: Session, nodes: NodePort) -> Node | None:
    """The node for what any node can do: one for which the client's address stands, so that the client can read there
    what it has set at this address; another one if there is none."""
    own, every = stood_for(nodes, session.origin), nodes.primaries()
    if session.key.user is not None:
        # Its connections cannot be opened again: one that is there comes first.
        own, every = _with_connection(session, own), _with_connection(session, every)
    found = nodes.any(own)
    return found if found is not None and nodes.reachable(found) else nodes.any(every) or found


def _with_connection(session: Session, nodes: Sequence[Node]) -> Sequence[Node]:
    return [node for node in nodes if session.ports.pools.has_pool(session.key._replace(node=node))] or nodes


def keep_to_lane(session: Session, lane: Lane) -> None:
    """A command waits for the replies to those before it, if it or they are of the slow lane: on two connections to
    one node, it could run before them."""
    if lane is not Lane.FAST or not session.intake.direct:
        switching.drained(session)


def ready_connection(session: Session, node: Node, lane: Lane) -> UpstreamPipeline | None:
    """The connection for a command of this node; None where there is none now, or its replies from that node are still
    pending on another one."""
    session.settle_nodes()
    used = session.sender.nodes
    if lane is not Lane.FAST or used is None or node.number >= len(used):
        used = None
    current = None if used is None else used[node.number]
    if current is not None and current.usable and not current.closed:
        return current
    busy = in_flight_to(session, node)
    if busy is not None and (lane is not Lane.FAST or not busy.usable):
        return None
    found = busy or session.ports.pools.shared(session.key._replace(node=node), lane)
    if used is not None:
        used[node.number] = found
    return found


def connection_to(session: Session, node: Node, lane: Lane) -> UpstreamPipeline | None:
    """The same for a command that waits until no such reply is pending."""
    found = ready_connection(session, node, lane)
    if found is None and in_flight_to(session, node) is not None:
        switching.must_drain(session)
    return found


def first_connection(session: Session, number: int) -> UpstreamPipeline | None:
    """The connection for plain commands of the node with this number, where the client has had none; None where none
    takes commands now, or its replies from that node are still pending on another one."""
    nodes, used = session.ports.nodes, session.sender.nodes
    node = None if nodes is None else nodes.node(number)
    if node is None or used is None or in_flight_to(session, node) is not None:
        return None
    used[number] = session.ports.pools.ready(session.key._replace(node=node))
    return used[number]


def connection_again(session: Session, node: Node, lane: Lane = Lane.FAST) -> UpstreamPipeline | None:
    """The connection for a command that was under way elsewhere and can only go to this node now; None where there is
    none now."""
    busy, used = in_flight_to(session, node), session.sender.nodes
    if busy is not None:
        return busy if busy.usable else None
    if used is None or node.number >= len(used) or lane is not Lane.FAST:
        return session.ports.pools.shared(session.key._replace(node=node), lane)
    current = used[node.number]
    if current is None or not current.usable or current.closed:
        current = used[node.number] = session.ports.pools.shared(session.key._replace(node=node), Lane.FAST)
    return current


def leave_node(session: Session) -> None:
    """Give back a connection to one node that holds nothing of the client any more."""
    if session.state.upstream is not None and not session.keeps_pin():
        switching.drained(session)
        session.unpin()


def in_flight_to(session: Session, node: Node) -> UpstreamPipeline | None:
    sender, sources = session.sender, []
    order = sender.order
    if sender.pending_replies > (0 if order is None else order.beyond):
        sources.append(sender.upstream if order is None else order.before)
    segment = None if order is None else order.first
    while segment is not None:
        sources += segment.sources()
        segment = segment.next_entry
    if None in sources:
        # Some of these replies are joined from parts that went to connections of nodes.
        sources += [each for each in sender.nodes or () if each is not None and _owes(each, session.sender)]
    return next((each for each in sources if isinstance(each, PrivatePipeline) and each.key.node is node), None)


def _owes(upstream: UpstreamPipeline, sender: CommandSender) -> bool:
    return any(entry.sink.client() is sender.listener for entry in upstream.entries())


class _HeldCommand:
    """A command that waits for a connection to its node. That none comes in time is no reason to close its client."""

    def __init__(self, session: Session, nodes: NodePort, item: Item) -> None:
        self._session = session
        self._nodes = nodes
        self._item = item

    @property
    def gone(self) -> bool:
        """Whether the command waits no more."""
        return self._session.gone or self._session.held is not self._item

    def arrived(self) -> None:
        """There may be a connection, or another map."""
        if not self.gone:
            self._session.arrived()

    def close(self, cause: str) -> None:
        """None came in time: perhaps another node owns the slot by now."""
        if cause == LOGIN_LOST:
            self._session.close_when_drained(cause)
        else:
            self._nodes.await_look(self)

    def turn_away(self, _error: bytes, cause: str) -> None:
        """The node refuses connections."""
        self.close(cause)


_A_MOMENT = 0.01
"""Seconds."""


def has_waited(session: Session, item: Item) -> bool:
    """Whether the command has waited for its node for as long as any does. Its wait begins with the first call."""
    now = session.ports.route.now()
    if item.held_since is None:
        item.held_since = now
    return now - item.held_since > HELD_SECONDS


def unserved(session: Session, among: Iterable[Node | None]) -> bytes:
    """The error for a command that no connection to any of these nodes was found for in time."""
    nodes = session.ports.nodes
    for node in among:
        refusal = "" if node is None else session.ports.pools.refusal(session.key._replace(node=node))
        if node is not None and nodes is not None and refusal:
            return encode_error(f"CLUSTERDOWN keyrail: {nodes.alias(node)} has not accepted this login: {refusal}")
    return CLUSTERDOWN


def wait_for_node(
    session: Session, nodes: NodePort, item: Item, node: Node | None, lane: Lane, error: bytes = b""
) -> NoReturn:
    """Let the command wait for a connection to this node, or for any that owns its slot, unless it has waited: then it
    is refused with the error, or why there is none."""
    if has_waited(session, item):
        raise Refused(error or unserved(session, (node or session.node,)))
    waiter = _HeldCommand(session, nodes, item)
    if node is None:
        session.wait_for(Awaited.UPSTREAM)
        nodes.await_look(waiter)
        raise NotYet
    key = session.key._replace(node=node)
    switching.must_wait_for_upstream(session, session.ports.pools.await_shared(waiter, key, lane))


def wait_for_idle(session: Session, nodes: NodePort, item: Item, node: Node) -> NoReturn:
    """Let the command wait for a connection to this node on which nothing is pending, unless it has waited."""
    if has_waited(session, item):
        raise Refused(unreached(session, nodes, node))
    waiter = _HeldCommand(session, nodes, item)
    session.ports.route.after(HELD_SECONDS + _A_MOMENT, waiter.arrived)
    key = session.key._replace(node=node)
    switching.must_wait_for_upstream(session, session.ports.pools.await_private_anywhere(waiter, key))


def note(session: Session, item: Item) -> None:
    """The command goes to several nodes."""
    session.sender.forwarded += 1
    session.sender.wrote = session.sender.wrote or not item.reads
    if item.trace is not None:
        item.trace.without_reply()


def no_connection(nodes: NodePort, node: Node) -> bytes:
    """The error for what this node alone can do."""
    return encode_error(f"CLUSTERDOWN keyrail: no connection to {nodes.alias(node)}")


def unreached(session: Session, nodes: NodePort, node: Node) -> bytes:
    """The same, with the reason if the node has refused the login."""
    refused = unserved(session, (node,))
    return refused if refused != CLUSTERDOWN else no_connection(nodes, node)

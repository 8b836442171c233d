"""KEYRAIL NODE n1 <command>: the command goes to the node that the client names.

It is judged, counted and changed as if it had been sent plainly. What leaves state on a connection cannot be sent so,
nor what Keyrail answers in place of the nodes. If the node refuses it because of its slot, it is not sent elsewhere.
"""

from proxy.cluster.own_answers import own_answer
from proxy.commands.command import Command
from proxy.commands.over_nodes import Destination
from proxy.commands.table import ConnectionState
from proxy.hotpath.cluster.router import SEVERAL_SLOTS, UNOWNED
from proxy.hotpath.upstream.in_flight import ONCE, RAN
from proxy.session.cluster import idle_connections
from proxy.session.cluster.node_connections import connection_to, keep_to_lane, leave_node, unreached, wait_for_node
from proxy.session.cluster.node_of_keys import locate
from proxy.session.cluster.over_nodes import CROSSSLOT, hide_nodes
from proxy.session.cluster.subscribing import is_confined
from proxy.session.commands import switching
from proxy.session.commands.keyrail_command import confined_error
from proxy.session.commands.pinned import may_block
from proxy.session.item import Item
from proxy.session.ports.node_port import NodePort
from proxy.session.ports.pool_key import Node
from proxy.session.progress import Refused
from proxy.session.session import Session
from proxy.session.state import POOLED
from proxy.wire.encode import encode_error

_LONGEST_SHOWN = 64
_PLAIN = frozenset({ConnectionState.POOL, ConnectionState.ADMIN, ConnectionState.IDLE})
NO_CLUSTER = encode_error("ERR keyrail: KEYRAIL NODE is for clusters, and the upstream is not one")
_WITH_STATE = encode_error(
    "ERR keyrail: KEYRAIL NODE is not available inside MULTI, and on connections with WATCH: use another connection "
    "for it"
)


def send(session: Session, nodes: NodePort, item: Item, name: str) -> None:
    """Send the command to the node of this name."""
    command = item.command
    presented = nodes.presented(session.origin.listener)
    own = own_answer(command, presented, session.key.protocol, valkey=session.ports.capabilities.is_valkey())
    if own is not None and own.startswith(b"-"):
        raise Refused(own)
    if own is not None or not _fits(session, command):
        raise Refused(_unfit(command))
    if is_confined(session):
        raise Refused(confined_error(command.spec))
    if session.state.transaction is not None:
        raise Refused(_WITH_STATE)
    node = named(nodes, name)
    if node is None:
        raise Refused(_unknown(nodes, name))
    if item.hidden:
        raise Refused(_accompanied(command))
    leave_node(session)
    if session.state is not POOLED:
        raise Refused(_WITH_STATE)
    hide_nodes(session, item, presented)
    _to_node(session, nodes, item, node)


def named(nodes: NodePort, name: str) -> Node | None:
    """The primary of this name."""
    return next((node for node in nodes.primaries() if nodes.alias(node) == name), None)


def _fits(session: Session, command: Command) -> bool:
    if command.spec.state is ConnectionState.PIN:
        # They tell of a connection, and change nothing about it.
        return command.spec.over_nodes.destination is Destination.ONE_NODE
    return command.spec.state in _PLAIN or (
        command.spec.state is ConnectionState.BLOCKING and not may_block(session, command)
    )


def _to_node(session: Session, nodes: NodePort, item: Item, node: Node) -> None:
    number, lane = locate(session, nodes, item.command.spec, item.raw), item.command.spec.lane
    of_keys = item.command.spec.over_nodes.destination is not Destination.SLOT_NUMBER
    if number == SEVERAL_SLOTS:
        raise Refused(CROSSSLOT)
    if number == UNOWNED and of_keys:
        wait_for_node(session, nodes, item, None, lane)
    if session.node is not None and session.node is not node and of_keys:
        raise Refused(_elsewhere(nodes, item.command, node, session.node))
    if item.command.spec.state in idle_connections.STATES:
        _past_others(session, nodes, item, node)
        return
    keep_to_lane(session, lane)
    upstream = connection_to(session, node, lane)
    if upstream is None:
        wait_for_node(session, nodes, item, node, lane, unreached(session, nodes, node))
    if item.trace is not None:
        item.trace.without_reply()
    session.sender.wrote = session.sender.wrote or not item.reads
    session.sender.send_elsewhere(upstream, item.raw, item.edit, RAN if item.command.spec.own_errors else ONCE)
    switching.wait_until_drained(session)


def _past_others(session: Session, nodes: NodePort, item: Item, node: Node) -> None:
    idle_connections.wait_for_own(session, item.command)
    found = idle_connections.reserve(session, nodes, item, (node,))
    (upstream,) = found.upstreams
    assert upstream is not None, "it was looked for at one node alone"
    if item.trace is not None:
        item.trace.without_reply()
    session.sender.send_elsewhere(upstream, item.raw, item.edit, ONCE)
    idle_connections.await_reply(session, found.taken)


def _unfit(command: Command) -> bytes:
    return encode_error(
        f"ERR keyrail: {command.name} cannot be sent to a named node: it is about the client's connection, or Keyrail "
        "answers it"
    )


def _unknown(nodes: NodePort, name: str) -> bytes:
    primaries = ", ".join(map(nodes.alias, nodes.primaries())) or "unknown at present"
    return encode_error(
        f"ERR keyrail: {name[:_LONGEST_SHOWN]} is no primary of this cluster: its primaries are {primaries}"
    )


def _accompanied(command: Command) -> bytes:
    return encode_error(
        f"ERR keyrail: a rule of the policy adds commands to {command.name}, so it cannot be sent to a named node: "
        "send it without KEYRAIL NODE"
    )


def _elsewhere(nodes: NodePort, command: Command, node: Node, owner: Node) -> bytes:
    return encode_error(
        f"ERR keyrail: the keys of this {command.name} are on {nodes.alias(owner)}, not on {nodes.alias(node)}"
    )

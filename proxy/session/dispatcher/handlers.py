"""The handler of each judged command, by what it does to its connection: behind one server, and with a cluster.

A route has one or the other for good (``handlers_of``).
"""

from collections.abc import Callable, Mapping

from proxy.commands.command import Command
from proxy.commands.table import ConnectionState
from proxy.commands.wrapped import node_of
from proxy.rules.verdict import Refuse
from proxy.session.cluster import named_node, over_nodes, unqueued_commands
from proxy.session.commands import keyrail_command, pinned, subscribe, tracking_prefixes
from proxy.session.commands.forwarding import forward
from proxy.session.commands.handler import Handler
from proxy.session.dispatcher import leaving, refusals, transaction
from proxy.session.item import Item
from proxy.session.logins import client_names, handshake, login
from proxy.session.progress import Refused, Step
from proxy.session.session import Session
from proxy.wire.encode import encode_error

_HANDLERS: Mapping[ConnectionState, Handler] = {
    ConnectionState.POOL: forward,
    **pinned.HANDLERS,
    **unqueued_commands.HANDLERS,
}
"""Of commands that are forwarded, with all that rules want of them."""
_SURROUNDED = frozenset({ConnectionState.POOL, ConnectionState.BLOCKING, ConnectionState.ADMIN})
"""Those of them with which hidden commands can go."""
_CONNECTION_HANDLERS: Mapping[ConnectionState, Handler] = {
    **handshake.HANDLERS,
    **leaving.HANDLERS,
    **client_names.HANDLERS,
    **keyrail_command.HANDLERS,
    **transaction.HANDLERS,
    **subscribe.HANDLERS,
    **pinned.CONNECTION_HANDLERS,
}
_CHECKS: Mapping[ConnectionState, Callable[[Session, Item], None]] = {
    ConnectionState.ADMIN: login.note_change,
    ConnectionState.UNKNOWN: pinned.check_name,
    ConnectionState.PIN: tracking_prefixes.check,
}
"""What comes first, wherever the command goes. They raise Refused."""


def to_server(session: Session, item: Item) -> Step[None] | None:
    """With one server, or several of which one is the primary."""
    if not _is_possible(session, item):
        return None
    if item.wrapper is not None:
        raise Refused(named_node.NO_CLUSTER)
    return _handled(session, item)


def to_cluster(session: Session, item: Item) -> Step[None] | None:
    """With a cluster upstream."""
    nodes = session.ports.nodes
    assert nodes is not None
    if not _is_possible(session, item):
        return None
    if item.wrapper is not None:
        named_node.send(session, nodes, item, node_of(item.wrapper))
        return None
    sent = over_nodes.send(session, nodes, item)
    if sent:
        return None if sent is True else sent
    return _handled(session, item)


def _handled(session: Session, item: Item) -> Step[None] | None:
    if _is_queued(session, item):
        transaction.queue(session, item)
        return None
    state = item.command.spec.state
    handler = _HANDLERS.get(state) or _CONNECTION_HANDLERS[state]
    return handler(session, item)


def _is_queued(session: Session, item: Item) -> bool:
    return session.state.transaction is not None and item.command.spec.state not in transaction.ENDS_OR_LEAVES


def _is_possible(session: Session, item: Item) -> bool:
    # Else it has been refused.
    state = item.command.spec.state
    check = _CHECKS.get(state)
    if check is not None:
        check(session, item)
    changed = item.hidden or (item.edit is not None and not item.hides_nodes and state not in _HANDLERS)
    if changed and state not in _SURROUNDED and not _is_queued(session, item):
        refusals.refuse(session, item.command, Refuse(_unchangeable(item.command)))
        return False
    return True


def _unchangeable(command: Command) -> bytes:
    return encode_error(
        f"DENIED keyrail: a rule changes the reply to {command.name}, or adds commands to it, which no rule can do to "
        "a command about the connection itself; ask whoever maintains the policy to take the rule back"
    )

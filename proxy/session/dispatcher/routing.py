"""Where a judged command goes: to memory, to a replica, or to the handler for what it does to its connection."""

from collections.abc import Callable, Mapping

from proxy.commands.command import Command
from proxy.commands.table import ConnectionState
from proxy.commands.wrapped import node_of
from proxy.hotpath.intake.intake import TAKEN, WAIT
from proxy.rules.verdict import Refuse
from proxy.session import reply_mode
from proxy.session.cluster import named_node, over_nodes, unqueued_commands
from proxy.session.commands import cached_answers, keyrail_command, pinned, sending, subscribe, switching, write_pauses
from proxy.session.commands.forwarding import forward
from proxy.session.dispatcher import leaving, refusals, transaction
from proxy.session.item import Item
from proxy.session.logins import client_names, handshake, login
from proxy.session.replicas import replica_reads
from proxy.session.session import Session
from proxy.wire.encode import encode_error

_ORDERED = frozenset({ConnectionState.POOL, ConnectionState.ADMIN, ConnectionState.IDLE})
"""Commands that may run while several upstreams send replies."""


def route(session: Session, item: Item, data: bytes, end: int) -> int:
    """Send the command, or answer it from memory. One that waits is held, and comes back here.

    ``data`` from ``end`` on is what the client has sent behind it.
    """
    if write_pauses.waits(session, item):
        session.held = item
        return WAIT
    reads = session.intake.cached_reads
    if reads is not None:
        outcome = cached_answers.answer(session, reads, item)
        if outcome is not None:
            if outcome == WAIT:
                session.held = item
            else:
                replica_reads.note(session, item)
            return outcome
    before = None if reads is None else cached_answers.before(session)
    if item.terms is not None and replica_reads.forward(session, item, item.terms):
        outcome = TAKEN
    else:
        outcome = _to_primary(session, item, data, end)
    if reads is not None and before is not None and item.holds:
        cached_answers.hold(session, reads, item.command, before)
    return outcome


def _to_primary(session: Session, item: Item, data: bytes, end: int) -> int:
    sender = session.sender
    replica_reads.note(session, item)
    sender.writes = item.command.spec.may_replicate and not item.reads
    try:
        outcome = _hand_over(session, item, data, end)
    finally:
        sender.writes = False
    if item.command.spec.process_bound and outcome != WAIT and not session.gone:
        # Before that, it can still run in another process.
        session.ports.pools.relies_on_process(session)
    return outcome


def _hand_over(session: Session, item: Item, data: bytes, end: int) -> int:
    state = item.command.spec.state
    if session.sender.order is not None and (item.hidden or state not in _ORDERED):
        switching.wait_until_drained(session)
        session.held = item
        return WAIT
    if state is ConnectionState.ADMIN:
        login.note_change(session, item)
    if session.trace is not None:
        _trace(session, item)
    if state is ConnectionState.UNKNOWN and (error := pinned.error_instead(session, item.command)):
        sending.refuse(session, error)
        return TAKEN
    queued = session.state.transaction is not None and state not in transaction.ENDS_OR_LEAVES
    changed = item.hidden or (item.edit is not None and not item.hides_nodes and state not in _HANDLERS)
    if changed and not queued and state not in _SURROUNDED:
        return refusals.refuse(session, item.command, Refuse(_unchangeable(item.command)))
    outcome = _over_nodes(session, item)
    if outcome is not None:
        if outcome == WAIT:
            session.held = item
        return outcome
    if queued:
        return transaction.queue(session, item)
    if state in _HANDLERS:
        outcome = _HANDLERS[state](session, item)
    elif state is ConnectionState.MULTI:
        # The transaction's look-ahead is the only handler that reads on.
        outcome = transaction.multi(session, item, data, end)
    else:
        outcome = _CONNECTION_HANDLERS[state](session, item)
    if outcome == WAIT:
        session.held = item
    return outcome


def _trace(session: Session, item: Item) -> None:
    # Its reply is the command's own only where nothing stands around it.
    trace, session.trace = session.trace, None
    alone = session.state.transaction is None and item.command.spec.state is ConnectionState.POOL
    if trace is not None and (not alone or session.state.reply_mode != reply_mode.ON):
        trace.without_reply()
        trace = None
    item.trace = trace


def _over_nodes(session: Session, item: Item) -> int | None:
    if item.wrapper is not None:
        return named_node.route(session, item, node_of(item.wrapper))
    return over_nodes.route(session, item)


def _unchangeable(command: Command) -> bytes:
    return encode_error(
        f"DENIED keyrail: a rule changes the reply to {command.name}, or adds commands to it, which no rule can do to "
        "a command about the connection itself; ask whoever maintains the policy to take the rule back"
    )


_HANDLERS: Mapping[ConnectionState, Callable[[Session, Item], int]] = {
    ConnectionState.POOL: forward,
    **pinned.HANDLERS,
    **unqueued_commands.HANDLERS,
}
"""Of commands that are forwarded, with all that rules want of them."""
_SURROUNDED = frozenset({ConnectionState.POOL, ConnectionState.BLOCKING, ConnectionState.ADMIN})
"""Those of them with which hidden commands can go."""
_CONNECTION_HANDLERS: Mapping[ConnectionState, Callable[[Session, Item], int]] = {
    **handshake.HANDLERS,
    **leaving.HANDLERS,
    **client_names.HANDLERS,
    **keyrail_command.HANDLERS,
    **transaction.HANDLERS,
    **subscribe.HANDLERS,
    **pinned.CONNECTION_HANDLERS,
}

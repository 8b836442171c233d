"""Where a judged command goes: to memory, to a replica, or to the handler for what it does to its connection."""

from collections.abc import Mapping

from proxy.commands.command import Command
from proxy.commands.table import ConnectionState
from proxy.commands.wrapped import node_of
from proxy.rules.verdict import Refuse
from proxy.session import reply_mode
from proxy.session.cluster import named_node, over_nodes, unqueued_commands
from proxy.session.commands import (
    cached_answers,
    keyrail_command,
    pinned,
    sending,
    subscribe,
    switching,
    tracking_prefixes,
    write_pauses,
)
from proxy.session.commands.forwarding import forward
from proxy.session.commands.handler import Handler
from proxy.session.dispatcher import leaving, refusals, transaction
from proxy.session.item import Item
from proxy.session.logins import client_names, handshake, login
from proxy.session.progress import NotYet, Refused, Step
from proxy.session.replicas import replica_reads
from proxy.session.session import Session
from proxy.wire.encode import encode_error

_ORDERED = frozenset({ConnectionState.POOL, ConnectionState.ADMIN, ConnectionState.IDLE})
"""Commands that may run while several upstreams send replies."""
_OVER = object()


def go_on(session: Session, item: Item) -> bool:
    """Let the command go on as far as it can: whether nothing is left of it. Else the session holds it."""
    reads, sender = session.intake.cached_reads, session.sender
    before = None if reads is None else cached_answers.before(session)
    sender.writes = item.command.spec.may_replicate and not item.reads
    try:
        done = _advance(session, item)
    finally:
        sender.writes = False
    if not done:
        assert session.awaited is not None, "nothing would ever bring the command on"
        session.held = item
    elif item.command.spec.process_bound and not session.gone:
        # Before that, it can still run in another process.
        session.ports.pools.relies_on_process(session)
    if reads is not None and before is not None and item.holds:
        cached_answers.hold(session, reads, item.command, before)
    return done


def _advance(session: Session, item: Item) -> bool:
    step = item.step
    try:
        if step is None:
            sent = session.sender.forwarded, session.local
            try:
                step = item.step = _send(session, item)
            except NotYet:
                assert sent == (session.sender.forwarded, session.local), "what has been sent is not examined again"
                return False
        if step is not None and next(step, _OVER) is not _OVER:
            return False
    except Refused as refused:
        if item.trace is not None:
            item.trace.without_reply()
        sending.refuse(session, refused.error)
    item.step = None
    return True


def _send(session: Session, item: Item) -> Step[None] | None:
    write_pauses.check(session, item)
    reads = session.intake.cached_reads
    if reads is not None and cached_answers.answer(session, reads, item):
        item.holds = False
        replica_reads.note(session, item)
        return None
    if item.terms is not None and replica_reads.forward(session, item, item.terms):
        return None
    replica_reads.note(session, item)
    return _to_primary(session, item)


def _to_primary(session: Session, item: Item) -> Step[None] | None:
    state = item.command.spec.state
    if session.sender.order is not None and (item.hidden or state not in _ORDERED):
        switching.must_drain(session)
    if state is ConnectionState.ADMIN:
        login.note_change(session, item)
    if session.trace is not None:
        _trace(session, item)
    if state is ConnectionState.UNKNOWN and (error := pinned.error_instead(session, item.command)):
        raise Refused(error)
    own = item.instead_of or item.command
    if state is ConnectionState.PIN and (error := tracking_prefixes.error_instead(session, own)):
        raise Refused(error)
    queued = session.state.transaction is not None and state not in transaction.ENDS_OR_LEAVES
    changed = item.hidden or (item.edit is not None and not item.hides_nodes and state not in _HANDLERS)
    if changed and not queued and state not in _SURROUNDED:
        refusals.refuse(session, item.command, Refuse(_unchangeable(item.command)))
        return None
    if item.wrapper is not None:
        named_node.send(session, item, node_of(item.wrapper))
        return None
    sent = over_nodes.send(session, item)
    if sent:
        return None if sent is True else sent
    if queued:
        transaction.queue(session, item)
        return None
    handler = _HANDLERS.get(state) or _CONNECTION_HANDLERS[state]
    return handler(session, item)


def _trace(session: Session, item: Item) -> None:
    # Its reply is the command's own only where nothing stands around it.
    trace, session.trace = session.trace, None
    alone = session.state.transaction is None and item.command.spec.state is ConnectionState.POOL
    if trace is not None and (not alone or session.state.reply_mode != reply_mode.ON):
        trace.without_reply()
        trace = None
    item.trace = trace


def _unchangeable(command: Command) -> bytes:
    return encode_error(
        f"DENIED keyrail: a rule changes the reply to {command.name}, or adds commands to it, which no rule can do to "
        "a command about the connection itself; ask whoever maintains the policy to take the rule back"
    )


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

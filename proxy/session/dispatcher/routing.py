"""Where a judged command goes: to memory, to a replica, or to its handler (``handlers.py``)."""

from proxy.commands.table import ConnectionState
from proxy.session import reply_mode
from proxy.session.commands import cached_answers, sending, switching, write_pauses
from proxy.session.item import Item
from proxy.session.progress import NotYet, Refused, Step
from proxy.session.replicas import replica_reads
from proxy.session.session import Session

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
    if session.sender.order is not None and (item.hidden or item.command.spec.state not in _ORDERED):
        switching.must_drain(session)
    if session.trace is not None:
        _trace(session, item)
    return session.handlers.to_primary(session, item)


def _trace(session: Session, item: Item) -> None:
    # Its reply is the command's own only where nothing stands around it.
    trace, session.trace = session.trace, None
    alone = session.state.transaction is None and item.command.spec.state is ConnectionState.POOL
    if trace is not None and (not alone or session.state.reply_mode != reply_mode.ON):
        trace.without_reply()
        trace = None
    item.trace = trace

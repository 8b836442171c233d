"""Reads that wait on a shared connection behind another client's command, which Redis holds back: they are sent again,
on a connection that is not held up.

All that one client awaits of the held connection moves, or nothing does:

    only reads and commands without keys   they move, and the client's next commands go behind them there
    something that may write               all wait, as behind it they would on a connection of the client's own
    the command that is held back          the same: it is at the head of the connection

The same sinks await the same replies in the same order as before, from the other connection, so nothing of this client
is in flight on both. What the held connection still brings is dropped. When Redis goes on, it may run those reads once
more, before or after the client's later commands. They change nothing; Redis remembers for no connection that clients
share what was read there (CLIENT TRACKING); and nobody sees their replies: neither a client, who had newer ones, nor a
local cache, which fills itself on connections of its own.
"""

from collections.abc import Sequence
from itertools import takewhile

from proxy.commands.held_by_pause import may_run_elsewhere
from proxy.hotpath.order.interleaved import Interleaved
from proxy.hotpath.upstream.in_flight import EDIT, EDIT_SOME, FORWARD, JOIN, LOCAL, TRACE, InFlightEntry
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.session.guarded import guarded
from proxy.session.item import HeardReply
from proxy.session.replicas.read_retries import OwnersReply
from proxy.session.replicas.sent_again import commands_of, drop
from proxy.session.session import Session
from proxy.session.state import POOLED
from proxy.wire.request import Request

_MOVED = frozenset({FORWARD, TRACE, EDIT, EDIT_SOME, JOIN})


@guarded
def move(
    session: Session, source: UpstreamPipeline, entries: Sequence[InFlightEntry], target: UpstreamPipeline
) -> None:
    """Move the ``entries``, all that the client awaits of ``source``, to ``target``, another shared connection of the
    same pool; nothing, if that cannot be."""
    if not _may_move(session, source, target):
        return
    chunks = {entry: _chunk_of(session, entry) for entry in entries if entry.action != LOCAL}
    if not all(chunks.values()):
        return
    ready = [*takewhile(lambda entry: entry.action == LOCAL, entries)]
    moved = entries[len(ready) :]
    for entry in moved:
        session.sender.resend(target, entry, chunks.get(entry, b""))
    drop(moved)
    _follow(session, source, target)
    source.leave_early(ready)


def _may_move(session: Session, source: UpstreamPipeline, target: UpstreamPipeline) -> bool:
    # What a node of a cluster has refused is sent again in an order of its own.
    if session.gone or session.state is not POOLED or session.redirects is not None:
        return False
    held = source.head is None or source.head.sink.client() is session
    return not held and target.usable and not target.closed and target.admits(session.sender)


def _chunk_of(session: Session, entry: InFlightEntry) -> bytes:
    # The commands of the entry that are unanswered; nothing, if one of them must not be sent again.
    sent = entry.payload.raw if isinstance(entry.payload, OwnersReply) else entry.sent
    if entry.action not in _MOVED or not isinstance(sent, bytes) or isinstance(entry.payload, HeardReply):
        return b""
    commands, request = commands_of(session, sent, entry.due), Request()
    lookup, specs = session.intake.config.lookup, session.effective_policy.table.specs
    for raw in commands:
        request.scan(raw, 0, session.intake.limits)
        if not may_run_elsewhere(specs[lookup.find(request)]):
            return b""
    return b"".join(commands) if len(commands) == entry.due else b""


def _follow(session: Session, source: UpstreamPipeline, target: UpstreamPipeline) -> None:
    # Wherever the client has the one connection it has the other one from now on.
    sender, order = session.sender, session.sender.order
    if sender.upstream is source:
        sender.upstream = target
    if sender.nodes is not None:
        sender.nodes[:] = [target if each is source else each for each in sender.nodes]
    if sender.reads is not None and sender.reads.primary is source:
        sender.reads.primary = target
    if order is None:
        return
    if order.before is source:
        order.before = target
    segment = order.first
    while segment is not None:
        for each in (segment, *(segment.strands if isinstance(segment, Interleaved) else ())):
            if each.source is source:
                each.source = target
        segment = segment.next_entry

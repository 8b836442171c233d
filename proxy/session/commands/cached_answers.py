"""Reads that are answered from memory, and the keys that all other commands hold: see ``hotpath.cache.cached_reads``.

The intake answers most of them. What comes here is a read that memory does not have yet, which waits for it a moment,
and what the intake does not send by itself.
"""

from collections.abc import Iterable
from typing import NamedTuple

from proxy.commands.cached_reads import (
    ANY_KEYS,
    ANY_KEYS_UNTOLD,
    CACHED,
    CACHED_PARTS,
    NO_KEYS,
    READS,
    READS_ANY_KEYS,
    reads_no_others,
)
from proxy.commands.command import Command, KeysUnknownError
from proxy.hotpath.cache.cache_outcomes import COUNTED, MIXED, NOT_KEPT
from proxy.hotpath.cache.cached_reads import MOST_PARTS, CachedReads
from proxy.hotpath.upstream.late_replies import LateEdit
from proxy.rules.verdict import ReplyEdit
from proxy.session import reply_mode
from proxy.session.commands import sending, switching
from proxy.session.item import Item
from proxy.session.session import Session
from proxy.session.state import POOLED, Awaited
from proxy.wire.encode import encode_command

_LARGEST = (1 << 20) + 64
"""Bytes for each key that an answer may have that rules change. No value that Keyrail has compressed is larger."""
_PING = encode_command([b"PING"])
_REPLY_ON = encode_command([b"CLIENT", b"REPLY", b"ON"])
_REPLY_OFF = encode_command([b"CLIENT", b"REPLY", b"OFF"])


def answer(session: Session, reads: CachedReads, item: Item) -> bool:
    """Answer a read from memory, which may have to fetch it first; False where Redis has to answer."""
    if not _may_be_answered(session, reads, item):
        return False
    _await_portion(session, item.value_edit)
    if reads.roles[item.command.spec.id] == CACHED:
        payload = reads.answer(item.raw)
    else:
        payload = reads.answer_parts([key.name for key in item.command.known_keys])
    if payload is not None:
        if item.value_edit is not None:
            payload = _edited(payload, item.value_edit)
            if payload is None or len(payload) > _LARGEST * len(item.command.known_keys):
                return False  # it would wait here for as long as its client does not read
        if session.trace is not None:
            session.trace.without_reply()
            session.trace = None
        sending.answer(session, payload)
        return True
    if reads.outcome == COUNTED:
        item.holds = False
        return False
    caches = session.ports.caches
    if reads.outcome in (NOT_KEPT, MIXED) or caches is None:
        return False
    if item.awaited_reply is None or item.awaited_reply.over:
        item.awaited_reply, item.holds = caches.seek(reads, item.command, item.raw, session, item.awaited_reply)
    if item.awaited_reply is not None:
        switching.must_wait(session, Awaited.MEMORY)
    return False


def _await_portion(session: Session, edit: ReplyEdit | None) -> None:
    # Where others have used up what may be decompressed in this turn of the event loop, the read goes on in the next.
    if isinstance(edit, LateEdit) and edit.portions.used_up:
        edit.portions.wait(session.arrived)
        switching.must_wait(session, Awaited.MEMORY)


def _edited(payload: bytes, edit: ReplyEdit) -> bytes | None:
    """What the client gets; None if that takes several turns of the event loop, as only a reply of Redis may."""
    if not isinstance(edit, LateEdit):
        return edit(payload)
    try:
        next(edit.making([payload]))
    except StopIteration as made:
        return b"".join(made.value)
    return None


def _may_be_answered(session: Session, reads: CachedReads, item: Item) -> bool:
    role = reads.roles[item.command.spec.id]
    if reads.mask == 0 or role not in (CACHED, CACHED_PARTS) or session.state is not POOLED:
        return False
    if item.asked or not item.may_be_answered_elsewhere:
        return False
    return 0 < len(item.command.known_keys) <= (1 if role == CACHED else MOST_PARTS)


# The keys of what is sent


class Before(NamedTuple):
    """How a client stood before one of its commands was handed over: the replies that it had ``requested``, and what
    CLIENT REPLY said."""

    requested: int
    reply_mode: int


def before(session: Session) -> Before:
    """How it stands now."""
    return Before(session.sender.requested, session.state.reply_mode)


def hold(session: Session, reads: CachedReads, command: Command, since: Before) -> None:
    """A command has been handed over that the intake does not send by itself: it holds its keys up to its reply.

    One without a reply holds nothing. Its client has a connection of its own, where nothing is answered from memory,
    and for all others its write is like one that is sent to Redis directly.
    """
    caches = session.ports.caches
    role = reads.roles[command.spec.id]
    if caches is not None and command.spec.process_bound and caches.scripts.note(command) and role == ANY_KEYS:
        role = ANY_KEYS_UNTOLD
    only_reads = role in (CACHED, CACHED_PARTS, READS, READS_ANY_KEYS)
    # What Redis does not tell counts also for keys that become hot before it has run.
    if (reads.cache.idle and role != ANY_KEYS_UNTOLD) or role == NO_KEYS or (only_reads and reads.mask == 0):
        return
    sender = session.sender
    if reads.queued is None and sender.requested == since.requested:
        if role == ANY_KEYS_UNTOLD and since.reply_mode != reply_mode.ON:
            _hold_back_untold(session, reads, since.reply_mode)
        return
    running = session.state.transaction
    if reads.queued is None and role == ANY_KEYS_UNTOLD:
        _hold_back_untold(session, reads, reply_mode.ON)
    elif role == READS_ANY_KEYS:
        reads.look(sender, sender.requested)
    elif running is not None and running.switches.queued:
        reads.hold_back(sender, sender.requested, role == ANY_KEYS_UNTOLD)
    else:
        names = _names(session, role, command)
        if names is None:
            reads.hold_back(sender, sender.requested, role == ANY_KEYS_UNTOLD)
        else:
            for name in names:
                reads.hold_name(name, sender, sender.requested, only_reads)


def _names(session: Session, role: int, command: Command) -> Iterable[bytes] | None:
    # The keys that a command reads or may write; None if it may be about others.
    caches = session.ports.caches
    if role < ANY_KEYS or reads_no_others(command.spec, command.argv):
        try:
            return [key.name for key in command.keys]
        except KeysUnknownError:
            return None
    if caches is not None and command.spec.own_errors:
        return caches.scripts.of(command, session.effective_policy.table)
    return None


def told(session: Session, command: Command) -> None:
    """Keyrail answers a command with what it has asked Redis: memory may be older."""
    reads = session.intake.cached_reads
    if reads is not None and not reads.cache.idle and reads.mask != 0 and reads.roles[command.spec.id] != NO_KEYS:
        reads.look(session.sender, session.sender.requested)


def begin_anew(session: Session) -> None:
    """The client leaves a connection of its own, on which it may have written without waiting for replies."""
    reads = session.intake.cached_reads
    if reads is not None and not reads.cache.idle:
        reads.hold_back(session.sender, session.sender.requested)


def begin_transaction(session: Session) -> None:
    """MULTI has been accepted or sent."""
    reads = session.intake.cached_reads
    if reads is not None:
        reads.begin_transaction()


def end_transaction(session: Session) -> None:
    """EXEC or DISCARD has been sent, or Redis has refused the MULTI, so each command has run by itself."""
    reads = session.intake.cached_reads
    if reads is not None and reads.end_transaction(session.sender, session.sender.requested):
        _hold_back_untold(session, reads, session.state.reply_mode)


def _hold_back_untold(session: Session, reads: CachedReads, mode: int) -> None:
    # Redis does not tell what the command changes, so memory must know when it has run, also if its client has left,
    # or gets no reply: that shows by a reply behind it on its connection.
    sender, state, upstream = session.sender, session.state, session.sender.upstream
    if session.ports.nodes is not None:
        reads.hold_back(sender, sender.requested)  # nodes of a cluster refuse it
        return
    caches = session.ports.caches
    if caches is None or upstream is None or (state.subscriptions is not None and state.subscriptions.confines()):
        return  # nothing has been sent, or Redis refuses it
    relayed = state.reply_mode == reply_mode.RELAYED
    own = state.upstream
    if own is not None and not relayed:
        if mode == reply_mode.OFF:
            sender.hide(own, _REPLY_ON)
            sender.send_unanswered(_REPLY_OFF)
        else:
            sender.hide(own, _PING)
    caches.hold_back_untold(reads, sender, upstream, relayed=relayed)

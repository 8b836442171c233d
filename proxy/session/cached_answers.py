"""Reads that are answered from memory, and the keys that all other commands hold: see ``hotpath.cached_reads``.

The intake answers most of them. What comes here is a read that memory does not have yet, which waits for it a moment,
and what the intake does not send by itself.
"""

from typing import Protocol

from proxy.commands.cached_reads import (
    ANY_KEYS,
    ANY_KEYS_UNTOLD,
    CACHED,
    CACHED_PARTS,
    NO_KEYS,
    READS,
    READS_ANY_KEYS,
)
from proxy.commands.command import Command, KeysUnknownError
from proxy.hotpath.cached_reads import COUNTED, MIXED, MOST_PARTS, TOO_LARGE, CachedReads
from proxy.hotpath.intake import TAKEN, WAIT
from proxy.session import reply_mode, sending
from proxy.session.item import Item
from proxy.session.ports import EffectivePolicy, TracedCommand
from proxy.session.sending import SendingClient
from proxy.session.state import POOLED, Awaited
from proxy.session.views import WaitingClient


class CachingClient(SendingClient, WaitingClient, Protocol):
    """A session, as far as its reads are answered from memory."""

    trace: TracedCommand | None


class HoldingClient(SendingClient, Protocol):
    """A session, as far as its commands hold keys."""

    effective_policy: EffectivePolicy


def answer(session: CachingClient, reads: CachedReads, item: Item) -> int | None:
    """Answer a read from memory, or have it wait until memory has its reply; None where Redis has to answer."""
    if not _may_be_answered(session, reads, item):
        return None
    if reads.roles[item.command.spec.id] == CACHED:
        payload = reads.answer(item.raw)
    else:
        payload = reads.answer_parts([key.name for key in item.command.known_keys])
    if payload is not None:
        if session.trace is not None:
            session.trace.without_reply()
            session.trace = None
        sending.answer(session, payload)
        return TAKEN
    if reads.outcome == COUNTED:
        item.holds = False
        return None
    caches = session.ports.caches
    if reads.outcome in (TOO_LARGE, MIXED) or caches is None:
        return None
    if item.awaited_reply is None or item.awaited_reply.over:
        item.awaited_reply, item.holds = caches.seek(reads, item.command, item.raw, session, item.awaited_reply)
        if item.awaited_reply is None:
            return None
    session.wait_for(Awaited.MEMORY)
    return WAIT


def _may_be_answered(session: CachingClient, reads: CachedReads, item: Item) -> bool:
    role = reads.roles[item.command.spec.id]
    if reads.mask == 0 or role not in (CACHED, CACHED_PARTS) or session.state is not POOLED:
        return False
    changed = item.edit is not None or item.hidden or item.instead_of is not None or item.wrapper is not None
    if changed or item.asked:
        return False
    return 0 < len(item.command.known_keys) <= (1 if role == CACHED else MOST_PARTS)


def hold(session: HoldingClient, reads: CachedReads, command: Command) -> None:
    """A command has been sent that the intake does not send by itself."""
    caches = session.ports.caches
    if caches is not None and command.spec.process_bound:
        caches.scripts.note(command)
    role = reads.roles[command.spec.id]
    only_reads = role in (CACHED, CACHED_PARTS, READS, READS_ANY_KEYS)
    if reads.cache.idle or role == NO_KEYS or (only_reads and reads.mask == 0):
        return
    sender = session.sender
    # The reply to what is sent next shows that a command without a reply has run.
    at = sender.requested + (session.state.reply_mode != reply_mode.ON)
    running = session.state.transaction
    elsewhere = running is not None and running.switches_database
    if elsewhere:
        reads.hold_back(sender, at, role == ANY_KEYS_UNTOLD)
        return
    if role < ANY_KEYS:
        try:
            for key in command.keys:
                reads.hold_name(key.name, sender, at, only_reads)
            return
        except KeysUnknownError:
            pass
    elif caches is not None and command.spec.own_errors:
        own = caches.scripts.of(command, session.effective_policy.table)
        if own is not None:
            for name in own:
                reads.hold_name(name, sender, at, False)
            return
    reads.hold_back(sender, at, role == ANY_KEYS_UNTOLD)

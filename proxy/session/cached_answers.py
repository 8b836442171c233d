"""Reads that are answered from memory, and the keys that all other commands hold: see ``hotpath.cached_reads``.

The intake answers most of them. What comes here is a read that memory does not have yet, which waits for it a moment,
and what the intake does not send by itself.
"""

from typing import Protocol

from proxy.commands.cached_reads import ANY_KEYS, ANY_KEYS_UNTOLD, CACHED, NO_KEYS, READS, READS_ANY_KEYS
from proxy.commands.command import Command, KeysUnknownError
from proxy.hotpath.cached_reads import COUNTED, TOO_LARGE, CachedReads
from proxy.hotpath.intake import TAKEN, WAIT
from proxy.session import reply_mode, sending
from proxy.session.item import Item
from proxy.session.ports import TracedCommand
from proxy.session.sending import SendingClient
from proxy.session.state import POOLED, Awaited
from proxy.session.views import WaitingClient


class CachingClient(SendingClient, WaitingClient, Protocol):
    """A session, as far as its reads are answered from memory."""

    trace: TracedCommand | None


def answer(session: CachingClient, reads: CachedReads, item: Item) -> int | None:
    """Answer a read from memory, or have it wait until memory has its reply; None where Redis has to answer."""
    if not _may_be_answered(session, reads, item):
        return None
    payload = reads.answer(item.raw)
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
    if reads.outcome == TOO_LARGE or caches is None:
        return None
    if item.awaited_reply is None or item.awaited_reply.over:
        item.awaited_reply, item.holds = caches.seek(reads, item.command, item.raw, session, item.awaited_reply)
        if item.awaited_reply is None:
            return None
    session.wait_for(Awaited.MEMORY)
    return WAIT


def _may_be_answered(session: CachingClient, reads: CachedReads, item: Item) -> bool:
    if reads.mask == 0 or reads.roles[item.command.spec.id] != CACHED or session.state is not POOLED:
        return False
    changed = item.edit is not None or item.hidden or item.instead_of is not None or item.wrapper is not None
    return not changed and not item.asked and len(item.command.known_keys) == 1


def hold(session: SendingClient, reads: CachedReads, command: Command) -> None:
    """A command has been sent that the intake does not send by itself."""
    role = reads.roles[command.spec.id]
    only_reads = role in (CACHED, READS, READS_ANY_KEYS)
    if reads.cache.idle or role == NO_KEYS or (only_reads and reads.mask == 0):
        return
    sender = session.sender
    # The reply to what is sent next shows that a command without a reply has run.
    at = sender.requested + (session.state.reply_mode != reply_mode.ON)
    running = session.state.transaction
    elsewhere = running is not None and running.switches_database
    if role < ANY_KEYS and not elsewhere:
        try:
            for key in command.keys:
                reads.hold_name(key.name, sender, at, only_reads)
            return
        except KeysUnknownError:
            pass
    reads.hold_back(sender, at, role == ANY_KEYS_UNTOLD)

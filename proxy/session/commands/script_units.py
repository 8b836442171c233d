"""Scripts with a cluster upstream: each in a transaction of its own, so that it is proved whether the script has run.

A script can return any error, also one that reads as a node's MOVED. Inside MULTI a node refuses the script where it is
queued, or refuses EXEC; what the script itself returns stands in EXEC's array:

    MULTI                 +OK                               hidden
    EVAL … 1 k            +QUEUED, or the node's MOVED      kept
    EXEC                  *1, the script's reply            the reply, to the client
                          or the node's ASK, TRYAGAIN …     sent again: see ``redirects``

A user who may not run MULTI gets all errors as they come, without the names of nodes.
"""

from typing import Any

from proxy.commands.error_texts import NO_MULTI
from proxy.hotpath.upstream.in_flight import EDIT, FORWARD, HIDE, NOTE, TRACE, UNWRAP, InFlightEntry, ReplySink
from proxy.session.commands.exec_abort import reason_of
from proxy.session.item import Item
from proxy.session.session import Session
from proxy.session.state import POOLED
from proxy.wire.encode import encode_command

_MULTI = encode_command([b"MULTI"])
_EXEC = encode_command([b"EXEC"])
_QUEUED = b"+QUEUED\r\n"
_NOBODY = ReplySink()
"""Receives replies that no client gets."""


def proves_refusals(session: Session, item: Item) -> bool:
    """Whether the command goes in a transaction of its own: a script with keys, on a shared connection of a cluster."""
    spec = item.command.spec
    if session.ports.nodes is None or not spec.own_errors or session.no_transactions:
        return False
    return spec.process_bound and session.node is not None and session.state is POOLED


def send(session: Session, item: Item) -> None:
    """Send the script on the current connection."""
    sender, upstream, script = session.sender, session.sender.upstream, _Script(session, item)
    assert upstream is not None
    sender.forwarded += 1
    sender.begin_unit(upstream)
    sender.issue(upstream, _MULTI, InFlightEntry(_NOBODY, 1, HIDE, None))
    replies = (
        InFlightEntry(_NOBODY, 1, NOTE, script.queued),
        InFlightEntry(sender, 1, UNWRAP, ({0: script.action()}, script.instead)),
    )
    sender.issue(upstream, item.raw + _EXEC, *replies, commands=1)
    sender.end_unit()
    if item.trace is not None:
        upstream.when_sent(item.trace.leaves)


class _Script:
    """A script under way."""

    def __init__(self, session: Session, item: Item) -> None:
        self._session = session
        self._item = item
        self._early: bytes | None = None

    def action(self) -> tuple[int, Any]:
        """The action on the reply of the script."""
        edit, trace = self._item.edit, self._item.trace
        if edit is not None:
            return EDIT, edit if trace is None else trace.around(edit)
        return (FORWARD, None) if trace is None else (TRACE, trace)

    def queued(self, frame: bytes) -> None:
        """The node has answered the script: it is queued, or refused; or it has run at once, as MULTI was refused."""
        if frame != _QUEUED:
            self._early = frame

    def instead(self, frame: bytes) -> bytes:
        """What the client gets where EXEC has no array."""
        # Refused for good, and not for a moment, as by a node that is loading.
        if self._early is not None and NO_MULTI.begin(frame):
            self._session.no_transactions = True
        reply = self._early or reason_of(frame)
        edit, trace = self._item.edit, self._item.trace
        if trace is not None:
            trace.without_reply()
        if reply is None:
            reply = frame
        return reply if edit is None else edit(reply)

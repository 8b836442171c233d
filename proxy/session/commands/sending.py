"""Commands that a client sends and answers that Keyrail gives: each falls silent where CLIENT REPLY says so."""

from proxy.hotpath.upstream.in_flight import EDIT, EDIT_ERROR, EDIT_SOME, REPLACE, TRACE, InFlightEntry
from proxy.hotpath.upstream.late_replies import LateEdit
from proxy.rules.verdict import ReplyEdit
from proxy.session import reply_mode
from proxy.session.commands import client_reply
from proxy.session.commands.exec_abort import ABORTING_COMMAND
from proxy.session.ports.open_trace import OpenTrace
from proxy.session.session import Session
from proxy.session.state import NodelessMulti
from proxy.tenants.replies import ErrorEdit

_AT_ONCE = 64
_SHORT = 4096
"""Bytes. So many short answers gather before they leave, and no longer one, as the client may not take them."""


def submit(session: Session, raw: bytes, edit: ReplyEdit | None = None) -> None:
    """Send one command to the current upstream and expect its reply, unless CLIENT REPLY has silenced it."""
    sender = session.sender
    upstream = sender.upstream
    assert upstream is not None
    if session.state.reply_mode != reply_mode.ON and client_reply.falls_on(session):
        sender.forwarded += 1
        sender.wrote = True
        sender.issue(upstream, raw, commands=1)
    elif edit is None:
        assert sender.nodes is not None or not sender.awaits_elsewhere(), "what comes behind waits for that reply"
        sender.forward(upstream, raw)
    else:
        sender.forwarded += 1
        sender.submit_with_action(raw, action_of(edit), edit)


def action_of(edit: ReplyEdit) -> int:
    """The action by which this edit gets the reply: where it leaves a large one as it is, the client need not wait for
    its end."""
    if isinstance(edit, LateEdit):
        return EDIT_SOME
    return EDIT_ERROR if isinstance(edit, ErrorEdit) else EDIT


def submit_traced(session: Session, raw: bytes, edit: ReplyEdit | None, trace: OpenTrace) -> None:
    """The same, and the reply is measured."""
    sender = session.sender
    upstream = sender.upstream
    assert upstream is not None
    if edit is None:
        sender.forwarded += 1
        sender.submit_with_action(raw, TRACE, trace)
    else:
        submit(session, raw, trace.around(edit))
    upstream.when_sent(trace.leaves)


def answer(session: Session, payload: bytes) -> None:
    """An answer of Keyrail's own, in its place among the replies."""
    if session.state.reply_mode != reply_mode.ON and client_reply.swallows(session):
        return
    session.local += 1
    if payload.startswith(b"-"):
        session.ports.route.count_error(payload)
    if session.state.reply_mode == reply_mode.RELAYED:
        client_reply.answer_relayed(session, lambda _: payload)
        return
    sender = session.sender
    at_once = sender.answer(payload)
    if at_once and (not session.intake.running or len(sender.out) >= _AT_ONCE or len(payload) > _SHORT):
        sender.flush()


def refuse(session: Session, error: bytes, aborting: bytes = ABORTING_COMMAND) -> None:
    """Answer a refusal; inside MULTI, so that Redis aborts the transaction as for any bad command."""
    state = session.state
    if type(state) is NodelessMulti:
        state.spoiled = True
    if state.transaction is None or type(state) is NodelessMulti:
        answer(session, error)
        return
    sender = session.sender
    upstream = sender.upstream
    assert upstream is not None
    session.ports.route.count_error(error)
    silent = client_reply.falls_on(session)
    sender.issue(upstream, aborting, *(() if silent else (InFlightEntry(sender, 1, REPLACE, error),)))

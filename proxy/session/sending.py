"""Commands that a client sends and answers that Keyrail gives: each falls silent where CLIENT REPLY says so."""

from typing import Protocol

from proxy.hotpath.in_flight import EDIT, REPLACE, TRACE, InFlightEntry
from proxy.rules.verdict import ReplyEdit
from proxy.session import reply_mode
from proxy.session.exec_abort import ABORTING_COMMAND
from proxy.session.ports import TracedCommand
from proxy.session.reply_mode import AnsweredClient
from proxy.session.state import NodelessMulti
from proxy.session.views import ConnectedClient

_AT_ONCE = 64
_SHORT = 4096
"""Bytes. So many short answers gather before they leave, and no longer one, as the client may not take them."""


class SendingClient(ConnectedClient, AnsweredClient, Protocol):
    """A session, as far as commands are sent and answered for it. ``local`` counts answers of Keyrail's own."""

    local: int


def submit(client: SendingClient, raw: bytes, edit: ReplyEdit | None = None) -> None:
    """Send one command to the current upstream and expect its reply, unless CLIENT REPLY has silenced it."""
    sender = client.sender
    upstream = sender.upstream
    assert upstream is not None
    if client.state.reply_mode != reply_mode.ON and reply_mode.falls_on(client):
        sender.forwarded += 1
        sender.wrote = True
        sender.issue(upstream, raw, commands=1)
    elif edit is None:
        assert sender.nodes is not None or not sender.awaits_elsewhere(), "what comes behind waits for that reply"
        sender.forward(upstream, raw)
    else:
        sender.forwarded += 1
        sender.submit_with_action(raw, EDIT, edit)


def submit_traced(client: SendingClient, raw: bytes, edit: ReplyEdit | None, trace: TracedCommand) -> None:
    """The same, and the reply is measured."""
    sender = client.sender
    upstream = sender.upstream
    assert upstream is not None
    if edit is None:
        sender.forwarded += 1
        sender.submit_with_action(raw, TRACE, trace)
    else:
        submit(client, raw, trace.around(edit))
    upstream.when_sent(trace.leaves)


def answer(client: SendingClient, payload: bytes) -> None:
    """An answer of Keyrail's own, in its place among the replies."""
    if client.state.reply_mode != reply_mode.ON and reply_mode.swallows(client):
        return
    client.local += 1
    if payload.startswith(b"-"):
        client.ports.route.count_error(payload)
    if client.state.reply_mode == reply_mode.RELAYED:
        reply_mode.answer_relayed(client, lambda _: payload)
        return
    sender = client.sender
    at_once = sender.answer(payload)
    if at_once and (not client.intake.running or len(sender.out) >= _AT_ONCE or len(payload) > _SHORT):
        sender.flush()


def refuse(client: SendingClient, error: bytes, aborting: bytes = ABORTING_COMMAND) -> None:
    """Answer a refusal; inside MULTI, so that Redis aborts the transaction as for any bad command."""
    state = client.state
    if type(state) is NodelessMulti:
        state.spoiled = True
    if state.transaction is None or type(state) is NodelessMulti:
        answer(client, error)
        return
    sender = client.sender
    upstream = sender.upstream
    assert upstream is not None
    client.ports.route.count_error(error)
    silent = reply_mode.falls_on(client)
    sender.issue(upstream, aborting, *(() if silent else (InFlightEntry(sender, 1, REPLACE, error),)))

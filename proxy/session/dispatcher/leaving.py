"""How a client begins anew, or ends: RESET, QUIT, and what becomes of its pending replies, its unfinished commands, and
its private connection."""

from functools import partial

from proxy.commands.error_texts import WANTS_LOGIN
from proxy.commands.table import ConnectionState
from proxy.hotpath.upstream.in_flight import EDIT
from proxy.rules.context import NO_SLOT
from proxy.session import reply_mode
from proxy.session.commands import cached_answers, client_reply, follow_ups, sending, switching, write_pauses
from proxy.session.commands.forwarding import forward_unchanged
from proxy.session.commands.handler import Handler
from proxy.session.item import Item
from proxy.session.logins import login
from proxy.session.session import Session
from proxy.session.state import Awaited, Event, ended
from proxy.wire.encode import OK

_RESET_REPLY = b"+RESET\r\n"


def _reset(session: Session, item: Item) -> None:
    switching.drained(session)
    without_login = session.state.upstream is None and session.ports.capabilities.unauthenticated(session.key)
    if len(item.command.argv) != 1 or (without_login and session.ports.nodes is None):
        # A form that Redis refuses, or a connection on which there is nothing to reset. With a cluster upstream, a
        # transaction or subscriptions may be on no connection of the client's, or on others.
        forward_unchanged(session, item)
        return
    _let_all_follow(session)
    silence, relayed = client_reply.silence_of(session), session.state.reply_mode == reply_mode.RELAYED
    silent = silence == reply_mode.SKIP
    if relayed and silence != reply_mode.ON:
        if not client_reply.ends_relaying(session):
            return
    elif relayed:
        session.sender.forwarded += 1
        client_reply.answer_relayed(session, lambda _: _reset_by(session, _RESET_REPLY))
        switching.wait_until_drained(session)
        return
    elif session.state.upstream is not None and not silent:
        # Subscriptions and watched keys have ended when Redis says so.
        session.sender.forwarded += 1
        session.sender.submit_with_action(item.raw, EDIT, partial(_reset_by, session))
        switching.wait_until_drained(session)
        return
    _start_over(session)
    if not silent:
        sending.answer(session, _RESET_REPLY)


def _reset_by(session: Session, frame: bytes) -> bytes:
    if not frame.startswith(b"-"):
        _start_over(session)
    return frame


def _start_over(session: Session) -> None:
    silenced = client_reply.may_have_silent(session)
    upstream = session.leave_upstream()
    if upstream is not None:
        session.ports.pools.close_gracefully(upstream)
    session.sender.end_unit()
    cached_answers.end_transaction(session)
    if silenced:
        cached_answers.begin_anew(session)
    session.state = ended(session.state)
    session.end_subscriptions()
    session.slot = NO_SLOT
    session.no_hidden_commands = ""
    session.tracks_no_loop = False
    session.names = session.names._replace(client=b"")
    login.log_out(session)
    session.adopt()


def _let_all_follow(session: Session) -> None:
    # What is still to follow the commands before this one comes first: its transaction, or what it watches, comes to no
    # other end.
    if not session.deferred:
        return
    running = session.state.transaction
    session.happens(Event.UNKNOWN)  # for another client nothing may be watched
    follow_ups.leave(session)
    session.sender.end_unit()
    cached_answers.end_transaction(session)
    session.slot = NO_SLOT
    session.intake.simple = session.plain_commands()
    if running is not None and running.outdated:
        session.adopt()
    switching.drained(session)


def _quit(session: Session, item: Item) -> None:
    if session.state.upstream is not None and not session.state.upstream.relay:
        # What is to follow the commands before this one comes first.
        switching.drained(session)
        _let_all_follow(session)
        # Its state ends with Redis's own answer.
        sending.submit(session, item.raw)
    else:
        sending.answer(session, OK)
    session.close_when_drained("quit")


def turn_away(session: Session, error: bytes, cause: str) -> None:
    """Close the client with an error that Redis would have given, behind the replies that it still gets.

    Where only the login of a new connection is refused, since Redis has a password now, the command that waits for it
    gets the error, and the client stays: it can log in.
    """
    if session.awaited is Awaited.UPSTREAM and session.held is not None and WANTS_LOGIN.begin(error):
        session.wants_login = error
        session.arrived()
    elif session.sender.pending_replies == 0:
        session.sender.out.append(error)
        session.close(cause)
    else:
        sending.answer(session, error)
        session.close_when_drained(cause)


def leave(session: Session) -> None:
    """The client has left: its pending replies are dropped, its private upstream is closed."""
    sender = session.sender
    write_pauses.note_leaving(session)
    sender.gone = True
    session.reconsider()
    session.intake.finish()
    session.stop_waiting()
    held, session.held = session.held, None
    if held is not None:
        held.close()
    order = sender.order
    if order is not None:
        order.abandon()
        sender.order = None
        sender.ordered = False
    session.end_subscriptions()
    holds = session.keeps_pin()
    sender.reads = None
    if session.deferred or (session.state.transaction is not None and session.state.upstream is not None):
        follow_ups.leave(session)
    session.end_probe()
    switching.depart(session, holds)
    if order is not None:
        sender.pending_replies -= order.beyond  # of those, the sender is not told any more


HANDLERS: dict[ConnectionState, Handler] = {
    ConnectionState.RESET: _reset,
    ConnectionState.QUIT: _quit,
}

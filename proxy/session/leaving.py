"""How a client ends: what becomes of its pending replies, its unfinished commands, and its private connection."""

from proxy.commands.error_texts import WANTS_LOGIN
from proxy.session import follow_ups, sending, switching
from proxy.session.session import Session
from proxy.session.state import Awaited


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
    sender.gone = True
    session.reconsider()
    session.intake.finish()
    session.stop_waiting()
    session.held = None
    order = sender.order
    if order is not None:
        order.abandon()
        sender.order = None
        sender.ordered = False
    if session.running_procedure is not None:
        session.running_procedure.cancel()
        session.running_procedure = None
    session.end_subscriptions()
    holds = session.keeps_pin()
    sender.reads = None
    if session.deferred or (session.state.transaction is not None and session.state.upstream is not None):
        follow_ups.leave(session)
    session.end_probe()
    switching.depart(session, holds)
    if order is not None:
        sender.pending_replies -= order.beyond  # of those, the sender is not told any more

"""What becomes of a command that the policy refuses, or answers by itself."""

from proxy.commands.command import Command
from proxy.commands.table import ConnectionState
from proxy.rules.verdict import Answer, Refuse
from proxy.session.commands import cached_answers, sending
from proxy.session.dispatcher import transaction
from proxy.session.logins import login
from proxy.session.policy import judging
from proxy.session.replicas import replica_reads
from proxy.session.session import Session


def refuse(session: Session, command: Command, verdict: Refuse) -> None:
    """Answer the error. A refused EXEC runs nothing and ends the transaction; a web page's client is closed."""
    tell(session)
    if command.spec.state is ConnectionState.EXEC and session.state.transaction is not None:
        transaction.abort(session, verdict.error)
    else:
        sending.refuse(session, verdict.error)
    if login.from_web_page(command):
        session.close_when_drained("web_request")
    else:
        judging.end_if_closed_by(session, verdict)


def answer(session: Session, command: Command, verdict: Answer, *, asked: bool) -> None:
    """Answer in place of Redis; ``asked`` says that Redis has told something about the keys for that."""
    tell(session)
    if asked:
        cached_answers.told(session, command)
        replica_reads.told(session)
    sending.answer(session, verdict.reply)


def tell(session: Session) -> None:
    """Redis does not get the command: its trace has no reply."""
    if session.trace is not None:
        session.trace.refused = True
        session.trace.without_reply()
        session.trace = None

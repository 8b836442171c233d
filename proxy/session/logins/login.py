"""Logins that are decided before the client has a connection of its own, and what it may send before its first one.

A listener can ask its clients for a login. Until one was accepted, such a client belongs to a pool that has no
connections (``ports.UNAUTHENTICATED``), and all that it sends is answered here, but for AUTH, HELLO, RESET and QUIT.

Who decides is the listener's ``LoginPort``: Redis, asked on a connection that is nobody's, or a password file. A client
that names the user of the route itself is decided about in the same way on every listener, and shares the route's own
connections.
"""

from proxy.commands.command import Command
from proxy.commands.rows import ROWS
from proxy.commands.table import ConnectionState
from proxy.session.commands import switching
from proxy.session.commands.keyrail_command import wrong_number
from proxy.session.item import Item
from proxy.session.logins import hello
from proxy.session.ports.login_port import Credentials, LoginReply
from proxy.session.ports.pool_key import UNAUTHENTICATED, PoolKey
from proxy.session.session import Session
from proxy.session.state import Awaited
from proxy.wire.encode import encode_error

_DEFAULT_USER = b"default"
_NO_LOGIN = "NOAUTH Authentication required."
_NOAUTH = encode_error(_NO_LOGIN)
_NOAUTH_FOR_EXEC = encode_error(f"EXECABORT Transaction discarded because of: {_NO_LOGIN}")
_SYNTAX_ERROR = encode_error("ERR syntax error")


def note_change(session: Session, item: Item) -> None:
    """A command of administrators is sent: if it changes users, logins accepted before its reply count no more."""
    row = ROWS.get(item.command.spec.name)
    if row is None or not row.changes_users:
        return
    edit = item.edit

    def answered(frame: bytes) -> bytes:
        session.ports.route.note_user_change()
        return frame if edit is None else edit(frame)

    session.ports.route.note_user_change()
    item.edit = answered


def read_auth(argv: list[bytes]) -> Credentials | None:
    """The login in an AUTH; None where it has too few or too many arguments."""
    if len(argv) == 2:
        return Credentials(_DEFAULT_USER, argv[1], alone=True)
    return Credentials(argv[1], argv[2]) if len(argv) == 3 else None


def from_web_page(command: Command) -> bool:
    """Whether a browser sends this. Commands of a web page may follow, so Redis reads no further; nor does Keyrail, if
    it does not forward this."""
    row = ROWS.get(command.spec.name)
    return row is not None and row.from_web_page


def error_before(session: Session, command: Command) -> bytes:
    """The error for a command of a client that has to log in first; empty for what may pass.

    Commands that do not exist, or have too few arguments, get the same error as all others, as in Valkey 9: nobody
    learns before a login which commands there are.
    """
    spec, argv = command.spec, command.argv
    match spec.state:
        case ConnectionState.QUIT:
            return b""
        case ConnectionState.RESET:
            return b"" if len(argv) == 1 else wrong_number(spec)
        case ConnectionState.AUTH if len(argv) <= 3:
            return b"" if len(argv) > 1 else wrong_number(spec)
        case ConnectionState.AUTH:
            return _SYNTAX_ERROR
        case ConnectionState.HELLO:
            return hello.refusal(argv, session.ports.capabilities.names_protocol_in_hello())
        case ConnectionState.EXEC:
            return _NOAUTH_FOR_EXEC
        case _:
            return _NOAUTH


def decided_apart(session: Session, login: Credentials) -> bool:
    """Whether this login is not sent on a connection of the client's own."""
    if session.logins.local or session.key.user == UNAUTHENTICATED:
        return True
    if session.state.upstream is not None:
        return False
    # Where Redis has begun to ask for a password, a connection without a login speaks RESP2 alone.
    speaks_resp3 = session.key.protocol == 3 and session.key.user is None and session.logins.anonymous
    return speaks_resp3 or session.logins.is_own(login)


def decide(session: Session, login: Credentials) -> LoginReply:
    """What becomes of the login, and the client is logged in where it was accepted."""
    if session.state.upstream is None:
        # Replies to what it sent as another user come first.
        switching.drained(session)
    reply = session.logins.check(session, login)
    if reply is None:
        switching.must_wait(session, Awaited.LOGIN)
    if reply.accepted:
        _enter(session, PoolKey(reply.user, *session.key[1:]), reply.local_user)
        logged_in(session)
    return reply


def _enter(session: Session, key: PoolKey, local_user: str) -> None:
    if session.key.user == UNAUTHENTICATED and key.user is None and not local_user:
        # It has no connection, and the policy of the route's own user is in force for it already.
        switching.enter(session, key)
        session.settle_reads()
        return
    session.local_user = local_user
    switching.move(session, key)


def logged_in(session: Session) -> None:
    """Redis's limits for what clients announce before their login no longer hold."""
    session.intake.limits = session.ports.capabilities.limits(authenticated=True)


def log_out(session: Session) -> None:
    """The client is again who it was when it came."""
    session.local_user = ""
    switching.enter(session, session.home)
    must_log_in = session.home.user == UNAUTHENTICATED
    session.intake.limits = session.ports.capabilities.limits(authenticated=False, must_log_in=must_log_in)

"""How a client introduces itself: HELLO, AUTH, SELECT.

These choose the pool. Nothing here believes a client: it moves to another pool only when Redis has answered its own
command with success, or ``login.py`` says so. AUTH runs on a private upstream, never on a shared one; SELECT and HELLO
without AUTH run on a connection of the pool that they ask for, where they change nothing, or on a private one where
there is no such pool.

As whom a client is logged in decides what it may do, so that is known at all times: under CLIENT REPLY the answer is
asked for and kept. Redis 7.2 to 8 do not answer a failing login while other replies are on their way to the client: a
login is alone on its connection (``CommandSender.log_in``), and inside MULTI, where it stands behind the head of
EXEC's array, it is refused.
"""

from collections.abc import Callable
from functools import partial

from proxy.commands.command import Command
from proxy.commands.error_texts import GREETING_UNCHANGED, WRONG_PASSWORD
from proxy.commands.table import ConnectionState, Lane
from proxy.hotpath.upstream.in_flight import EDIT, NOTE, InFlightEntry
from proxy.rules.verdict import ReplyEdit, chained
from proxy.session import reply_mode
from proxy.session.commands import client_reply, sending, switching
from proxy.session.commands.forwarding import forward, forward_unchanged
from proxy.session.commands.handler import Handler
from proxy.session.commands.keyrail_command import confined_error
from proxy.session.item import Item
from proxy.session.logins import client_names, login
from proxy.session.logins.hello import BAD_NAME, Hello, logs_in, read_hello
from proxy.session.ports.login_port import Credentials
from proxy.session.ports.pool_key import PoolKey
from proxy.session.session import Session
from proxy.session.state import Awaited, Event, Keeping, Pinned
from proxy.wire.encode import encode_command, encode_error

_REPLY_ON = encode_command([b"CLIENT", b"REPLY", b"ON"])
_UNKNOWABLE = encode_error("ERR Keyrail: whether this login succeeds could not be known; use another connection for it")
_OUTSIDE = encode_error(
    "ERR Keyrail: log in outside of the transaction: Redis 7.2 to 8 do not answer a failing login inside of one"
)
_MOVE_UNKNOWABLE = encode_error(
    "ERR Keyrail: without replies it could not be known in which database or protocol this transaction leaves the "
    "connection; send SELECT and HELLO outside of it"
)

LINGER = 0.2
"""Seconds in which a private upstream is kept behind a login or SELECT, which is rarely followed by nothing."""


def _nothing(frame: bytes) -> None:
    pass


def _nothing_more() -> None:
    pass


def _succeeded(frame: bytes) -> bool:
    return not frame.startswith(b"-")


def _ask(
    session: Session,
    raw: bytes,
    accepted: Callable[[], None],
    refused: Callable[[bytes], None] = _nothing,
    edit: ReplyEdit | None = None,
    logs_in: bool = False,
) -> None:
    # Send a command that changes the private connection, and read no further until Redis has answered it.
    confined = session.state.subscriptions is not None and session.state.subscriptions.confines()
    if session.state.reply_mode == reply_mode.RELAYED or (session.state.reply_mode != reply_mode.ON and confined):
        # Its answer is one line among those of MONITOR, or it is refused without a word.
        session.happens(Event.UNKNOWN)
        sending.submit(session, raw)
        return

    def answered(frame: bytes) -> bytes:
        if _succeeded(frame):
            accepted()
        else:
            refused(frame)
        return frame

    if session.state.reply_mode == reply_mode.ON:
        _send(session, raw, answered, edit, logs_in)
        return
    state = session.on_its_own

    def silently(frame: bytes) -> bytes:
        if session.state is state:
            client_reply.go_on(session)
        answered(frame)
        return b""

    def loud(_: bytes) -> None:
        if session.state is state:
            _send(session, raw, silently, logs_in=logs_in, behind=asked)

    asked = InFlightEntry(session.sender, 1, NOTE, loud)
    session.sender.issue(state.upstream, _REPLY_ON, asked)
    switching.wait_until_drained(session)


def _send(
    session: Session,
    raw: bytes,
    answered: ReplyEdit,
    edit: ReplyEdit | None = None,
    logs_in: bool = False,
    behind: InFlightEntry | None = None,
) -> None:
    session.sender.forwarded += 1
    payload = chained(answered, edit)
    if logs_in:
        assert payload is not None
        session.sender.log_in(raw, payload, behind)
    else:
        session.sender.submit_with_action(raw, EDIT, payload)
    switching.wait_until_drained(session)


def _select(session: Session, item: Item) -> None:
    database = read_number(item.command.argv)
    if database is None:
        forward_unchanged(session, item)
        return
    if session.state.upstream is not None:
        # What is to follow the commands before this one is about their database.
        switching.drained(session)
    lacking = session.ports.pools.lacking_database(session, database)
    if lacking is None:
        switching.must_wait(session, Awaited.DATABASE)
    if lacking:
        sending.answer(session, lacking)
        return
    target = session.key._replace(database=database)
    if session.state.upstream is None and session.ports.pools.has_pool(target):
        _ask_in_pool(session, target, item.raw, lambda: switching.move(session, target))
        return
    switching.to_private(session)
    _linger(session)
    _ask(session, item.raw, lambda: switching.move(session, target))


def read_number(argv: list[bytes]) -> int | None:
    """The database that a SELECT asks for; None where it is no number as Redis reads them, so nothing will change."""
    database = int(argv[1]) if len(argv) == 2 and argv[1].isdigit() and len(argv[1]) < 10 else None
    return None if database is None or argv[1] != b"%d" % database else database


def _ask_in_pool(
    session: Session, target: PoolKey, raw: bytes, accepted: Callable[[], None], edit: ReplyEdit | None = None
) -> None:
    # On a connection that is already what is asked for, the command changes nothing there.
    switching.drained(session)
    session.sender.upstream = switching.shared_of(session, target, Lane.FAST)
    session.intake.direct = False

    def answered(frame: bytes) -> bytes:
        # Refused or not, this connection is not where the client's next command belongs by itself.
        session.sender.upstream = None
        if _succeeded(frame):
            accepted()
        return frame

    _send(session, raw, answered, edit)


def _linger(session: Session) -> None:
    if not session.keeps_pin():
        session.happens(Event.LOGGED_IN)
        session.ports.route.after(LINGER, partial(_linger_over, session))


def _linger_over(session: Session) -> None:
    # Nothing followed the login: the upstream goes to the pool.
    state = session.state
    if type(state) is Pinned and state.keeping is Keeping.LINGERING:
        state.happens(Event.HURRIED)
        switching.release_pin(session)


def _auth(session: Session, item: Item) -> None:
    given = login.read_auth(item.command.argv)
    if given is not None and login.decided_apart(session, given):
        _decide(session, item, given)
        return
    if session.state.reply_mode == reply_mode.RELAYED:
        sending.answer(session, _UNKNOWABLE)
        return
    switching.to_settled_private(session)
    _linger(session)
    if given is None:
        _ask(session, item.raw, _nothing_more)
        return
    accepted, refused = partial(_log_in, session, given), partial(_note_refused, session, given)
    _ask(session, item.raw, accepted, refused, logs_in=True)


def _decide(session: Session, item: Item, given: Credentials) -> None:
    # A HELLO goes on without its login.
    if session.state.subscriptions is not None and session.state.subscriptions.confines():
        sending.answer(session, confined_error(item.command.spec))
        return
    reply = login.decide(session, given)
    said = read_hello(item.command.argv) if item.command.spec.state is ConnectionState.HELLO else None
    if said is None or not reply.accepted:
        sending.answer(session, reply.frame)
        return
    argv = said.without_login()
    item.command, item.raw = Command(session.effective_policy.table, argv), encode_command(argv)
    _greet(session, item, said._replace(login=None))


def _log_in(session: Session, given: Credentials) -> None:
    if session.gone:
        return  # and its connection is closed behind this reply
    user = session.logins.accepted(session, given, session.on_its_own.upstream.key)
    session.local_user = session.logins.own_name if user is None else ""
    switching.move(session, session.key._replace(user=user))
    login.logged_in(session)
    if user is not None and not session.ports.capabilities.knows_user(user):
        # Its connection is given back at once: what the user may run is found out there before its next command.
        session.happens(Event.HURRIED)


def _note_refused(session: Session, given: Credentials, frame: bytes) -> None:
    session.logins.refused(session, given)
    # It is who it was. Its new connection may be nobody's, where Redis has begun to ask for a password.
    session.happens(Event.HURRIED)


def _note_wrong(session: Session, said: Hello, frame: bytes) -> None:
    if said.login is not None and WRONG_PASSWORD.begin(frame):
        _note_refused(session, said.login, frame)


def queued(session: Session, item: Item) -> ReplyEdit | bytes | None:
    """What is to be done to a member of EXEC's array that changes the client's database; bytes refuse it."""
    accepted: Callable[[], None] | None = None
    argv, state = item.command.argv, item.command.spec.state
    if state is ConnectionState.AUTH or (state is ConnectionState.HELLO and logs_in(argv)):
        return _OUTSIDE
    if state is ConnectionState.HELLO:
        said = read_hello(argv)
        if said is not None and (said.name is None or client_names.valid(said.name)):
            accepted = _greeting(session, said)
    elif state is ConnectionState.SELECT and (database := read_number(argv)) is not None:
        accepted = partial(_select_queued, session, database)
    if accepted is None:
        return None
    return partial(_learn, accepted) if session.state.reply_mode == reply_mode.ON else _MOVE_UNKNOWABLE


def _select_queued(session: Session, database: int) -> None:
    switching.move(session, session.key._replace(database=database))


def _learn(accepted: Callable[[], None], frame: bytes) -> bytes:
    if _succeeded(frame):
        accepted()
    return frame


def _hello(session: Session, item: Item) -> None:
    argv = item.command.argv
    said = read_hello(argv)
    gives_login = logs_in(argv)
    if gives_login and (said is None or session.state.reply_mode == reply_mode.RELAYED):
        # Some engines log in before they complain about what stands behind.
        sending.answer(session, _UNKNOWABLE)
    elif said is None:
        _odd_hello(session, item)
    elif gives_login and said.name is not None and not client_names.valid(said.name):
        sending.answer(session, BAD_NAME)
    elif said.login is not None and login.decided_apart(session, said.login):
        _decide(session, item, said.login)
    else:
        _greet(session, item, said)


def _greet(session: Session, item: Item, said: Hello) -> None:
    plain = said.login is None and (said.name is None or client_names.valid(said.name))
    target = session.key._replace(protocol=said.protocol)
    accepted = _greeting(session, said)

    def refused(frame: bytes) -> None:
        _note_wrong(session, said, frame)
        # Redis works through the options one by one: it may have taken the name before it complained.
        # These two errors come before it has changed anything, where AUTH is its first option.
        if not (said.in_order and GREETING_UNCHANGED.begin(frame)):
            switching.doubt(session)

    if session.state.upstream is None and plain and session.ports.pools.has_pool(target):
        raw = encode_command([b"HELLO", b"%d" % said.protocol])
        _ask_in_pool(session, target, raw, accepted, item.edit)
        return
    switching.to_settled_private(session)
    _linger(session)
    _ask(session, item.raw, accepted, refused, item.edit, said.login is not None)


def _greeting(session: Session, said: Hello) -> Callable[[], None]:
    def accepted() -> None:
        switching.move(session, session.key._replace(protocol=said.protocol))
        if said.name is not None:
            session.rename(said.name)
            if session.state.upstream is not None:
                session.state.upstream.names = session.state.upstream.names._replace(client=said.name)
        if said.login is not None:
            _log_in(session, said.login)

    return accepted


def _odd_hello(session: Session, item: Item) -> None:
    if len(item.command.argv) <= 2:
        # No version, or one that Redis does not speak: nothing changes, so any connection will do.
        forward(session, item)
        return
    switching.to_private(session)
    switching.doubt(session)
    session.sender.notify_when_idle = True
    sending.submit(session, item.raw, item.edit)


HANDLERS: dict[ConnectionState, Handler] = {
    ConnectionState.SELECT: _select,
    ConnectionState.AUTH: _auth,
    ConnectionState.HELLO: _hello,
}

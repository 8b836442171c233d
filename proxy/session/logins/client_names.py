"""CLIENT SETNAME, GETNAME and SETINFO.

Names are kept here and not on a shared connection; a private one is given them when it is taken. Where a name would be
refused, or the engine does not know the command, the command goes to Redis, which then says so in its own words and
changes nothing.
"""

from proxy.commands.table import ConnectionState
from proxy.commands.words import word_of
from proxy.session import reply_mode
from proxy.session.commands import sending, switching
from proxy.session.commands.forwarding import forward_unchanged
from proxy.session.commands.handler import Handler
from proxy.session.item import JudgedCommand
from proxy.session.session import Session
from proxy.wire.encode import OK, encode_bulk, encode_null

_PRINTABLE = frozenset(range(0x21, 0x7F))
_ATTRIBUTES = {b"LIB-NAME": "library", b"LIB-VER": "version"}


def _name(session: Session, item: JudgedCommand) -> None:
    argv = item.command.argv
    if session.state.upstream is not None:
        _name_on_its_own(session, item)
    elif not session.ports.capabilities.keeps_names(session.key):
        forward_unchanged(session, item)
    elif len(argv) == 2 and word_of(argv[1]) == b"GETNAME":
        sending.answer(
            session, encode_bulk(session.names.client) if session.names.client else encode_null(session.key.protocol)
        )
    elif not _note(session, argv):
        forward_unchanged(session, item)
    else:
        sending.answer(session, OK)


def _name_on_its_own(session: Session, item: JudgedCommand) -> None:
    # A private upstream has its client's names, and Redis's own answer; where none comes, a good name is taken for one
    # that Redis took. By its name a client may be of another app, as which what stands behind has to be judged.
    argv = item.command.argv

    def note() -> None:
        if _note(session, argv) and session.state.upstream is not None:
            session.state.upstream.names = session.names

    def answered(frame: bytes) -> bytes:
        if not frame.startswith(b"-"):
            note()
        return frame

    if session.state.reply_mode != reply_mode.ON:
        sending.submit(session, item.raw)
        note()
        return
    sending.submit(session, item.raw, answered)
    if word_of(argv[1]) == b"SETNAME" and argv[2:] != [session.names.client]:
        switching.wait_until_drained(session)


def _note(session: Session, argv: list[bytes]) -> bool:
    # Remember a name that Redis would accept; False for anything else, on which Redis has the word.
    word = word_of(argv[1])
    if word == b"SETNAME" and len(argv) == 3 and valid(argv[2]):
        session.rename(argv[2])
        return True
    if word != b"SETINFO" or len(argv) != 4 or not valid(argv[3]):
        return False
    field = _ATTRIBUTES.get(word_of(argv[2]))
    if field is None:
        return False
    known = session.ports.capabilities.names_libraries()
    if known:
        session.names = session.names._replace(**{field: argv[3]})
    else:
        session.untold = session.untold._replace(**{field: argv[3]})
    session.count_by_identity()
    return known


def valid(name: bytes) -> bool:
    """Whether Redis would accept the name."""
    return _PRINTABLE.issuperset(name)


HANDLERS: dict[ConnectionState, Handler] = {ConnectionState.NAME: _name}

"""CLIENT REPLY: which commands are answered at all.

OFF silences all that follow and SKIP the next one, in Redis and here alike: a silenced command is sent and expects
no reply. Answers of Keyrail's own fall silent with them, and use a SKIP up as Redis's would.

MONITOR is kept in the same place, for it ends the counting as well: its lines look like replies, so from then on all
that its connection sends is relayed as it comes. What Keyrail itself answers then comes behind the replies to all
commands before: a ``MARK`` goes to Redis, and its error stands where the answer belongs. Where CLIENT REPLY has
silenced such a connection (``silence``), Redis would not answer the mark either.
"""

from collections.abc import Callable

from proxy.hotpath.upstream.in_flight import EDIT, InFlightEntry
from proxy.hotpath.upstream.upstream_pipeline import MARK
from proxy.session import reply_mode
from proxy.session.commands.exec_abort import ABORTING_COMMAND
from proxy.session.session import Session
from proxy.session.state import Keeping, Pinned
from proxy.wire.encode import encode_command

_ON = encode_command([b"CLIENT", b"REPLY", b"ON"])
_OFF = encode_command([b"CLIENT", b"REPLY", b"OFF"])
_SKIP = encode_command([b"CLIENT", b"REPLY", b"SKIP"])
_MARK = encode_command([MARK])
_PING = encode_command([b"PING"])


def relay(session: Session) -> None:
    """From now on everything that the private upstream sends is passed on uncounted."""
    state = session.on_its_own
    state.upstream.relay = True
    state.silence, state.reply_mode = state.reply_mode, reply_mode.RELAYED
    session.intake.direct = False


def answer_relayed(session: Session, reply: Callable[[bytes], bytes]) -> None:
    """What ``reply`` returns comes behind the replies to all that has been sent on an upstream that is relayed."""
    session.sender.issue(session.on_its_own.upstream, _MARK, InFlightEntry(session.sender, 1, EDIT, reply))


def go_on(session: Session) -> None:
    """Behind a command whose answer was asked for all the same: OFF goes on, a SKIP is used up."""
    if session.state.reply_mode == reply_mode.OFF:
        session.sender.send_unanswered(_OFF)
    else:
        end(session)


def silence_of(session: Session) -> int:
    """ON, OFF or SKIP, also where the upstream is relayed."""
    mode = session.state.reply_mode
    return session.on_its_own.silence if mode == reply_mode.RELAYED else mode


def use_up(session: Session) -> None:
    """A request without arguments uses a SKIP up like any command."""
    if silence_of(session) == reply_mode.SKIP:
        end(session)


def falls_on(session: Session) -> bool:
    """Whether the command that is sent now is silenced, or its reply is not awaited; a SKIP is used up by it."""
    silence, relayed = silence_of(session), session.state.reply_mode == reply_mode.RELAYED
    if silence == reply_mode.SKIP:
        end(session)
    return silence != reply_mode.ON or relayed


def swallows(session: Session) -> bool:
    """Whether an answer of the proxy's own is silenced; a SKIP is used up by it."""
    silence = silence_of(session)
    if silence == reply_mode.SKIP:
        # Redis still silences the next command that it sees: Keyrail sends one whose reply is not needed.
        session.sender.send_unanswered(ABORTING_COMMAND)
        end(session)
    return silence != reply_mode.ON


def ends_relaying(session: Session) -> bool:
    """Whether the client can leave an upstream that is relayed, and silenced, at once: not inside of a reply."""
    if session.on_its_own.upstream.scanner.elements > 0:
        session.close("out_of_step")
        return False
    return True


def may_have_silent(session: Session) -> bool:
    """Whether the client may have sent commands of which no reply says that they have run."""
    state = session.state
    return type(state) is Pinned and state.keeping is Keeping.FOR_GOOD


def ask_behind(session: Session, told: Callable[[], object]) -> None:
    """Call ``told`` when all that such a client has sent has run. It is not called where that cannot be asked: inside
    MULTI, and where the connection is subscribed or relayed."""
    state = session.on_its_own
    confined = state.subscriptions is not None and state.subscriptions.confines()
    mode = state.reply_mode
    if state.transaction is not None or confined or mode == reply_mode.RELAYED:
        return

    def come(_frame: bytes) -> bytes:
        told()
        return b""

    entry = InFlightEntry(session.sender, 1, EDIT, come)
    session.sender.issue(state.upstream, _PING if mode == reply_mode.ON else _ON, entry)
    if mode != reply_mode.ON:
        session.sender.send_unanswered(_OFF if mode == reply_mode.OFF else _SKIP)


def end(session: Session) -> None:
    """From now on commands are answered again."""
    state = session.on_its_own
    if state.reply_mode == reply_mode.RELAYED:
        state.silence = reply_mode.ON
        return
    state.reply_mode = reply_mode.ON
    session.intake.direct = True

"""CLIENT REPLY: which commands are answered at all.

OFF silences all that follow and SKIP the next one, in Redis and here alike: a silenced command is sent and owes
nothing. Answers of Keyrail's own fall silent with them, and use a SKIP up as Redis's would.

MONITOR is kept in the same place, for it ends the counting as well: its lines look like replies, so from then on all
that its connection sends is relayed as it comes.
"""

from typing import Protocol

from proxy.hotpath.ledger import Ledger
from proxy.session.poison import POISON
from proxy.session.ports import PrivateLedger
from proxy.wire.encode import encode_command

# Values of ``Session.replies``.
ON = 0
OFF = 1
SKIP = 2
RELAYED = 3


_OFF = encode_command([b"CLIENT", b"REPLY", b"OFF"])


class Answered(Protocol):
    """A session, as far as CLIENT REPLY and MONITOR are about it."""

    replies: int
    direct: bool
    forwarded: int
    ledger: Ledger | None

    @property
    def pinned(self) -> PrivateLedger | None:
        """The upstream that the client has for itself."""

    def submit(self, raw: bytes) -> None:
        """Send one command to the current upstream."""

    def send_unanswered(self, raw: bytes) -> None:
        """Send a command to which no reply comes."""

    def close(self, cause: str) -> None:
        """Close the client now."""


def choose(session: Answered, mode: bytes, raw: bytes) -> None:
    """CLIENT REPLY ON, OFF or SKIP, or something else, on which Redis has the word."""
    ledger = session.ledger
    assert ledger is not None
    if session.replies == RELAYED or mode not in (b"ON", b"OFF", b"SKIP"):
        session.submit(raw)
        return
    if mode == b"ON":
        _end(session)
        session.submit(raw)
        return
    session.forwarded += 1
    session.send_unanswered(raw)
    session.direct = False
    if mode == b"OFF" or session.replies != OFF:
        session.replies = OFF if mode == b"OFF" else SKIP


def relay(session: Answered) -> None:
    """From now on everything that the private upstream sends is passed on uncounted."""
    assert session.pinned is not None
    session.pinned.relay = True
    session.replies = RELAYED
    session.direct = False


def go_on(session: Answered) -> None:
    """Behind a command whose answer was asked for all the same: OFF goes on, a SKIP is used up."""
    if session.replies == OFF:
        session.send_unanswered(_OFF)
    else:
        _end(session)


def use_up(session: Answered) -> None:
    """A request without arguments uses a SKIP up like any command."""
    if session.replies == SKIP:
        _end(session)


def falls_on(session: Answered) -> bool:
    """Whether the command that is sent now is silenced; a SKIP is used up by it."""
    if session.replies == SKIP:
        _end(session)
        return True
    return session.replies in (OFF, RELAYED)


def swallows(session: Answered) -> bool:
    """Whether an answer of the proxy's own is silenced; a SKIP is used up by it."""
    ledger = session.ledger
    assert ledger is not None
    if session.replies == SKIP:
        # Redis still means to silence the next command that it sees: it gets one whose reply nobody wants.
        session.send_unanswered(POISON)
        _end(session)
        return True
    if session.replies == RELAYED and ledger.scanner.elements > 0:
        session.close("out_of_step")
        return True
    return session.replies == OFF


def _end(session: Answered) -> None:
    session.replies = ON
    session.direct = True

"""CLIENT TRACKING with several prefixes, some of which overlap: Redis answers some of these twice.

Where another one than the first overlaps, with one behind it or one that the connection tracks already, Redis (seen in
6.2, 7.0 and 8.2) answers with an error and then with OK: ``checkPrefixCollisionsOrReply`` returns the number of the
prefix, and only 0 means a collision. Nobody could tell whose the second reply is. So such a command is answered here,
with that error, and tracks nothing. Which prefixes the connection tracks already is not known: until CLIENT TRACKING
OFF, further ones come one by one.
"""

from proxy.commands.command import Command
from proxy.commands.words import word_of
from proxy.session.commands.follow_ups import CHOOSES, TRACKS
from proxy.session.item import Item
from proxy.session.progress import Refused
from proxy.session.session import Session
from proxy.wire.encode import encode_error

_NAME = "CLIENT|TRACKING"
_PREFIX, _REDIRECT = b"PREFIX", b"REDIRECT"
_OVERLAP = (
    b"-ERR Prefix '%b' overlaps with another provided prefix '%b'. Prefixes for a single client must not overlap.\r\n"
)
_ONE_BY_ONE = encode_error(
    "DENIED keyrail: the connection tracks keys already, and Redis answers CLIENT TRACKING twice if one of several "
    "prefixes overlaps with what is tracked; send one PREFIX in each command, or CLIENT TRACKING OFF before"
)
_SHOWN = bytes(32 if byte in b"\r\n" else byte for byte in range(256))
"""In Redis's errors, ends of lines are spaces."""


def check(session: Session, item: Item) -> None:
    """Raises Refused for a command that Redis must not see, as it may answer twice. Names are the client's."""
    error = _error_instead(session, item.instead_of or item.command)
    if error:
        raise Refused(error)


def _error_instead(session: Session, command: Command) -> bytes:
    if command.spec.name != _NAME or session.ports.capabilities.answers_tracking_once():
        return b""
    prefixes = _prefixes(command.argv)
    for place, one in enumerate(prefixes):
        for other in prefixes[place + 1 :]:
            if one.startswith(other) or other.startswith(one):
                # Redis answers once for the first.
                return _OVERLAP % (one.translate(_SHOWN), other.translate(_SHOWN)) if place else b""
    return _ONE_BY_ONE if len(prefixes) > 1 and session.no_hidden_commands in (TRACKS, CHOOSES) else b""


def _prefixes(argv: list[bytes]) -> list[bytes]:
    # Those that Redis looks at; none, if it refuses the command before.
    if len(argv) < 3 or word_of(argv[2]) != b"ON":
        return []
    found, broadcasts, at = [], False, 3
    while at < len(argv):
        word = word_of(argv[at])
        broadcasts = broadcasts or word == b"BCAST"
        if word in (_PREFIX, _REDIRECT):
            at += 1
            found += argv[at : at + 1] if word == _PREFIX else []
        at += 1
    return found if broadcasts else []

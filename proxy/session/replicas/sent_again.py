"""What a client has sent on one connection and is to be sent again on another one: the bytes that entries keep, and the
frames that still come for them, which are dropped."""

from collections.abc import Iterable, Iterator

from proxy.hotpath.upstream.in_flight import HIDE, LOCAL, InFlightEntry, ReplySink
from proxy.session.session import Session
from proxy.wire.request import COMPLETE, Request


def commands_of(session: Session, sent: bytes, due: int) -> list[bytes]:
    """The last commands of what was sent, as many as are due."""
    return list(_commands(session, sent))[-due:]


def _commands(session: Session, raw: bytes) -> Iterator[bytes]:
    request = Request()
    while request.scan(raw, request.end, session.intake.limits) == COMPLETE:
        yield raw[request.start : request.end]


def drop(entries: Iterable[InFlightEntry]) -> None:
    """Their frames may still come, and are nobody's. LOCAL answers among them, which have none, are empty."""
    nobody = ReplySink()
    for entry in entries:
        nobody.pending_replies += entry.due
        entry.sink = nobody
        if entry.action == LOCAL:
            entry.payload = b""
        else:
            entry.action, entry.payload, entry.sent = HIDE, None, None

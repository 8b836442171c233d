"""Between upstreams: a client's commands go to a shared one, or to one of its own.

All that a client is owed comes from one upstream, but for what is sent elsewhere on purpose (see ``pinned``). It is
*pooled* (``ledger`` is a shared upstream, and the intake forwards plain commands by itself) or *pinned* (``pinned`` is
an upstream of its own). Before it changes upstreams, all
replies that it is owed must have come: the command waits (``WAIT``), and ``Session.settled`` brings it again.

      pooled ──(MULTI, WATCH, SUBSCRIBE, BLPOP, CLIENT ID …)──> pinned
        ^                                                         │
        └──────(the state has ended and nothing is owed)──────────┘
"""

from proxy.commands.table import Lane
from proxy.hotpath.ledger import Ledger
from proxy.session import silence
from proxy.session.ports import PrivateLedger
from proxy.session.session import Session
from proxy.session.state import NOBODY_WATCHED


def to_shared(session: Session, lane: Lane) -> Ledger | None:
    """The upstream for a command without state; None when the command has to wait."""
    if not session.ports.route.pooling:
        session.permanent = True
        return to_private(session)
    current = session.ledger
    if session.pinned is not None:
        if keeps_pin(session) or (session.owed > 0 and not session.unpinning):
            return current
        if session.owed > 0:
            wait_until_settled(session)
            return None
        session.unpin()
        current = None
    # A client with debts on the slow lane stays there: it never has debts on two.
    stays = session.direct == (lane is Lane.FAST) or (not session.direct and session.owed > 0)
    if stays and current is not None and current.usable and not current.closed:
        return current
    if session.owed > 0:
        wait_until_settled(session)
        return None
    found = session.ports.pools.shared(session.key, lane)
    if found is None:
        session.halted = True
        session.ports.pools.await_shared(session, session.key, lane)
        return None
    session.ledger = found
    session.direct = lane is Lane.FAST
    return found


def to_private(session: Session) -> PrivateLedger | None:
    """An upstream of this client's own; None when the command has to wait."""
    session.lingering = False
    if session.pinned is not None:
        session.unpinning = False
        session.direct = session.replies == silence.ON
        return session.pinned
    if session.owed > 0:
        wait_until_settled(session)
        return None
    found = session.ports.pools.private(session.key)
    if found is None:
        session.halted = True
        session.ports.pools.await_private(session, session.key)
        return None
    _pin(session, found)
    session.introduce(found)
    return found


def to_anywhere(session: Session) -> PrivateLedger | None:
    """Any idle upstream of the client's user, for one command that has no database; None when it has to wait."""
    found = session.ports.pools.private_anywhere(session.key)
    if found is None:
        session.halted = True
        session.ports.pools.await_private_anywhere(session, session.key)
    return found


def to_settled_private(session: Session) -> PrivateLedger | None:
    """The same for a command behind which nothing could follow the commands before it: once those are answered."""
    if session.pinned is not None and session.owed > 0:
        wait_until_settled(session)
        return None
    return to_private(session)


def _pin(session: Session, ledger: PrivateLedger) -> None:
    session.unpinning = False
    session.pinned = ledger
    session.ledger = ledger
    ledger.owner = session
    session.simple = session.terms.pinned
    session.direct = session.replies == silence.ON


def keeps_pin(session: Session) -> bool:
    """Whether the private upstream still holds state of this client, or an unfinished command."""
    return (
        session.permanent
        or session.watching
        or session.stream is not None
        or session.transaction is not None
        or (session.subscriptions is not None and not session.subscriptions.empty())
    )


def mark_unit(session: Session) -> None:
    """A transaction or a WATCH has begun or ended: while there is one, the upstream takes nothing of anybody else's."""
    if not session.watching:
        session.watched = NOBODY_WATCHED
    if session.ledger is not None:
        open_unit = session.transaction is not None or session.watching
        session.ledger.unit = session if open_unit else None


def wait_until_settled(session: Session) -> None:
    """Read no further until nothing is owed."""
    session.halted = True
    session.attentive = True


def settle_pin(session: Session) -> None:
    """Give the private upstream back as soon as nothing holds it."""
    if session.pinned is None:
        return
    if session.owed > 0:
        # Its next command waits for that, or a client that always has debts would never go back.
        session.attentive = True
        session.unpinning = not keeps_pin(session)
        session.direct = session.direct and not session.unpinning
    elif not keeps_pin(session):
        session.unpin()

"""Commands without connection state go to a shared upstream, or to their client's own if it has one."""

from proxy.hotpath.intake import TAKEN, WAIT
from proxy.session import company, switching
from proxy.session.item import Item
from proxy.session.session import Session


def forward(session: Session, item: Item) -> int:
    """A command that needs no connection state."""
    if session.blocked and session.owed > 0 and item.followings:
        # What follows it would be lost if the client left before the command that blocks has ended.
        switching.wait_until_settled(session)
        return WAIT
    ledger = switching.to_shared(session, item.command.spec.lane)
    if ledger is None:
        return WAIT
    dispatch(session, item)
    return TAKEN


def dispatch(session: Session, item: Item) -> None:
    """Send a command to the current upstream, with all that goes with it."""
    measurement = item.measurement
    wrote = session.wrote
    if item.followings:
        if measurement is not None:
            measurement.without_reply()
        company.send(session, item)
    elif measurement is None:
        session.submit(item.raw, item.edit)
    else:
        session.submit_measured(item.raw, item.edit, measurement)
    if item.command.spec.only_reads and not item.followings:
        session.wrote = wrote

"""Commands without connection state go to a shared upstream, or to their client's own if it has one."""

from proxy.session.commands import hidden_commands, script_units, sending, switching
from proxy.session.item import Item, JudgedCommand
from proxy.session.session import Session


def forward(session: Session, item: Item) -> None:
    """A command that needs no connection state."""
    if session.state.blocked and item.hidden:
        # Its follow-ups would be lost if the client left before the command that blocks has ended.
        switching.drained(session)
    switching.to_shared(session, item.command.spec.lane)
    dispatch(session, item)


def forward_unchanged(session: Session, judged: JudgedCommand) -> None:
    """A command about the connection, of a form in which it changes nothing: Redis says so in its own words."""
    forward(session, Item(judged.command, judged.raw, reads=judged.command.spec.only_reads))


def dispatch(session: Session, item: Item) -> None:
    """Send a command to the current upstream, with all that goes with it."""
    trace = item.trace
    wrote = session.sender.wrote
    if item.hidden:
        if trace is not None:
            trace.without_reply()
            item.trace = None
        hidden_commands.send(session, item)
    elif script_units.proves_refusals(session, item):
        script_units.send(session, item)
    elif trace is None:
        sending.submit(session, item.raw, item.edit)
    else:
        sending.submit_traced(session, item.raw, item.edit, trace)
    if item.reads:
        session.sender.wrote = wrote

"""Commands without connection state go to a shared upstream, or to their client's own if it has one."""

from proxy.session.commands import hidden_commands, script_units, sending, switching
from proxy.session.item import Item, JudgedCommand
from proxy.session.session import Session


def forward(session: Session, item: Item) -> None:
    """A command that needs no connection state."""
    if session.state.blocked and item.hidden:
        # Its follow-ups would be lost if the client left before the command that blocks has ended.
        switching.drained(session)
    if session.tenant is not None and _was_collected(session, item):
        switching.to_private(session)
        session.sender.notify_when_idle = True
    else:
        switching.to_shared(session, item.command.spec.lane)
    dispatch(session, item)


def _was_collected(session: Session, item: Item) -> bool:
    # Whether it has a large argument, which would have passed in pieces if the names before it could stay as they are.
    # Nobody shall wait behind all of that.
    large = session.intake.limits.large
    return session.ports.nodes is None and len(item.raw) > large and max(map(len, item.command.argv)) > large


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

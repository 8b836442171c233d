"""Commands that wait while Redis holds writes back (CLIENT PAUSE … WRITE).

Redis pauses a client, with all that its connection sends behind. So on a connection that clients share, nobody's write
may be sent then: it waits here, as it would in Redis, and does not run if its client leaves meanwhile. A client with a
connection of its own is paused there by Redis itself.
"""

from functools import partial

from proxy.commands.held_by_pause import held_by_pause, pauses_writes
from proxy.commands.table import ConnectionState
from proxy.rules.verdict import chained
from proxy.session.item import Item
from proxy.session.ports.pause_port import PausePort
from proxy.session.session import Session
from proxy.wire.request import COMPLETE, Request


def waits(session: Session, item: Item) -> bool:
    """Whether the command waits: it may write while Redis holds writes back, or is about to make Redis do so."""
    pauses = session.ports.pauses
    if pauses is None:
        return False
    if not item.announced and session.state.transaction is None and pauses_writes(item.command):
        item.announced = True
        user = session.key.user
        announces = pauses.announces(user)
        item.edit = chained(partial(pauses.answered, user, announces), item.edit)
        if announces:
            session.wait_for_upstream(pauses.announce(session, user))
        return announces
    if not pauses.gate.closed or not _would_be_paused(session, item) or not pauses.holds(session.node):
        return False
    _wait(session, pauses)
    return True


def _wait(session: Session, pauses: PausePort) -> None:
    session.wait_for_upstream(pauses.wait(session))
    # However short the wait is: Redis, too, runs nothing that it holds back for a client that has closed its half.
    session.lacking = float("-inf"), 0 if session.lacking is None else session.lacking[1]


def unit_waits(session: Session, data: bytes, end: int) -> bool:
    """The same for a transaction that stands whole behind ``end``."""
    pauses = session.ports.pauses
    if pauses is None or not pauses.gate.closed or not pauses.holds(None):
        return False
    config, request = session.intake.config, Request()
    while request.scan(data, end, session.intake.limits) == COMPLETE:
        command_id, end = config.lookup.find(request), request.end
        if config.may_pause[command_id] != 0:
            _wait(session, pauses)
            return True
        if session.effective_policy.table.specs[command_id].state is ConnectionState.EXEC:
            return False
    return False


def _would_be_paused(session: Session, item: Item) -> bool:
    state = session.state
    if state.upstream is not None or state.transaction is not None or item.blocked is not None:
        return False
    return held_by_pause(item.command.spec) or any(each.surround.about for each in item.hidden)

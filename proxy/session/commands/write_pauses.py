"""Commands that wait while Redis holds writes back (CLIENT PAUSE … WRITE).

Redis pauses a client, with all that its connection sends behind. So on a connection that clients share, nobody's write
may be sent then: it waits here, as it would in Redis, and does not run if its client leaves meanwhile. A client with a
connection of its own is paused there by Redis itself.
"""

from functools import partial
from typing import NoReturn

from proxy.commands.held_by_pause import held_by_pause, pauses_writes
from proxy.commands.table import ConnectionState
from proxy.rules.verdict import chained
from proxy.session.commands import switching
from proxy.session.item import Arrival, Item, LookAhead
from proxy.session.ports.pause_port import PausePort
from proxy.session.progress import NotYet
from proxy.session.session import Session
from proxy.session.state import Awaited
from proxy.wire.request import COMPLETE, Request


def check(session: Session, item: Item) -> None:
    """The command waits if it may write while Redis holds writes back, or is about to make Redis do so."""
    pauses = session.ports.pauses
    if pauses is None:
        return
    if not item.announced and session.state.transaction is None and pauses_writes(item.command):
        item.announced = True
        user = session.key.user
        announces = pauses.announces(user)
        item.edit = chained(partial(pauses.answered, user, announces), item.edit)
        if announces:
            item.announcement = Arrival(session)
            pauses.announce(item.announcement, user)
    if item.announcement is not None and not item.announcement.over:
        switching.must_wait(session, Awaited.UPSTREAM)
    if pauses.gate.closed and _would_be_paused(session, item) and pauses.holds(session.node):
        _wait(session, pauses)


def _wait(session: Session, pauses: PausePort) -> NoReturn:
    session.wait_for_upstream(pauses.wait(session))
    # However short the wait is: Redis, too, runs nothing that it holds back for a client that has closed its half.
    session.lacking = float("-inf"), 0 if session.lacking is None else session.lacking[1]
    raise NotYet


def check_unit(session: Session, look_ahead: LookAhead) -> None:
    """The same for a transaction that stands whole behind MULTI."""
    pauses = session.ports.pauses
    if pauses is None or not pauses.gate.closed or not pauses.holds(None):
        return
    config, request = session.intake.config, Request()
    data, end = look_ahead
    while request.scan(data, end, session.intake.limits) == COMPLETE:
        command_id, end = config.lookup.find(request), request.end
        if config.may_pause[command_id] != 0:
            _wait(session, pauses)
        if session.effective_policy.table.specs[command_id].state is ConnectionState.EXEC:
            return


def _would_be_paused(session: Session, item: Item) -> bool:
    state = session.state
    if state.upstream is not None or state.transaction is not None:
        return False
    return held_by_pause(item.command.spec) or any(each.surround.about for each in item.hidden)

"""Commands that wait while Redis holds writes back (CLIENT PAUSE … WRITE), or Keyrail those of a tenant.

Redis pauses a client, with all that its connection sends behind. So on a connection that clients share, nobody's write
may be sent then: it waits here, as it would in Redis, and does not run if its client leaves meanwhile. A client with a
connection of its own is paused there by Redis itself.

While Keyrail empties a tenant's database, what the tenant's clients write waits, whatever connection it is for. Inside
MULTI nothing runs before EXEC, which waits. A transaction that has arrived whole waits before MULTI.
"""

from functools import partial
from typing import NoReturn

from proxy.commands.held_by_pause import held_by_pause, pauses_writes
from proxy.commands.table import ConnectionState, Spec
from proxy.rules.verdict import chained
from proxy.session.commands import client_reply, switching
from proxy.session.item import Arrival, Item, LookAhead
from proxy.session.ports.pause_port import PausePort
from proxy.session.progress import NotYet
from proxy.session.session import Session
from proxy.session.state import Awaited, PooledTransaction
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
    if pauses.gate.closed and (_is_of_held_tenant(session, pauses, item) or _is_paused(session, pauses, item)):
        _wait(session, pauses)


def check_streamed(session: Session, spec: Spec) -> None:
    """The same for a command of which only the beginning has arrived."""
    pauses = session.ports.pauses
    if pauses is None or not pauses.gate.closed or session.state.transaction is not None or not held_by_pause(spec):
        return
    if pauses.tenants.holds(session.intake.prefix):
        _wait(session, pauses)


def _wait(session: Session, pauses: PausePort) -> NoReturn:
    session.wait_for_upstream(pauses.wait(session))
    # However short the wait is: Redis, too, runs nothing that it holds back for a client that has closed its half.
    session.lacking = float("-inf"), 0 if session.lacking is None else session.lacking[1]
    raise NotYet


def check_unit(session: Session, look_ahead: LookAhead) -> None:
    """The same for a transaction that stands whole behind MULTI."""
    pauses = session.ports.pauses
    if pauses is None or not pauses.gate.closed:
        return
    if not pauses.holds(None) and not pauses.tenants.holds(session.intake.prefix):
        return
    config, request = session.intake.config, Request()
    data, end = look_ahead
    while request.scan(data, end, session.intake.limits) == COMPLETE:
        command_id, end = config.lookup.find(request), request.end
        if config.may_pause[command_id] != 0:
            _wait(session, pauses)
        if session.effective_policy.table.specs[command_id].state is ConnectionState.EXEC:
            return


def note_leaving(session: Session) -> None:
    """The client leaves its connection, on which what it has sent may run still."""
    pauses = session.ports.pauses
    if pauses is None or not session.intake.prefix:
        return
    if session.sender.pending_replies > 0 or client_reply.may_have_silent(session):
        pauses.tenants.has_left(session.intake.prefix)


def _is_paused(session: Session, pauses: PausePort, item: Item) -> bool:
    state = session.state
    if state.upstream is not None or state.transaction is not None:
        return False
    return _may_write(item) and pauses.holds(session.node)


def _is_of_held_tenant(session: Session, pauses: PausePort, item: Item) -> bool:
    if type(session.state) is PooledTransaction or not pauses.tenants.holds(session.intake.prefix):
        return False
    if session.state.transaction is not None:
        return item.command.spec.state is ConnectionState.EXEC
    return _may_write(item)


def _may_write(item: Item) -> bool:
    return held_by_pause(item.command.spec) or any(each.surround.about for each in item.hidden)

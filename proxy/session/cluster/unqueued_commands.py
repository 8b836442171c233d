"""Commands that must not queue behind other clients': those that unblock others, and those of administrators.

On a shared upstream they would wait behind other clients' commands, which a script or CLIENT PAUSE … WRITE may hold
back. So each runs alone on an idle upstream, and the client's next command waits for its reply. A command of
administrators stays on the shared upstream if no reply is pending there, or if no idle upstream can be had.

Of its own client's commands it overtakes only reads whose replies cannot show whether it has run.
"""

from typing import NoReturn

from proxy.commands.table import ConnectionState
from proxy.session.cluster.idle_connections import await_reply, may_overtake
from proxy.session.cluster.node_connections import wait_for_idle
from proxy.session.commands import switching
from proxy.session.commands.forwarding import dispatch, forward
from proxy.session.commands.handler import Handler
from proxy.session.item import Item
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.session import Session


def _end_wait(session: Session, item: Item) -> None:
    if session.state.upstream is not None:
        _on_its_own(session, item)
        return
    if not may_overtake(session, item.command):
        switching.drained(session)
    # On a new connection SELECT would wait for a script that runs.
    upstream = session.ports.pools.private_anywhere(session.place())
    if upstream is None:
        _await_idle(session, item)
    _send_elsewhere(session, upstream, item)


def _administer(session: Session, item: Item) -> None:
    if session.state.upstream is not None:
        _on_its_own(session, item)
    elif not session.ports.route.pooling or item.hidden:
        forward(session, item)
    else:
        upstream = _idle(session, item)
        if upstream is None:
            # Another client's write could come between it and the next command, and hold that back.
            dispatch(session, item)
            switching.wait_until_drained(session)
        else:
            _send_elsewhere(session, upstream, item)


def _idle(session: Session, item: Item) -> PrivatePipeline | None:
    # An idle upstream; None where the shared one is idle, or where no other is to be had.
    pools = session.ports.pools
    if not may_overtake(session, item.command):
        switching.drained(session)
    if session.sender.pending_replies == 0 and switching.to_shared(session, item.command.spec.lane).head is None:
        return None
    upstream = pools.private_alike(session.place())
    if upstream is None and pools.opens_private(session.place()):
        _await_idle(session, item)
    if upstream is None:
        switching.drained(session)
    return upstream


def _send_elsewhere(session: Session, upstream: PrivatePipeline, item: Item) -> None:
    # The reply keeps its place among the client's.
    session.sender.send_elsewhere(upstream, item.raw, item.edit)
    await_reply(session, (upstream,))


def _on_its_own(session: Session, item: Item) -> None:
    switching.to_private(session)
    session.sender.notify_when_idle = True
    dispatch(session, item)


def _await_idle(session: Session, item: Item) -> NoReturn:
    if session.ports.nodes is not None and session.node is not None:
        wait_for_idle(session, session.ports.nodes, item, session.node)
    wait = session.ports.pools.await_private_anywhere(session, session.place())
    switching.must_wait_for_upstream(session, wait)


HANDLERS: dict[ConnectionState, Handler] = {
    ConnectionState.IDLE: _end_wait,
    ConnectionState.ADMIN: _administer,
}

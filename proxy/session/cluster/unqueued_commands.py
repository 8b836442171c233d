"""Commands that must not queue behind other clients': those that unblock others, and those of administrators.

On a shared upstream they would wait behind other clients' commands, which a script or CLIENT PAUSE … WRITE may hold
back. So each runs alone on an idle upstream, and the client's next command waits for its reply. A command of
administrators stays on the shared upstream if no reply is pending there, or if no idle upstream can be had.

Of its own client's commands it overtakes only reads whose replies cannot show whether it has run.
"""

from collections.abc import Callable

from proxy.commands.table import ConnectionState
from proxy.hotpath.intake.intake import TAKEN, WAIT
from proxy.session.cluster.idle_connections import await_reply, may_overtake
from proxy.session.cluster.node_connections import wait_for_idle
from proxy.session.commands import switching
from proxy.session.commands.forwarding import dispatch, forward
from proxy.session.item import Item
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.session import Session


def _end_wait(session: Session, item: Item) -> int:
    if session.state.upstream is not None:
        return _on_its_own(session, item)
    if session.sender.pending_replies > 0 and not may_overtake(session, item.command):
        switching.wait_until_drained(session)
        return WAIT
    # On a new connection SELECT would wait for a script that runs.
    upstream = session.ports.pools.private_anywhere(session.place())
    if upstream is None:
        return _await_idle(session, item)
    _send_elsewhere(session, upstream, item)
    return TAKEN


def _administer(session: Session, item: Item) -> int:
    if session.state.upstream is not None:
        return _on_its_own(session, item)
    pools = session.ports.pools
    if not session.ports.route.pooling or item.hidden:
        return forward(session, item)
    if session.sender.pending_replies == 0:
        shared = switching.to_shared(session, item.command.spec.lane)
        if shared is None:
            return WAIT
        if shared.head is None:
            return _on_shared(session, item)
    elif not may_overtake(session, item.command):
        switching.wait_until_drained(session)
        return WAIT
    upstream = pools.private_alike(session.place())
    if upstream is not None:
        _send_elsewhere(session, upstream, item)
        return TAKEN
    if pools.opens_private(session.place()):
        return _await_idle(session, item)
    if session.sender.pending_replies > 0:
        switching.wait_until_drained(session)
        return WAIT
    return _on_shared(session, item)


def _send_elsewhere(session: Session, upstream: PrivatePipeline, item: Item) -> None:
    # The reply keeps its place among the client's.
    session.sender.send_elsewhere(upstream, item.raw, item.edit)
    await_reply(session, (upstream,))


def _on_shared(session: Session, item: Item) -> int:
    # Another client's write could come between it and the next command, and hold that back.
    dispatch(session, item)
    switching.wait_until_drained(session)
    return TAKEN


def _on_its_own(session: Session, item: Item) -> int:
    upstream = switching.to_private(session)
    assert upstream is not None, "it has one already"
    session.sender.notify_when_idle = True
    dispatch(session, item)
    return TAKEN


def _await_idle(session: Session, item: Item) -> int:
    if session.ports.nodes is not None and session.node is not None:
        return wait_for_idle(session, session.ports.nodes, item, session.node)
    session.wait_for_upstream(session.ports.pools.await_private_anywhere(session, session.place()))
    return WAIT


HANDLERS: dict[ConnectionState, Callable[[Session, Item], int]] = {
    ConnectionState.IDLE: _end_wait,
    ConnectionState.ADMIN: _administer,
}

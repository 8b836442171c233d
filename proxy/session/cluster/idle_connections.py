"""Connections on which nothing is pending, for commands that must not queue behind others: see ``unqueued_commands``.

With a cluster upstream such a command may need one to each of several nodes. All are taken together, or none. What only
ends waits does without those that do not come in time: it is needed most while something is wrong.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple, NoReturn

from proxy.commands.command import Command
from proxy.commands.rows import ROWS
from proxy.commands.table import ConnectionState, Lane
from proxy.commands.words import word_of
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.session.cluster.node_connections import (
    connection_to,
    has_waited,
    in_flight_to,
    unreached,
    wait_for_idle,
    wait_for_node,
)
from proxy.session.commands import switching
from proxy.session.item import Item
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.node_port import NodePort
from proxy.session.ports.pool_key import Node
from proxy.session.progress import NotYet, Refused
from proxy.session.session import Session
from proxy.session.state import Awaited

STATES = frozenset({ConnectionState.ADMIN, ConnectionState.IDLE})
"""Of commands that must not queue behind others."""


def may_overtake(session: Session, command: Command) -> bool:
    """Whether none of its client's pending replies can show whether it has run."""
    if session.sender.wrote:
        return False
    row = ROWS.get(command.spec.name)
    if command.spec.only_reads or row is None:
        return command.spec.only_reads
    if row.ends_waits_with:
        # Without this word it may begin something.
        return [word_of(word) for word in command.argv[1:]] == [row.ends_waits_with]
    return row.shows_in_no_reply


class Reserved(NamedTuple):
    """A connection to each of some nodes, None where a node has none. ``taken`` are those that nobody else has now."""

    upstreams: Sequence[UpstreamPipeline | None]
    taken: Sequence[PrivatePipeline]


def await_reply(session: Session, taken: Iterable[PrivatePipeline]) -> None:
    """A command has been sent, and its reply comes behind all others: the next command waits for it. These connections
    go back behind theirs."""
    order = session.sender.order
    assert order is not None, "its reply has a place of its own"
    session.overtaking = order.last
    session.wait_for(Awaited.REPLY_ELSEWHERE)
    session.sender.notify_on_advance = True
    for upstream in taken:
        upstream.when_drained(partial(session.ports.pools.release, upstream))


# With a cluster upstream


def wait_for_own(session: Session, command: Command) -> None:
    """The command waits for replies to its own client, if it may not overtake them. On a connection of its own none of
    them wait behind anybody."""
    if session.state.upstream is not None or not may_overtake(session, command):
        switching.drained(session)


def reserve(session: Session, nodes: NodePort, item: Item, wanted: Sequence[Node]) -> Reserved:
    """A connection to each of these nodes: all, or none is taken."""
    ends_waits = item.command.spec.state is ConnectionState.IDLE
    waited = item.held_since is not None and has_waited(session, item)
    upstreams: list[UpstreamPipeline | None] = []
    taken: list[PrivatePipeline] = []
    missing: Node | None = None
    try:
        for node in wanted:
            if ends_waits and not nodes.reachable(node):
                upstreams.append(None)
                continue
            shared = None if ends_waits else _free_shared(session, node, item.command.spec.lane)
            found = shared or _idle(session, node, item)
            upstreams.append(found)
            if found is None:
                missing = missing or node
            elif found is not shared and isinstance(found, PrivatePipeline):
                taken.append(found)
    except NotYet:
        _release(session, taken)
        raise
    if missing is not None and not (ends_waits and waited):
        _release(session, taken)
        _wait(session, nodes, item, missing)
    if all(upstream is None for upstream in upstreams):
        raise Refused(unreached(session, nodes, wanted[0]))
    return Reserved(upstreams, taken)


def _release(session: Session, taken: Iterable[PrivatePipeline]) -> None:
    for upstream in taken:
        session.ports.pools.release(upstream)


def _free_shared(session: Session, node: Node, lane: Lane) -> UpstreamPipeline | None:
    # The shared connection will do if nothing is pending on it.
    shared = None if in_flight_to(session, node) is not None else connection_to(session, node, lane)
    return shared if shared is not None and shared.head is None else None


def _idle(session: Session, node: Node, item: Item) -> UpstreamPipeline | None:
    pools, key = session.ports.pools, session.key._replace(node=node)
    if item.command.spec.state is ConnectionState.IDLE:
        # On a new connection SELECT would wait for a script that runs.
        return pools.private_anywhere(key)
    found = pools.private_alike(key)
    if found is None and not pools.opens_private(key) and session.sender.pending_replies == 0:
        return connection_to(session, node, item.command.spec.lane)
    return found


def _wait(session: Session, nodes: NodePort, item: Item, node: Node) -> NoReturn:
    ends_waits = item.command.spec.state is ConnectionState.IDLE
    if ends_waits or session.ports.pools.opens_private(session.key._replace(node=node)):
        wait_for_idle(session, nodes, item, node)
    switching.drained(session)
    wait_for_node(session, nodes, item, node, item.command.spec.lane)

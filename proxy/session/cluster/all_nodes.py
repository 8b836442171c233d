"""Commands of all nodes of a cluster, or of all for which the client's address stands: at once, or one after the other.

The client's next command waits for the joined reply. What waits behind nobody (``unqueued_commands``) gets a connection
to each node on which nothing is pending; what only ends waits goes to the nodes that can be reached, and the reply says
which could not.
"""

from collections.abc import Callable, Sequence
from functools import partial

from proxy.cluster.fan_out import fan_out
from proxy.cluster.publishing import publish
from proxy.cluster.scan_rounds import Rounds
from proxy.cluster.scan_walk import scan
from proxy.cluster.sending import send_fan_out, send_rounds
from proxy.commands.command import Command
from proxy.commands.over_nodes import Destination, Join
from proxy.commands.spec import Spec
from proxy.commands.table import Lane
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.session.cluster import idle_connections
from proxy.session.cluster.node_connections import (
    any_node,
    connection_to,
    has_waited,
    keep_to_lane,
    no_connection,
    note,
    wait_for_node,
)
from proxy.session.commands import sending, switching
from proxy.session.item import Item
from proxy.session.policy.node_questions import KEYS_LOST, misses_keys, stood_for
from proxy.session.ports.node_port import NodePort
from proxy.session.ports.pool_key import Node
from proxy.session.ports.ports import Questions
from proxy.session.session import Session


def send(session: Session, nodes: NodePort, item: Item, most_in_page: Callable[[Command], int | None]) -> None:
    """Send the command to all nodes that it is for. A page of a walk may have ``most_in_page`` keys; None: the policy
    does not say."""
    command = item.command
    if command.spec.over_nodes.destination is Destination.PUBLISH:
        _publish(session, nodes, item)
        return
    primaries = stood_for(nodes, session.origin)
    if command.spec.state in idle_connections.STATES:
        _unqueued(session, nodes, item, primaries)
        return
    if _is_about_all_keys(command.spec) and misses_keys(nodes, session.origin):
        # Those that were not removed would be there again, and those that were not counted are there all the time.
        wait_for_node(session, nodes, item, None, command.spec.lane, KEYS_LOST)
    upstreams = connections_to(session, nodes, item, primaries or [None], command.spec.lane)
    note(session, item)
    if command.spec.over_nodes.destination is Destination.WALK:
        others = [node for node in nodes.primaries() if node not in primaries]
        ids, further = ([nodes.identity(node) for node in each] for each in (primaries, others))
        most = most_in_page(command)
        rounds = scan(command.argv, ids, session.key.database, further, known=nodes.known_marks, most=most)
        _walk(session, rounds, primaries, upstreams, item)
    else:
        _fan_out(session, nodes, item, primaries, upstreams)
    if session.sender.pending_replies > 0:
        switching.wait_until_drained(session)


def _is_about_all_keys(spec: Spec) -> bool:
    # Or about functions, which are replicated as keys are. SCAN looks for itself, and any key will do for RANDOMKEY.
    over_nodes = spec.over_nodes
    asks_for_one = over_nodes.destination is Destination.WALK or over_nodes.join is Join.NOT_NULL
    return spec.write or ("readonly" in spec.flags and not asks_for_one)


def _publish(session: Session, nodes: NodePort, item: Item) -> None:
    # Clients of all addresses are reached; they are counted on the nodes that answer.
    keep_to_lane(session, Lane.FAST)
    node = any_node(session, nodes)  # where the patterns of its address are, which it counts
    others = [each for each in nodes.primaries() if each is not node and nodes.reachable(each)]
    upstreams = []
    for each in (node, *others):
        upstream = None if each is None else connection_to(session, each, Lane.FAST)
        if upstream is not None:
            upstreams.append(upstream)
        elif each is node or not has_waited(session, item):
            wait_for_node(session, nodes, item, each, Lane.FAST)
    note(session, item)
    publish(session.sender, item.command, upstreams[0], upstreams[1:], item.edit, session.ports.route.after)
    switching.wait_until_drained(session)


def _fan_out(
    session: Session,
    nodes: NodePort,
    item: Item,
    primaries: Sequence[Node],
    upstreams: Sequence[UpstreamPipeline | None],
) -> None:
    command = item.command
    names = [nodes.alias(node) for node in primaries]
    out = fan_out(command, names, session.key.protocol, session.ports.route.chance())
    missing = {
        index: no_connection(nodes, node)
        for index, (node, upstream) in enumerate(zip(primaries, upstreams, strict=True))
        if upstream is None
    }
    shards = None if nodes.presented(session.origin.listener) is None else primaries
    to_replicas = command.spec.over_nodes.destination is Destination.ALL_NODES
    replicas = partial(nodes.ask_replicas, command.argv, shards) if to_replicas else None
    ready = [upstream for upstream in upstreams if upstream is not None]
    send_fan_out(session.sender, out.without(missing), ready, item.edit, replicas)


def _unqueued(session: Session, nodes: NodePort, item: Item, primaries: Sequence[Node]) -> None:
    idle_connections.wait_for_own(session, item.command)
    if not primaries:
        wait_for_node(session, nodes, item, None, item.command.spec.lane)
    found = idle_connections.reserve(session, nodes, item, primaries)
    if item.trace is not None:
        item.trace.without_reply()
    session.sender.forwarded += 1
    _fan_out(session, nodes, item, primaries, found.upstreams)
    idle_connections.await_reply(session, found.taken)


def _walk(
    session: Session,
    rounds: Rounds,
    primaries: Sequence[Node],
    upstreams: Sequence[UpstreamPipeline],
    item: Item,
) -> None:
    own = session.home._replace(database=session.key.database)

    def apart(number: int, questions: Questions, answered: Callable[[Sequence[bytes] | None], None]) -> None:
        session.ports.queries.ask(own._replace(node=primaries[number]), questions, answered)

    may_ask = session.key.user is not None and session.home.user is None
    reply = send_rounds(session.sender, rounds, upstreams.__getitem__, item.edit, apart if may_ask else None)
    if reply is not None:
        sending.answer(session, reply)


def connections_to(
    session: Session, nodes: NodePort, item: Item, wanted: Sequence[Node | None], lane: Lane
) -> list[UpstreamPipeline]:
    """A shared connection to each."""
    keep_to_lane(session, lane)
    found = []
    for node in wanted:
        upstream = None if node is None else connection_to(session, node, lane)
        if upstream is None:
            wait_for_node(session, nodes, item, node, lane)
        found.append(upstream)
    return found

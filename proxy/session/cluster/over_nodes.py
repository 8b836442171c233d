"""Commands of a client with a cluster upstream that are not for one node: to several of them as parts of one reply, to
all one after the other, or answered in their place.

The row of a command says what it is (``Destination``). The client's next command waits for the joined reply. A command
of the slow lane also waits for the replies before it, so that a client never has commands on two connections to a node.
"""

from functools import partial

from proxy.cluster.cluster_answers import Presented
from proxy.cluster.fan_out import goes_to_several
from proxy.cluster.hidden_nodes import Shown, hidden
from proxy.cluster.joins import of_no_server
from proxy.cluster.own_answers import has_its_arguments, own_answer
from proxy.commands.command import Command
from proxy.commands.over_nodes import Destination
from proxy.commands.rows import ROWS
from proxy.commands.slots import slot_of
from proxy.commands.spec import ConnectionState
from proxy.commands.table import Lane
from proxy.hotpath.cluster.router import SEVERAL_SLOTS, UNOWNED
from proxy.hotpath.cluster.split import split
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.rules.verdict import chained
from proxy.session.cluster import all_nodes, blocking, nodeless_multi, over_slots, subscribing, wait_for_replicas
from proxy.session.cluster.all_nodes import connections_to
from proxy.session.cluster.node_connections import (
    any_node,
    connection_to,
    keep_to_lane,
    leave_node,
    wait_for_node,
)
from proxy.session.cluster.node_of_keys import locate
from proxy.session.commands import sending, switching
from proxy.session.commands.forwarding import forward
from proxy.session.commands.pinned import may_block
from proxy.session.item import Item
from proxy.session.policy import tenancy
from proxy.session.policy.judging import most_in_page
from proxy.session.policy.node_questions import stood_for
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.node_port import NodePort
from proxy.session.ports.pool_key import Node
from proxy.session.progress import Refused, Step
from proxy.session.session import Session
from proxy.session.state import POOLED, NodelessMulti
from proxy.wire.encode import encode_error
from proxy.wire.numbers import read_digits
from proxy.wire.request import COMPLETE, Request

CROSSSLOT = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"
_ELSEWHERE = encode_error(
    "CROSSSLOT keyrail: this key is on another node than the transaction, WATCH or other state of this connection: use "
    "another connection for it"
)
_DEFAULT_PORT = 6379
_UNQUEUED = frozenset({ConnectionState.ADMIN, ConnectionState.IDLE})
_OF_ANY_NODE = frozenset({ConnectionState.POOL, *_UNQUEUED})
_OF_A_CONNECTION = frozenset({ConnectionState.PIN, ConnectionState.REPLY, ConnectionState.MONITOR})
"""Commands that set or tell something of a connection. Those that would change what it does get here only in forms that
Redis refuses."""


def send(session: Session, nodes: NodePort, item: Item) -> Step[None] | bool:
    """Send the command, or answer it: whether that is done, or what is left of it. Not for one that goes to one node,
    whose connection is the current one then, or is about the client's connection."""
    sent = subscribing.send(session, nodes, item)
    if sent:
        return sent
    command, presented = item.command, nodes.presented(session.origin.listener)
    own = own_answer(command, presented, session.key.protocol, valkey=session.ports.capabilities.is_valkey())
    if own is not None:
        answer_instead(session, item, own)
        return True
    if not item.hides_nodes:
        hide_nodes(session, item, presented)
        _tell_once(item, presented)
    destination = command.spec.over_nodes.destination
    several = goes_to_several(command) or destination in (Destination.PUBLISH, Destination.WALK)
    if several and has_its_arguments(command):
        if session.state.transaction is None:
            all_nodes.send(session, nodes, item, partial(most_in_page, session))
            return True
        if destination is not Destination.PUBLISH:
            raise Refused(encode_error(f"ERR keyrail: {command.name} is of all nodes: not inside MULTI"))
    if destination is Destination.WAIT and session.state.transaction is None:
        return wait_for_replicas.send(session, nodes, item) if has_its_arguments(command) else False
    return _by_keys(session, nodes, item)


def hide_nodes(session: Session, item: Item, presented: Presented | None) -> None:
    """Remove the addresses of nodes from the reply."""
    row = ROWS.get(item.command.spec.name)
    if row is not None and row.shows_nodes is not None and not item.hides_nodes:
        item.hides_nodes = True
        item.edit = chained(partial(hidden, row.shows_nodes, _shown(session, presented)), item.edit)


def _tell_once(item: Item, presented: Presented | None) -> None:
    # The address of the primary tells the same of the same nodes, and clients add up what all addresses say.
    spec = item.command.spec
    row = ROWS.get(spec.name)
    if row is not None and row.of_one_server and presented is not None and presented.is_replica():
        item.hides_nodes = True
        item.edit = chained(partial(of_no_server, spec.over_nodes.join), item.edit)


def answer_instead(session: Session, item: Item, reply: bytes) -> None:
    """Answer in place of the nodes; inside MULTI, the transaction fails."""
    if session.state.transaction is not None and not reply.startswith(b"-"):
        reply = encode_error(f"ERR keyrail: {item.command.name} is answered by Keyrail: not inside MULTI")
    if reply.startswith(b"-"):
        raise Refused(reply)
    if item.trace is not None:
        item.trace.without_reply()
    sending.answer(session, reply)


def _shown(session: Session, presented: Presented | None) -> Shown:
    if presented is not None:
        return Shown(presented.own.host, presented.own.port, single=False)
    host, _, port = session.origin.listener.rpartition(":")
    return Shown(host, read_digits(port) or _DEFAULT_PORT)


# Keys of one slot, and of several


def _by_keys(session: Session, nodes: NodePort, item: Item) -> Step[None] | bool:
    number = locate(session, nodes, item.command.spec, item.raw)
    if number == SEVERAL_SLOTS:
        _split(session, nodes, item)
        return True
    if type(session.state) is NodelessMulti:
        answered = nodeless_multi.meet(session, nodes, item, session.state)
        if answered or item.command.spec.state in nodeless_multi.LEAVES:
            return answered
    own = session.state.upstream
    if own is not None and (number >= 0 or number == UNOWNED):
        if session.state.transaction is None and not session.keeps_pin():
            leave_node(session)
        elif session.node is not own.key.node:
            raise Refused(_ELSEWHERE)
    if session.state.transaction is not None:
        _check_slot(session, item)
        return False
    if number == UNOWNED:
        wait_for_node(session, nodes, item, None, Lane.FAST)
    bound = item.command.spec.state in _OF_A_CONNECTION and not _ends_its_client(item.command)
    # Behind a login, too, what any node can do is for those of the client's address.
    leaves = item.command.spec.state in _OF_ANY_NODE and session.sender.pending_replies == 0
    if bound or leaves:
        leave_node(session)
    if session.state is POOLED and session.ports.route.pooling:
        return _without_state(session, nodes, item)
    # Bound to this node for good, the client could not reach the keys of others.
    return bound and session.state.upstream is not None and _forwarded(session, item)


def _forwarded(session: Session, item: Item) -> bool:
    forward(session, item)
    return True


def _without_state(session: Session, nodes: NodePort, item: Item) -> Step[None] | bool:
    blocks = may_block(session, item.command)
    if item.command.spec.state is ConnectionState.POOL or (
        item.command.spec.state is ConnectionState.BLOCKING and not blocks
    ):
        _take_shared(session, nodes, item)
    elif item.command.spec.state in _UNQUEUED:
        session.node = any_node(session, nodes)
        if session.node is None:
            wait_for_node(session, nodes, item, None, item.command.spec.lane)
        if session.sender.pending_replies == 0 or item.hidden:
            _take_shared(session, nodes, item)
    elif blocks and not item.hidden:
        return blocking.send(session, nodes, item)
    elif item.command.spec.state in _OF_A_CONNECTION and not _ends_its_client(item.command):
        # Pinned to one node, the client could not reach the keys of others; and what these set or tell is about a
        # connection to one node.
        _take_shared(session, nodes, item)
        return _forwarded(session, item)
    return False


def _ends_its_client(command: Command) -> bool:
    row = ROWS.get(command.spec.name)
    return row is not None and row.from_web_page


def _check_slot(session: Session, item: Item) -> None:
    # A transaction is about one slot.
    running, upstream = session.state.transaction, session.sender.upstream
    assert running is not None
    if session.node is None or not isinstance(upstream, PrivatePipeline):
        return
    slot = slot_of(item.command.known_keys[0].name) if item.command.known_keys else None
    if running.slot is None:
        running.slot = slot
    if upstream.key.node is not session.node or slot not in (None, running.slot):
        raise Refused(CROSSSLOT)


def _take_shared(session: Session, nodes: NodePort, item: Item) -> None:
    # What handlers take for the current connection is that of the command's node.
    sender, lane = session.sender, item.command.spec.lane
    keep_to_lane(session, lane)
    current = sender.upstream
    node = session.node
    if node is None:
        if session.intake.direct and lane is Lane.FAST and _will_do(session, nodes, item.command, current):
            return
        node = any_node(session, nodes)
        if node is None:
            wait_for_node(session, nodes, item, None, lane)
    upstream = connection_to(session, node, lane)
    if upstream is None:
        wait_for_node(session, nodes, item, node, lane)
    if upstream is not current and item.hidden:
        switching.drained(session)
    sender.use(upstream)
    session.intake.direct = lane is Lane.FAST


def _will_do(session: Session, nodes: NodePort, command: Command, current: UpstreamPipeline | None) -> bool:
    # Whether a command without keys may go where the one before it went.
    if not isinstance(current, PrivatePipeline) or not current.usable or not nodes.reachable(current.key.node):
        return False
    if command.spec.over_nodes.destination is Destination.ONE_NODE:
        return current.key.node is any_node(session, nodes)
    return current.key.node in (stood_for(nodes, session.origin) or nodes.primaries())


def place_transaction(session: Session, nodes: NodePort, item: Item) -> bool:
    """Take the connection of the first keys behind a MULTI that has arrived whole; True where there is none in time:
    then a transaction has begun that fails, as what is queued must not run alone."""
    request, config = Request(), session.intake.config
    data, end = item.look_ahead
    node = None
    while node is None and request.scan(data, end, session.intake.limits) == COMPLETE:
        spec = session.effective_policy.table.specs[config.lookup.find(request)]
        if spec.state is ConnectionState.EXEC:
            break
        raw: bytes | None = data[request.start : request.end]
        if session.tenant is not None:
            queued = Command(session.effective_policy.table, request.arguments(), spec)
            raw = tenancy.raw_for_redis(session.tenant, queued)
        if raw is not None and locate(session, nodes, spec, raw) == UNOWNED:
            return _wait_or_abort(session, nodes, item, None)
        node, end = None if raw is None else session.node, request.end
    switching.drained(session)
    node = node or any_node(session, nodes)
    upstream = None if node is None else connection_to(session, node, Lane.FAST)
    if upstream is None:
        return _wait_or_abort(session, nodes, item, node)
    session.sender.use(upstream)
    session.intake.direct = True
    return False


def _wait_or_abort(session: Session, nodes: NodePort, item: Item, node: Node | None) -> bool:
    try:
        wait_for_node(session, nodes, item, node, Lane.FAST)
    except Refused:
        nodeless_multi.begin(session, spoiled=True)
        return True


def _split(session: Session, nodes: NodePort, item: Item) -> None:
    command, config = item.command, session.intake.config
    router, request = config.router, Request()
    assert router is not None, "it has found several slots"
    request.scan(item.raw, 0, session.intake.limits)
    parts = split(command.spec.id, request, item.raw, config.keys, router)
    if parts is None or not over_slots.may_be_split(session, item):
        raise Refused(CROSSSLOT)
    owners = [nodes.node(number) for number in parts.nodes]
    over_slots.send(session, item, parts, connections_to(session, nodes, item, owners, Lane.FAST))

"""Commands of a client with a cluster upstream that are not for one node: to several of them as parts of one reply, to
all one after the other, or answered in their place.

The row of a command says what it is (``Destination``). The client's next command waits for the joined reply. A command
of the slow lane also waits for the replies before it, so that a client never has commands on two connections to a node.
"""

from collections.abc import Sequence
from functools import partial

from proxy.cluster.cluster_answers import Presented
from proxy.cluster.fan_out import goes_to_several
from proxy.cluster.hidden_nodes import Shown, hidden
from proxy.cluster.joins import of_no_server
from proxy.cluster.own_answers import has_its_arguments, own_answer
from proxy.commands.command import Command
from proxy.commands.over_nodes import Destination
from proxy.commands.rows import ROWS
from proxy.commands.slots import SLOTS, slot_of
from proxy.commands.spec import ConnectionState, Spec
from proxy.commands.table import Lane
from proxy.hotpath.cluster.router import KEYLESS, SEVERAL_SLOTS, UNOWNED
from proxy.hotpath.cluster.split import split
from proxy.hotpath.intake.intake import TAKEN, WAIT
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.rules.verdict import chained
from proxy.session.cluster import all_nodes, blocking, nodeless_multi, over_slots, subscribing
from proxy.session.cluster.all_nodes import connections_to
from proxy.session.cluster.node_connections import any_node, connection_to, has_waited, wait_for_node, waits_for_lane
from proxy.session.cluster.wait_for_replicas import wait
from proxy.session.commands import sending, switching
from proxy.session.commands.forwarding import forward
from proxy.session.commands.pinned import may_block
from proxy.session.item import Item
from proxy.session.policy.judging import most_in_page
from proxy.session.policy.node_questions import stood_for
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.node_port import NodePort
from proxy.session.ports.pool_key import Node
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


def route(session: Session, item: Item) -> int | None:
    """What has become of the command; None for one that goes to one node, or is about the client's connection."""
    nodes = session.ports.nodes
    if nodes is None:
        return None
    outcome = subscribing.route(session, nodes, item)
    if outcome is not None:
        return outcome
    command, presented = item.command, nodes.presented(session.origin.listener)
    own = own_answer(command, presented, session.key.protocol, valkey=session.ports.capabilities.is_valkey())
    if own is not None:
        return answered(session, item, own)
    if not item.hides_nodes:
        hide_nodes(session, item, presented)
        _tell_once(item, presented)
    destination = command.spec.over_nodes.destination
    several = goes_to_several(command) or destination in (Destination.PUBLISH, Destination.WALK)
    if several and has_its_arguments(command):
        if session.state.transaction is None:
            return all_nodes.send(session, nodes, item, partial(most_in_page, session))
        if destination is not Destination.PUBLISH:
            error = encode_error(f"ERR keyrail: {command.name} is of all nodes: not inside MULTI")
            return answered(session, item, error)
    if destination is Destination.WAIT and session.state.transaction is None:
        return wait(session, nodes, item) if has_its_arguments(command) else None
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


def answered(session: Session, item: Item, reply: bytes) -> int:
    """Answer in place of the nodes; inside MULTI, the transaction fails."""
    if item.trace is not None:
        item.trace.without_reply()
    if session.state.transaction is not None:
        error = encode_error(f"ERR keyrail: {item.command.name} is answered by Keyrail: not inside MULTI")
        sending.refuse(session, reply if reply.startswith(b"-") else error)
    else:
        sending.answer(session, reply)
    return TAKEN


def _shown(session: Session, presented: Presented | None) -> Shown:
    if presented is not None:
        return Shown(presented.own.host, presented.own.port, single=False)
    host, _, port = session.origin.listener.rpartition(":")
    return Shown(host, read_digits(port) or _DEFAULT_PORT)


# Keys of one slot, and of several


def locate(session: Session, nodes: NodePort, spec: Spec, raw: bytes) -> int:
    """Find the node of a command's keys (``session.node``), or why it has none: as ``Router.node``."""
    session.node = None
    config, request = session.intake.config, Request()
    if spec.over_nodes.destination is Destination.SLOT_NUMBER:
        return _of_slot_number(session, nodes, raw)
    if config.router is None or not (spec.may_have_keys or _hashes_channels(spec)):
        return KEYLESS
    request.scan(raw, 0, session.intake.limits)
    if spec.may_have_keys:
        number = config.router.node(spec.id, request, raw, config.keys)
    else:
        slots = {slot_of(channel) for channel in _channels(spec, request.arguments())}
        number = config.router.owner(slots.pop()) if len(slots) == 1 else SEVERAL_SLOTS if slots else KEYLESS
    if number >= 0:
        session.node = nodes.node(number)
        if session.node is None:
            return UNOWNED
    return number


def _of_slot_number(session: Session, nodes: NodePort, raw: bytes) -> int:
    request = Request()
    request.scan(raw, 0, session.intake.limits)
    slot = read_digits(next(iter(request.arguments()[2:3]), b"").decode("ascii", "replace"))
    if slot is None or slot >= SLOTS:
        return KEYLESS
    session.node = nodes.owner(slot)
    return UNOWNED if session.node is None else session.node.number


def _hashes_channels(spec: Spec) -> bool:
    return bool(spec.key_specs) and not spec.may_have_keys and spec.over_nodes.destination is Destination.SLOT


def _channels(spec: Spec, argv: Sequence[bytes]) -> Sequence[bytes]:
    # Shard channels are hashed as keys are: one of SPUBLISH, all arguments of SSUBSCRIBE.
    place = spec.key_specs[0]
    return argv[place.start :] if place.last < 0 else argv[place.start : place.start + place.last + 1]


def node_of_first(session: Session, nodes: NodePort, command: Command, expected: int) -> Node | None:
    """The node for a command of so many arguments of which only the first have arrived, if those decide where it goes:
    all of its keys are among them, and it goes to their slot. None for all others, and for clients with state: where
    they go, and what becomes of their reply, is known when they have arrived whole."""
    spec, row = command.spec, ROWS.get(command.spec.name)
    goes_by_keys = spec.over_nodes.destination is Destination.SLOT and spec.state is ConnectionState.POOL
    if session.state is not POOLED or not goes_by_keys or spec.own_errors:
        return None
    if (row is not None and row.key_syntax is not None) or any(each.begin != "index" for each in spec.key_specs):
        return None  # what follows can say that other arguments are the keys
    if _hashes_channels(spec):
        names = list(_channels(spec, command.argv))
    else:
        argv = command.argv + [b""] * (expected - len(command.argv))
        keys = Command(session.effective_policy.table, argv, spec).known_keys
        names = [key.name for key in keys] if all(key.index < len(command.argv) for key in keys) else []
    slots = {slot_of(name) for name in names}
    return nodes.owner(slots.pop()) if len(slots) == 1 else None


def _by_keys(session: Session, nodes: NodePort, item: Item) -> int | None:
    number = locate(session, nodes, item.command.spec, item.raw)
    if number == SEVERAL_SLOTS:
        return _split(session, nodes, item)
    if item.blocked is not None:
        # It has been sent: whoever owns its slot by now, it may be answered already.
        outcome = blocking.under_way(session, nodes, item)
        if outcome is not None:
            return outcome
    if type(session.state) is NodelessMulti:
        outcome = nodeless_multi.meet(session, nodes, item, session.state)
        if outcome is not None or item.command.spec.state in nodeless_multi.LEAVES:
            return outcome
    own = session.state.upstream
    if own is not None and (number >= 0 or number == UNOWNED):
        if session.state.transaction is None and not session.keeps_pin():
            if not leave_node(session):
                return WAIT
        elif session.node is not own.key.node:
            return answered(session, item, _ELSEWHERE)
    if session.state.transaction is not None:
        return _within_transaction(session, item)
    if number == UNOWNED:
        return wait_for_node(session, nodes, item, None, Lane.FAST)
    bound = item.command.spec.state in _OF_A_CONNECTION and not _ends_its_client(item.command)
    # Behind a login, too, what any node can do is for those of the client's address.
    leaves = item.command.spec.state in _OF_ANY_NODE and session.sender.pending_replies == 0
    if (bound or leaves) and not leave_node(session):
        return WAIT
    if session.state is not POOLED or not session.ports.route.pooling:
        # Bound to this node for good, the client could not reach the keys of others.
        return forward(session, item) if bound and session.state.upstream is not None else None
    return _without_state(session, nodes, item)


def _without_state(session: Session, nodes: NodePort, item: Item) -> int | None:
    blocks = may_block(session, item.command)
    if item.command.spec.state is ConnectionState.POOL or (
        item.command.spec.state is ConnectionState.BLOCKING and not blocks
    ):
        return _to_shared(session, nodes, item)
    if item.command.spec.state in _UNQUEUED:
        session.node = any_node(session, nodes)
        if session.node is None:
            return wait_for_node(session, nodes, item, None, item.command.spec.lane)
        return None if session.sender.pending_replies > 0 and not item.hidden else _to_shared(session, nodes, item)
    if blocks and not item.hidden:
        return blocking.send(session, nodes, item)
    if item.command.spec.state in _OF_A_CONNECTION and not _ends_its_client(item.command):
        # Pinned to one node, the client could not reach the keys of others; and what these set or tell is about a
        # connection to one node.
        outcome = _to_shared(session, nodes, item)
        return forward(session, item) if outcome is None else outcome
    return None


def leave_node(session: Session) -> bool:
    """Give back a connection to one node that holds nothing of the client any more; False: the command waits."""
    if session.state.upstream is None or session.keeps_pin():
        return True
    if session.sender.pending_replies > 0:
        switching.wait_until_drained(session)
        return False
    session.unpin()
    return True


def _ends_its_client(command: Command) -> bool:
    row = ROWS.get(command.spec.name)
    return row is not None and row.from_web_page


def _within_transaction(session: Session, item: Item) -> int | None:
    running, upstream = session.state.transaction, session.sender.upstream
    assert running is not None
    if session.node is None or not isinstance(upstream, PrivatePipeline):
        return None
    slot = slot_of(item.command.known_keys[0].name) if item.command.known_keys else None
    if running.slot is None:
        running.slot = slot
    if upstream.key.node is session.node and slot in (None, running.slot):
        return None
    return answered(session, item, CROSSSLOT)


def _to_shared(session: Session, nodes: NodePort, item: Item) -> int | None:
    # What handlers take for the current connection is that of the command's node.
    sender, lane = session.sender, item.command.spec.lane
    if waits_for_lane(session, lane):
        return WAIT
    current = sender.upstream
    node = session.node
    if node is None:
        if session.intake.direct and lane is Lane.FAST and _will_do(session, nodes, item.command, current):
            return None
        node = any_node(session, nodes)
        if node is None:
            return wait_for_node(session, nodes, item, None, lane)
    upstream = connection_to(session, node, lane)
    if upstream is None:
        return wait_for_node(session, nodes, item, node, lane)
    if upstream is not current and item.hidden and sender.pending_replies > 0:
        switching.wait_until_drained(session)
        return WAIT
    sender.use(upstream)
    session.intake.direct = lane is Lane.FAST
    return None


def _will_do(session: Session, nodes: NodePort, command: Command, current: UpstreamPipeline | None) -> bool:
    # Whether a command without keys may go where the one before it went.
    if not isinstance(current, PrivatePipeline) or not current.usable or not nodes.reachable(current.key.node):
        return False
    if command.spec.over_nodes.destination is Destination.ONE_NODE:
        return current.key.node is any_node(session, nodes)
    return current.key.node in (stood_for(nodes, session.origin) or nodes.primaries())


def place_transaction(session: Session, nodes: NodePort, item: Item, data: bytes, end: int) -> int | None:
    """Take the connection of the first keys behind a MULTI that has arrived whole; None where that is done."""
    request, config = Request(), session.intake.config
    node = None
    while node is None and request.scan(data, end, session.intake.limits) == COMPLETE:
        spec = session.effective_policy.table.specs[config.lookup.find(request)]
        if spec.state is ConnectionState.EXEC:
            break
        if locate(session, nodes, spec, data[request.start : request.end]) == UNOWNED:
            return _wait_or_abort(session, nodes, item, None)
        node, end = session.node, request.end
    if session.sender.pending_replies > 0:
        switching.wait_until_drained(session)
        return WAIT
    node = node or any_node(session, nodes)
    upstream = None if node is None else connection_to(session, node, Lane.FAST)
    if upstream is None:
        return _wait_or_abort(session, nodes, item, node)
    session.sender.use(upstream)
    session.intake.direct = True
    return None


def _wait_or_abort(session: Session, nodes: NodePort, item: Item, node: Node | None) -> int:
    # Where no node is found in time, MULTI begins a transaction that fails: what is queued must not run alone.
    if session.awaited is None and has_waited(session, item):
        return nodeless_multi.begin(session, spoiled=True)
    return wait_for_node(session, nodes, item, node, Lane.FAST)


def _split(session: Session, nodes: NodePort, item: Item) -> int:
    command, config = item.command, session.intake.config
    router, request = config.router, Request()
    assert router is not None, "it has found several slots"
    request.scan(item.raw, 0, session.intake.limits)
    parts = split(command.spec.id, request, item.raw, config.keys, router)
    if parts is None or not over_slots.may_be_split(session, item):
        return answered(session, item, CROSSSLOT)
    owners = [nodes.node(number) for number in parts.nodes]
    upstreams = connections_to(session, nodes, item, owners, Lane.FAST)
    if isinstance(upstreams, int):
        return upstreams
    over_slots.send(session, item, parts, upstreams)
    return TAKEN

"""The node of a command's keys, with a cluster upstream; channels of shards are hashed as keys are."""

from collections.abc import Sequence

from proxy.commands.command import Command
from proxy.commands.over_nodes import Destination
from proxy.commands.rows import ROWS
from proxy.commands.slots import SLOTS, slot_of
from proxy.commands.spec import ConnectionState, Spec
from proxy.hotpath.cluster.router import KEYLESS, SEVERAL_SLOTS, UNOWNED
from proxy.session.ports.node_port import NodePort
from proxy.session.ports.pool_key import Node
from proxy.session.session import Session
from proxy.session.state import POOLED
from proxy.wire.numbers import read_digits
from proxy.wire.request import Request


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

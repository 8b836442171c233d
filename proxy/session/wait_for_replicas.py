"""WAIT and WAITAOF before a cluster: each primary is asked on a private connection, and the least reply counts.

WAIT speaks of what the server had written when the connection last moved its offset. In front of WAIT a message goes to
a shard channel of each node: that covers all writes of this client that have been answered (see ``pinned``). The client
may have written to fewer nodes than are asked, so the reply never promises more than is true.
"""

from collections.abc import Sequence
from functools import partial

from proxy.cluster.fan_out import FanOut
from proxy.cluster.hidden_nodes import hidden_redirect
from proxy.cluster.joins import Joiner, is_error, joiner
from proxy.cluster.sending import send_fan_out
from proxy.commands.over_nodes import Join
from proxy.commands.slots import SLOTS, slot_of
from proxy.commands.table import Lane
from proxy.hotpath.intake import TAKEN, WAIT
from proxy.hotpath.router import Router
from proxy.session import sending, switching
from proxy.session.item import Item
from proxy.session.node_connections import NodeClient, wait_for_node
from proxy.session.pinned import WAIT_CHANNEL, WAIT_REFUSED
from proxy.session.pool_key import Node
from proxy.session.ports import NodePort, PrivatePipeline
from proxy.session.state import POOLED, Awaited, Waiting, ended, waiting
from proxy.wire.encode import encode_error

_HAS_STATE = encode_error("ERR keyrail: this connection has state on one node: send WAIT on another one")
_MOST_TRIED = 16 * SLOTS


def wait(session: NodeClient, nodes: NodePort, item: Item) -> int:
    """Ask all primaries."""
    if session.state is not POOLED:
        sending.answer(session, _HAS_STATE)
        return TAKEN
    if session.sender.pending_replies > 0:
        switching.wait_until_drained(session)
        return WAIT
    router = session.intake.config.router
    assert router is not None, "a cluster has one"
    owners = {router.owner(slot) for slot in range(SLOTS)}
    primaries = [node for node in nodes.primaries() if node.number in owners]
    if not primaries:
        return wait_for_node(session, nodes, item, None, Lane.FAST)
    upstreams = _connections(session, primaries)
    if upstreams is None:
        return WAIT
    requests = [[[b"SPUBLISH", _channel(router, node), b""], item.command.argv] for node in primaries]
    state = session.state = waiting(session.state, upstreams)
    session.settle_nodes()
    session.sender.forwarded += 1
    joined = joiner(Join.MIN, item.command.name, [nodes.alias(node) for node in primaries])
    send_fan_out(session.sender, FanOut(requests, partial(_answered, session, joined)), upstreams, item.edit)
    for upstream in list(upstreams):
        upstream.when_drained(partial(_release, session, state, upstream))
    switching.wait_until_drained(session)
    return TAKEN


def _connections(session: NodeClient, primaries: Sequence[Node]) -> list[PrivatePipeline] | None:
    # All of them, or none: the command waits for the one that is missing.
    found: list[PrivatePipeline] = []
    pools = session.ports.pools
    for node in primaries:
        key = session.key._replace(node=node)
        upstream = pools.private_anywhere(key)
        if upstream is None:
            session.wait_for(Awaited.UPSTREAM)
            pools.await_private_anywhere(switching.private_waiter(session), key)
            for each in found:
                pools.release(each)
            return None
        found.append(upstream)
    return found


def _channel(router: Router, node: Node) -> bytes:
    # One that is hashed to a slot of this node.
    names = (b"%b:%d" % (WAIT_CHANNEL, number) for number in range(_MOST_TRIED))
    return next((name for name in names if router.owner(slot_of(name)) == node.number), WAIT_CHANNEL)


def _release(session: NodeClient, state: Waiting, upstream: PrivatePipeline) -> None:
    if upstream in state.upstreams and not upstream.closed:
        state.upstreams.remove(upstream)
        session.ports.pools.release(upstream)


def _answered(session: NodeClient, joined: Joiner, frames: Sequence[bytes]) -> bytes:
    if type(session.state) is Waiting:
        session.state = ended(session.state)
        session.settle_nodes()
    covering, waited = frames[::2], frames[1::2]
    refused = next((frame for frame in covering if is_error(frame)), None)
    if refused is not None and not session.ports.capabilities.any_command_covers():
        return WAIT_REFUSED if refused.startswith(b"-NOPERM") else hidden_redirect(refused)
    return joined(waited)

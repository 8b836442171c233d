"""WAIT and WAITAOF with a cluster upstream: each primary that the client has written to is asked, and the least reply
counts.

WAIT speaks of what the server had written when its connection last moved its offset. So it runs on a private connection
behind a message to a shard channel of the node: that covers all writes of this client that have been answered (see
``pinned``).

The sender knows to which nodes writes have gone. Once the slot map has changed since the first of them, they may be
anywhere, and all primaries are asked. A client that has not written asks any one.

A node that becomes a replica refuses WAIT, or is lost. Then those who are primaries by now are asked, with what is left
of the timeout: WAIT changes nothing, so it can be sent twice.
"""

from collections.abc import Sequence
from functools import lru_cache, partial

from proxy.cluster.hidden_nodes import hidden_redirect
from proxy.cluster.joins import Joiner, is_error, joiner
from proxy.commands.error_texts import PROBE_FORBIDDEN, WAITS_AT_REPLICA
from proxy.commands.over_nodes import Join
from proxy.commands.slots import SLOTS, slot_of
from proxy.commands.table import Lane
from proxy.commands.values import whole_number
from proxy.hotpath.cluster.router import UNOWNED, Router
from proxy.hotpath.intake.command_sender import EVERY_NODE
from proxy.hotpath.upstream.in_flight import NOTE, InFlightEntry, ReplySink
from proxy.hotpath.upstream.upstream_pipeline import bit_of
from proxy.session.cluster import blocking
from proxy.session.cluster.blocking import BlockedCommand
from proxy.session.cluster.node_connections import wait_for_node
from proxy.session.commands import switching
from proxy.session.commands.pinned import WAIT_CHANNEL, WAIT_REFUSED
from proxy.session.guarded import guarded
from proxy.session.item import Item
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.node_port import NodePort
from proxy.session.ports.pool_key import Node
from proxy.session.progress import NotYet, Refused, Step
from proxy.session.session import Session
from proxy.session.state import POOLED, Waiting, ended, waiting
from proxy.wire.encode import encode_command, encode_error

_HAS_STATE = encode_error("ERR keyrail: this connection has state on one node: send WAIT on another one")
_MOST_TRIED = 16 * SLOTS
_MOST_MAPS, _MOST_CHANNELS = 4, 256
"""How many are remembered."""
_NOBODY = ReplySink()
"""Receives replies that no client gets."""


def send(session: Session, nodes: NodePort, item: Item) -> Step[None]:
    """Ask them, and wait for their replies."""
    if session.state is not POOLED:
        raise Refused(_HAS_STATE)
    blocked, again = BlockedCommand(), partial(_connections, session, nodes, item)
    send_on = partial(_send, session, nodes, item, blocked)
    return blocking.until_answered(session, nodes, item, blocked, again(), send_on, again)


def _router(session: Session) -> Router:
    router = session.intake.config.router
    assert router is not None, "a cluster has one"
    return router


def _asked(written: int, nodes: NodePort, router: Router) -> Sequence[Node]:
    # None of them where some are missing.
    owners = _owners(router, router.version)
    primaries = [node for node in nodes.primaries() if node.number in owners]
    if written == 0:
        return primaries[:1]
    if written == EVERY_NODE:
        return [] if UNOWNED in owners else primaries
    return [node for node in primaries if written & bit_of(node.number)]


def _send(
    session: Session, nodes: NodePort, item: Item, blocked: BlockedCommand, upstreams: list[PrivatePipeline]
) -> None:
    argv = _shortened(item.command.argv, blocked.begin(session.ports.route.now()))
    router = _router(session)
    state = session.state = waiting(session.state, upstreams)
    session.settle_nodes()
    sender = session.sender
    sender.forwarded += 1
    joined = joiner(Join.MIN, item.command.name, [nodes.alias(upstream.key.node) for upstream in upstreams])
    asked = _Asked(session, item, joined, state, blocked)
    sender.hold(asked.place)
    for upstream in list(upstreams):
        frames: list[bytes] = []
        asked.frames.append(frames)
        channel = _channel(router, router.version, upstream.key.node.number)
        chunk = encode_command([b"SPUBLISH", channel, b""]) + encode_command(list(argv))
        sender.issue(upstream, chunk, InFlightEntry(_NOBODY, 2, NOTE, frames.append), commands=1)
        upstream.when_drained(partial(asked.ended, upstream))


class _Asked:
    """A WAIT that has been sent to some nodes: ``frames`` has their replies, two of each, to the message and to WAIT.
    The client awaits its reply at ``place``."""

    def __init__(self, session: Session, item: Item, joined: Joiner, state: Waiting, blocked: BlockedCommand) -> None:
        self.place = session.sender.begin_order().place()
        self.frames: list[list[bytes]] = []
        self.ports = session.ports
        self._session = session
        self._item = item
        self._joined = joined
        self._state = state
        self._blocked = blocked
        self._left = len(state.upstreams)

    @guarded
    def ended(self, upstream: PrivatePipeline) -> None:
        """This node has answered, or its connection is lost."""
        if upstream in self._state.upstreams:
            self._state.upstreams.remove(upstream)
            if not upstream.closed:
                self.ports.pools.release(upstream)
        self._left -= 1
        if self._left == 0 and not self._session.gone:
            # Not in the middle of the loss of a connection.
            self.ports.route.after(0.0, self._conclude) if upstream.closed else self._conclude()

    @guarded
    def _conclude(self) -> None:
        session, item = self._session, self._item
        if session.gone:
            return
        session.state = ended(session.state)
        session.settle_nodes()
        lost = any(len(frames) < 2 for frames in self.frames)
        if lost or any(_refused(frame) for frames in self.frames for frame in frames):
            self._blocked.refused = True
            session.sender.release(self.place, b"")
            return
        reply = self._reply()
        session.sender.release(self.place, reply if item.edit is None else item.edit(reply))

    def _reply(self) -> bytes:
        failed = next((frames[0] for frames in self.frames if is_error(frames[0])), None)
        if failed is not None and not self.ports.capabilities.any_command_covers():
            return WAIT_REFUSED if PROBE_FORBIDDEN.begin(failed) else hidden_redirect(failed)
        return self._joined([frames[1] for frames in self.frames])

    def close(self, cause: str) -> None:
        """Close the client."""
        self._session.close(cause)


def _refused(frame: bytes) -> bool:
    return blocking.refused(frame, own_errors=False) or WAITS_AT_REPLICA.begin(frame)


def _shortened(argv: Sequence[bytes], seconds: float) -> Sequence[bytes]:
    # The timeout is the last argument, in milliseconds; 0 is for ever. The engine answers what is no number.
    timeout = whole_number(argv[-1])
    if timeout is None or timeout <= 0:
        return argv
    return [*argv[:-1], b"%d" % max(1, timeout - int(seconds * 1000))]


def _connections(session: Session, nodes: NodePort, item: Item) -> list[PrivatePipeline]:
    # All of them, or none: the command waits for the one that is missing.
    switching.drained(session)
    primaries = _asked(session.sender.written_nodes, nodes, _router(session))
    if not primaries:
        wait_for_node(session, nodes, item, None, Lane.FAST)
    found: list[PrivatePipeline] = []
    pools = session.ports.pools
    for node in primaries:
        key = session.key._replace(node=node)
        upstream = pools.private_anywhere(key)
        if upstream is None:
            wait = pools.await_private_anywhere(switching.private_waiter(session), key)
            session.wait_for_upstream(wait)
            for each in found:
                pools.release(each)
            raise NotYet
        found.append(upstream)
    return found


# Both go through many slots, which takes milliseconds: once for each map.


@lru_cache(maxsize=_MOST_MAPS)
def _owners(router: Router, version: int) -> frozenset[int]:
    return frozenset(map(router.owner, range(SLOTS)))


@lru_cache(maxsize=_MOST_CHANNELS)
def _channel(router: Router, version: int, number: int) -> bytes:
    # One that is hashed to a slot of the node of this number.
    names = (b"%b:%d" % (WAIT_CHANNEL, tried) for tried in range(_MOST_TRIED))
    return next((name for name in names if router.owner(slot_of(name)) == number), WAIT_CHANNEL)

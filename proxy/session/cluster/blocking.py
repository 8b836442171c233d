"""Blocking commands with a cluster upstream: on a private connection to the slot's node, and sent again where the slot
leaves.

A node answers a blocked command with MOVED when its slot leaves, and with UNBLOCKED when it becomes a replica (in other
words than CLIENT UNBLOCK). Nothing has been popped then, so the command is sent to the slot's new owner with what is
left of its timeout. If nothing is left, it is still tried, for the shortest time that no engine takes for ever (Redis
6.2 and 7.0.0 to 7.0.7 cut 0.001 s to 0 ms): there may be an element now. Behind ASK it is sent to the node that is
named, which lets it block although the slot is not its own yet. Nothing else of the client is sent meanwhile, so it
stays in its place.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from proxy.cluster.hidden_nodes import hidden_own_error, hidden_redirect
from proxy.commands.error_texts import ASKS, SLOT_CANNOT_BE_SERVED, UNBLOCKED
from proxy.commands.rows import ROWS
from proxy.commands.spec import Spec
from proxy.commands.table import Lane
from proxy.commands.values import whole_number
from proxy.commands.words import word_of
from proxy.hotpath.cluster.router import UNOWNED
from proxy.hotpath.upstream.in_flight import AS_IT_IS, EDIT, InFlightEntry
from proxy.session.cluster.node_connections import has_waited, leave_node, unserved, wait_for_node
from proxy.session.cluster.node_of_keys import locate
from proxy.session.commands import switching
from proxy.session.item import Arrival, Item
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.node_port import NodePort
from proxy.session.ports.pool_key import Node
from proxy.session.progress import Refused, Step, T, taken
from proxy.session.session import Session
from proxy.session.state import Awaited
from proxy.wire.encode import encode_command

_ASKING = encode_command([b"ASKING"])
_LONG = 1.0
"""Seconds. A command that was blocked for so long has been where it belonged."""
_LEAST = 0.002
"""Seconds: of less, some engines make none at all, which is for ever."""
_DECIMAL = re.compile(rb"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
"""How clients write seconds. Engines take more forms (``inf``, ``1e3``), and Python others (``1_000``)."""
_OPTION_ARGUMENTS = {b"GROUP": 2, b"COUNT": 1, b"BLOCK": 1}
"""Of XREAD and XREADGROUP, before STREAMS."""


@dataclass(slots=True)
class BlockedCommand:
    """A command that blocks: since when it was first sent, and when it was sent last. ``refused``: a node has answered
    it because of its slot or role, so that nothing has run. Then ``asks`` is the node that ASK names; without one,
    ``error`` is the reply where that goes on for too long."""

    since: float | None = None
    sent_at: float = 0.0
    refused: bool = False
    asks: Node | None = None
    error: bytes = b""

    def begin(self, now: float) -> float:
        """It is sent; for how many seconds it has been blocked before."""
        self.sent_at, self.refused, self.asks, self.error = now, False, None, b""
        if self.since is None:
            self.since = now
        return now - self.since


def send(session: Session, nodes: NodePort, item: Item) -> Step[None]:
    """Send it, and wait for its reply."""
    blocked, upstream = BlockedCommand(), switching.to_drained_private(session)
    send_on = partial(_send, session, nodes, item, blocked)
    again = partial(_connection, session, nodes, item, blocked)
    return until_answered(session, nodes, item, blocked, upstream, send_on, again)


def until_answered(
    session: Session,
    nodes: NodePort,
    item: Item,
    blocked: BlockedCommand,
    upstreams: T,
    send_on: Callable[[T], None],
    again: Callable[[], T],
) -> Step[None]:
    """Send it on these connections, and on those that ``again`` finds, until it is answered."""
    while True:
        send_on(upstreams)
        yield from switching.until_drained(session)
        if not blocked.refused:
            return
        if blocked.asks is None:
            yield from _look(session, nodes, item, blocked)
        upstreams = yield from taken(again)


def _send(session: Session, nodes: NodePort, item: Item, blocked: BlockedCommand, upstream: PrivatePipeline) -> None:
    asks = blocked.asks
    argv = shortened(item.command.spec, item.command.argv, blocked.begin(session.ports.route.now()))
    session.on_its_own.blocked += 1
    session.sender.forwarded += 1
    if asks is not None:
        session.sender.hide(upstream, _ASKING)

    def answered(frame: bytes) -> bytes:
        own = item.command.spec.own_errors
        blocked.refused = refused(frame, own_errors=own)
        if blocked.refused and ASKS.hinted(frame) and asks is None:
            blocked.asks = nodes.redirected(frame, upstream.key.node)
        return (hidden_own_error if own else hidden_redirect)(_answered(item, blocked, frame))

    reply = InFlightEntry(session.sender, 1, EDIT, answered)
    if not item.command.spec.own_errors:
        reply.sent = AS_IT_IS
    session.sender.issue(upstream, encode_command(argv), reply, commands=1)


def _look(session: Session, nodes: NodePort, item: Item, blocked: BlockedCommand) -> Step[None]:
    # Wait until the cluster has been looked at, as a node has refused the command.
    if session.ports.route.now() - blocked.sent_at > _LONG:
        item.held_since = None
    if has_waited(session, item):
        raise Refused(blocked.error or unserved(session, (session.node,)))
    looked = Arrival(session)
    nodes.await_look(looked)
    while not looked.over and not has_waited(session, item):
        session.wait_for(Awaited.UPSTREAM)
        yield


def _connection(session: Session, nodes: NodePort, item: Item, blocked: BlockedCommand) -> PrivatePipeline:
    # To the node that owns its slot by now, or to the one that ASK has named.
    asks = blocked.asks
    leave_node(session)
    if locate(session, nodes, item.command.spec, item.raw) == UNOWNED and asks is None:
        wait_for_node(session, nodes, item, None, Lane.FAST)
    session.node = asks or session.node
    return switching.to_drained_private(session)


def refused(frame: bytes, *, own_errors: bool) -> bool:
    """Whether a node has answered a blocked command because of its slot or its role, so that nothing has run."""
    return UNBLOCKED.begin(frame, own_errors=own_errors)


def _answered(item: Item, blocked: BlockedCommand, frame: bytes) -> bytes:
    if blocked.refused:
        if SLOT_CANNOT_BE_SERVED.hinted(frame):
            blocked.error = frame
        return b""
    return frame if item.edit is None else item.edit(frame)


def shortened(spec: Spec, argv: Sequence[bytes], seconds: float) -> Sequence[bytes]:
    """The command with so many seconds less to wait. As it is where it waits for ever, or nobody knows how long."""
    row = ROWS.get(spec.name)
    if row is None or seconds <= 0:
        return argv
    in_milliseconds = row.key_syntax == "streams"
    place = _block_option(argv) if in_milliseconds else row.timeout_argument
    timeout = _milliseconds(argv[place]) if in_milliseconds else _seconds(argv[place])
    if not place or timeout <= 0:
        return argv
    left = timeout - seconds
    words = list(argv)
    words[place] = b"%d" % max(1, left * 1000) if in_milliseconds else b"%.3f" % max(_LEAST, left)
    return words


def _milliseconds(timeout: bytes) -> float:
    # In seconds; 0 for what has no end, or is no number.
    number = whole_number(timeout)
    return 0.0 if number is None else number / 1000


def _seconds(timeout: bytes) -> float:
    return float(timeout) if _DECIMAL.fullmatch(timeout) else 0.0


def _block_option(words: Sequence[bytes]) -> int:
    # The argument behind BLOCK; 0 if there is none. A group may have such a name.
    i = 1
    while i < len(words) and word_of(words[i]) != b"STREAMS":
        word = word_of(words[i])
        if word == b"BLOCK" and i + 1 < len(words):
            return i + 1
        i += 1 + _OPTION_ARGUMENTS.get(word, 0)
    return 0

"""Commands with keys of several slots with a cluster upstream: a part for each slot, and one reply.

What rules send behind such a command (EXPIRE for the keys that MGET has read, or MSET has written) goes to each key's
node, once the replies to all parts are there; the client's reply waits for it. Keys of parts that have failed get
nothing.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from proxy.cluster.joins import is_error
from proxy.cluster.sending import send_behind, send_split
from proxy.commands.command import Command
from proxy.commands.over_nodes import Destination
from proxy.commands.rows import ROWS
from proxy.hotpath.cluster.split import Split
from proxy.hotpath.order.reply_order import Segment
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.policy.decision import HiddenCommands, What
from proxy.session.cluster.node_connections import note
from proxy.session.commands import follow_ups, hidden_commands, sending, switching
from proxy.session.item import FollowUp, Item
from proxy.session.policy import tenancy
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.session import Session
from proxy.session.state import POOLED
from proxy.wire.encode import encode_command


def may_be_split(session: Session, item: Item) -> bool:
    """Whether the policy, the state of the connection and what rules add allow it."""
    if session.state.transaction is not None:
        return False
    if item.hidden and (session.state is not POOLED or hidden_commands.needs_unit(item.hidden)):
        return False
    match _asked(item).spec.over_nodes.destination:
        case Destination.SPLIT:
            return True
        case Destination.SPLIT_IF_ALLOWED:
            return session.effective_policy.compiled.policy.splits_writes
    return False


def _asked(item: Item) -> Command:
    # MSET may travel as MSETEX, which differs in nothing but the lifetime.
    own = item.instead_of
    row = None if own is None else ROWS.get(own.spec.name)
    return own if own is not None and row is not None and row.ttl_with == item.command.spec.name else item.command


def send(session: Session, item: Item, parts: Split, upstreams: Sequence[UpstreamPipeline]) -> None:
    """Send the parts; ``upstreams`` has the connection to each node. The client's next command waits for the reply."""
    error, hidden = hidden_commands.alongside(session, item.hidden, tenancy.own_command(session, item), begun=False)
    if error is not None:
        if item.trace is not None:
            item.trace.without_reply()
        sending.refuse(session, error)
        return
    note(session, item)
    asked = _asked(item)
    if not hidden:
        send_split(session.sender, asked, parts, upstreams, item.edit)
    else:
        behind = _Behind(session, item, hidden, parts.places)
        counted = zip(upstreams, parts.counts, strict=True)
        behind.upstreams = [upstream for upstream, count in counted for _ in range(count)]
        join = send_split(session.sender, asked, parts, upstreams, behind.joined, behind.failed)
        behind.place = join.segment
    switching.wait_until_drained(session)


class _Behind:
    """What follows one split command. ``places`` has the keys of each part, by their places among those of the command;
    ``upstreams`` is where the parts went, and ``place`` where the reply is awaited."""

    def __init__(
        self,
        session: Session,
        item: Item,
        hidden: tuple[HiddenCommands, ...],
        places: Sequence[Sequence[int]],
    ) -> None:
        self.place: Segment | None = None
        self.upstreams: Sequence[UpstreamPipeline] = ()
        self._session = session
        self._item = item
        self._own = tenancy.own_command(session, item)
        self._hidden = hidden
        self._keys = [[item.command.known_keys[place].name for place in part] for part in places]
        self._frames: Sequence[bytes] = ()

    def failed(self, frames: Sequence[bytes]) -> None:
        """Some parts have failed: these are the replies to all."""
        self._frames = frames

    def joined(self, reply: bytes) -> bytes:
        """All parts are answered: what the client gets now; nothing while something follows."""
        line = self._line(reply)
        session, requests = self._session, []
        for follow_up in () if line is None else self._found(line):
            upstream = follow_up.upstream
            if session.gone or upstream.closed or not upstream.usable or not upstream.admits(session.sender):
                follow_ups.send_elsewhere(session, follow_up, follow_up.key)
            else:
                requests.append((follow_up, upstream, encode_command(list(follow_up.argv))))
        if not requests:
            return self._edited(reply)
        assert self.place is not None, "the parts have been sent"
        answered = partial(self._answered, reply, [follow_up for follow_up, _, _ in requests])
        send_behind(session.sender, self.place, [(upstream, raw) for _, upstream, raw in requests], answered)
        return b""

    def _line(self, reply: bytes) -> bytes | None:
        # The first line of the reply of those parts that have not failed; None where that proves nothing.
        if not self._frames:
            return reply[: reply.index(b"\n") + 1]
        ran = [frame for frame in self._frames if not is_error(frame)]
        if ran and not self._item.reads:
            return ran[0][: ran[0].index(b"\n") + 1]
        for each in self._hidden:
            self._report(each, "skipped", "an error proves nothing")
        return None

    def _found(self, line: bytes) -> Iterator[FollowUp]:
        session, table = self._session, self._session.effective_policy.table
        failed = {
            name for part, frame in zip(self._keys, self._frames, strict=False) if is_error(frame) for name in part
        }
        ran_on = {name: upstream for part, upstream in zip(self._keys, self.upstreams, strict=True) for name in part}
        for hidden in self._hidden:
            try:
                hidden_commands.notice(session, self._own, hidden, line)
                found = hidden.surround.conclude(line, ())
            except Exception as error:  # noqa: BLE001 - a rule's bug must not take the connection down
                self._report(hidden, "error", type(error).__name__)
                continue
            for argv in found:
                name = Command(table, list(argv)).known_keys[0].name
                upstream = ran_on[name]
                assert isinstance(upstream, PrivatePipeline), "each connection to a node has a key"
                if name not in failed:
                    key = session.key._replace(node=upstream.key.node)
                    yield FollowUp(argv, hidden, self._own, key, upstream, None)

    def _answered(self, reply: bytes, sent: Sequence[FollowUp], frames: Sequence[bytes]) -> bytes:
        for follow_up, frame in zip(sent, frames, strict=True):
            follow_ups.conclude(self._session, follow_up, frame)
        return self._edited(reply)

    def _edited(self, reply: bytes) -> bytes:
        return reply if self._item.edit is None else self._item.edit(reply)

    def _report(self, hidden: HiddenCommands, what: What, detail: str) -> None:
        self._session.ports.reports.report([hidden.hit(what, detail)], self._own, self._session)

"""Sends one command of a client to several nodes, as parts of one reply in the client's order."""

from collections.abc import Callable, Sequence
from functools import partial

from proxy.cluster.fan_out import FanOut
from proxy.cluster.hidden_nodes import hidden_redirect
from proxy.cluster.joins import UnexpectedReplyError, first_error, is_error, keys_failed, nodes_failed
from proxy.cluster.scan_rounds import Asked, Rounds
from proxy.commands.command import Command
from proxy.commands.over_nodes import Join as HowJoined
from proxy.hotpath.cluster.split import Split
from proxy.hotpath.intake.command_sender import CommandSender
from proxy.hotpath.order.join import MOST_JOINED, TOO_LARGE, Join, SumJoin, ValuesJoin
from proxy.hotpath.order.reply_order import Segment
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.wire.encode import encode_command

Edit = Callable[[bytes], bytes] | None
_UNEXPECTED = b"-ERR keyrail: a node's reply is not one to the question: try again\r\n"
_NOT_CONNECTED = b"-CLUSTERDOWN keyrail: a node of the cluster is not connected\r\n"


def send_split(
    sender: CommandSender,
    command: Command,
    parts: Split,
    upstreams: Sequence[UpstreamPipeline],
    edit: Edit,
    failed: Callable[[Sequence[bytes]], object] | None = None,
) -> Join:
    """Send a split command; ``upstreams`` has the connection to each of its nodes. If some parts fail, ``failed`` gets
    the replies to all, before ``edit`` gets the joined reply."""
    join = _split_join(sender.begin_order().place(), command, parts, failed)
    join.edit = edit
    index = 0
    for upstream, chunk, count in zip(upstreams, parts.chunks, parts.counts, strict=True):
        sender.send_part(join, upstream, chunk, index, count)
        index += count
    return join


def _split_join(
    place: Segment, command: Command, parts: Split, failed: Callable[[Sequence[bytes]], object] | None
) -> Join:
    error = partial(keys_failed, command.name, parts.width, parts.places) if command.spec.write else first_error
    joined = partial(_first_unless, error, failed)
    match command.spec.over_nodes.join:
        case HowJoined.BY_KEY:
            return ValuesJoin(place, parts.places, len(parts.keys), joined)
        case HowJoined.SUM:
            return SumJoin(place, len(parts.places), joined)
    return Join(place, len(parts.places), joined)


def _first_unless(
    error: Callable[[Sequence[bytes]], bytes],
    failed: Callable[[Sequence[bytes]], object] | None,
    frames: Sequence[bytes],
) -> bytes:
    if not any(map(is_error, frames)):
        return frames[0]
    if failed is not None:
        failed(frames)
    return hidden_redirect(error(frames))


def send_behind(
    sender: CommandSender,
    place: Segment,
    requests: Sequence[tuple[UpstreamPipeline, bytes]],
    answered: Callable[[Sequence[bytes]], bytes],
) -> None:
    """Send commands of Keyrail's own behind a joined one, each on its connection; ``answered`` gets their replies, and
    returns what the client gets in this place."""
    join = Join(place, len(requests), answered)
    for index, (upstream, raw) in enumerate(requests):
        sender.send_part(join, upstream, raw, index, 1)


Answers = Sequence[tuple[str, bytes]]
"""Names of nodes, each with its reply."""
Further = Callable[[Callable[[Answers], None]], bool]
"""Asks further nodes, and passes their answers on, later; False if there are none."""


def send_fan_out(
    sender: CommandSender,
    out: FanOut,
    upstreams: Sequence[UpstreamPipeline],
    edit: Edit,
    further: Further | None = None,
) -> Join:
    """Send each node what it is to get; ``upstreams`` has the connection to each of them. If all succeed, ``further``
    nodes are asked, and if one of those fails, the client gets its error."""
    commands = sum(len(requests) for requests in out.requests)
    place = sender.begin_order().place()

    def joined(frames: Sequence[bytes]) -> bytes:
        reply = hidden_redirect(out.joined(frames))
        if further is None or is_error(reply) or not further(partial(also_joined, reply, frames)):
            return reply
        sender.hold(place)
        return b""

    def also_joined(reply: bytes, frames: Sequence[bytes], answers: Answers) -> None:
        if any(is_error(frame) for _, frame in answers):
            names = [*out.names, *(name for name, _ in answers)]
            reply = nodes_failed(out.command, names, [*frames, *(frame for _, frame in answers)])
        sender.release(place, reply if edit is None else edit(reply))

    join = Join(place, commands, joined)
    join.edit = edit
    index = 0
    for upstream, requests in zip(upstreams, out.requests, strict=True):
        sender.send_part(join, upstream, b"".join(map(encode_command, requests)), index, len(requests))
        index += len(requests)
    return join


AskApart = Callable[[int, Sequence[Sequence[bytes]], Callable[[Sequence[bytes] | None], None]], None]
"""Asks the node of a number on a connection of Keyrail's own, and passes on the reply frames; None if it has none."""


def send_rounds(
    sender: CommandSender,
    rounds: Rounds,
    upstream: Callable[[int], UpstreamPipeline | None],
    edit: Edit,
    apart: AskApart | None = None,
) -> bytes | None:
    """Ask nodes in rounds, and answer with what the last one makes of them. The reply, if there is nothing to ask.

    ``upstream`` gives the connection to the node of a number, or None. ``apart`` asks what Keyrail may ask as its own
    user, if the client's may not be allowed it.
    """
    try:
        asked = next(rounds)
    except StopIteration as end:
        return bytes(end.value)
    return _Walk(sender, rounds, upstream, edit, apart).send(asked) or None


class _Walk:
    """A walk under way: what it asks, and the place of its reply."""

    def __init__(
        self,
        sender: CommandSender,
        rounds: Rounds,
        upstream: Callable[[int], UpstreamPipeline | None],
        edit: Edit,
        apart: AskApart | None,
    ) -> None:
        self._sender = sender
        self._place: Segment | None = None
        self._rounds = rounds
        self._upstream = upstream
        self._edit = edit
        self._apart = apart

    def send(self, asked: Sequence[Asked]) -> bytes:
        """Send a round; nothing, or what ends the walk: its reply if the rounds left ask nothing, or the error where a
        node is not connected any more."""
        if not asked:
            return self._go_on([])
        by_node: dict[int, list[int]] = {}
        for index, each in enumerate(asked):
            by_node.setdefault(each.node, []).append(index)
        if self._apart is not None and asked[0].by_keyrail:
            self._send_apart(self._apart, asked, by_node)
            return b""
        upstreams = [self._upstream(node) for node in by_node]
        ready = [upstream for upstream in upstreams if upstream is not None and upstream.usable]
        if len(ready) < len(upstreams):
            return _NOT_CONNECTED
        if self._place is None:
            self._place = self._sender.begin_order().place()
        order = [index for indexes in by_node.values() for index in indexes]
        join = Join(self._place, len(asked), partial(self._came, order))
        join.edit = self._edit
        first = 0
        for upstream, indexes in zip(ready, by_node.values(), strict=True):
            chunk = b"".join(encode_command(asked[index].argv) for index in indexes)
            self._sender.send_part(join, upstream, chunk, first, len(indexes))
            first += len(indexes)
        return b""

    def _send_apart(self, apart: AskApart, asked: Sequence[Asked], by_node: dict[int, list[int]]) -> None:
        if self._place is None:
            self._place = self._sender.begin_order().place()
        place, missing, frames, size = self._place, len(by_node), [b""] * len(asked), 0
        self._sender.hold(place)

        def came(indexes: Sequence[int], answers: Sequence[bytes] | None) -> None:
            nonlocal missing, size
            if missing == 0:
                return
            for index, frame in zip(indexes, answers or (), strict=False):
                frames[index] = frame
                size += len(frame)
            error = _NOT_CONNECTED if answers is None else TOO_LARGE % MOST_JOINED if size > MOST_JOINED else b""
            missing = 0 if error else missing - 1
            if missing == 0:
                reply = error or self._go_on(frames)
                self._sender.release(place, reply if self._edit is None or not reply else self._edit(reply))

        for node, indexes in by_node.items():
            apart(node, [asked[index].argv for index in indexes], partial(came, indexes))

    def _came(self, order: Sequence[int], frames: Sequence[bytes]) -> bytes:
        return self._go_on([frame for _, frame in sorted(zip(order, frames, strict=True))])

    def _go_on(self, frames: Sequence[bytes]) -> bytes:
        if self._sender.gone:
            return _NOT_CONNECTED  # which nobody gets
        try:
            asked = self._rounds.send(frames)
        except StopIteration as end:
            return hidden_redirect(bytes(end.value))
        except (UnexpectedReplyError, ArithmeticError, LookupError, TypeError, ValueError):
            return _UNEXPECTED
        return self.send(asked)

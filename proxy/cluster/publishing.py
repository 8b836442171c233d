"""PUBLISH: one node gets the message, which reaches the subscribers of all nodes, and others count theirs.

Once the node has the message it is published, whatever becomes of the others: nobody waits for their counts longer than
``COUNT_SECONDS``, and what is missing by then is left out. That a connection is lost on which one was asked closes no
client.
"""

from collections.abc import Callable, Sequence

from proxy.cluster.hidden_nodes import hidden_redirect
from proxy.cluster.joins import is_error, published
from proxy.commands.command import Command
from proxy.hotpath.intake.command_sender import CommandSender
from proxy.hotpath.order.join import Join
from proxy.hotpath.upstream.in_flight import NOTE, InFlightEntry, ReplySink
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.wire.encode import encode_command

COUNT_SECONDS = 0.25
_NOBODY = ReplySink()
"""Receives replies that no client gets."""

Timer = Callable[[float, Callable[[], None]], Callable[[], None]]
"""Calls something after so many seconds, unless what this returns is called before."""


def publish(
    sender: CommandSender,
    command: Command,
    upstream: UpstreamPipeline,
    counting: Sequence[UpstreamPipeline],
    edit: Callable[[bytes], bytes] | None,
    after: Timer,
) -> None:
    """Publish on this connection; subscribers are counted on the others, too."""
    _Publication(sender, command.name, edit, after).send(command.argv, upstream, counting)


class _Publication:
    """One message under way, and the place of its reply. ``_reply`` is that of the node which published it."""

    def __init__(self, sender: CommandSender, name: str, edit: Callable[[bytes], bytes] | None, after: Timer) -> None:
        self._sender = sender
        self._place = sender.begin_order().place()
        self._name = name
        self._edit = edit
        self._after = after
        self._missing = 0
        self._counts: list[bytes] = []
        self._reply = b""
        self._end_wait: Callable[[], None] | None = None

    def send(self, argv: Sequence[bytes], upstream: UpstreamPipeline, counting: Sequence[UpstreamPipeline]) -> None:
        """Ask all of them."""
        self._missing = len(counting)
        question = encode_command([b"PUBSUB", b"NUMSUB", argv[1]])
        for each in counting:
            self._sender.issue(each, question, InFlightEntry(_NOBODY, 1, NOTE, self._counted))
        join = Join(self._place, 1, self._published)
        join.edit = self._edit
        self._sender.send_part(join, upstream, encode_command(argv), 0, 1)

    def _published(self, frames: Sequence[bytes]) -> bytes:
        self._reply = frames[0]
        if is_error(self._reply):
            self._missing = 0
            return hidden_redirect(self._reply)
        if self._missing == 0:
            return self._sum()
        self._sender.hold(self._place)
        self._end_wait = self._after(COUNT_SECONDS, self._release)
        return b""

    def _counted(self, frame: bytes) -> None:
        if self._missing > 0:
            self._missing -= 1
            self._counts.append(frame)
            if self._missing == 0 and self._end_wait is not None:
                self._end_wait()
                self._release()

    def _release(self) -> None:
        self._missing = 0
        reply = self._sum()
        self._sender.release(self._place, reply if self._edit is None else self._edit(reply))

    def _sum(self) -> bytes:
        return published(self._name, [self._reply, *self._counts])

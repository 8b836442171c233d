"""Protocols of the objects that an upstream pipeline calls. It calls none of them for each read or each reply."""

from collections.abc import Callable
from typing import Any, Protocol

from proxy.hotpath.upstream.in_flight import ReplySink

MESSAGE = 0
CONFIRMATION = 1
REPLY = 2


class PipelineListener(Protocol):
    """Runs the connection of a pipeline, and reacts to events in the bytes from Redis."""

    def out_of_step(self) -> None:
        """These bytes cannot be the pending reply: the connection and its clients must be closed."""

    def uninvited(self, frame: bytes) -> None:
        """Redis has sent a whole frame although no reply is pending."""

    def on_large_head(self, sink: ReplySink) -> None:
        """A bulk string of more than ``large`` bytes has begun on its way to ``sink``."""

    def overflowing(self, sink: ReplySink) -> None:
        """``sink`` was sent more although its client does not read."""

    def hold(self) -> None:
        """Bring no more bytes: a reply takes several turns of the event loop."""

    def resume_for(self, client: object) -> None:
        """Bring bytes again: it has left, and nothing waits for a client (None)."""

    def command_refused(self, line: bytes) -> None:
        """An error reply said that a command is unknown, or that this user may not run it."""

    def doubt_role(self) -> None:
        """An error reply said READONLY. A script can return that, too; ROLE tells whether the server is a replica.

        Not called again until ``UpstreamPipeline.trust_role``.
        """


class Unheard:
    """Listens to a pipeline whose connection is lost: what happens there concerns nobody.

    A command that was refused on it can be given up later, with errors that go through a pipeline with its listener.
    """

    def out_of_step(self) -> None:
        """There is no connection to close."""

    def uninvited(self, frame: bytes) -> None:
        """Nobody counts it."""

    def on_large_head(self, sink: ReplySink) -> None:
        """It is on its way already."""

    def overflowing(self, sink: ReplySink) -> None:
        """There is no connection to hold."""

    def hold(self) -> None:
        """No more bytes come."""

    def resume_for(self, client: object) -> None:
        """No more bytes come."""

    def command_refused(self, line: bytes) -> None:
        """The next connection tells."""

    def doubt_role(self) -> None:
        """The next connection tells."""


UNHEARD = Unheard()


class SubscriptionReader(Protocol):
    """The subscriptions of the owner of a connection."""

    protocol: int
    edit: Callable[[bytes], bytes] | None
    """What makes of a message, or of a confirmation, what the owner gets instead."""

    def hears(self, head: bytes) -> int:
        """The kind of a frame, by its first line and first element: MESSAGE, CONFIRMATION or REPLY."""

    def confirms(self, frame: bytes, command: Any) -> bool:
        """Whether the frame answers this command, which is the first part of the payload of its entry."""

    def confirm(self, frame: bytes) -> None:
        """Take over a confirmation of Redis."""

"""The objects that an upstream pipeline calls, as far as it knows them.

Nothing here is called for each read or each reply.
"""

from typing import Protocol

from proxy.hotpath.in_flight import ReplySink

MESSAGE = 0
CONFIRMATION = 1
REPLY = 2


class PipelineListener(Protocol):
    """Runs the connection of a pipeline, and acts on what the pipeline finds in the bytes from Redis."""

    def out_of_step(self) -> None:
        """These bytes can't be the reply that is due: both sides must be closed."""

    def uninvited(self, frame: bytes) -> None:
        """Redis has sent a whole frame although no reply is due."""

    def on_large_head(self, sink: ReplySink) -> None:
        """A bulk string of more than ``large`` bytes has begun on its way to ``sink``."""

    def overflowing(self, sink: ReplySink) -> None:
        """``sink`` was sent more although it does not take what it has."""

    def command_refused(self, line: bytes) -> None:
        """The server said that it does not know a command, or that this user may not run it."""

    def doubt_role(self) -> None:
        """An error said READONLY: only the role of the server tells whether it is a replica now.

        Not called again until ``UpstreamPipeline.trust_role``.
        """


class SubscriptionReader(Protocol):
    """The subscriptions of the client that has the connection for itself."""

    protocol: int

    def hears(self, head: bytes) -> int:
        """The kind of a frame, by its first line and first element: MESSAGE, CONFIRMATION or REPLY."""

    def confirms(self, frame: bytes, verb: bytes) -> bool:
        """Whether the frame answers the command ``verb``."""

    def confirm(self, frame: bytes) -> None:
        """Take over a confirmation of Redis."""

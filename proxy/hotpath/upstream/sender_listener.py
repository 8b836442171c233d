"""The client behind a ``CommandSender``: what the sender tells it, and what connections to Redis ask of it."""

from typing import Any, Protocol


class HeldUpstream(Protocol):
    """An upstream that Keyrail does not read from, because a client does not read its replies."""

    def resume_for(self, client: object) -> None:
        """This client takes more again."""


class ReplyRecipient(Protocol):
    """The client that gets what is delivered to a sink."""

    @property
    def gone(self) -> bool:
        """Whether the client has left."""

    def close(self, cause: str) -> None:
        """Close the client now; ``cause`` is the label that metrics show."""

    def let_go(self) -> bool:
        """The client's private upstream is lost: whether nothing of the client is lost with it."""

    def waiting(self) -> int:
        """Bytes that the client has been sent and has not taken, or that wait for replies before them."""

    def on_redirect(self, upstream: Any, entry: Any, error: bytes) -> bytes | None:
        """The next frame of this connection's head entry is an error that says where else its command can run: what to
        tell in its place, or None if the reply comes from elsewhere."""

    def hold_upstream(self, upstream: HeldUpstream) -> None:
        """Resume the upstream when the client has caught up."""

    def pause_source(self) -> None:
        """The client's private upstream takes no more: read no more from the client."""

    def resume_source(self) -> None:
        """The private upstream takes more again."""


class SenderListener(ReplyRecipient, Protocol):
    """A client, as its sender sees it."""

    @property
    def blocked(self) -> bool:
        """Whether Redis may hold a reply to it back until something happens."""

    def on_idle(self) -> None:
        """No reply is pending any more; called only while the sender's ``notify_when_idle``."""

    def on_resume(self) -> None:
        """Few enough replies are pending that more commands may be sent; called only after the sender stalled."""

    def on_advance(self) -> None:
        """Some of the replies that several sources send have come."""

    def begin_reads(self) -> None:
        """The policy lets replicas answer some reads: from now on the sender's ``reads`` say from where."""

    def on_large_reply(self, run: bytes, index: int, size: int, stored: int) -> None:
        """Of this run, the command at ``index`` has a reply of ``size`` bytes and more, which is large. Where the
        client gets more than Redis has sent, that was ``stored`` bytes; else that is 0."""

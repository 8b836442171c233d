"""The client's side of a session: reading, backpressure and closing.

The session pauses reading for two independent reasons: bytes wait in the session, or the client's private upstream is
congested. It goes on reading from a client that is blocked in Redis, up to a cap: while reading is paused, it would not
see the client leave, and Redis would pop an element for a client that is gone.
"""

from collections.abc import Callable
from typing import Protocol

from proxy.hotpath.command_sender import CommandSender
from proxy.hotpath.intake import WAITING, Intake
from proxy.hotpath.sender_listener import HeldUpstream, ReplyRecipient

BYTES_WAIT = 1
UPSTREAM_CONGESTED = 2


class ClientTransport(Protocol):
    """The part of ``asyncio.Transport`` that a session uses."""

    def write(self, data: bytes) -> None:
        """Send these bytes."""

    def get_write_buffer_size(self) -> int:
        """Bytes that wait to be sent."""

    def pause_reading(self) -> None:
        """Bring no more bytes."""

    def resume_reading(self) -> None:
        """Bring bytes again."""

    def get_extra_info(self, name: str) -> object:
        """Its ``socket``, if it has one."""

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""

    def close(self) -> None:
        """Close it behind what was written."""

    def abort(self) -> None:
        """Close it now."""


class LinkedSession(Protocol):
    """A session, as far as its link asks."""

    @property
    def sender(self) -> CommandSender:
        """What it has sent, and the replies that are pending."""

    @property
    def intake(self) -> Intake:
        """What it has not read yet."""

    def stop_waiting(self) -> None:
        """Wait for nothing any more."""

    def on_close(self) -> None:
        """The client has left."""


class ClientLink:
    """One client's transport. ``cause`` is the label that metrics show for its end, ``leaving`` says that it is closed
    as soon as it has been answered, ``paused`` why it is not read. When it is read again, ``on_resume`` is called once.
    """

    __slots__ = ("cause", "held_upstreams", "leaving", "on_resume", "paused", "transport")

    def __init__(self) -> None:
        self.transport: ClientTransport | None = None
        self.cause = "client"
        self.paused = 0
        self.leaving = False
        self.held_upstreams: list[HeldUpstream] | None = None
        self.on_resume: Callable[[], None] | None = None

    # Reading

    def pause(self, reason: int) -> None:
        """Read no more, for this reason."""
        if self.paused == 0 and self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()
        self.paused |= reason

    def resume(self, reason: int) -> None:
        """This reason is over."""
        if self.paused == 0:
            return
        self.paused &= ~reason
        if self.paused == 0 and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()
            on_resume, self.on_resume = self.on_resume, None
            if on_resume is not None:
                on_resume()

    # Backpressure

    def unsent(self) -> int:
        """Bytes that the transport still holds."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def hold_upstream(self, upstream: HeldUpstream) -> None:
        """Resume this upstream when the client has caught up."""
        if self.held_upstreams is None:
            self.held_upstreams = [upstream]
        else:
            self.held_upstreams.append(upstream)

    def release_upstreams(self, client: ReplyRecipient) -> None:
        """Resume the upstreams that are held for the client."""
        held = self.held_upstreams
        if held is not None:
            self.held_upstreams = None
            for upstream in held:
                upstream.resume_for(client)

    # Closing

    def half_close(self, session: LinkedSession) -> bool:
        """The client sends no more; whether it has still to be answered."""
        self.leaving = True
        if _done(session):
            return False
        session.sender.notify_when_idle = True
        return True

    def close_if_done(self, session: LinkedSession) -> None:
        """Close a client that is leaving, if nothing is due to it any more."""
        if not self.leaving or session.sender.gone:
            return
        if not _done(session):
            session.sender.notify_when_idle = True
        elif self.transport is not None:
            session.sender.flush()
            session.on_close()
            self.transport.close()

    def close_when_drained(self, session: LinkedSession, cause: str) -> None:
        """Read no more, and close when no reply is pending."""
        self.cause = cause
        self.leaving = True
        session.stop_waiting()
        session.intake.finish()
        self.close_if_done(session)

    def close(self, session: LinkedSession, cause: str) -> None:
        """Close now; what was written before still leaves, except to a client that does not read."""
        if session.sender.gone:
            return
        self.cause = cause
        session.sender.flush()
        session.on_close()
        if self.transport is not None:
            if session.sender.full:
                self.transport.abort()
            else:
                self.transport.close()


def _done(session: LinkedSession) -> bool:
    sender, intake = session.sender, session.intake
    waits = intake.phase == WAITING or sender.stalled or (sender.full and intake.pending)
    return sender.pending_replies == 0 and not waits

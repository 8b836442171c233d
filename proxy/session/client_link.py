"""The client's side of a session: reading, backpressure and closing.

The session pauses reading for two independent reasons: bytes wait in the session, or the client's private upstream is
congested. It goes on reading from a client that is blocked in Redis, up to a cap: while reading is paused, it would not
see the client leave, and Redis would pop an element for a client that is gone.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

from proxy.hotpath.intake.command_sender import CommandSender
from proxy.hotpath.intake.intake import WAITING, Intake
from proxy.hotpath.upstream.sender_listener import HeldUpstream
from proxy.session.guarded import guarded
from proxy.session.ports.client import ClientTransport
from proxy.session.ports.ports import Ports

BYTES_WAIT = 1
UPSTREAM_CONGESTED = 2


class LinkedClient(ABC):
    """A client and its transport. ``end_cause`` is the label that metrics show for its end, ``leaving`` says that it is
    closed as soon as it has been answered, ``paused`` why it is not read. When it is read again, ``when_read_again`` is
    called once.
    """

    __slots__ = (
        "end_cause",
        "held_upstreams",
        "intake",
        "leaving",
        "paused",
        "ports",
        "sender",
        "transport",
        "when_read_again",
    )

    def __init__(self, ports: Ports, sender: CommandSender, intake: Intake) -> None:
        self.ports = ports
        self.sender = sender
        self.intake = intake
        self.transport: ClientTransport | None = None
        self.end_cause = "client"
        self.paused = 0
        self.leaving = False
        self.held_upstreams: list[HeldUpstream] | None = None
        self.when_read_again: Callable[[], None] | None = None

    @property
    def gone(self) -> bool:
        """Whether the client has left."""
        return self.sender.gone

    @abstractmethod
    def stop_waiting(self) -> None:
        """Nothing is awaited any more."""

    @abstractmethod
    def on_close(self) -> None:
        """The client has left."""

    # Reading

    def pause_reading(self, reason: int) -> None:
        """Read no more, for this reason."""
        if self.paused == 0 and self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()
        self.paused |= reason

    def resume_reading(self, reason: int) -> None:
        """This reason is over."""
        if self.paused == 0:
            return
        self.paused &= ~reason
        if self.paused == 0 and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()
            when_read_again, self.when_read_again = self.when_read_again, None
            if when_read_again is not None:
                when_read_again()

    def pause_source(self) -> None:
        """The private upstream takes no more."""
        self.pause_reading(UPSTREAM_CONGESTED)

    def resume_source(self) -> None:
        """The private upstream takes more again."""
        self.resume_reading(UPSTREAM_CONGESTED)

    def assembling(self, size: int) -> None:
        """An unfinished command grows."""
        if size > self.ports.route.query_limit:
            self.close("query_limit")

    # Backpressure

    def waiting(self) -> int:
        """Bytes that the client has been sent and has not taken, or that wait for replies before them."""
        order = self.sender.order
        unsent = 0 if self.transport is None else self.transport.get_write_buffer_size()
        return unsent + (0 if order is None else order.size)

    def hold_upstream(self, upstream: HeldUpstream) -> None:
        """Resume the upstream when the client has caught up."""
        self.sender.notify_on_advance = True
        if self.held_upstreams is None:
            self.held_upstreams = [upstream]
        else:
            self.held_upstreams.append(upstream)

    def _release_upstreams(self) -> None:
        held = self.held_upstreams
        if held is not None:
            self.held_upstreams = None
            for upstream in held:
                upstream.resume_for(self)

    def pause_writing(self) -> None:
        """The client does not read its replies: nothing more is forwarded for it."""
        self.sender.full = True

    @guarded
    def resume_writing(self) -> None:
        """The client has caught up."""
        self.sender.full = False
        self._release_upstreams()
        self.intake.resume()

    # Closing

    def has_left(self, waits_since: float | None) -> bool:
        """Whether the client has left, as is asked right before what waited is sent. Then it is closed."""
        waited = 0.0 if waits_since is None else self.ports.route.now() - waits_since
        if not self.ports.route.has_left(self.transport, waited):
            return False
        self.close("gave_up")
        return True

    def _half_close(self) -> bool:
        # The client sends no more; whether it has still to be answered.
        self.leaving = True
        if self._done():
            return False
        self.sender.notify_when_idle = True
        return True

    def close_if_done(self) -> None:
        """Close a client that is leaving, if nothing is due to it any more."""
        if not self.leaving or self.sender.gone:
            return
        if not self._done():
            self.sender.notify_when_idle = True
        elif self.transport is not None:
            self.sender.flush()
            self.on_close()
            self.transport.close()

    def close_when_drained(self, cause: str) -> None:
        """Read no more of the client, and close it when no reply is pending."""
        self.end_cause = cause
        self.leaving = True
        self.stop_waiting()
        self.intake.finish()
        self.close_if_done()

    def close(self, cause: str) -> None:
        """Close the client now; ``cause`` is the label that metrics show. What was written before still leaves, except
        to a client that does not read."""
        if self.sender.gone:
            return
        self.end_cause = cause
        self.sender.flush()
        self.on_close()
        if self.transport is not None:
            if self.sender.full:
                self.transport.abort()
            else:
                self.transport.close()

    def _done(self) -> bool:
        sender, intake = self.sender, self.intake
        waits = intake.phase == WAITING or sender.stalled or (sender.full and intake.pending)
        return sender.pending_replies == 0 and not waits

"""What decides about the commands at which an ``Intake`` stops, and what takes a large request from it."""

from typing import Protocol

from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.wire.request import Request


class RequestStream(Protocol):
    """A request that passes through in pieces."""

    def receive(self, data: bytes) -> None:
        """Take all bytes that come; the last piece takes the stream out of the intake."""


class IntakeHandler(Protocol):
    """Decides about commands, and about reading from their client. The first three answer TAKEN, WAIT or ENDED."""

    def handle(self, command_id: int, data: bytes, request: Request) -> int:
        """Judge and route the command that ``request`` holds."""

    def handle_inline(self, words: list[bytes], size: int) -> int:
        """Judge and route an inline command of ``size`` bytes, and set the intake's ``command_id`` to its id."""

    def handle_large(self, data: bytes, request: Request) -> int:
        """Begin to stream the command whose bulk string is announced and has not arrived."""

    def malformed(self, request: Request) -> None:
        """Answer a protocol error and close."""

    def refuse(self, error: bytes) -> None:
        """Answer a command with this error."""

    def refused(self, command_id: int, request: Request) -> None:
        """See the command that ``request`` holds before it is answered by ``refuse``."""

    def empty(self) -> None:
        """See a request without arguments (``*0``, ``*-1``, an empty line), to which Redis answers nothing."""

    def choose_upstream(self) -> None:
        """Bytes have come, and there is no upstream yet: with a shared one, plain commands need no session at all."""

    def connect(self, node: int) -> UpstreamPipeline | None:
        """The connection for plain commands to this node, of which the client uses none yet; None where there is none
        at once, or the session must look at the command."""

    def assembling(self, size: int) -> None:
        """A command that takes ``size`` bytes of memory so far is still not whole."""

    def hold(self) -> None:
        """Bytes wait: stop reading from this client until ``drained``."""

    def drained(self) -> None:
        """No command waits any more."""

    def has_left(self) -> bool:
        """Whether the client has left while its bytes waited; then it is closed."""

"""Keyrail's own commands on one upstream connection, and their replies."""

import asyncio
from collections.abc import Sequence

from proxy.hotpath.upstream.in_flight import EDIT, HIDE, ReplySink
from proxy.session.ports.client_identity import UNNAMED
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.wire.encode import encode_command


class InternalClient(ReplySink):
    """Keyrail itself as the receiver of replies. Forwarded replies are dropped."""


class UnitOpenError(ConnectionError):
    """A client's transaction, WATCH or unfinished command is open on the connection, or it is one client's alone, on
    which only that client's session knows what is open."""


class OwnCommands:
    """Sends them on the connection of this ``pipeline``."""

    __slots__ = ("_client", "_loop", "_pipeline", "_questions")

    def __init__(self, pipeline: PrivatePipeline, loop: asyncio.AbstractEventLoop) -> None:
        self._client = InternalClient()
        self._loop = loop
        self._pipeline = pipeline
        self._questions: set[asyncio.Future[bytes]] = set()

    def admitted(self) -> bool:
        """Whether no transaction, WATCH or unfinished command of a client can be open on the connection."""
        owner = self._pipeline.owner
        return (owner is None or owner.client() is None) and self._pipeline.admits(self._client)

    def ask(self, argv: Sequence[bytes | str | int]) -> "asyncio.Future[bytes]":
        """Send a command. The result is the whole reply frame.

        The future raises ConnectionResetError if the connection is lost, and UnitOpenError if the command would become
        part of a client's transaction, WATCH or unfinished command. In the second case nothing was sent.
        """
        words = [word if isinstance(word, bytes) else str(word).encode() for word in argv]
        question: asyncio.Future[bytes] = self._loop.create_future()
        if self._pipeline.closed:
            question.set_exception(ConnectionResetError("the connection was lost"))
            return question
        if not self.admitted() or not self._pipeline.offer_commands(self._client, encode_command(words)):
            text = "a client's transaction, WATCH or unfinished command may be open on the connection"
            question.set_exception(UnitOpenError(text))
            return question
        self._questions.add(question)
        question.add_done_callback(self._questions.discard)

        def answered(frame: bytes) -> bytes:
            if not question.done():
                question.set_result(frame)
            return b""

        self._pipeline.enqueue(self._client, 1, EDIT, answered)
        return question

    def lost(self) -> None:
        """The connection is gone: fail what is pending."""
        for question in self._questions:
            if not question.done():
                question.set_exception(ConnectionResetError("the connection was lost"))

    def forget_names(self) -> None:
        """Clear the client name and library that Redis shows for the connection, unless a client's unit is open."""
        name, library, version = self._pipeline.names
        commands = [[b"CLIENT", b"SETNAME", b""]] if name else []
        commands += [[b"CLIENT", b"SETINFO", b"LIB-NAME", b""]] if library else []
        commands += [[b"CLIENT", b"SETINFO", b"LIB-VER", b""]] if version else []
        if self._pipeline.offer_commands(self._client, b"".join(map(encode_command, commands))):
            self._pipeline.names = UNNAMED
            self._pipeline.enqueue(self._client, len(commands), HIDE, None)

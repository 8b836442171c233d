"""One connection to Redis: bytes to and from its pipeline, and the questions that Keyrail itself asks on it.

``Keeper`` is who owns connections (the pools): it hears when one is lost, out of step, or able to take work again.

A shared connection can be *head-blocked*: a reply too large to wait for, or a client that does not take what it is
sent, stands at its head. It then takes no new work until everything on it is paid, and the client has a second to catch
up if others are waiting behind it.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, cast

from proxy.commands.table import Lane
from proxy.hotpath.in_flight import EDIT, HIDE, MEMBERS, NOTE, PEEK, UNWRAP, ReplySink
from proxy.hotpath.upstream_pipeline import UpstreamPipeline
from proxy.session.client_identity import UNNAMED
from proxy.session.ports import PoolKey, PrivatePipeline
from proxy.wire.encode import encode_command

_HIGH_WATER = 1 << 20
# Seconds for a client to catch up while others wait behind it; the next ones of the same blockage get less, so that
# many slow readers in a row don't add up.
_PATIENCE = 1.0
_LATER_PATIENCE = 0.1
_HEARD = frozenset((EDIT, MEMBERS, NOTE, PEEK, UNWRAP))
"""Actions on replies that something here listens to; a hidden command may follow from what they say."""
_LAST_WORDS = 5.0
"""Seconds for those of a client that has left."""


class ReplyReader(Protocol):
    """A client connection, as the upstream that feeds it sees it."""

    def waiting(self) -> int:
        """Bytes that it has been sent and has not taken."""

    def hold_upstream(self, upstream: "UpstreamConnection") -> None:
        """Resume the upstream when the client has caught up."""

    def close(self, cause: str) -> None:
        """Close it."""

    def pause_source(self) -> None:
        """Its upstream takes no more: stop reading from it."""

    def resume_source(self) -> None:
        """Its upstream takes more again."""


class Keeper(Protocol):
    """Who owns upstream connections."""

    output_limit: int

    def lost(self, upstream: "UpstreamConnection") -> None:
        """The connection is gone."""

    def on_resume(self, upstream: "UpstreamConnection") -> None:
        """The connection takes work again."""

    def doubted(self, upstream: "UpstreamConnection") -> None:
        """An error on a shared connection said READONLY: find out the server's role."""

    def command_refused(self, upstream: "UpstreamConnection", line: bytes) -> None:
        """Redis does not know, or does not allow, a command that a client's led to."""

    def retired(self, upstream: "UpstreamConnection") -> None:
        """The connection takes no more work, and closes when it has no pending replies."""

    def count(self, event: str) -> None:
        """Count an event for the metrics."""


class InternalClient(ReplySink):
    """Keyrail itself, where it expects replies: whatever is delivered to it is dropped."""


class UnitOpenError(ConnectionError):
    """A client's transaction, WATCH or unfinished command is open on the connection."""


class UpstreamConnection(PrivatePipeline, asyncio.Protocol):
    """A connection to Redis; shared by the clients of its pool, or private to ``owner``.

    Once it is ``identified``, ``run_id`` tells the server process behind it; None where that could not be read.
    ``unauthenticated`` says that it was opened without a login that Redis asked for, ``apart`` that it is Keyrail's
    own, ``farewell`` is the error that Redis sent without being asked, before it closed the connection.
    """

    def __init__(self, keeper: Keeper, key: PoolKey, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.keeper = keeper
        self.key = key
        self.loop = loop
        self.names = UNNAMED
        self.unauthenticated = False
        self.apart = False
        self.lane = Lane.FAST
        self.shared = False
        self.head_blocked = False
        self.congested = False
        self.reading = True
        self.idle_since = 0.0
        self.retiring = False
        self.identified = False
        self.run_id: bytes | None = None
        self.farewell = ""
        self._patience = _PATIENCE
        self.transport: asyncio.Transport | None = None
        self.internal_client = InternalClient()
        self._questions: set[asyncio.Future[bytes]] = set()
        self._held_timer: asyncio.TimerHandle | None = None
        self._held_for: ReplySink | None = None
        self._last_timer: asyncio.TimerHandle | None = None

    data_received = UpstreamPipeline.receive

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wire the pipeline to the transport."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=_HIGH_WATER)
        self.write = self.transport.write
        self.schedule = partial(self.loop.call_soon, self.flush)

    def connection_lost(self, exc: Exception | None) -> None:
        """Pending replies are lost."""
        self.usable = False
        for question in self._questions:
            if not question.done():
                question.set_exception(ConnectionResetError("the connection was lost"))
        for timer in (self._held_timer, self._last_timer):
            if timer is not None:
                timer.cancel()
        self.keeper.lost(self)

    def pause_writing(self) -> None:
        """Redis does not take what it is sent: nobody may submit, and a sole client is held back."""
        self.congested = True
        if self.shared:
            self.usable = False
        elif self.owner is not None:
            cast("ReplyReader", self.owner).pause_source()

    def resume_writing(self) -> None:
        """Redis takes more again."""
        self.congested = False
        if self.shared:
            self.reopen()
        elif self.owner is not None:
            cast("ReplyReader", self.owner).resume_source()

    def open_to_all(self, lane: Lane) -> None:
        """Become a shared connection of the lane."""
        self.shared = True
        self.lane = lane
        self.owner = None
        self.usable = not self.closed

    def reopen(self) -> None:
        """Take work again, if nothing else stands in the way."""
        if self.shared and not (self.congested or self.head_blocked or self.retiring or self.closed):
            self.usable = True
            self.keeper.on_resume(self)

    # Questions of the proxy's own

    def ask(self, argv: Sequence[bytes | str | int]) -> "asyncio.Future[bytes]":
        """Send a command of the proxy's own; the result is its reply frame, whole.

        It is a ConnectionResetError where the connection is lost, and a UnitOpenError where the command would become
        part of a client's transaction, WATCH or unfinished command: then nothing was sent.
        """
        words = [word if isinstance(word, bytes) else str(word).encode() for word in argv]
        question: asyncio.Future[bytes] = self.loop.create_future()
        try:
            self.check()
            if not self.offer_commands(self.internal_client, encode_command(words)):
                raise UnitOpenError("a client's transaction, WATCH or unfinished command is open on the connection")
        except ConnectionError as error:
            question.set_exception(error)
            return question
        self._questions.add(question)
        question.add_done_callback(self._questions.discard)

        def answered(frame: bytes) -> bytes:
            if not question.done():
                question.set_result(frame)
            return b""

        self.enqueue(self.internal_client, 1, EDIT, answered)
        return question

    def vacant(self) -> bool:
        """Whether it holds no open transaction, WATCH or unfinished command of any client."""
        return self.admits(self.internal_client)

    def is_free(self) -> bool:
        """Whether no reply is pending on it, and it can be given to one client."""
        if self.transport is not None and self.transport.is_closing():
            return False
        return self.head is None and self.vacant() and not self.closed and not self.retiring

    def check(self) -> None:
        """Raises ConnectionResetError when the connection is no longer there."""
        if self.closed:
            raise ConnectionResetError("the connection was lost")

    # What the pipeline finds

    def out_of_step(self) -> None:
        """Close both sides: a reply is never guessed at."""
        self.keeper.count("out_of_step")
        self.abort()

    def uninvited(self, frame: bytes) -> None:
        """Redis speaks without being asked: maxclients, an idle timeout; a sole client is told."""
        self.keeper.count("uninvited")
        self.farewell = frame[1:].decode("utf-8", "replace").strip() if frame.startswith(b"-") else ""
        owner = self.owner
        if owner is not None and frame.startswith(b"-"):
            owner.out.append(frame)
            owner.flush()
        self.abort()

    def on_large_head(self, sink: ReplySink) -> None:
        """A large reply has begun: nobody else may queue behind it."""
        if self.shared and not self.head_blocked:
            self.head_blocked = True
            self.usable = False
            self.when_drained(self._unblock_head)

    def overflowing(self, sink: ReplySink) -> None:
        """A client does not take what it is sent: hold its replies back where they are."""
        client = sink.client()
        if not self.reading or client is None or client.gone:
            return
        reader = cast("ReplyReader", client)
        if self.shared:
            if reader.waiting() <= self.keeper.output_limit:
                return
            self._held_timer = self.loop.call_later(self._patience, self._close_slow_reader, client, reader.waiting())
            self.on_large_head(sink)
        self.hold()
        self._held_for = client
        reader.hold_upstream(self)

    def hold(self) -> None:
        """Stop reading from Redis."""
        if self.reading and self.transport is not None and not self.transport.is_closing():
            self.reading = False
            self.transport.pause_reading()

    def resume_for(self, client: ReplySink) -> None:
        """This client has caught up: read from Redis again, unless that was held for another one."""
        if self._held_for is client:
            self.resume()

    def resume(self) -> None:
        """Read from Redis again."""
        self._held_for = None
        if self._held_timer is not None:
            self._held_timer.cancel()
            self._held_timer = None
        if not self.reading and self.transport is not None and not self.transport.is_closing():
            self.reading = True
            self.transport.resume_reading()

    def doubt_role(self) -> None:
        """Ask for the server's role; on a private connection once its client has given it back."""
        if self.shared:
            self.keeper.doubted(self)

    def trust_role(self) -> None:
        """The server is no replica: the next READONLY is looked into again."""
        self.read_only = False
        self.read_only_told = False

    def command_refused(self, line: bytes) -> None:
        """Redis refused a command by its name; what Keyrail tries out on a connection of its own tells nobody."""
        if self.shared or self.owner is not None:
            self.keeper.command_refused(self, line)

    def drain(self, drained: Callable[[], None]) -> None:
        """Take no more work until no reply is pending, then call ``drained``; ``reopen`` ends it."""
        self.head_blocked = True
        self.usable = False

        def answered() -> None:
            self.head_blocked = False
            drained()

        self.when_drained(answered)

    def forget_names(self) -> None:
        """Show nobody's names any more: hidden, and nobody waits for it. Not while something of a client's is open."""
        name, library, version = self.names
        commands = [[b"CLIENT", b"SETNAME", b""]] if name else []
        commands += [[b"CLIENT", b"SETINFO", b"LIB-NAME", b""]] if library else []
        commands += [[b"CLIENT", b"SETINFO", b"LIB-VER", b""]] if version else []
        if self.offer_commands(self.internal_client, b"".join(map(encode_command, commands))):
            self.names = UNNAMED
            self.enqueue(self.internal_client, len(commands), HIDE, None)

    def retire(self) -> None:
        """The server is a replica now: new work goes to new connections, which resolve the name again."""
        self.retiring = True
        self.usable = False
        self.keeper.retired(self)
        self.when_drained(self.close)

    def _close_slow_reader(self, client: ReplySink, waited: int) -> None:
        self._held_timer = None
        waiting = cast("ReplyReader", client).waiting()
        if waiting < waited and not self._others_wait(client):
            self._held_timer = self.loop.call_later(_PATIENCE, self._close_slow_reader, client, waiting)
            return
        self._patience = _LATER_PATIENCE
        cast("ReplyReader", client).close("slow_reader")
        self.resume()

    def _others_wait(self, client: ReplySink) -> bool:
        clients = (entry.sink.client() for entry in self.entries())
        return any(each is not None and each is not client for each in clients)

    def _unblock_head(self) -> None:
        self.head_blocked = False
        self._patience = _PATIENCE
        self.reopen()

    # Closing

    def close(self) -> None:
        """Close after what is buffered has been written."""
        self.usable = False
        if self.transport is not None and not self.transport.is_closing():
            self.flush()
            self.transport.close()

    def finish(self) -> None:
        """Close like ``close``, but wait for pending replies first where a hidden command may follow from it."""
        self.usable = False
        if self.closed or all(entry.action not in _HEARD for entry in self.entries()):
            self.close()
            return
        if self._last_timer is None:
            self._last_timer = self.loop.call_later(_LAST_WORDS, self.abort)
        self.when_drained(self.finish)

    def abort(self) -> None:
        """Close at once."""
        self.usable = False
        self.closed = True
        if self.transport is not None:
            self.transport.abort()

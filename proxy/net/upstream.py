"""One connection to Redis: a transport, the pipeline that it holds, and the questions that Keyrail itself asks on it.

``Keeper`` is who owns connections (the pools): it hears when one is lost, out of step, or able to take work again.

A shared connection can be *head-blocked*: a reply too large to wait for, or a client that does not take what it is
sent, stands at its head. It then takes no new work until everything on it is paid, and the client has a second to catch
up if others are waiting behind it.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from proxy.commands.table import Lane
from proxy.hotpath.error_counts import ErrorCounts
from proxy.hotpath.in_flight import EDIT, HIDE, MEMBERS, NOTE, PEEK, UNWRAP, ReplySink
from proxy.hotpath.sender_listener import ReplyRecipient
from proxy.net.slow_reader import LATER_PATIENCE, PATIENCE, SlowReader
from proxy.session.client_identity import UNNAMED
from proxy.session.ports import PoolKey, PrivatePipeline
from proxy.wire.encode import encode_command

_HIGH_WATER = 1 << 20
_HEARD = frozenset((EDIT, MEMBERS, NOTE, PEEK, UNWRAP))
"""Actions on replies that something here listens to; a hidden command may follow from what they say."""
_LAST_WORDS = 5.0
"""Seconds for those of a client that has left."""


class Keeper(Protocol):
    """Who owns upstream connections."""

    output_limit: int

    @property
    def errors(self) -> ErrorCounts | None:
        """Where the error replies are counted that clients get on them."""

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


class UpstreamConnection(asyncio.BaseProtocol):
    """A connection to Redis; shared by the clients of its pool, or private to its pipeline's ``owner``.

    Once it is ``identified``, ``run_id`` tells the server process behind it; None where that could not be read.
    ``unauthenticated`` says that it was opened without a login that Redis asked for, ``apart`` that it is Keyrail's
    own, ``farewell`` is the error that Redis sent without being asked, before it closed the connection.
    """

    __slots__ = (
        "__weakref__",
        "_keeper",
        "_last_timer",
        "_loop",
        "_patience",
        "_questions",
        "_slow_reader",
        "apart",
        "congested",
        "data_received",
        "farewell",
        "head_blocked",
        "identified",
        "idle_since",
        "internal_client",
        "lane",
        "pipeline",
        "reading",
        "retiring",
        "run_id",
        "shared",
        "transport",
        "unauthenticated",
    )

    data_received: Callable[[bytes], None]
    """The pipeline's own: a call here would cost one more for each read."""

    def __init__(self, keeper: Keeper, key: PoolKey, loop: asyncio.AbstractEventLoop) -> None:
        self.pipeline = PrivatePipeline(self, loop.call_soon, key, keeper.errors)
        self.data_received = self.pipeline.receive
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
        self.transport: asyncio.Transport | None = None
        self.internal_client = InternalClient()
        self._keeper = keeper
        self._loop = loop
        self._patience = PATIENCE
        self._questions: set[asyncio.Future[bytes]] = set()
        self._slow_reader: SlowReader | None = None
        self._last_timer: asyncio.TimerHandle | None = None

    @property
    def key(self) -> PoolKey:
        """What it is logged in and set to, as Redis has confirmed."""
        return self.pipeline.key

    @key.setter
    def key(self, key: PoolKey) -> None:
        self.pipeline.key = key

    @property
    def closed(self) -> bool:
        """Whether nothing comes and goes on it any more."""
        return self.pipeline.closed

    # Events of its transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wire the pipeline to the transport."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=_HIGH_WATER)
        self.pipeline.write = self.transport.write

    def eof_received(self) -> bool:
        """Redis closes the connection."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Pending replies are lost."""
        self.pipeline.usable = False
        for question in self._questions:
            if not question.done():
                question.set_exception(ConnectionResetError("the connection was lost"))
        for timer in (self._slow_reader, self._last_timer):
            if timer is not None:
                timer.cancel()
        self._keeper.lost(self)

    def pause_writing(self) -> None:
        """Redis does not take what it is sent: nobody may submit, and a sole client is held back."""
        self.congested = True
        if self.shared:
            self.pipeline.usable = False
        elif (client := self._sole_client()) is not None:
            client.pause_source()

    def resume_writing(self) -> None:
        """Redis takes more again."""
        self.congested = False
        if self.shared:
            self.reopen()
        elif (client := self._sole_client()) is not None:
            client.resume_source()

    def _sole_client(self) -> ReplyRecipient | None:
        owner = self.pipeline.owner
        return None if owner is None else owner.client()

    def open_to_all(self, lane: Lane) -> None:
        """Become a shared connection of the lane."""
        self.shared = True
        self.lane = lane
        self.pipeline.owner = None
        self.pipeline.usable = not self.closed

    def put_by(self, now: float) -> None:
        """Be idle from now on, for one client."""
        self.idle_since = now
        self.pipeline.usable = not self.closed

    def reopen(self) -> None:
        """Take work again, if nothing else stands in the way."""
        if self.shared and not (self.congested or self.head_blocked or self.retiring or self.closed):
            self.pipeline.usable = True
            self._keeper.on_resume(self)

    # Questions of the proxy's own

    def ask(self, argv: Sequence[bytes | str | int]) -> "asyncio.Future[bytes]":
        """Send a command of the proxy's own; the result is its reply frame, whole.

        It is a ConnectionResetError where the connection is lost, and a UnitOpenError where the command would become
        part of a client's transaction, WATCH or unfinished command: then nothing was sent.
        """
        words = [word if isinstance(word, bytes) else str(word).encode() for word in argv]
        question: asyncio.Future[bytes] = self._loop.create_future()
        try:
            self.check()
            if not self.pipeline.offer_commands(self.internal_client, encode_command(words)):
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

        self.pipeline.enqueue(self.internal_client, 1, EDIT, answered)
        return question

    def vacant(self) -> bool:
        """Whether it holds no open transaction, WATCH or unfinished command of any client."""
        return self.pipeline.admits(self.internal_client)

    def takes_work(self) -> bool:
        """Whether any client may submit commands now."""
        return self.pipeline.usable and self.vacant()

    def in_unit(self) -> bool:
        """Whether it would take work, but for a client's open transaction, WATCH or unfinished command."""
        return self.pipeline.usable and not self.vacant()

    def progress(self) -> tuple[int, ...]:
        """Numbers of which at least one changes with whatever comes or goes."""
        unsent = 0 if self.transport is None else self.transport.get_write_buffer_size()
        return *self.pipeline.progress(), unsent

    def is_free(self) -> bool:
        """Whether no reply is pending on it, and it can be given to one client."""
        if self.transport is not None and self.transport.is_closing():
            return False
        return self.pipeline.head is None and self.vacant() and not self.closed and not self.retiring

    def check(self) -> None:
        """Raises ConnectionResetError when the connection is no longer there."""
        if self.closed:
            raise ConnectionResetError("the connection was lost")

    # What the pipeline finds

    def out_of_step(self) -> None:
        """Close both sides: a reply is never guessed at."""
        self._keeper.count("out_of_step")
        self.abort()

    def uninvited(self, frame: bytes) -> None:
        """Redis speaks without being asked: maxclients, an idle timeout; a sole client is told."""
        self._keeper.count("uninvited")
        self.farewell = frame[1:].decode("utf-8", "replace").strip() if frame.startswith(b"-") else ""
        owner = self.pipeline.owner
        if owner is not None and frame.startswith(b"-"):
            owner.out.append(frame)
            owner.flush()
        self.abort()

    def on_large_head(self, sink: ReplySink) -> None:
        """A large reply has begun: nobody else may queue behind it."""
        if self.shared and not self.head_blocked:
            self.head_blocked = True
            self.pipeline.usable = False
            self.pipeline.when_drained(self._unblock_head)

    def overflowing(self, sink: ReplySink) -> None:
        """A client does not take what it is sent: hold its replies back where they are."""
        client = sink.client()
        if not self.reading or client is None or client.gone:
            return
        slow = SlowReader(client, self.pipeline, self._loop)
        if self.shared:
            if slow.waiting() <= self._keeper.output_limit:
                return
            slow.close_after(self._patience, self._slow_reader_closed)
            self.on_large_head(sink)
        self.hold()
        self._slow_reader = slow
        client.hold_upstream(self)

    def hold(self) -> None:
        """Stop reading from Redis."""
        if self.reading and self.transport is not None and not self.transport.is_closing():
            self.reading = False
            self.transport.pause_reading()

    def resume_for(self, client: ReplyRecipient) -> None:
        """This client has caught up: read from Redis again, unless that was held for another one."""
        if self._slow_reader is not None and self._slow_reader.client is client:
            self.resume()

    def resume(self) -> None:
        """Read from Redis again."""
        if self._slow_reader is not None:
            self._slow_reader.cancel()
            self._slow_reader = None
        if not self.reading and self.transport is not None and not self.transport.is_closing():
            self.reading = True
            self.transport.resume_reading()

    def doubt_role(self) -> None:
        """Ask for the server's role; on a private connection once its client has given it back."""
        if self.shared:
            self._keeper.doubted(self)

    def command_refused(self, line: bytes) -> None:
        """Redis refused a command by its name; what Keyrail tries out on a connection of its own tells nobody."""
        if self.shared or self.pipeline.owner is not None:
            self._keeper.command_refused(self, line)

    def drain(self, drained: Callable[[], None]) -> None:
        """Take no more work until no reply is pending, then call ``drained``; ``reopen`` ends it."""
        self.head_blocked = True
        self.pipeline.usable = False

        def answered() -> None:
            self.head_blocked = False
            drained()

        self.pipeline.when_drained(answered)

    def forget_names(self) -> None:
        """Show nobody's names any more: hidden, and nobody waits for it. Not while something of a client's is open."""
        name, library, version = self.pipeline.names
        commands = [[b"CLIENT", b"SETNAME", b""]] if name else []
        commands += [[b"CLIENT", b"SETINFO", b"LIB-NAME", b""]] if library else []
        commands += [[b"CLIENT", b"SETINFO", b"LIB-VER", b""]] if version else []
        if self.pipeline.offer_commands(self.internal_client, b"".join(map(encode_command, commands))):
            self.pipeline.names = UNNAMED
            self.pipeline.enqueue(self.internal_client, len(commands), HIDE, None)

    def retire(self) -> None:
        """The server is a replica now: new work goes to new connections, which resolve the name again."""
        self.retiring = True
        self.pipeline.usable = False
        self._keeper.retired(self)
        self.pipeline.when_drained(self.close)

    def _slow_reader_closed(self) -> None:
        self._patience = LATER_PATIENCE
        self.resume()

    def _unblock_head(self) -> None:
        self.head_blocked = False
        self._patience = PATIENCE
        self.reopen()

    # Closing

    def close(self) -> None:
        """Close after what is buffered has been written."""
        self.pipeline.usable = False
        if self.transport is not None and not self.transport.is_closing():
            self.pipeline.flush()
            self.transport.close()

    def finish(self) -> None:
        """Close like ``close``, but wait for pending replies first where a hidden command may follow from it."""
        self.pipeline.usable = False
        if self.closed or all(entry.action not in _HEARD for entry in self.pipeline.entries()):
            self.close()
            return
        if self._last_timer is None:
            self._last_timer = self._loop.call_later(_LAST_WORDS, self.abort)
        self.pipeline.when_drained(self.finish)

    def abort(self) -> None:
        """Close at once."""
        self.pipeline.usable = False
        self.pipeline.closed = True
        if self.transport is not None:
            self.transport.abort()

"""One connection to Redis: a transport, the pipeline that it holds, and when it takes commands.

The ``Keeper`` owns the connections. It is told when one is lost, out of step, or takes commands again.

A shared connection can be *head-blocked*: the reply at its head is very large, or the client of that reply does not
read. The connection then takes no new commands until all pending replies have come. A slow client has a second to
catch up if others wait behind it.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from proxy.commands.table import Lane
from proxy.hotpath.counting.error_counts import ErrorCounts
from proxy.hotpath.upstream.in_flight import EDIT, MEMBERS, NOTE, PEEK, UNWRAP, ReplySink
from proxy.hotpath.upstream.outgoing import Redirects
from proxy.hotpath.upstream.pipeline_listener import UNHEARD
from proxy.hotpath.upstream.sender_listener import ReplyRecipient
from proxy.net.connection.own_commands import OwnCommands
from proxy.net.connection.slow_reader import LATER_PATIENCE, PATIENCE, SlowReader
from proxy.net.connection.unsent import discard_unsent
from proxy.net.connection.writing import Writing
from proxy.net.sockets.opening import schedule_of
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.pool_key import PoolKey

_HIGH_WATER = 1 << 20
_OBSERVED = frozenset((EDIT, MEMBERS, NOTE, PEEK, UNWRAP))
"""Actions that show a reply to code of Keyrail; that code may send a hidden command."""
_LAST_REPLIES = 5.0
"""Seconds to wait for such replies when the client has left."""


class Keeper(Protocol):
    """Owns upstream connections."""

    output_limit: int

    @property
    def errors(self) -> ErrorCounts | None:
        """Counts the error replies that clients get."""

    @property
    def redirects(self) -> Redirects | None:
        """Gets the errors by which a node of a cluster sends a command elsewhere."""

    def lost(self, upstream: "UpstreamConnection") -> None:
        """The connection is gone."""

    def on_resume(self, upstream: "UpstreamConnection") -> None:
        """The connection takes commands again."""

    def doubted(self, upstream: "UpstreamConnection") -> None:
        """An error reply said READONLY: the role of the server must be asked."""

    def command_refused(self, upstream: "UpstreamConnection", line: bytes) -> None:
        """Redis does not know a command, or does not allow it."""

    def retired(self, upstream: "UpstreamConnection") -> None:
        """The connection takes no more commands, and closes when no reply is pending."""

    def count(self, event: str) -> None:
        """Count an event for the metrics."""


class UpstreamConnection(asyncio.BaseProtocol):
    """A connection to Redis. The clients of its pool share it, or it is private to the ``owner`` of its pipeline.

    After it is ``identified``, ``run_id`` identifies the server process; it is None if Redis did not tell it. Asked for
    that by ``replica_watch``, the server has also told whether it ``replicates_slots``: see ``engine``.
    ``unauthenticated``: Redis asks for a login, and Keyrail had none. ``mixed_up``: a reply came that fits no command.
    ``farewell`` is the error that Redis sent without a command, before it closed the connection; ``alert`` is the error
    of TLS that ended it. ``followed`` is called when the connection becomes ``shared`` or ``apart``, or no longer is.
    """

    __slots__ = (
        "__weakref__",
        "_apart",
        "_keeper",
        "_last_timer",
        "_loop",
        "_own_commands",
        "_patience",
        "_shared",
        "_slow_reader",
        "alert",
        "congested",
        "data_received",
        "farewell",
        "followed",
        "head_blocked",
        "identified",
        "idle_since",
        "lane",
        "mixed_up",
        "pipeline",
        "reading",
        "replicates_slots",
        "run_id",
        "transport",
        "unauthenticated",
        "writing",
    )

    data_received: Callable[[bytes], None]
    """Bound to the pipeline's method, so that each read costs one call."""

    def __init__(self, keeper: Keeper, key: PoolKey, loop: asyncio.AbstractEventLoop) -> None:
        self.pipeline = PrivatePipeline(self, schedule_of(loop), key, keeper.errors, keeper.redirects)
        self.data_received = self.pipeline.receive
        self.writing = Writing(self.pipeline)
        self.unauthenticated = False
        self.followed: Callable[[UpstreamConnection], None] | None = None
        self._apart = False
        self.lane = Lane.FAST
        self._shared = False
        self.head_blocked = False
        self.congested = False
        self.reading = True
        self.idle_since = 0.0
        self.identified = False
        self.run_id: bytes | None = None
        self.replicates_slots = False
        self.farewell = ""
        self.alert: ssl.SSLError | None = None
        self.mixed_up = False
        self.transport: asyncio.Transport | None = None
        self._keeper = keeper
        self._loop = loop
        self._patience = PATIENCE
        self._own_commands = OwnCommands(self.pipeline, loop)
        self._slow_reader: SlowReader | None = None
        self._last_timer: asyncio.TimerHandle | None = None

    @property
    def key(self) -> PoolKey:
        """Its login, database and protocol, as Redis has confirmed them."""
        return self.pipeline.key

    @key.setter
    def key(self, key: PoolKey) -> None:
        self.pipeline.key = key

    @property
    def shared(self) -> bool:
        """Whether all clients of its pool use it."""
        return self._shared

    @shared.setter
    def shared(self, shared: bool) -> None:
        self._shared = shared
        if self.followed is not None:
            self.followed(self)

    @property
    def apart(self) -> bool:
        """Whether no client uses it."""
        return self._apart

    @apart.setter
    def apart(self, apart: bool) -> None:
        self._apart = apart
        if self.followed is not None:
            self.followed(self)

    @property
    def retiring(self) -> bool:
        """Whether it closes when no reply is pending."""
        return self.pipeline.retiring

    @property
    def closed(self) -> bool:
        """Whether it is lost or closed."""
        return self.pipeline.closed

    # Events of its transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give the pipeline the transport to write to."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=_HIGH_WATER)
        self.writing.begin(self.transport)

    def eof_received(self) -> bool:
        """Redis closes the connection."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the pending requests, and tell the keeper."""
        self.pipeline.usable = False
        self.alert = exc if isinstance(exc, ssl.SSLError) else None
        self._own_commands.lost()
        for timer in (self._slow_reader, self._last_timer):
            if timer is not None:
                timer.cancel()
        self._keeper.lost(self)
        # The connection refers to its pipeline: if the pipeline referred to it, only the garbage collector would free
        # them. uvloop's transport keeps what it has called.
        self.pipeline.listener = UNHEARD
        self.pipeline.release()

    def pause_writing(self) -> None:
        """Redis does not read: a shared connection takes no commands; a private one stops reading from its client."""
        self.congested = True
        if self.shared:
            self.pipeline.usable = False
        elif (client := self._sole_client()) is not None:
            client.pause_source()

    def resume_writing(self) -> None:
        """Redis reads again."""
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
        """Be an idle connection, ready for one client."""
        self.idle_since = now
        self.pipeline.usable = not self.closed

    def reopen(self) -> None:
        """Take commands again, unless something else prevents it."""
        if self.shared and not (self.congested or self.head_blocked or self.retiring or self.closed):
            self.pipeline.usable = True
            self._keeper.on_resume(self)

    # Keyrail's own commands

    def ask(self, argv: Sequence[bytes | str | int]) -> "asyncio.Future[bytes]":
        """Send a command of Keyrail's own: see ``OwnCommands.ask``."""
        return self._own_commands.ask(argv)

    def vacant(self) -> bool:
        """Whether no transaction, WATCH or unfinished command of a client is open on it."""
        return self._own_commands.admitted()

    def takes_work(self) -> bool:
        """Whether it takes commands of any client now."""
        return self.pipeline.usable and self.vacant()

    def in_unit(self) -> bool:
        """Whether only a client's open transaction, WATCH or unfinished command keeps it from taking commands."""
        return self.pipeline.usable and not self.vacant()

    def progress(self) -> tuple[object, ...]:
        """At least one of these changes when bytes are read or written."""
        unsent = 0 if self.transport is None else self.transport.get_write_buffer_size()
        return *self.pipeline.progress(), unsent

    def is_free(self) -> bool:
        """Whether no reply is pending on it, and it can be given to one client."""
        closing = self.closed or self.retiring or (self.transport is not None and self.transport.is_closing())
        return not closing and self.pipeline.head is None and self.vacant()

    def check(self) -> None:
        """Raise ConnectionResetError if the connection is lost."""
        if self.closed:
            raise ConnectionResetError("the connection was lost")

    # Events of its pipeline

    def out_of_step(self) -> None:
        """Close the connection and its clients: nobody knows whose reply this is."""
        self.mixed_up = True
        self._keeper.count("out_of_step")
        self.abort()

    def uninvited(self, frame: bytes) -> None:
        """Redis sent a frame without a command, such as an error about maxclients. A sole client gets it."""
        self._keeper.count("uninvited")
        self.farewell = frame[1:].decode("utf-8", "replace").strip() if frame.startswith(b"-") else ""
        owner = self.pipeline.owner
        if owner is not None and frame.startswith(b"-"):
            owner.out.append(frame)
            owner.flush()
        self.abort()

    def on_large_head(self, sink: ReplySink) -> None:
        """A large reply has begun: no more commands queue behind it."""
        if self.shared and not self.head_blocked:
            self.drain(self._unblock_head)

    def overflowing(self, sink: ReplySink) -> None:
        """A client does not read its replies: stop reading them from Redis."""
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

    def resume_for(self, client: object) -> None:
        """This client has caught up, or a late reply has left (None): read again, unless another client is slow."""
        if client is (None if self._slow_reader is None else self._slow_reader.client):
            self.resume()

    def resume(self) -> None:
        """Read from Redis again."""
        if self._slow_reader is not None:
            self._slow_reader.cancel()
            self._slow_reader = None
        if not (self.reading or self.pipeline.late or self.transport is None or self.transport.is_closing()):
            self.reading = True
            self.transport.resume_reading()

    def doubt_role(self) -> None:
        """Have the server's role asked."""
        self._keeper.doubted(self)

    def command_refused(self, line: bytes) -> None:
        """Redis refused a command by its name. The probes on Keyrail's own connections expect that."""
        if self.shared or self.pipeline.owner is not None:
            self._keeper.command_refused(self, line)

    def drain(self, drained: Callable[[], None]) -> None:
        """Take no more commands until no reply is pending, then call ``drained``. ``reopen`` ends it."""
        self.head_blocked = True
        self.pipeline.usable = False

        def answered() -> None:
            self.head_blocked = False
            drained()

        self.pipeline.when_drained(answered)

    def forget_names(self) -> None:
        """Clear the client name and library that Redis shows for the connection, unless a client's unit is open."""
        self._own_commands.forget_names()

    def retire(self) -> None:
        """The server is a replica now: new commands use new connections, which resolve the host name again."""
        self.pipeline.retire()
        self._keeper.retired(self)
        self.pipeline.when_drained(self.close)

    def _slow_reader_closed(self) -> None:
        self._patience = LATER_PATIENCE
        self.resume()

    def _unblock_head(self) -> None:
        self._patience = PATIENCE
        self.reopen()

    # Closing

    def close(self) -> None:
        """Close after the buffered bytes have been written."""
        self.pipeline.usable = False
        if self.transport is not None and not self.transport.is_closing():
            self.pipeline.flush()
            self.transport.close()

    def finish(self) -> None:
        """Close like ``close``, but first wait for pending replies that may lead to a hidden command."""
        self.pipeline.usable = False
        if self.closed or all(entry.action not in _OBSERVED for entry in self.pipeline.entries()):
            self.close()
            return
        if self._last_timer is None:
            self._last_timer = self._loop.call_later(_LAST_REPLIES, self.abort)
        self.pipeline.when_drained(self.finish)

    def drop(self) -> None:
        """Close at once, and take back what has not left this machine: nothing of it is to run any more."""
        discard_unsent(self.transport)
        self.abort()

    def abort(self) -> None:
        """Close at once."""
        self.pipeline.usable = False
        self.pipeline.closed = True
        if self.transport is not None:
            self.transport.abort()

"""A scan's connection to one server: opened as `serve` opens its own, and again when it is lost."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import hiredis

from proxy.hotpath.upstream.in_flight import FORWARD, ReplySink
from proxy.net.config.address import UpstreamAddress
from proxy.net.connection.connect import UpstreamRefusedError, open_upstream, why
from proxy.net.connection.engine import has_safe_no_touch, run_id_in
from proxy.net.connection.own_connections import OwnConnections
from proxy.net.connection.tls import FollowedContext
from proxy.net.connection.upstream import UpstreamConnection
from proxy.server.stored.node_walk import Request
from proxy.session.ports.pool_key import PoolKey
from proxy.wire.decode import read_reply
from proxy.wire.encode import encode_command

_KEY = PoolKey(None, 0, 2)
NO_TOUCH = (b"CLIENT", b"NO-TOUCH", b"ON")


class Answer(NamedTuple):
    """The replies to a request, and the seconds from its first byte to their last one."""

    replies: Sequence[Any]
    seconds: float


def why_not(error: BaseException) -> str:
    """Why a connection failed. What limits a scan's connections is no option."""
    return why(error).replace("within --connect-timeout", "in time")


class ServerLink:
    """A connection to the server that ``find`` finds; a node of a cluster is ``in_cluster``. ``seconds`` for the
    connection, and for each reply. ``touches``: commands that count members may change access times. It has a ``name``.
    With a ``run_id``, a walk of that process goes on.

    ``counts_members``: they leave them alone (CLIENT NO-TOUCH, since Redis 7.2 and Valkey 8), or may change them.
    """

    def __init__(
        self,
        find: Callable[[], Awaitable[UpstreamAddress]],
        tls: FollowedContext | None,
        seconds: float,
        *,
        in_cluster: bool = False,
        touches: bool = False,
        name: str = "keyrail-scan",
        run_id: bytes | None = None,
    ) -> None:
        self.counts_members = False
        self._find = find
        self._tls = tls
        self._seconds = seconds
        self._in_cluster = in_cluster
        self._touches = touches
        self._name = name
        self.run_id = run_id
        self._was_open = run_id is not None
        self._connection: UpstreamConnection | None = None
        self._replies = _Replies()
        self._database = 0

    async def connect(self) -> bool:
        """Connect, again perhaps. Whether another process may answer than before. Raises OSError, UpstreamRefusedError
        and TlsError."""
        self.close()
        loop = asyncio.get_running_loop()
        self._replies = _Replies()
        async with asyncio.timeout(self._seconds):
            address = await self._find()
            opened = await open_upstream(address, self._tls, _Owner(self._replies), _KEY, loop)
            if opened.unauthenticated:
                opened.upstream.abort()
                raise UpstreamRefusedError("it asks for a password: --upstream redis://USER@HOST?password_file=FILE")
            self._connection, self._database = opened.upstream, 0
            return await self._set_up(opened.upstream)

    async def _set_up(self, connection: UpstreamConnection) -> bool:
        if self._in_cluster:
            await connection.ask(["READONLY"])
        await connection.ask(["CLIENT", "SETNAME", self._name])  # whoever may not, has no name
        told = read_reply(await connection.ask(["INFO", "server"]))
        info = told if isinstance(told, bytes) else b""
        spares = has_safe_no_touch(info) and (await connection.ask(NO_TOUCH)).startswith(b"+")
        self.counts_members = self._touches or spares
        run_id = run_id_in(info)
        is_other = self._was_open and (run_id is None or run_id != self.run_id)
        self.run_id, self._was_open = run_id, True
        return is_other

    async def ask(self, request: Request) -> Answer:
        """Send the commands in one piece, and wait for all replies; an error is one as a value. Raises OSError.

        Then the connection is closed: late replies would be taken for those to what is asked next.
        """
        connection = self._connection
        if connection is None or connection.closed:
            raise ConnectionResetError("the connection was lost")
        try:
            async with asyncio.timeout(self._seconds):
                return await self._ask(connection, request)
        except TimeoutError:
            self.close()
            raise

    async def _ask(self, connection: UpstreamConnection, request: Request) -> Answer:
        if request.database not in (None, self._database):
            selected = await connection.ask(["SELECT", request.database or 0])
            if not selected.startswith(b"+"):
                return Answer([read_reply(selected)] * len(request.commands), 0.0)
            self._database = request.database or 0
        return await self._replies.ask(connection, request.commands)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = None


class _Replies(ReplySink):
    """Takes the replies to one request at a time, as one run, and decodes them with one reader."""

    def __init__(self) -> None:
        super().__init__()
        self.write = self._read
        self._reader = hiredis.Reader(replyError=hiredis.ReplyError)
        self._told: list[Any] = []
        self._wanted = 0
        self._began = 0.0
        self._done: asyncio.Future[Answer] | None = None

    async def ask(self, connection: UpstreamConnection, commands: Sequence[tuple[bytes, ...]]) -> Answer:
        loop = asyncio.get_running_loop()
        self._told, self._wanted, self._done = [], len(commands), loop.create_future()
        encoded = b"".join(map(encode_command, commands))
        self._began = time.perf_counter()  # uvloop's own clock goes in milliseconds
        if not connection.pipeline.offer_commands(self, encoded):
            raise ConnectionResetError("the connection was lost")
        connection.pipeline.enqueue(self, len(commands), FORWARD, None)
        return await self._done

    def _read(self, data: bytes) -> None:
        seconds = time.perf_counter() - self._began
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            self._told.append(reply)
        if self._done is not None and len(self._told) >= self._wanted and not self._done.done():
            self._done.set_result(Answer(self._told, seconds))

    def lost(self) -> None:
        """The connection is gone."""
        if self._done is not None and not self._done.done():
            self._done.set_exception(ConnectionResetError("the connection was lost"))


class _Owner(OwnConnections):
    """The keeper of the connection. There are no metrics here."""

    def __init__(self, replies: _Replies) -> None:
        super().__init__(lambda _: None)
        self._replies = replies

    def lost(self, upstream: UpstreamConnection) -> None:
        """Nobody waits for its replies but the scan."""
        super().lost(upstream)
        self._replies.lost()

"""Requests between the supervisor and a worker, over a private socket pair: the one way to ask another process.

A request names the type of its reply and the seconds that the reply may take. Its sender gets a future, which ends in
one of four ways:

    the reply
    RequestTimeout   the seconds are over: the other process is busy or hangs; a later reply is dropped
    PeerLost         the other process has ended (a replacement has its own channel): at once, for all pending requests
    RequestFailed    the other process raised an exception while it answered: at once, with the exception's text

A request is sent when it is made. The other process begins to answer requests in the order in which they were sent, and
a slow answer does not delay others. A notification is a message without a reply; it is handled when it arrives.

Messages are pickled, with their length in front. So a replacement worker gets the policies in force, even if the files
have changed since. Pickle is safe here: only processes of this group, with the same user, can write to this socket.
"""

import asyncio
import itertools
import logging
import pickle
import socket
import struct
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, cast

_HEADER = struct.Struct("<I")
_log = logging.getLogger("keyrail.requests")

Reply = TypeVar("Reply")


class RequestError(Exception):
    """A request has ended without a reply; the text says why."""


class RequestTimeout(RequestError):
    """The reply did not come within the request's seconds."""


class PeerLost(RequestError):
    """The other process has ended."""


class RequestFailed(RequestError):
    """The other process raised an exception."""


@dataclass(frozen=True, slots=True)
class TypedReply:
    """A reply of the type that its request names; ``ProcessRequest.answer`` makes it."""

    reply: Any


@dataclass(frozen=True, slots=True)
class Packed(Generic[Reply]):
    """A large value, pickled once for all receivers. Each unpickles it when it wants, for instance in a thread."""

    body: bytes

    @classmethod
    def of(cls, value: Reply) -> "Packed[Reply]":
        """Pack a value."""
        return cls(pickle.dumps(value))

    def unpack(self) -> Reply:
        """A copy of the value."""
        return cast("Reply", _unpickle(self.body))


class ProcessRequest(Generic[Reply]):
    """A message that expects a ``Reply`` within ``seconds``."""

    __slots__ = ()
    seconds: ClassVar[float] = 3.0

    def answer(self, reply: Reply) -> TypedReply:
        """Answer this request."""
        return TypedReply(reply)


class Notification:
    """A message without a reply."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Call:
    number: int
    request: ProcessRequest[Any]


@dataclass(frozen=True, slots=True)
class _Return:
    number: int
    reply: Any


@dataclass(frozen=True, slots=True)
class _Failure:
    number: int
    reason: str


class _Pending(Generic[Reply]):
    """A request that waits for its reply."""

    def __init__(self, request: ProcessRequest[Reply], on_end: Callable[[], object]) -> None:
        loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Reply] = loop.create_future()
        self._on_end = on_end
        late = RequestTimeout(f"no answer in {request.seconds:g} seconds")
        self._timer = loop.call_later(request.seconds, self.fail, late)

    def succeed(self, reply: Reply) -> None:
        """End with the reply."""
        self._end()
        if not self.future.done():
            self.future.set_result(reply)

    def fail(self, error: RequestError) -> None:
        """End with an error."""
        self._end()
        if not self.future.done():
            _fail(self.future, error)

    def _end(self) -> None:
        self._timer.cancel()
        self._on_end()


class Channel:
    """One end of the socket pair."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(1)
        self._pending: dict[int, _Pending[Any]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._lost = False

    @classmethod
    async def over(cls, end: socket.socket) -> "Channel":
        """Make a channel of one end of a socket pair; the channel closes it."""
        return cls(*await asyncio.open_unix_connection(sock=end))

    def notify(self, notification: Notification) -> None:
        """Send a notification; it is dropped if the other end is closed."""
        self._send(notification)

    def request(self, request: ProcessRequest[Reply]) -> "asyncio.Future[Reply]":
        """Send a request; the module's docstring says how the future ends. Nobody has to await it."""
        if self._lost or self._writer.is_closing():
            ended: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            _fail(ended, _peer_lost())
            return ended
        number = next(self._numbers)
        self._send(_Call(number, request))
        pending = self._pending[number] = _Pending(request, lambda: self._pending.pop(number, None))
        return pending.future

    async def receive(self) -> Any:
        """Return the next message; None when the other end is closed."""
        try:
            (length,) = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
            return _unpickle(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def serve(self, answer: Callable[[Any], Awaitable[TypedReply]], take: Callable[[Any], None]) -> None:
        """Answer requests, take notifications and deliver replies until the other end is closed.

        An exception of ``answer`` is logged and sent to the other end; an exception of ``take`` ends this.
        """
        try:
            while (message := await self.receive()) is not None:
                match message:
                    case _Call(number, request):
                        self._begin_answer(number, request, answer)
                    case _Return(number, reply):
                        if number in self._pending:
                            self._pending[number].succeed(reply)
                    case _Failure(number, reason):
                        if number in self._pending:
                            self._pending[number].fail(RequestFailed(reason))
                    case _:
                        take(message)
        finally:
            self._lose()

    async def close(self) -> None:
        """Flush and close."""
        self._lose()
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            pass

    def _begin_answer(
        self, number: int, request: ProcessRequest[Any], answer: Callable[[Any], Awaitable[TypedReply]]
    ) -> None:
        task = asyncio.get_running_loop().create_task(self._answer(number, request, answer))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(
        self, number: int, request: ProcessRequest[Any], answer: Callable[[Any], Awaitable[TypedReply]]
    ) -> None:
        try:
            self._send(_Return(number, (await answer(request)).reply))
        except Exception as error:  # noqa: BLE001 - whatever it is, the other process must not wait for a reply
            _log.exception("cannot answer %s", type(request).__name__)
            self._send(_Failure(number, f"{type(error).__name__}: {error}"))

    def _send(self, message: Notification | _Call | _Return | _Failure) -> None:
        if self._writer.is_closing():  # uvloop raises where asyncio's own loop does nothing
            return
        body = pickle.dumps(message)
        self._writer.write(_HEADER.pack(len(body)) + body)

    def _lose(self) -> None:
        """End pending requests, and the answers to requests of the other end."""
        self._lost = True
        for pending in list(self._pending.values()):
            pending.fail(_peer_lost())
        for task in self._answering:
            task.cancel()


async def outcomes(replies: Collection["asyncio.Future[Reply]"]) -> list[Reply | RequestError]:
    """Wait until each request has ended, and return its reply, or the error in the reply's place."""
    if replies:
        await asyncio.wait(replies)
    ended = map(outcome, replies)
    return list(ended)


def outcome(reply: "asyncio.Future[Reply]") -> Reply | RequestError:
    """The reply to a request that has ended, or its error."""
    try:
        return reply.result()
    except RequestError as error:
        return error


async def first_known(replies: Collection["asyncio.Future[Reply | None]"]) -> Reply | None:
    """The first reply that is not None; None when all requests have ended without one."""
    for ended in asyncio.as_completed(replies):
        try:
            known = await ended
        except RequestError:
            continue
        if known is not None:
            return known
    return None


def _unpickle(body: bytes) -> Any:
    return pickle.loads(body)  # noqa: S301  the top of this file says why it is safe


def _peer_lost() -> PeerLost:
    return PeerLost("the process has ended")


def _fail(future: "asyncio.Future[Any]", error: RequestError) -> None:
    future.set_exception(error)
    future.exception()  # retrieved, so that asyncio does not log a request that nobody awaits

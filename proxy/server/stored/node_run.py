"""Drives the walk of one server: keeps the pace, waits while the server is busy, and connects again.

The clock, the waits and the connection are ports: tests use a clock of their own.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

import hiredis

from proxy.net.connection.connect import UpstreamRefusedError
from proxy.net.connection.info_figures import figures_of, read_info
from proxy.net.connection.tls import TlsError
from proxy.server.stored.link import Answer, why_not
from proxy.server.stored.node_walk import LostReplyError, NodeWalk, OtherProcessError, Request
from proxy.server.stored.pace import (
    LINK_DOWN,
    LOOK_SECONDS,
    PROBE_SECONDS,
    PROBES,
    Pace,
    reason_to_stop,
    without_primary,
)
from proxy.server.stored.page import ASKING, FORBIDDEN, is_momentary

_RETRY_SECONDS = 0.5
_LEAST_TRIES = 8
"""So often the same is asked at least before a server is given up: pages get shorter each time."""
MOST_COMMANDS, LEAST_COMMANDS = 400, 6
"""Commands in one piece. A page of a scan has about 300."""
_LONG_PIECE = 0.002
"""Seconds of work. All clients of the server wait for so long: a piece that takes longer is halved."""
_NOT_YET = ("LOADING", "BUSY", "MASTERDOWN", "ERR max number of clients")
_LOOK = Request(None, [(b"INFO", b"persistence"), (b"INFO", b"replication")])
_REPLICATION = Request(None, [(b"INFO", b"replication")])
_PING = Request(None, [(b"PING",)])
_INFO = Request(None, [(b"INFO",)])


class NodeLostError(Exception):
    """The server has not answered for too long; the text says why."""


class Clock(Protocol):
    """Time, and waiting for it to pass."""

    def now(self) -> float: ...
    async def wait(self, seconds: float) -> None: ...


class Server(Protocol):
    """A connection to a server: see ``ServerLink``."""

    counts_members: bool

    async def connect(self) -> bool: ...
    async def ask(self, request: Request) -> Answer: ...
    def close(self) -> None: ...


class NodeRun:
    """Walks one server at a ``share`` of its time. It may be lost for ``patience`` seconds. ``state`` says why the walk
    waits, for who watches; ``worked`` are the seconds that the server has worked for it, about. ``measuring`` is held
    while round trips are measured: several at a time would slow each other down. A server that stands ``for_primary``
    is walked while it follows it: a replica that has lost it in the middle of a full synchronization is empty."""

    def __init__(
        self,
        walk: NodeWalk,
        server: Server,
        share: float,
        clock: Clock,
        patience: float,
        measuring: asyncio.Lock | None = None,
        *,
        for_primary: bool = False,
    ) -> None:
        self.state = ""
        self.worked = 0.0
        self._walk = walk
        self._server = server
        self._share = share
        self._clock = clock
        self._patience = patience
        self._measuring = measuring or asyncio.Lock()
        self._for_primary = for_primary
        self._pace = Pace(share, ())
        self._began = clock.now()
        self._due = self._probe_due = self._look_due = 0.0
        self._may_look = True
        self._most = MOST_COMMANDS

    @property
    def taken(self) -> float:
        """The share of the server's time that the walk has taken so far."""
        seconds = self._clock.now() - self._began
        return min(self.worked / seconds, 1.0) if seconds > 0 else 0.0

    async def run(self) -> None:
        """Walk to the end. Raises NodeLostError, ScanRefusedError, UpstreamRefusedError and TlsError."""
        try:
            if await self._open():
                self._walk.start_over()
            await self._measure()
            self._walk.figures.info = await self._info()
            walking = self._walk.walk()
            try:
                request = next(walking)
                while True:
                    try:
                        replies = await (self._answered_once if request.once else self._answered)(request)
                    except (OtherProcessError, LostReplyError) as error:
                        request = walking.throw(error)
                    else:
                        request = walking.send(replies)
            except StopIteration:
                await self._has_followed()
        finally:
            self._server.close()

    async def _has_followed(self) -> None:
        if not self._for_primary:
            return
        try:
            (told,) = (await self._server.ask(_REPLICATION)).replies
        except OSError as error:
            raise NodeLostError(why_not(error)) from None
        if isinstance(told, bytes) and (reason := without_primary(read_info(told))):
            raise NodeLostError(reason)

    async def _answered(self, request: Request) -> Sequence[Any]:
        replies: list[Any] = []
        while len(replies) < len(request.commands):
            replies += await self._piece(request, len(replies))
        return replies

    async def _piece(self, request: Request, begin: int) -> Sequence[Any]:
        # The replies to the next commands. How many there are is known when they are sent.
        trouble = _Trouble(self._clock, self._patience)
        while True:
            piece, is_asked = self._cut(request, begin), False
            try:
                await self._keep_pace()
                is_asked = True
                answer = await self._server.ask(piece)
            except OSError as error:
                self.state = why_not(error)
                if is_asked and isinstance(error, TimeoutError):
                    self._took_too_long(len(piece.commands))
                trouble.again(self.state)
                if await self._open():
                    await self._measure()
                    raise OtherProcessError from None
                await self._clock.wait(_RETRY_SECONDS)
                continue
            if not is_momentary(answer.replies):
                self._took(answer.seconds, len(piece.commands))
                return answer.replies
            self.state = next(str(each) for each in answer.replies if isinstance(each, hiredis.ReplyError))
            trouble.again(self.state)
            await self._undo(request)
            await self._clock.wait(_RETRY_SECONDS)

    async def _undo(self, request: Request) -> None:
        if request.undo:
            with suppress(OSError):  # the connection is lost, and what was to be undone with it
                await self._server.ask(Request(request.database, request.undo))

    async def _answered_once(self, request: Request) -> Sequence[Any]:
        try:
            answer = await self._server.ask(request)
        except OSError as error:
            self.state = why_not(error)
            if await self._open():
                await self._measure()
                raise OtherProcessError from None
            raise LostReplyError from None
        self._took(answer.seconds, len(request.commands))
        return answer.replies

    def _cut(self, request: Request, begin: int) -> Request:
        end = begin + self._most
        if request.commands[end - 1 : end] == [ASKING]:
            end += 1  # it is about the command behind it
        return request._replace(commands=request.commands[begin:end])

    def _took(self, seconds: float, commands: int) -> None:
        self.state = ""
        work = self._pace.work_in(seconds)
        self.worked += work
        self._due = max(self._due, self._clock.now()) + self._pace.wait_after(seconds)
        if work > _LONG_PIECE and not self._pace.is_off:
            self._most = max(min(commands, self._most) // 2, LEAST_COMMANDS)  # what is sent once may be longer
        elif commands >= self._most and work < _LONG_PIECE / 2:
            self._most = min(2 * self._most, MOST_COMMANDS)
        self._walk.most_keys = self._most

    def _took_too_long(self, commands: int) -> None:
        self._walk.most_keys = self._most = max(commands // 2, LEAST_COMMANDS)
        self._due = self._clock.now() + self._pace.longest_wait

    async def _open(self) -> bool:
        since = self._clock.now()
        while True:
            try:
                is_other = await self._server.connect()
                self._walk.counts_members = self._server.counts_members
                return is_other
            except (OSError, UpstreamRefusedError) as error:
                if isinstance(error, UpstreamRefusedError) and not str(error).startswith(_NOT_YET):
                    raise
                self.state = why_not(error)
                if self._clock.now() - since > self._patience:
                    raise NodeLostError(self.state) from None
            except TlsError:
                raise
            await self._clock.wait(_RETRY_SECONDS)

    # The pace

    async def _measure(self) -> None:
        if self._share >= 1:
            self._pace = Pace(1.0, ())
            return
        try:
            async with self._measuring:
                trips = [(await self._server.ask(_PING)).seconds for _ in range(PROBES)]
        except OSError:
            trips = []  # what is asked next finds it, and measures again if another process answers
        self._pace = Pace(self._share, trips)

    async def _info(self) -> dict[str, float]:
        try:
            (told,) = (await self._server.ask(_INFO)).replies
        except OSError:
            return {}
        return figures_of(read_info(told)) if isinstance(told, bytes) else {}

    async def _keep_pace(self) -> None:
        if self._pace.is_off:
            return
        await self._until(self._due)
        if self._clock.now() >= self._probe_due:
            took = (await self._server.ask(_PING)).seconds
            self._pace.probed(took)
            self._probe_due = self._clock.now() + PROBE_SECONDS
            if self._pace.back_off > 1:
                await self._clock.wait(self._pace.wait_after(0.0))
        trouble = _Trouble(self._clock, self._patience)
        while self._may_look and self._clock.now() >= self._look_due:
            reason = await self._reason_to_stop()
            self._look_due = self._clock.now() + LOOK_SECONDS
            if not reason:
                break
            self.state = reason
            if reason == LINK_DOWN or is_momentary([hiredis.ReplyError(reason)]):
                trouble.again(reason)
            await self._until(self._look_due)

    async def _until(self, due: float) -> None:
        if (left := due - self._clock.now()) > 0:
            await self._clock.wait(left)

    async def _reason_to_stop(self) -> str:
        told = (await self._server.ask(_LOOK)).replies
        refusals = [str(each) for each in told if isinstance(each, hiredis.ReplyError)]
        self._may_look = not all(each.startswith(FORBIDDEN) for each in refusals) or len(refusals) < len(told)
        momentary = [each for each in refusals if not each.startswith(FORBIDDEN)]
        infos = [read_info(each) for each in told if isinstance(each, bytes)]
        reasons = [*map(reason_to_stop, infos), *(map(without_primary, infos) if self._for_primary else ())]
        return next(filter(None, [*momentary, *reasons]), "")


class _Trouble:
    """How long the same has been asked in vain."""

    def __init__(self, clock: Clock, patience: float) -> None:
        self._clock = clock
        self._patience = patience
        self._since: float | None = None
        self._tries = 0

    def again(self, reason: str) -> None:
        """There is no answer this time either. Raises NodeLostError if that is enough."""
        now = self._clock.now()
        self._since = now if self._since is None else self._since
        self._tries += 1
        if self._tries >= _LEAST_TRIES and now - self._since > self._patience:
            raise NodeLostError(reason)

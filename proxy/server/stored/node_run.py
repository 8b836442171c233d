"""Drives the walk of one server: keeps the pace, waits while the server is busy, and connects again.

The clock, the waits and the connection are ports: tests use a clock of their own.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import hiredis

from proxy.net.connection.connect import UpstreamRefusedError, why
from proxy.net.connection.info_figures import figures_of, read_info
from proxy.net.connection.tls import TlsError
from proxy.server.stored.link import Answer
from proxy.server.stored.node_walk import LostReplyError, NodeWalk, OtherProcessError, Request
from proxy.server.stored.pace import LOOK_SECONDS, PROBE_SECONDS, PROBES, Pace, reason_to_stop
from proxy.server.stored.page import is_momentary

_RETRY_SECONDS = 0.5
_NOT_YET = ("LOADING", "BUSY", "MASTERDOWN", "ERR max number of clients")
_LOOK = Request(None, [(b"INFO", b"persistence"), (b"INFO", b"replication")])
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
    waits, for who watches; ``worked`` are the seconds that the server has worked for it, about."""

    def __init__(self, walk: NodeWalk, server: Server, share: float, clock: Clock, patience: float) -> None:
        self.state = ""
        self.worked = 0.0
        self._walk = walk
        self._server = server
        self._share = share
        self._clock = clock
        self._patience = patience
        self._pace = Pace(share, ())
        self._due = self._probe_due = self._look_due = 0.0
        self._may_look = True

    async def run(self) -> None:
        """Walk to the end. Raises NodeLostError, ScanRefusedError, UpstreamRefusedError and TlsError."""
        try:
            await self._open()
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
                return
        finally:
            self._server.close()

    async def _answered(self, request: Request) -> Sequence[Any]:
        since = self._clock.now()
        while True:
            try:
                await self._keep_pace()
                answer = await self._server.ask(request)
            except OSError as error:
                self.state = why(error)
                if await self._open():
                    await self._measure()
                    raise OtherProcessError from None
                continue
            if not is_momentary(answer.replies):
                self.state = ""
                return self._taken(answer)
            self.state = next(str(each) for each in answer.replies if isinstance(each, hiredis.ReplyError))
            if self.state.startswith("CLUSTERDOWN") and self._clock.now() - since > self._patience:
                raise NodeLostError(self.state)
            await self._clock.wait(_RETRY_SECONDS)

    async def _answered_once(self, request: Request) -> Sequence[Any]:
        try:
            return self._taken(await self._server.ask(request))
        except OSError as error:
            self.state = why(error)
            if await self._open():
                await self._measure()
                raise OtherProcessError from None
            raise LostReplyError from None

    def _taken(self, answer: Answer) -> Sequence[Any]:
        self.worked += self._pace.work_in(answer.seconds)
        self._due = max(self._due, self._clock.now()) + self._pace.wait_after(answer.seconds)
        return answer.replies

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
                self.state = why(error)
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
        while self._may_look and self._clock.now() >= self._look_due:
            reason = await self._reason_to_stop()
            self._look_due = self._clock.now() + LOOK_SECONDS
            if not reason:
                break
            self.state = reason
            await self._until(self._look_due)

    async def _until(self, due: float) -> None:
        if (left := due - self._clock.now()) > 0:
            await self._clock.wait(left)

    async def _reason_to_stop(self) -> str:
        told = [each for each in (await self._server.ask(_LOOK)).replies if isinstance(each, bytes)]
        self._may_look = bool(told)  # the user may not ask
        return next(filter(None, (reason_to_stop(read_info(each)) for each in told)), "")

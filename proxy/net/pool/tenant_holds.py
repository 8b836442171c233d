"""Holds back what a tenant's clients write, in all workers, while Keyrail walks over the tenant's keys (FLUSHDB).

    begin   no worker sends more of them; those under way are answered first
    end     each worker says whether it has held them since then

So each write comes before the walk, or behind it. A worker that was replaced meanwhile has held nothing, and one that
waits too long for the end lets them go: then the end says so, and what the walk has done is not certain.

What a client of no tenant writes is not held, nor a command that is blocked in Redis: it wakes up when somebody writes.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from typing import NamedTuple

from proxy.net.downstream.waiting import bring_on
from proxy.session.commands import client_reply
from proxy.session.ports.pause_port import TenantHold, TenantHoldPort
from proxy.session.ports.pool_waiter import Waiter
from proxy.session.session import Session
from proxy.session.state import Waiting

_SETTLE_SECONDS = 1.0
"""How long commands under way may take to be answered."""
_LOOK_SECONDS = 0.005
_LEFT_SECONDS = 1.0
"""How long what was sent on a connection that has been left may take to run, or to be lost."""
_BLOCKED_SECONDS = 0.1
"""A command that may block, and has not been answered by then, is blocked."""

_UNANSWERED = f"a command of its clients has not been answered in {_SETTLE_SECONDS:g} s"

HoldOthers = Callable[[str, bytes, float], Awaitable[str]]
EndOthers = Callable[[str, bytes], Awaitable[str]]


class _Held(NamedTuple):
    prefix: bytes
    expiry: asyncio.TimerHandle


class TenantHolds(TenantHoldPort):
    """Those of one route in one worker, each by its token. ``settle`` waits for so many seconds until shared
    connections have answered what was sent on them, and tells whether they have; ``changed`` is called when something
    is held, or is not any more, ``forget`` with a tenant whose keys may have gone. ``hold_others`` and ``end_others``
    ask the other workers for the same."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clients: Collection[Session],
        start: Callable[[Awaitable[None]], object],
        settle: Callable[[float], Awaitable[bool]],
        changed: Callable[[], None],
        forget: Callable[[bytes], None],
    ) -> None:
        self.hold_others: HoldOthers | None = None
        self.end_others: EndOthers | None = None
        self._deleted: Callable[[], None] | None = None
        self.loop = loop
        self.start = start
        self._clients = clients
        self._settle = settle
        self._changed = changed
        self._forget = forget
        self._held: dict[str, _Held] = {}
        self._left: dict[bytes, float] = {}

    def __bool__(self) -> bool:
        return bool(self._held)

    def when_deleted(self, act: Callable[[], None]) -> None:
        """Call ``act`` before it is known that keys have been deleted."""
        self._deleted = act

    def holds(self, prefix: bytes) -> bool:
        """Whether what this tenant's clients write is held."""
        return bool(prefix) and any(_meet(prefix, held.prefix) for held in self._held.values())

    def begin(self, waiter: Waiter, prefix: bytes, seconds: float) -> TenantHold:
        """Hold it, in all workers, for so many seconds at most."""
        return _Hold(self, waiter, prefix, seconds)

    def hold(self, token: str, prefix: bytes, seconds: float) -> Awaitable[str]:
        """Hold it in this worker from now on; what is returned says why it is in vain, once that is known."""
        self._held[token] = _Held(prefix, self.loop.call_later(seconds, self.end, token, prefix))
        self._changed()
        return self._settled(prefix)

    def end(self, token: str, prefix: bytes) -> str:
        """Hold it no more: why it was not held until now; empty if it was."""
        held = self._held.pop(token, None)
        if held is None:
            return "a worker of this Keyrail has not held its writes all the time"
        held.expiry.cancel()
        self._forget(prefix)
        if self._deleted is not None:
            self._deleted()
        self._changed()
        return ""

    def has_left(self, prefix: bytes) -> None:
        """A client of this tenant has left its connection. What it has sent there may run still."""
        self._left.pop(prefix, None)
        self._left[prefix] = now = self.loop.time()
        for each in [each for each, at in self._left.items() if at < now - _LEFT_SECONDS]:
            del self._left[each]

    async def _settled(self, prefix: bytes) -> str:
        begun = self.loop.time()
        theirs = [each for each in self._clients if each.tenant is not None and _meet(each.tenant.prefix, prefix)]
        blocked = any(each.blocked for each in theirs)
        unheard = {id(each) for each in theirs if client_reply.may_have_silent(each) and not each.blocked}
        for each in theirs:
            if id(each) in unheard:
                client_reply.ask_behind(each, partial(unheard.discard, id(each)))
        while theirs := [each for each in theirs if not each.gone and (id(each) in unheard or _is_under_way(each))]:
            if self.loop.time() - begun > _SETTLE_SECONDS:
                return _UNANSWERED
            await asyncio.sleep(_LOOK_SECONDS)
        if blocked:
            await asyncio.sleep(max(0.0, begun + _BLOCKED_SECONDS - self.loop.time()))
        await asyncio.sleep(max(0.0, self._last_left(prefix) + _LEFT_SECONDS - self.loop.time()))
        # Also what clients have sent on shared connections that have left since.
        return "" if await self._settle(_SETTLE_SECONDS) else _UNANSWERED

    def _last_left(self, prefix: bytes) -> float:
        return max((at for each, at in self._left.items() if _meet(each, prefix)), default=float("-inf"))


def _meet(prefix: bytes, other: bytes) -> bool:
    # Where a policy has just changed, one tenant's prefix may begin another's.
    return bool(prefix) and (prefix.startswith(other) or other.startswith(prefix))


def _is_under_way(client: Session) -> bool:
    # Behind a command that is blocked, others may run at any time.
    state = client.state
    waits = type(state) is Waiting or (state.blocked == 1 and client.sender.pending_replies == 1)
    streams = client.intake.streams() and state.transaction is None
    return streams or (client.sender.pending_replies > 0 and not waits)


class _Hold(TenantHold):
    """In all workers."""

    def __init__(self, holds: TenantHolds, waiter: Waiter, prefix: bytes, seconds: float) -> None:
        self.begun: str | None = None
        self.ended: str | None = None
        self._holds = holds
        self._token = secrets.token_hex(8)
        self._prefix = prefix
        own = holds.hold(self._token, prefix, seconds)
        others = [] if holds.hold_others is None else [holds.hold_others(self._token, prefix, seconds)]
        holds.start(self._begin(waiter, [own, *others]))

    async def _begin(self, waiter: Waiter, told: Iterable[Awaitable[str]]) -> None:
        self.begun = await _first_problem(told)
        bring_on(self._holds.loop, [waiter])

    def end(self, waiter: Waiter | None = None) -> None:
        own, ask = self._holds.end(self._token, self._prefix), self._holds.end_others
        self._holds.start(self._end(own, waiter, [] if ask is None else [ask(self._token, self._prefix)]))

    async def _end(self, own: str, waiter: Waiter | None, told: Iterable[Awaitable[str]]) -> None:
        others = await _first_problem(told)
        self.ended = own or others
        if waiter is not None:
            bring_on(self._holds.loop, [waiter])


async def _first_problem(told: Iterable[Awaitable[str]]) -> str:
    for problem in await asyncio.gather(*told, return_exceptions=True):
        if isinstance(problem, BaseException):
            return f"another worker of this Keyrail does not hold them ({problem})"
        if problem:
            return problem
    return ""

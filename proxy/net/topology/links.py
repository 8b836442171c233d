"""Connections of Keyrail's own to servers that are asked what they know: one to each, and no client's command on them.

All are asked at the same time. A server that does not answer in time is not waited for a second time until it has been
silent for a while; pauses of this process make nobody late. A connection that takes longer to open goes on opening
meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable
from typing import TypeVar

from proxy.net.config.address import UpstreamAddress
from proxy.net.config.endpoint import Endpoint
from proxy.net.connection.connect import open_upstream, why
from proxy.net.connection.deadline import unanswered
from proxy.net.connection.own_connections import OwnConnections
from proxy.net.connection.tls import FollowedContext
from proxy.net.connection.upstream import UpstreamConnection
from proxy.session.ports.pool_key import PoolKey

ANSWER_SECONDS = 0.5
_SILENT_SECONDS = 2.0

_T = TypeVar("_T")


class Links(OwnConnections):
    """The connections, by the ``address`` that they lead to; ``key`` has their protocol.

    ``failures`` says why servers could not be asked; the ``unreached`` ones of them could not be reached. ``opened``
    gets each new connection before it is asked anything. One may take ``connect_seconds`` to open. ``news`` is called
    where a server ends one, and where one is open at last: it is time to ask again.
    """

    def __init__(
        self,
        address: Callable[[Endpoint], UpstreamAddress],
        key: PoolKey,
        loop: asyncio.AbstractEventLoop,
        connect_seconds: float,
        news: Callable[[], None],
        count: Callable[[str], None],
        opened: Callable[[UpstreamConnection], None] = lambda _: None,
    ) -> None:
        super().__init__(count)
        self.failures: dict[Endpoint, str] = {}
        self.unreached: set[Endpoint] = set()
        self.tls: FollowedContext | None = None
        self._address = address
        self._key = key
        self._loop = loop
        self._connect_seconds = connect_seconds
        self._news = news
        self._opened = opened
        self._opening: dict[Endpoint, asyncio.Task[UpstreamConnection]] = {}
        self._links: dict[Endpoint, UpstreamConnection] = {}
        self._silent: dict[Endpoint, float] = {}

    def close(self) -> None:
        """Close all of them."""
        self.forget_all_but(())

    def open(self) -> dict[Endpoint, UpstreamConnection]:
        """Those that are open now."""
        return {endpoint: link for endpoint, link in self._links.items() if not link.closed}

    # Asking

    async def ask_all(
        self,
        targets: Iterable[Endpoint],
        ask: Callable[[UpstreamConnection, Endpoint], Awaitable[_T]],
        first: float,
        *,
        insist: bool = False,
    ) -> dict[Endpoint, _T]:
        """What these servers answer to ``ask``. The first answer may take ``first`` seconds; then the others have a
        moment. One that has been silent a moment ago is left out, unless you ``insist``."""
        now = self._loop.time()
        asked = [target for target in targets if insist or self._silent.get(target, now) <= now]
        tasks = {target: self._loop.create_task(self._ask(target, ask)) for target in asked}
        if not tasks:
            return {}
        try:
            waiting: set[asyncio.Future[_T]] = {*tasks.values()}
            late = await unanswered(waiting, first, _left_after)
        except asyncio.CancelledError:
            for task in tasks.values():
                task.add_done_callback(_ended)
                task.cancel()
            raise
        found: dict[Endpoint, _T] = {}
        for target, task in tasks.items():
            self.failures.pop(target, None)
            self._silent.pop(target, None)
            self.unreached.discard(target)
            if task in late:
                task.add_done_callback(_ended)
                task.cancel()
                self.unreached.add(target)
                self._failed(target, "it does not answer")
                self._silent[target] = self._loop.time() + _SILENT_SECONDS
            elif (error := task.exception()) is None:
                found[target] = task.result()
            else:
                if isinstance(error, OSError):
                    self.unreached.add(target)
                self._failed(target, str(error) if isinstance(error, ValueError) else why(error))
        return found

    async def _ask(self, target: Endpoint, ask: Callable[[UpstreamConnection, Endpoint], Awaitable[_T]]) -> _T:
        link = self._links.get(target)
        if link is None or link.closed:
            opening = self._opening.get(target) or self._open(target)
            await asyncio.wait([opening])  # it goes on if nobody waits for it any more
            link = opening.result()
        return await ask(link, target)

    def _open(self, target: Endpoint) -> "asyncio.Task[UpstreamConnection]":
        opening = self._opening[target] = self._loop.create_task(self._connect(target))
        opening.add_done_callback(_ended)
        return opening

    async def _connect(self, target: Endpoint) -> UpstreamConnection:
        try:
            opening = open_upstream(self._address(target), self.tls, self, self._key, self._loop)
            async with asyncio.timeout(self._connect_seconds):
                link = (await opening).upstream
        finally:
            if self._opening.get(target) is asyncio.current_task():
                del self._opening[target]
        self._links[target] = link
        self._opened(link)
        if self._silent.pop(target, None) is not None:
            self._news()
        return link

    def _failed(self, target: Endpoint, reason: str) -> None:
        self.failures[target] = reason
        self.drop(target)

    def drop(self, target: Endpoint) -> None:
        """Close this one. It is opened again when the server is asked again."""
        if (link := self._links.pop(target, None)) is not None:
            link.abort()

    def forget_all_but(self, wanted: Container[Endpoint]) -> None:
        """Only these servers are asked from now on."""
        known = {*self._links, *self._opening, *self.failures, *self._silent}
        for gone in [each for each in known if each not in wanted]:
            self.failures.pop(gone, None)
            self.unreached.discard(gone)
            self._silent.pop(gone, None)
            if (opening := self._opening.pop(gone, None)) is not None:
                opening.cancel()
            self.drop(gone)

    def lost(self, upstream: UpstreamConnection) -> None:
        """A server may have ended, unless it was never there or is asked no more."""
        super().lost(upstream)
        for target, link in self._links.items():
            if link is upstream:
                del self._links[target]
                self._news()
                return


def _left_after(done: set["asyncio.Future[_T]"], left: float) -> float:
    return min(left, ANSWER_SECONDS) if any(task.exception() is None for task in done) else left


def _ended(task: "asyncio.Task[_T]") -> None:
    # It was given up, and may still fail: its exception has been seen.
    if not task.cancelled():
        task.exception()

"""Asks servers whether they are primaries, on connections of Keyrail's own: one to each."""

import asyncio
from collections.abc import Callable, Collection, Mapping

from proxy.net.config.address import UpstreamAddress
from proxy.net.config.endpoint import Endpoint
from proxy.net.connection.engine import is_replica
from proxy.net.connection.tls import FollowedContext
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.topology.links import ANSWER_SECONDS, Links
from proxy.session.ports.pool_key import PoolKey

REPLICA = "it is a replica"


class Roles:
    """``refusals`` has why each server that was asked last is no primary: it says so (``REPLICA``), or it does not
    answer. It is empty where the server says that it is one. Other answers than the last ones are ``news``."""

    def __init__(
        self,
        login: UpstreamAddress,
        key: PoolKey,
        loop: asyncio.AbstractEventLoop,
        connect_seconds: float,
        news: Callable[[], None],
        count: Callable[[str], None],
    ) -> None:
        self.refusals: Mapping[Endpoint, str] = {}
        self._loop = loop
        self._news = news
        self._links = Links(login.at, key, loop, connect_seconds, news, count)
        self._task: asyncio.Task[None] | None = None

    def begin(self, tls: FollowedContext | None) -> None:
        """Connections use this TLS."""
        self._links.tls = tls

    def close(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
        self._links.close()

    async def ask(self, servers: Collection[Endpoint], seconds: float = ANSWER_SECONDS) -> None:
        """Ask these servers, and wait so long at most for the first answer."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        await self._ask(servers, seconds)

    def ask_again(self, servers: Collection[Endpoint]) -> None:
        """Ask them, unless the last answers are still awaited. Nobody waits for that."""
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._ask_for_news(servers))

    async def _ask_for_news(self, servers: Collection[Endpoint]) -> None:
        before = self.refusals
        await self._ask(servers, ANSWER_SECONDS)
        if self.refusals != before:
            self._news()

    async def _ask(self, servers: Collection[Endpoint], seconds: float) -> None:
        self._links.forget_all_but(servers)
        answers = await self._links.ask_all(servers, _is_replica, seconds)
        self.refusals = self._links.failures | {each: REPLICA if answers[each] else "" for each in answers}


async def _is_replica(link: UpstreamConnection, _: Endpoint) -> bool:
    return await is_replica(link)

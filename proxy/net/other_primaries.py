"""Finds servers that call themselves primary while the Sentinels name another one.

A deposed primary comes back as primary: it was frozen or cut off, it was started again, or SENTINEL FAILOVER replaced
it while it lived. The Sentinels make it a replica about ten seconds later; if they cannot reach it, it stays. Nobody
gets there through Keyrail, but what others write to it is lost when it becomes a replica. So operators are told.

Only a server is asked (ROLE, on a connection of Keyrail's own) of which a Sentinel does not know that it replicates.
"""

import asyncio
from collections.abc import Callable, Mapping

from proxy.net.address import UpstreamAddress
from proxy.net.engine import is_replica
from proxy.net.links import ANSWER_SECONDS, Links
from proxy.net.slot_map import Endpoint
from proxy.net.tls import FollowedContext
from proxy.net.upstream import UpstreamConnection
from proxy.session.pool_key import PoolKey

_PROMOTION_SECONDS = 5.0
"""So long a server may call itself primary before most Sentinels name it: that is how a failover begins."""


class OtherPrimaries:
    """Of the primary with this login. Another set of them is ``news``."""

    def __init__(
        self,
        login: UpstreamAddress,
        key: PoolKey,
        loop: asyncio.AbstractEventLoop,
        connect_seconds: float,
        news: Callable[[], None],
        count: Callable[[str], None],
    ) -> None:
        self._login = login
        self._loop = loop
        self._news = news
        self._links = Links(login.at, key, loop, connect_seconds, news, count)
        self._since: dict[Endpoint, float] = {}
        self._deposed: set[Endpoint] = set()
        self._task: asyncio.Task[None] | None = None

    def begin(self, tls: FollowedContext | None) -> None:
        """Connections to servers use this TLS."""
        self._links.tls = tls

    def close(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
        self._links.close()

    def replaced(self, server: Endpoint) -> None:
        """Another server has taken the place of this one."""
        self._deposed.add(server)

    def look(self, replicas: Mapping[Endpoint, bool]) -> None:
        """Ask those that are not known to replicate, unless the last answers are still awaited. Nobody waits for that.

        The addresses are those that the Sentinels know.
        """
        suspects = {self._login.reach(each): each for each, replicates in replicas.items() if not replicates}
        self._deposed.difference_update({*map(self._login.reach, replicas)} - suspects.keys())
        if (suspects or self._since) and (self._task is None or self._task.done()):
            self._task = self._loop.create_task(self._ask(suspects))

    async def _ask(self, suspects: Mapping[Endpoint, Endpoint]) -> None:
        self._links.forget_all_but(suspects)
        answers = await self._links.ask_all(suspects, is_replica_at, ANSWER_SECONDS)
        self._deposed.difference_update(each for each, replica in answers.items() if replica)
        before, now = self._since, self._loop.time()
        primaries = [suspects[each] for each, replica in answers.items() if not replica]
        self._since = {each: before.get(each, now) for each in primaries}
        if self._since.keys() != before.keys():
            self._news()

    def problems(self, primary: Endpoint) -> set[str]:
        """A sentence for each of them, while this server is the primary."""
        old = self._loop.time() - _PROMOTION_SECONDS
        return {
            f"{each} calls itself a primary, too: commands go to {primary}, and writes around Keyrail will be lost"
            for each, since in self._since.items()
            if each != primary and (since <= old or self._login.reach(each) in self._deposed)
        }


async def is_replica_at(link: UpstreamConnection, _: Endpoint) -> bool:
    """Whether the server that is asked on this connection is a replica. Raises ConnectionResetError."""
    return await is_replica(link)

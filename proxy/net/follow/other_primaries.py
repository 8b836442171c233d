"""Finds servers that call themselves primary while the Sentinels name another one.

A deposed primary comes back as primary: it was frozen or cut off, it was started again, or SENTINEL FAILOVER replaced
it while it lived. The Sentinels make it a replica about ten seconds later; if they cannot reach it, it stays. Nobody
gets there through Keyrail, but what others write to it is lost when it becomes a replica. So operators are told.

Only a server is asked (ROLE, on a connection of Keyrail's own) of which a Sentinel does not know that it replicates.
"""

import asyncio
from collections.abc import Callable, Mapping

from proxy.net.config.address import UpstreamAddress
from proxy.net.config.endpoint import Endpoint
from proxy.net.connection.tls import FollowedContext
from proxy.net.topology.roles import REPLICA, Roles
from proxy.session.ports.pool_key import PoolKey

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
        self._roles = Roles(login, key, loop, connect_seconds, news, count)
        self._since: dict[Endpoint, float] = {}
        self._deposed: set[Endpoint] = set()

    def begin(self, tls: FollowedContext | None) -> None:
        """Connections to servers use this TLS."""
        self._roles.begin(tls)

    def close(self) -> None:
        """End it."""
        self._roles.close()

    def replaced(self, server: Endpoint) -> None:
        """Another server has taken the place of this one."""
        self._deposed.add(server)

    def look(self, replicas: Mapping[Endpoint, bool], primary: Endpoint) -> set[str]:
        """A sentence for each of them, while this server is the primary, by their last answers. Those that are not
        known to replicate are asked again.

        The addresses are those that the Sentinels know.
        """
        suspects = {self._login.reach(each): each for each, replicates in replicas.items() if not replicates}
        told = {each: self._roles.refusals.get(each) for each in suspects}
        if suspects or self._roles.refusals:
            self._roles.ask_again(suspects.keys())
        replicating = {*map(self._login.reach, replicas)} - suspects.keys()
        self._deposed -= replicating | {each for each, refusal in told.items() if refusal == REPLICA}
        before, now = self._since, self._loop.time()
        self._since = {each: before.get(each, now) for each, refusal in told.items() if refusal == ""}
        names = [
            suspects[each]
            for each, since in self._since.items()
            if each in self._deposed or now - since >= _PROMOTION_SECONDS
        ]
        return {
            f"{name} calls itself a primary, too: commands go to {primary}, and writes around Keyrail will be lost"
            for name in names
            if name != primary
        }

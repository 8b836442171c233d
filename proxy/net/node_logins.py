"""Logs a user in on the other nodes of a cluster, while the password that a client has given is in hand.

One node has accepted the login. Keyrail keeps no password, so the user's connections to all other nodes are opened now:
one to each for each login.
"""

import asyncio
import logging
from collections.abc import Callable

from proxy.net.connect import UpstreamRefusedError, set_to
from proxy.net.connections import Connections
from proxy.net.tls import reason_of
from proxy.net.upstream import UpstreamConnection
from proxy.session.pool_key import Node, PoolKey
from proxy.session.ports import Credentials

_log = logging.getLogger("keyrail.logins")


class NodeLogins:
    """The logins of one route on several nodes. ``give_back`` takes a connection that no client has."""

    def __init__(self, connections: Connections, give_back: Callable[[UpstreamConnection], None]) -> None:
        self._connections = connections
        self._give_back = give_back

    def begin(self, command: list[bytes], login: Credentials, key: PoolKey) -> None:
        """The node of this key has accepted ``command`` for the key's user: log in on all others."""
        accepted = self._connections.topology.place(key.node)
        for node in self._connections.topology.nodes:
            if node is not accepted:
                self._connections.all.start(self._log_in(command, login, key._replace(node=node)))

    async def _log_in(self, command: list[bytes], login: Credentials, key: PoolKey) -> None:
        supply, seconds = self._connections.supply, self._connections.settings.connect_timeout
        upstream: UpstreamConnection | None = None
        try:
            upstream = await supply.open_for_login(key.node)
            frame = await asyncio.wait_for(upstream.ask(command), seconds)
            refusal = "" if frame.startswith(b"+") else frame[1:-2].decode("utf-8", "replace")
            if not refusal:
                upstream.key = upstream.key._replace(user=key.user)
                await set_to(upstream, key, seconds, supply.busy)
        except (OSError, UpstreamRefusedError) as error:
            refusal = reason_of(error)
        if refusal:
            self._tell(login, key.node, refusal)
            if upstream is not None:
                upstream.abort()
        elif upstream is not None:
            upstream.apart = False
            self._give_back(upstream)

    def _tell(self, login: Credentials, node: Node, reason: str) -> None:
        user, address = login.user.decode("utf-8", "replace"), self._connections.topology.address(node)
        _log.warning("user %s: another node has accepted the login, and %s does not: %s", user, address, reason)

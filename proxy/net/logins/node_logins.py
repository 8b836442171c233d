"""Logs a user in on the other nodes of a cluster, while the password that a client has given is in hand.

One node has accepted the login. Keyrail keeps no password, so the user's connections to all other nodes are opened now:
one to each for each login.
"""

import asyncio
import logging
from collections.abc import Callable

from proxy.net.connection.connect import UpstreamRefusedError, set_to
from proxy.net.connection.tls import reason_of
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.pool.connections import Connections
from proxy.session.ports.login_port import Credentials
from proxy.session.ports.pool_key import Node, PoolKey
from proxy.traffic.key_text import shown

_LOG_SECONDS = 1.0
_LONGEST_NAME = 64
_MOST_REFUSED = 1024
"""Users and nodes that Keyrail can name in errors."""

_log = logging.getLogger("keyrail.logins")


def shown_user(name: bytes) -> str:
    """A user's name for the log: clients choose it."""
    return shown(name)[:_LONGEST_NAME]


class OneASecond:
    """Limits log lines of one kind: one a second at most, which says how many it stands for."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._told_at = -_LOG_SECONDS
        self._untold = 0

    def add(self) -> str | None:
        """What happens again; the end of the line that tells of it, None where there is to be none now."""
        self._untold += 1
        now = self._now()
        if now - self._told_at < _LOG_SECONDS:
            return None
        others = f" (and {self._untold - 1} more since the last line)" if self._untold > 1 else ""
        self._told_at, self._untold = now, 0
        return others


class NodeLogins:
    """The logins of one route on several nodes. ``give_back`` takes a connection that no client has."""

    def __init__(self, connections: Connections, give_back: Callable[[UpstreamConnection], None]) -> None:
        self._connections = connections
        self._logins = connections.logins
        self._give_back = give_back
        self._due: dict[Node, OneASecond] = {}

    def begin(self, command: list[bytes], login: Credentials, key: PoolKey) -> None:
        """The node of this key has accepted ``command`` for the key's user: log in on all others."""
        accepted = self._connections.topology.place(key.node)
        self._note(key._replace(node=accepted), "")
        for node in self._connections.topology.nodes:
            if node is not accepted:
                self._connections.all.start(self._log_in(command, login, key._replace(node=node)))

    async def _log_in(self, command: list[bytes], login: Credentials, key: PoolKey) -> None:
        opening, seconds = self._connections.opening, self._connections.settings.connect_timeout
        upstream: UpstreamConnection | None = None
        refusal = reason = ""
        assert key.user is not None
        self._logins.under_way[key.node, key.user] += 1
        try:
            upstream = await opening.open_for_login(key.node)
            async with asyncio.timeout(seconds):
                frame = await upstream.ask(command)
            refusal = reason = "" if frame.startswith(b"+") else frame[1:-2].decode("utf-8", "replace")
            if not refusal:
                upstream.key = upstream.key._replace(user=key.user)
                await set_to(upstream, key, seconds, opening.busy)
        except UpstreamRefusedError as error:
            refusal = reason = str(error)
        except OSError as error:
            refusal = "" if upstream is None else upstream.farewell
            reason = refusal or reason_of(error)  # which may say where the node is
        finally:
            self._logins.under_way[key.node, key.user] -= 1
        self._note(key, refusal)
        if reason:
            self._tell(login, key.node, reason)
            if upstream is not None:
                upstream.abort()
        elif upstream is not None:
            upstream.apart = False
            self._give_back(upstream)

    def _note(self, key: PoolKey, refusal: str) -> None:
        assert key.user is not None
        refused = self._logins.refused
        refused.pop((key.node, key.user), None)
        if refusal:
            refused[key.node, key.user] = refusal
        while len(refused) > _MOST_REFUSED:
            del refused[next(iter(refused))]

    def _tell(self, login: Credentials, node: Node, reason: str) -> None:
        topology = self._connections.topology
        self._due = {each: due for each, due in self._due.items() if each in topology.nodes}
        others = self._due.setdefault(node, OneASecond(self._connections.loop.time)).add()
        if others is not None:
            text = "user %s: another node has accepted the login, and %s does not: %s%s"
            _log.warning(text, shown_user(login.user), topology.address(node), reason, others)

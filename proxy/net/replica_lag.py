"""How far each replica of a cluster is behind its primary, in bytes of the replication stream.

Both are asked for INFO replication at about the same time, each on a connection of its own. What a third node says of a
replica's offset is old. Offsets can only be compared within one replication stream (``master_replid``).
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from proxy.net.cluster import Cluster
from proxy.net.connect import UpstreamRefusedError, open_upstream
from proxy.net.own_connections import OwnConnections
from proxy.net.slot_map import ClusterNode, Endpoint
from proxy.net.tls import FollowedContext
from proxy.net.upstream import UpstreamConnection
from proxy.session.pool_key import PoolKey
from proxy.wire.decode import read_reply
from proxy.wire.numbers import read_digits

_SECONDS = 1.0
_ANSWER_SECONDS = 3.0

_log = logging.getLogger("keyrail.route")

_Fields = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """``reached``: it answers; ``linked``: it is connected to its primary; ``lag`` in bytes, None if it is unknown."""

    reached: bool
    linked: bool = True
    lag: int | None = None


_LOST = ReplicaState(reached=False)


class ReplicaLag(OwnConnections):
    """Asks the replicas of a cluster, and their primaries, each second. ``states`` has what came of it, by node id."""

    def __init__(self, cluster: Cluster, loop: asyncio.AbstractEventLoop, count: Callable[[str], None]) -> None:
        super().__init__(count)
        self.states: Mapping[str, ReplicaState] = {}
        self._cluster = cluster
        self._loop = loop
        self._tls: FollowedContext | None = None
        self._links: dict[Endpoint, UpstreamConnection] = {}
        self._task: asyncio.Task[None] | None = None

    def begin(self, tls: FollowedContext | None) -> None:
        """Begin to ask."""
        self._tls = tls
        self._task = self._loop.create_task(self._run())

    def close(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
        for link in self._links.values():
            link.abort()

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
            except Exception:  # noqa: BLE001 - whatever it is, the next look may go well
                self._count("periodic_failures")
                _log.exception("%s: asking replicas for their lag failed", self._cluster.login)
            await asyncio.sleep(_SECONDS)

    async def _look(self) -> None:
        known = self._cluster.map.nodes
        replicas = [node for node in known.values() if not node.is_primary and not node.failed]
        asked = {node.id: node for node in replicas}
        asked |= {node.primary_id: known[node.primary_id] for node in replicas if node.primary_id in known}
        self._close_all_but(asked)
        replies = await asyncio.gather(*map(self._ask, asked.values()))
        told = dict(zip(asked, replies, strict=True))
        self.states = {node.id: state_of(told[node.id], told.get(node.primary_id)) for node in replicas}

    def _close_all_but(self, asked: Mapping[str, ClusterNode]) -> None:
        wanted = {self._cluster.reachable(node.endpoint) for node in asked.values() if node.endpoint is not None}
        for gone in self._links.keys() - wanted:
            self._links.pop(gone).abort()

    async def _ask(self, node: ClusterNode) -> _Fields | None:
        # None if it does not answer.
        if node.endpoint is None:
            return None
        target = self._cluster.reachable(node.endpoint)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                link = await self._link(target)
                return _fields(read_reply(await link.ask(["INFO", "replication"])))
        except (OSError, UpstreamRefusedError):
            with contextlib.suppress(KeyError):
                self._links.pop(target).abort()
            return None

    async def _link(self, target: Endpoint) -> UpstreamConnection:
        link = self._links.get(target)
        if link is None or link.closed:
            key = PoolKey(None, 0, 2, self._cluster.home)
            address = self._cluster.login.at(target)
            link = self._links[target] = (await open_upstream(address, self._tls, self, key, self._loop)).upstream
        return link


def _fields(reply: object) -> _Fields:
    # Nothing where INFO is not allowed.
    if not isinstance(reply, bytes):
        return {}
    lines = reply.decode("utf-8", "replace").splitlines()
    return {name: value for name, colon, value in (line.partition(":") for line in lines) if colon}


def state_of(replica: _Fields | None, primary: _Fields | None) -> ReplicaState:
    """What the fields of the two say; None where a node does not answer."""
    if replica is None:
        return _LOST
    linked = replica.get("master_link_status", "up") == "up"
    if primary is None or replica.get("master_replid") != primary.get("master_replid"):
        return ReplicaState(reached=True, linked=linked)
    applied, written = (
        read_digits(fields.get(name, ""))
        for fields, name in ((replica, "slave_repl_offset"), (primary, "master_repl_offset"))
    )
    lag = None if applied is None or written is None or not linked else max(0, written - applied)
    return ReplicaState(reached=True, linked=linked, lag=lag)

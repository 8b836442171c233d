"""Which servers a scan walks: found as `serve` finds them, and asked each time anew."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from proxy.net.config.address import UpstreamAddress
from proxy.net.config.endpoint import Endpoint
from proxy.net.connection.connect import UpstreamRefusedError, open_upstream
from proxy.net.connection.engine import Engine
from proxy.net.connection.own_connections import OwnConnections
from proxy.net.connection.tls import FollowedContext
from proxy.net.follow.cluster_watch import ClusterWatch
from proxy.net.follow.sentinel_watch import find_primary
from proxy.net.topology.cluster import Cluster
from proxy.net.topology.slot_map import ClusterNode, SlotMap
from proxy.net.topology.topology import KnownServer
from proxy.session.ports.pool_key import PoolKey
from proxy.wire.decode import read_reply


class Found(NamedTuple):
    """Where keys are read; the ``replica`` that it is, if it is one."""

    address: UpstreamAddress
    replica: str = ""


class Servers:
    """The servers behind an upstream. Opening a connection, and asking, may take ``seconds``."""

    def __init__(self, address: UpstreamAddress, tls: FollowedContext | None, seconds: float, replicas: bool) -> None:
        self.address = address
        self.replicas = replicas
        self._tls = tls
        self._seconds = seconds
        self._last_known: Sequence[KnownServer] = ()

    async def is_cluster(self) -> bool:
        """Whether there are many; a node of a cluster stands for all. Raises OSError and UpstreamRefusedError."""
        if not self.address.seeds:
            engine, _ = await self._ask((await self.one()).address)
            if engine.cluster:
                self.address = self.address.as_seed()
        return bool(self.address.seeds)

    async def one(self) -> Found:
        """The one server, the primary that Sentinels name, or a replica of it. Raises OSError and
        UpstreamRefusedError."""
        found = self.address
        if found.sentinels is not None:
            found, _ = await find_primary(found, found.sentinels, self._tls, self._seconds)
        if not self.replicas:
            return Found(found)
        engine, told = await self._ask(found)
        if engine.cluster or told[:1] == [b"slave"]:
            return Found(found)
        known = [Endpoint(host.decode(), int(port)) for host, port, *_ in told[2]] if told[:1] == [b"master"] else []
        for each in self.address.replicas or map(self.address.reach, known):
            try:
                _, role = await self._ask(found.at(each))
            except (OSError, UpstreamRefusedError):
                continue
            if role[:1] == [b"slave"] and role[3:4] == [b"connected"]:
                return Found(found.at(each), str(each))
        raise ConnectionRefusedError("no replica answers whose link to it is up, and --replicas asks for one")

    async def slot_map(self) -> SlotMap:
        """What a majority of the cluster's nodes agrees on now: those that were known before are asked where no seed
        answers. Raises ConnectionRefusedError."""
        cluster, loop = Cluster(self.address), asyncio.get_running_loop()
        cluster.last_known = self._last_known
        watch = ClusterWatch(cluster, loop, self._seconds, lambda _: None, lambda: None, lambda _: None)
        watch.begin(self._tls)
        try:
            await watch.attempted.wait()
        finally:
            watch.close()
        if not watch.settled:
            raise ConnectionRefusedError(watch.problem)
        self._last_known = cluster.servers
        return cluster.map

    async def of_node(self, node: ClusterNode, seen: SlotMap, turn: int = 0) -> Found:
        """Where the keys of this primary are read: there, or at a replica of it, another one each ``turn``. Raises
        OSError and UpstreamRefusedError."""
        mine = [each for each in seen.nodes.values() if each.primary_id == node.id and not each.failed]
        places = sorted(each.endpoint for each in mine if each.endpoint is not None) if self.replicas else []
        endpoint = places[turn % len(places)] if places else node.endpoint
        if endpoint is None:
            raise ConnectionRefusedError("the other nodes know no address of it")
        address = self.address.at(self.address.reach(endpoint))
        if not places:
            return Found(address)
        _, role = await self._ask(address)
        if role[:1] == [b"slave"] and role[3:4] != [b"connected"]:
            raise ConnectionRefusedError(f"the link of its replica {endpoint} to it is down")
        return Found(address, str(endpoint))

    async def _ask(self, address: UpstreamAddress) -> tuple[Engine, list[Any]]:
        # What it is, and its ROLE; empty where that is refused.
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._seconds):
            keeper = OwnConnections(lambda _: None)
            opened = await open_upstream(address, self._tls, keeper, PoolKey(None, 0, 2), loop)
            try:
                role = read_reply(await opened.upstream.ask(["ROLE"]))
            finally:
                opened.upstream.abort()
        return opened.engine or Engine(), role if isinstance(role, list) else []

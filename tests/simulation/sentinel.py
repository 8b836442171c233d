"""Sentinels: each says what it believes, and a majority replaces a primary."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from tests.simulation.engine import Server
from tests.simulation.network import Address, Network
from tests.simulation.replies import NIL_ARRAY, Refusal

NAME = "mymaster"
DOWN_AFTER = 1.0
TAKES_BACK = 10.0
"""Seconds after a failover in which Sentinels leave another primary alone."""
_TICK = 0.1


class Sentinel:
    """It names a primary, and lists other Sentinels by their ids, and replicas: whether each one replicates."""

    def __init__(self, network: Network, address: Address, name: str, primary: Address | None) -> None:
        self.id, self.primary = name, primary
        self.others: dict[str, Address] = {}
        self.replicas: dict[Address, bool] = {}
        self.server = Server(network, address)
        self.server.sentinel = self

    def answer(self, words: Sequence[str]) -> Any:
        """SENTINEL …"""
        match [words[0].upper(), *words[1:]]:
            case ["MYID"]:
                return self.id.encode()
            case ["GET-MASTER-ADDR-BY-NAME", name]:
                if self.primary is None or name != NAME:
                    return NIL_ARRAY
                return [self.primary[0].encode(), b"%d" % self.primary[1]]
            case ["SENTINELS", name] if self.primary is not None and name == NAME:
                return [{**_place(at), b"runid": other.encode()} for other, at in self.others.items()]
            case ["REPLICAS", name] if self.primary is not None and name == NAME:
                return [{**_place(at), **_REPLICATES[well]} for at, well in self.replicas.items()]
            case ["SENTINELS" | "REPLICAS", _]:
                raise Refusal("ERR No such master with that name")
        raise Refusal(f"ERR unknown subcommand '{words[0]}'. Try SENTINEL HELP.")

    def learn(self, primary: Address) -> None:
        """Another server is the primary: tell those who follow."""
        before, self.primary = self.primary, primary
        if before is not None and before != primary:
            words = (NAME, *before, *primary)
            self.server.publish(b"+switch-master", " ".join(map(str, words)).encode())
            self.server.after_command()


def _place(at: Address) -> dict[bytes, Any]:
    return {b"ip": at[0].encode(), b"port": b"%d" % at[1]}


_REPLICATES = {
    True: {b"flags": b"slave", b"role-reported": b"slave", b"master-link-status": b"ok"},
    False: {b"flags": b"slave", b"role-reported": b"master", b"master-link-status": b"err"},
}


class Group:
    """Sentinels, a primary and its replicas. The ``places`` are those of the servers, and of the Sentinels."""

    def __init__(
        self, network: Network, replicas: int = 2, sentinels: int = 3, places: Sequence[Address] | None = None
    ) -> None:
        self.network, self.loop = network, network.loop
        where = iter(places or [(f"10.0.1.{number + 1}", 6379) for number in range(1 + replicas + sentinels)])
        self.servers = [Server(network, next(where)) for _ in range(1 + replicas)]
        self.primary = self.servers[0]
        for each in self.servers[1:]:
            each.replicate(self.primary)
        self.sentinels = [
            Sentinel(network, next(where), f"{number + 1:x}" * 40, self.primary.address) for number in range(sentinels)
        ]
        for one in self.sentinels:
            one.others = {each.id: each.server.address for each in self.sentinels if each is not one}
        self._since: float | None = None
        self._calm_until = 0.0
        self._list_replicas()

    @property
    def url(self) -> str:
        """Names the Sentinels and the primary."""
        named = (each.server.address for each in self.sentinels)
        return f"redis+sentinel://{','.join(f'{host}:{port}' for host, port in named)}/{NAME}"

    def _list_replicas(self) -> None:
        for sentinel in self.sentinels:
            sentinel.replicas = {
                each.address: each.primary is self.primary and each.link_is_up and each.alive
                for each in self.servers
                if each is not self.primary
            }

    def reaches(self, sentinel: Sentinel, server: Server) -> bool:
        """Whether both run, and reach each other."""
        running = all(each.alive and not each.frozen for each in (sentinel.server, server))
        return running and self.network.reaches(sentinel.server.address[0], server.address[0])

    async def watch(self) -> None:
        """Replace a primary that a majority does not reach, and make those replicas that are primaries no more."""
        while True:
            await asyncio.sleep(_TICK)
            self._list_replicas()
            seeing = [each for each in self.sentinels if self.reaches(each, self.primary)]
            if 2 * len(seeing) > len(self.sentinels):
                self._since = None
            elif self._since is None:
                self._since = self.loop.time()
            elif self.loop.time() - self._since > DOWN_AFTER:
                await self.failover()
            if self.loop.time() > self._calm_until:
                self._demote_others()

    async def failover(self) -> None:
        """Make the replica with the most data the primary; SENTINEL FAILOVER does so where the primary lives, too."""
        leaders = [each for each in self.sentinels if each.server.alive]
        ready = [
            each
            for each in self.servers
            if each is not self.primary and 2 * sum(self.reaches(one, each) for one in leaders) > len(self.sentinels)
        ]
        if not ready:
            return
        best = max(ready, key=lambda each: each.offset)
        best.promote()
        self.primary, self._since = best, None
        self._calm_until = self.loop.time() + TAKES_BACK
        for each in ready:
            if each is not best:
                await asyncio.sleep(0.05 * self.network.chance.random())
                each.replicate(best)
                each.drop_clients()
        for sentinel in leaders:
            if self.reaches(sentinel, best):
                self.loop.call_later(1.1 * self.network.chance.random(), self._learn, sentinel, best)

    def _learn(self, sentinel: Sentinel, primary: Server) -> None:
        if primary is self.primary:
            sentinel.learn(primary.address)

    def _demote_others(self) -> None:
        for each in self.servers:
            known = [one for one in self.sentinels if self.reaches(one, each)]
            if each is not self.primary and each.primary is not self.primary and 2 * len(known) > len(self.sentinels):
                each.replicate(self.primary)
                each.drop_clients()
        for sentinel in self.sentinels:
            if sentinel.primary != self.primary.address and self.reaches(sentinel, self.primary):
                sentinel.learn(self.primary.address)

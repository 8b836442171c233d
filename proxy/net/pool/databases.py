"""The databases that all nodes of a cluster have: as few as the node with the fewest (``cluster-databases`` of Valkey).

A client that chose a database which some nodes lack would be refused later, on some keys. So each node that answers is
asked before a client's SELECT, as Keyrail's own user, and what it has said counts until it is connected to again. One
that cannot be asked, or says something else, holds up nobody.
"""

import asyncio
from collections.abc import Callable

from proxy.commands.error_texts import DATABASE_LACKING
from proxy.net.connection.connect import UpstreamRefusedError
from proxy.net.downstream.waiting import bring_on
from proxy.net.pool.opening import Opening
from proxy.net.pool.supply import Supply
from proxy.net.topology.topology import Topology
from proxy.session.ports.pool_key import Node
from proxy.session.ports.pool_waiter import PoolWaiter

_MOST_SECONDS = 0.5
"""How the refusals begin: that the number is out of range, or that a cluster has one database alone."""


class Databases:
    """Those of one route's nodes. Databases have numbers from 0, so the largest known one says something of others."""

    def __init__(self, topology: Topology, supply: Supply, opening: Opening, start: Callable[[object], object]) -> None:
        self._topology = topology
        self._supply = supply
        self._opening = opening
        self._start = start
        self._had: dict[Node, int] = {}
        self._lacked: dict[Node, tuple[int, bytes]] = {}
        self._waiting: dict[int, list[PoolWaiter]] = {}

    def forget(self, node: Node) -> None:
        """The node may have others now."""
        self._had.pop(node, None)
        self._lacked.pop(node, None)

    def refusal(self, waiter: PoolWaiter, number: int) -> bytes | None:
        """The error of a node that lacks this database; empty where all have it, as far as is known. None while they
        are asked: ``arrived`` is called then."""
        nodes = [node for node in self._topology.nodes if self._supply.alive(node)]
        for node in nodes:
            fewest, error = self._lacked.get(node, (number + 1, b""))
            if number >= fewest:
                return error
        unknown = [node for node in nodes if self._had.get(node, 0) < number]
        if not unknown:
            return b""
        if number not in self._waiting:
            self._waiting[number] = []
            self._start(self._ask_all(unknown, number))
        self._waiting[number].append(waiter)
        return None

    async def _ask_all(self, nodes: list[Node], number: int) -> None:
        try:
            await asyncio.gather(*(self._ask(node, number) for node in nodes))
        finally:
            bring_on(asyncio.get_running_loop(), self._waiting.pop(number))

    async def _ask(self, node: Node, number: int) -> None:
        frame = b""
        try:
            async with asyncio.timeout(_MOST_SECONDS):
                upstream = await self._opening.open_apart(node)
                try:
                    frame = await upstream.ask(["SELECT", number])
                finally:
                    upstream.abort()
        except (OSError, UpstreamRefusedError):
            pass
        if DATABASE_LACKING.begin(frame):
            fewest, error = self._lacked.get(node, (number + 1, b""))
            self._lacked[node] = (number, frame) if number < fewest else (fewest, error)
        else:
            self._had[node] = max(number, self._had.get(node, 0))

"""The network between the nodes of a cluster, in which a test may cut nodes off: clients still reach them.

Each node announces a port of this network as that of its cluster bus. So all that nodes say to one another comes along
here, and the first message of a connection says who has opened it.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from tests.network import Network, until_one_ends

_HEADER = 80
_SENDER = slice(40, 80)
"""The id of the sender in a message of the bus: ``clusterMsg`` in the engines' source."""


class _Link(NamedTuple):
    """A connection of one node to another one, by their ids."""

    sender: str
    receiver: str


class Bus(Network):
    """Passes on what nodes say. What goes over the border of those that are cut off is lost, and nobody is told."""

    def __init__(self) -> None:
        super().__init__()
        self._alone: frozenset[str] = frozenset()
        self._links: dict[asyncio.Task[None], _Link] = {}

    def lead_to(self, node: str, port: int) -> int:
        """The port of this network that leads to the bus of the node with this id, which is at a port."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            first = await reader.readexactly(_HEADER)
            await self._pass_on(_Link(first[_SENDER].decode(), node), first, reader, writer, port)

        return self.listen(serve)

    def cut_off(self, *nodes: str) -> None:
        """From now on these nodes reach one another and nobody else."""
        self._alone = frozenset(nodes)

    def mend(self) -> None:
        """All reach all again, on new connections where something was lost."""
        self.run(self._mend())

    async def _mend(self) -> None:
        torn = [task for task, link in self._links.items() if self._crosses(link)]
        self._alone = frozenset()
        await self.end_connections(torn)

    def _crosses(self, link: _Link) -> bool:
        return (link.sender in self._alone) != (link.receiver in self._alone)

    async def _pass_on(
        self, link: _Link, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links[task] = link
        try:
            back, far = await asyncio.open_connection("127.0.0.1", port)
            try:
                await until_one_ends(self._pump(link, reader, far, first), self._pump(link, back, writer))
            finally:
                far.transport.abort()
        finally:
            del self._links[task]

    async def _pump(
        self, link: _Link, source: asyncio.StreamReader, sink: asyncio.StreamWriter, data: bytes = b""
    ) -> None:
        while data or (data := await source.read(1 << 16)):
            if not self._crosses(link):
                sink.write(data)
                await sink.drain()
            data = b""

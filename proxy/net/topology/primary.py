"""The topology of one primary that another server can replace: known to Sentinels, or by a name that moves.

A server that takes the place of the primary is another node, so no connection to the old one is ever taken for one to
the new one. Clients stay in the pools of ``home``, which stands for the node of today.
"""

import asyncio
import socket
from collections.abc import Iterator, Sequence
from itertools import count

from proxy.net.config.address import UpstreamAddress
from proxy.net.config.endpoint import Endpoint
from proxy.net.topology.slot_map import ClusterNode
from proxy.net.topology.topology import Change, KnownServer
from proxy.session.ports.pool_key import ANY_NODE, Node


async def resolve(loop: asyncio.AbstractEventLoop, host: str, port: int) -> Sequence[Endpoint]:
    """The addresses of a name, in the order of the resolver. Raises OSError."""
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:  # a label is empty or too long
        raise socket.gaierror(socket.EAI_NONAME, "it is not a valid host name") from None
    return list(dict.fromkeys(Endpoint(str(address[0]), port) for *_, address in found))


class Primary:
    """The server that is the primary now, at ``endpoint``; None until one is known.

    ``replicas`` are those that Sentinels list; None if there are no Sentinels, or they have not told yet.
    ``is_replica``: a name leads to it, but it is a replica. ``run_id`` is that of its process, where a name leads to
    it and it tells that.
    """

    home = ANY_NODE
    router = None
    fails_over = True

    def __init__(self, login: UpstreamAddress) -> None:
        self.login = login
        self.last_known: Sequence[KnownServer] = ()
        self.nodes: Sequence[Node] = ()
        self.endpoint: Endpoint | None = None
        self.replicas: Sequence[Endpoint] | None = None
        self.is_replica = False
        self.run_id: bytes | None = None
        self.doubted = asyncio.Event()
        self._numbers = count()

    @property
    def servers(self) -> Sequence[KnownServer]:
        """The primary, once it is known."""
        return () if self.endpoint is None else (KnownServer(self.endpoint, self.run_id),)

    def address(self, node: Node) -> UpstreamAddress:
        """Where this node is; the whole upstream for one that is not the primary any more."""
        return self.login if self.endpoint is None or node not in self.nodes else self.at(self.endpoint)

    def at(self, endpoint: Endpoint) -> UpstreamAddress:
        """A server that Sentinels name, or one of the addresses of the name in the URL."""
        return self.login.at(endpoint) if self.login.sentinels is not None else self.login.resolved(endpoint)

    async def resolve(self) -> Sequence[Endpoint]:
        """The addresses that the name in the URL has now. Raises OSError."""
        return await resolve(asyncio.get_running_loop(), self.login.host, self.login.port)

    def place(self, node: Node) -> Node:
        """The primary stands for any node."""
        return self.nodes[0] if node is ANY_NODE and self.nodes else node

    def doubt(self) -> None:
        """The primary is missing or lost: find out soon whether it is another server now."""
        self.doubted.set()

    def connected(self, node: Node) -> None:
        """There is no other one."""

    def disconnected(self, node: Node) -> None:
        """There is no other one."""

    def hesitates(self, node: Node, *, late: bool) -> None:
        """There is no other one."""

    def adopt(self, endpoint: Endpoint, *, same: bool = False) -> Change:
        """The primary is there now; with ``same`` it is the same server as before, and its connections stay."""
        if endpoint == self.endpoint or (same and self.nodes):
            self.endpoint = endpoint
            return Change()
        left = [*self.nodes]
        heir = Node(next(self._numbers))
        self.nodes = (heir,)
        self.endpoint = endpoint
        return Change(new=True, came=[heir], left=left, heir=heir)

    def known(self) -> Iterator[tuple[str, Node, ClusterNode]]:
        """The primary, as a cluster has its members. Its address is its id."""
        for node in self.nodes:
            yield "n1", node, ClusterNode(str(self.endpoint), self.endpoint, is_primary=not self.is_replica)

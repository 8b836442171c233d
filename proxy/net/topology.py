"""The servers behind a route: the nodes, their addresses, and the node that owns a key.

Every connection, pool and health check of a route belongs to a node. Only the topology knows the address of a node. A
topology with several nodes is another variant here: it lists its nodes, and its ``router`` returns the number of the
node that owns a slot. The pool of a node has the node in its key (``PoolKey.node``, ``PoolKey.role``).
"""

from collections.abc import Sequence
from typing import Protocol

from proxy.hotpath.router import Router
from proxy.net.address import UpstreamAddress
from proxy.session.ports import SOLE_NODE, Node


class Topology(Protocol):
    """The nodes of a route, by number, and their ``router``; None if one node gets every command.

    Clients begin on the first node. Commands without keys go there, too.
    """

    @property
    def nodes(self) -> Sequence[Node]:
        """All nodes; the number of a node is its index."""

    @property
    def router(self) -> Router | None:
        """Finds the node that owns the keys of a request."""

    def address(self, node: Node) -> UpstreamAddress:
        """The current address of this node, and the login."""


class Single:
    """One server for every command. The hot path computes no slots."""

    nodes = (SOLE_NODE,)
    router = None

    def __init__(self, address: UpstreamAddress) -> None:
        self._address = address

    def address(self, node: Node) -> UpstreamAddress:
        """The server's address."""
        return self._address

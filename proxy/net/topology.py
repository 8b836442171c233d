"""The servers behind a route: which nodes there are, where each one is, and which one owns a key.

Everything that a route opens, pools or watches belongs to a node, and only the topology knows the node's address. So a
topology of several nodes is one more variant here: it lists its nodes, and its ``router`` names the owner of a slot by
the node's number. A client's connection to a node is that of the pool with the node in its key.
"""

from collections.abc import Sequence
from typing import Protocol

from proxy.hotpath.router import Router
from proxy.net.address import UpstreamAddress
from proxy.session.ports import SOLE_NODE, Node


class Topology(Protocol):
    """The nodes of a route, by number, and their ``router``: None where one node gets every command.

    Clients begin on the first node. What has no key goes there, too.
    """

    @property
    def nodes(self) -> Sequence[Node]:
        """All nodes, each at the place that its number says."""

    @property
    def router(self) -> Router | None:
        """Which node owns a request's keys."""

    def address(self, node: Node) -> UpstreamAddress:
        """Where this node is now, and how to log in."""


class Single:
    """One server for every command. The hot path looks at no slot."""

    nodes = (SOLE_NODE,)
    router = None

    def __init__(self, address: UpstreamAddress) -> None:
        self._address = address

    def address(self, node: Node) -> UpstreamAddress:
        """The server's address."""
        return self._address

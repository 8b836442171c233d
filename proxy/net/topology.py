"""The servers behind a route: the nodes, their addresses, and the node that owns a key.

Every connection, pool and health check of a route belongs to a node. Only the topology knows the address of a node. A
topology with several nodes is another variant here: it lists its nodes, and its ``router`` returns the number of the
node that owns a slot. The pool of a node has the node in its key (``PoolKey.node``, ``PoolKey.role``).
"""

from collections.abc import Sequence
from typing import Protocol

from proxy.hotpath.router import Router
from proxy.net.address import UpstreamAddress
from proxy.session.pool_key import SOLE_NODE, Node


class Topology(Protocol):
    """The nodes of a route, and their ``router``: None where one node gets every command.

    Clients begin at ``home``, which can stand for any node: ``place`` says for which one now. ``login`` has what all
    nodes have in common: user, password, TLS, database.
    """

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes that commands go to, in the order of their numbers."""

    @property
    def router(self) -> Router | None:
        """Finds the node that owns the keys of a request."""

    @property
    def home(self) -> Node:
        """The node in the keys of clients that have not chosen one."""

    @property
    def login(self) -> UpstreamAddress:
        """How to log in, and with which TLS; also the name of all of it in messages."""

    def address(self, node: Node) -> UpstreamAddress:
        """The current address of this node, and the login."""

    def place(self, node: Node) -> Node:
        """The node that stands for this one: itself, but for ``home``."""

    def doubt(self) -> None:
        """A node is missing or lost: find out soon whether all is as it was."""

    def connected(self, node: Node) -> None:
        """The connection to this node that is always kept stands."""

    def disconnected(self, node: Node) -> None:
        """It is lost, or could not be opened: ``home`` stands for another node."""


class Single:
    """One server for every command. The hot path computes no slots."""

    nodes = (SOLE_NODE,)
    router = None
    home = SOLE_NODE

    def __init__(self, address: UpstreamAddress) -> None:
        self.login = address

    def address(self, node: Node) -> UpstreamAddress:
        """The server's address."""
        return self.login

    def place(self, node: Node) -> Node:
        """The one node."""
        return node

    def doubt(self) -> None:
        """Whether it is there, its connections tell."""

    def connected(self, node: Node) -> None:
        """There is no other one."""

    def disconnected(self, node: Node) -> None:
        """There is no other one."""

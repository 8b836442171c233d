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
    """The nodes of a route, and their ``router``: None where one node gets every command.

    Clients begin at ``home``, which can stand for any node: ``place`` says for which one now. ``login`` has what all
    nodes have in common: user, password, TLS, database.
    """

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes that commands go to, in the order of their numbers."""

    @property
    def router(self) -> Router | None:
        """Which node owns a request's keys."""

    @property
    def home(self) -> Node:
        """The node in the keys of clients that have not chosen one."""

    @property
    def login(self) -> UpstreamAddress:
        """How to log in, and with which TLS; also the name of all of it in messages."""

    def address(self, node: Node) -> UpstreamAddress:
        """Where this node is now, and how to log in."""

    def place(self, node: Node) -> Node:
        """The node that stands for this one: itself, but for ``home``."""

    def doubt(self) -> None:
        """A node is missing or lost: find out soon whether all is as it was."""


class Single:
    """One server for every command. The hot path looks at no slot."""

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

"""The servers behind a route: the nodes, their addresses, and the node that owns a key.

Every connection, pool and health check of a route belongs to a node. Only the topology knows the address of a node. The
pool of a node has the node in its key (``PoolKey.node``, ``PoolKey.role``). There are three topologies:

    Single    one server at one address
    Primary   one server at a time: another one can take its place, and is another node (``primary.py``)
    Cluster   several nodes; the ``router`` returns the number of the node that owns a slot (``cluster.py``)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from proxy.hotpath.cluster.router import Router
from proxy.net.config.address import UpstreamAddress
from proxy.net.config.endpoint import Endpoint
from proxy.net.topology.slot_map import ClusterNode
from proxy.session.ports.pool_key import SOLE_NODE, Node


@dataclass(slots=True)
class Change:
    """What news bring, if there are any (``new``): nodes to which commands go from now on, or not any more. Of the
    latter, ``demoted`` are replicas now, and answer what they still get. ``gone`` are all nodes of a cluster that have
    failed or were forgotten, replicas, too.

    ``heir`` is the node that takes the place of the one that left, together with whoever waits for that one. ``back``:
    the server of before answers again.
    """

    new: bool = False
    came: list[Node] = field(default_factory=list)
    left: list[Node] = field(default_factory=list)
    demoted: list[Node] = field(default_factory=list)
    gone: list[Node] = field(default_factory=list)
    heir: Node | None = None
    back: bool = False


class KnownServer(NamedTuple):
    """A server that had to be found; ``run_id`` is that of its process, where it counts."""

    endpoint: Endpoint
    run_id: bytes | None = None


class Topology(Protocol):
    """The nodes of a route, and their ``router``: None where one node gets every command.

    Clients begin at ``home``, which can stand for any node: ``place`` says for which one now. ``login`` has what all
    nodes have in common: user, password, TLS, database. ``last_known`` are the servers that another worker has found:
    where nobody tells of any, they are asked.
    """

    last_known: Sequence[KnownServer]

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
    def fails_over(self) -> bool:
        """Whether another server can take the place of the one node: commands wait for it."""

    @property
    def login(self) -> UpstreamAddress:
        """How to log in, and with which TLS; also the name of all of it in messages."""

    @property
    def servers(self) -> Sequence[KnownServer]:
        """Those that had to be found: what a worker that takes this one's place begins with."""

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

    def hesitates(self, node: Node, *, late: bool) -> None:
        """Its answer to a health check is late, or has come: meanwhile ``home`` stands for another node."""


class Single:
    """One server for every command. The hot path computes no slots."""

    nodes = (SOLE_NODE,)
    router = None
    home = SOLE_NODE
    fails_over = False
    last_known: Sequence[KnownServer] = ()
    servers: Sequence[KnownServer] = ()

    def __init__(self, address: UpstreamAddress) -> None:
        self.login = address

    def address(self, node: Node) -> UpstreamAddress:
        """The server's address."""
        return self.login

    def known(self) -> Iterator[tuple[str, Node, ClusterNode]]:
        """The server, as a cluster has its members."""
        endpoint = None if self.login.path is not None else Endpoint(self.login.host, self.login.port)
        yield "n1", SOLE_NODE, ClusterNode("" if endpoint is None else str(endpoint), endpoint)

    def place(self, node: Node) -> Node:
        """The one node."""
        return node

    def doubt(self) -> None:
        """Whether it is there, its connections tell."""

    def connected(self, node: Node) -> None:
        """There is no other one."""

    def disconnected(self, node: Node) -> None:
        """There is no other one."""

    def hesitates(self, node: Node, *, late: bool) -> None:
        """There is no other one."""

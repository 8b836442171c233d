"""The nodes of a cluster as sessions see them: who owns a slot, whom a redirect names, and when to look again."""

import asyncio
from collections.abc import Callable, Sequence

from proxy.cluster.cluster_answers import Presented
from proxy.cluster.own_slots import KnownMarks
from proxy.cluster.shares import Advertised, Range, Share, shared_out
from proxy.commands.error_texts import ASKS, endpoint_named
from proxy.commands.slots import SLOTS
from proxy.hotpath.cluster.router import UNOWNED
from proxy.net.config.endpoint import Endpoint
from proxy.net.downstream.waiting import bring_on
from proxy.net.pool.replicas import Answered, Replicas
from proxy.net.topology.cluster import Cluster
from proxy.net.topology.topology import Change
from proxy.session.ports.node_port import NodeFollower, NodePort
from proxy.session.ports.pool_key import Node
from proxy.session.ports.pool_waiter import PoolWaiter

_UNNAMED = "?"


class Nodes(NodePort):
    """Answers from the map in force; ``looked`` is to be called after each look at the cluster."""

    def __init__(
        self, cluster: Cluster, advertised: Sequence[Advertised] = (), replicas: Replicas | None = None
    ) -> None:
        self.known_marks = KnownMarks()
        self._cluster = cluster
        self._replicas = replicas
        self._advertised = advertised
        self._owners: list[int] = []
        self._unowned = 0
        self._shares: tuple[Share, ...] = ()
        self._shared_version = -1
        self._asked: Callable[[Node], None] = lambda _: None
        self._waiting: list[PoolWaiter] = []
        self._followers: set[NodeFollower] = set()

    def when_asked(self, act: Callable[[Node], None]) -> None:
        """Call ``act`` with each node that has answered ASK."""
        self._asked = act

    def presented(self, listener: str) -> Presented | None:
        """The cluster of Keyrails that clients of this listener see; None where they see one Redis."""
        if not self._advertised:
            return None
        if self._shared_version != self._cluster.version:
            self._owners = [self._cluster.router.owner(slot) for slot in range(SLOTS)]
            # All Keyrails share out alike, in whichever order their addresses stand.
            numbers = [node.number for node in self._cluster.nodes]
            self._shares = shared_out(self._owners, sorted(self._advertised), numbers)
            self._unowned = self._owners.count(UNOWNED)
            self._shared_version = self._cluster.version
        return Presented(self._own(listener), self._shares, self._cluster.serves, self._unowned)

    def _own(self, listener: str) -> Advertised:
        host, _, port = listener.rpartition(":")
        alike = [each for each in self._advertised if str(each.port) == port]
        return next((each for each in alike if each.host == host.strip("[]")), (*alike, *self._advertised)[0])

    def primaries(self) -> Sequence[Node]:
        """The nodes that commands go to."""
        return self._cluster.nodes

    def any(self, among: Sequence[Node]) -> Node | None:
        """The node for what any of these can do: the first with a connection, if there is one."""
        return self._cluster.first_connected(among)

    def reachable(self, node: Node) -> bool:
        """Whether it has a connection, and answers, as far as is known."""
        return self._cluster.reaches(node)

    def lost_slots(self) -> Sequence[Range]:
        """Those whose owner has failed, or has no address."""
        return self._cluster.map.lost()

    def size(self) -> int:
        """All numbers of nodes are below this."""
        return 1 + max((node.number for node in self._cluster.nodes), default=-1)

    def node(self, number: int) -> Node | None:
        """The node with this number, if commands go to it."""
        return next((node for node in self._cluster.nodes if node.number == number), None)

    def alias(self, node: Node) -> str:
        """The name of a node for operators."""
        return self._cluster.alias(node)

    def identity(self, node: Node) -> str:
        """Its id in the cluster; empty once it has left."""
        return self._cluster.identity(node)

    def owner(self, slot: int) -> Node | None:
        """The node that owns this slot; None while no living one does, and then the cluster is looked at soon."""
        owner = self.node(self._cluster.router.owner(slot))
        if owner is None:
            self._cluster.doubt()
        return owner

    def redirected(self, error: bytes, by: Node) -> Node | None:
        """The node that a MOVED or ASK of ``by`` names, if commands go to it; the cluster is looked at soon."""
        self._cluster.doubt()
        if ASKS.hinted(error):
            self._asked(by)
        found = endpoint_named(error)
        if found is None:
            return None
        host = found[0].decode("utf-8", "replace")
        if host == _UNNAMED:
            return None
        endpoint = Endpoint(host or self._cluster.address(by).host, found[1])
        return self._cluster.node_at(endpoint)

    def ask_replicas(self, argv: Sequence[bytes], of: Sequence[Node] | None, answered: Answered) -> bool:
        """Send a command to the replicas of these primaries, or to all; ``answered`` gets their names and replies,
        later. False if there are none."""
        return self._replicas is not None and self._replicas.ask(argv, of, answered)

    def await_look(self, waiter: PoolWaiter) -> None:
        """Call ``arrived`` after the next look at the cluster, which begins soon."""
        self._waiting.append(waiter)
        self._cluster.doubt()

    def follow(self, follower: NodeFollower) -> None:
        """Call ``changed`` when nodes have come or gone."""
        self._followers.add(follower)

    def unfollow(self, follower: NodeFollower) -> None:
        """No more."""
        self._followers.discard(follower)

    def adopted(self, change: Change) -> None:
        """Another map is in force."""
        if change.came or change.left:
            for follower in list(self._followers):
                follower.changed(came=bool(change.came))

    def looked(self, loop: asyncio.AbstractEventLoop) -> None:
        """The cluster has been looked at: whoever waited for that goes on."""
        waiting, self._waiting = self._waiting, []
        bring_on(loop, waiting)

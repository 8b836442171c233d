"""The servers behind a route, as a session sees them: the nodes of a cluster, and replicas."""

from collections.abc import Callable, Sequence
from typing import Protocol

from proxy.cluster.cluster_answers import Presented
from proxy.cluster.own_slots import KnownMarks
from proxy.cluster.shares import Range
from proxy.hotpath.plan.replica_reads import ReplicaTerms
from proxy.hotpath.replicas.reader_place import ReaderPlace, Replica, ReplicaGroup
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.session.ports.pool_key import Node, PoolKey
from proxy.session.ports.pool_waiter import PoolWaiter


class KnownScriptsPort(Protocol):
    """The scripts that a node has accepted: others get them, when they come or when a client reads there."""

    def knows(self, text: bytes) -> bool:
        """Whether the script has been remembered; it counts as used."""

    def text_of(self, sha: bytes) -> bytes | None:
        """The script of this SHA1; None if none has been remembered."""

    def remember(self, text: bytes) -> None:
        """A node has accepted this script."""

    def forget(self) -> None:
        """The nodes have forgotten all scripts."""


class ReplicaPort(Protocol):
    """The replicas of the primaries behind a route. With a cluster upstream, these have the numbers by which the router
    names them. ``unknown`` is the group of none."""

    unknown: ReplicaGroup

    @property
    def scripts(self) -> KnownScriptsPort:
        """The scripts that primaries have accepted from clients of this worker."""

    def load(self, upstream: UpstreamPipeline, text: bytes) -> bool:
        """Load the script on this connection, unless that was done: whether its replica takes scripts."""

    def clock(self) -> float:
        """Seconds on a clock that never goes back."""

    def begin(self) -> None:
        """Clients read from replicas from now on: follow closely how they do."""

    def group(self, number: int) -> ReplicaGroup:
        """The replicas of this primary."""

    def reader(
        self, key: PoolKey, place: ReaderPlace, terms: Sequence[ReplicaTerms]
    ) -> tuple[Replica, UpstreamPipeline] | None:
        """A replica of the primary of this place for reads on these terms by clients of this pool, and the connection
        to it: the place's own if it is as good as any. None where there is none; the version of the group changes when
        there may be one."""


class NodeFollower(Protocol):
    """Who has to know when the nodes of a cluster change."""

    def changed(self, *, came: bool) -> None:
        """Nodes have come or gone; whether some have come."""


class NodePort(Protocol):
    """The nodes of a cluster. What a session knows of them holds until its next command: nodes come and go.

    ``known_marks`` is what walks by SCAN know of their marks."""

    known_marks: KnownMarks

    def presented(self, listener: str) -> Presented | None:
        """The cluster of Keyrails that clients of this listener see; None where they see one Redis."""

    def primaries(self) -> Sequence[Node]:
        """The nodes that commands go to."""

    def any(self, among: Sequence[Node]) -> Node | None:
        """The node for what any of these can do: the first with a connection, if there is one."""

    def reachable(self, node: Node) -> bool:
        """Whether it has a connection, and answers, as far as is known."""

    def lost_slots(self) -> Sequence[Range]:
        """Those whose keys are on no node that commands go to: their owner has failed, or has no address."""

    def size(self) -> int:
        """All numbers of nodes are below this."""

    def node(self, number: int) -> Node | None:
        """The node that the router names by this number; None where commands do not go to it any more."""

    def alias(self, node: Node) -> str:
        """The name of a node for operators."""

    def identity(self, node: Node) -> str:
        """The id by which the cluster's nodes know this one."""

    def owner(self, slot: int) -> Node | None:
        """The node that owns this slot; None while no living one does: see ``await_look``."""

    def redirected(self, error: bytes, by: Node) -> Node | None:
        """The node that a MOVED or ASK names, which ``by`` has answered; None where commands do not go to it yet."""

    def ask_replicas(
        self,
        argv: Sequence[bytes],
        of: Sequence[Node] | None,
        answered: Callable[[Sequence[tuple[str, bytes]]], None],
    ) -> bool:
        """Send a command to the replicas of these primaries, or to all, as Keyrail's own user; ``answered`` gets their
        names and replies, later. False if there are none."""

    def follow(self, follower: NodeFollower) -> None:
        """Call ``changed`` when nodes have come or gone."""

    def unfollow(self, follower: NodeFollower) -> None:
        """No more."""

    def await_look(self, waiter: PoolWaiter) -> None:
        """Call ``arrived`` when the nodes have been asked again, within a second or so: the map may be another one."""

"""On which nodes of a cluster each subscription of a client has to be, and from which of them a message counts.

    ordinary channels           one node, their home: PUBLISH reaches the subscribers of all nodes
    ordinary patterns           the first node, their home: PUBLISH goes there, and counts them
                                (the home of both is a node for which the client's address stands, if there is one)
    shard channels              the slot's node
    keyspace notifications      all primaries: each tells of its own keys alone, and replicas tell again
    patterns that match both    all primaries and their home, from which alone ordinary messages count

A node that has become a replica goes on to send ordinary messages, so a home may stay there while it has a link.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from proxy.cluster.notifications import is_notification, may_match_notifications
from proxy.commands.slots import slot_of
from proxy.session.cluster.subscription_link import CHANNELS, PATTERNS, SHARD_CHANNELS, Subscribed, SubscriptionLink
from proxy.session.policy.node_questions import stood_for
from proxy.session.ports.client_identity import Origin
from proxy.session.ports.node_port import NodePort
from proxy.session.ports.pool_key import Node


class SubscriptionPlaces:
    """The places of one client's subscriptions. ``linked`` are the nodes to which it has links; ``chance`` gives random
    numbers in [0, 1). ``moved`` says that a shard channel has another node than it had, ``rehomed`` that patterns have
    another home."""

    def __init__(self, nodes: NodePort, linked: Collection[Node], origin: Origin, chance: Callable[[], float]) -> None:
        self.moved = self.rehomed = False
        self._nodes = nodes
        self._linked = linked
        self._origin = origin
        self._chance = chance
        self._homes: list[Node | None] = [None, None]
        self._avoided: Node | None = None
        self._many = (set[bytes](), set[bytes]())
        self._at: dict[bytes, Node] = {}

    # What there is to place

    def add(self, kind: int, names: Iterable[bytes]) -> None:
        """These have to be subscribed somewhere."""
        if kind != SHARD_CHANNELS:
            self._many[kind].update(filter(is_notification if kind == CHANNELS else may_match_notifications, names))

    def forget(self, kind: int, names: Iterable[bytes]) -> None:
        """These have not, any more."""
        if kind == SHARD_CHANNELS:
            self.displace(names)
        else:
            self._many[kind].difference_update(names)

    def gathers(self) -> bool:
        """Whether something is to be on all primaries."""
        return any(self._many)

    def depends_on_slots(self) -> bool:
        """Whether something is to be on a slot's node."""
        return bool(self._at)

    # Where it is

    def of(self, kind: int, name: bytes) -> Sequence[Node]:
        """The nodes on which it has to be; none where no node can be had now."""
        if kind == SHARD_CHANNELS:
            return self._of_slot(name)
        home = self.home(kind)
        if name not in self._many[kind]:
            return () if home is None else (home,)
        primaries = self._nodes.primaries()
        if kind == CHANNELS or home is None or home in primaries:
            return primaries
        return (*primaries, home)

    def _of_slot(self, name: bytes) -> Sequence[Node]:
        owner = self._nodes.owner(slot_of(name))
        if owner is None:
            return ()
        self.moved = self.moved or self._at.get(name, owner) is not owner
        self._at[name] = owner
        return (owner,)

    def home(self, kind: int) -> Node | None:
        """The node from which ordinary messages come."""
        primaries, home = self._nodes.primaries(), self._homes[kind]
        if home is None or (home not in self._linked and home not in primaries):
            own = stood_for(self._nodes, self._origin)
            candidates = [*own, *primaries]
            if kind == CHANNELS:
                known = [node for node in own if node in self._linked]
                candidates = [*known, *own[int(self._chance() * len(own)) :], *candidates]
            candidates.sort(key=lambda node: node is self._avoided)
            home = self._homes[kind] = next(iter(candidates), None)
            self.rehomed = self.rehomed or kind == PATTERNS
        return home

    def is_confirmed(self, kind: int, name: bytes, links: Mapping[Node, SubscriptionLink]) -> bool:
        """Whether it is subscribed to wherever it has to be."""
        places = self.of(kind, name)
        found = [links.get(node) for node in places]
        return bool(places) and all(link is not None and name in link.confirmed[kind] for link in found)

    def missing(self, names: Subscribed, links: Collection[SubscriptionLink]) -> Iterator[int]:
        """The kinds of those of these names that should come by these links, and do not. Notifications of a node that
        cannot be reached are missed in vain, since the others go on."""
        for kind, of_kind in enumerate(names):
            for name in of_kind - self._many[CHANNELS] if kind == CHANNELS else of_kind:
                node = self._at.get(name) if kind == SHARD_CHANNELS else self._homes[kind]
                if not any(link.node is node and name in link.confirmed[kind] for link in links):
                    yield kind

    def counts(self, kind: int, name: bytes, channel: bytes, link: SubscriptionLink) -> bool:
        """Whether a message of this link is the one that the client gets."""
        if kind == SHARD_CHANNELS:
            return self._at.get(name) is link.node
        if is_notification(channel):
            return link.is_primary
        return link.node is self._homes[kind] and not link.is_fenced

    def overlaps(self, link: SubscriptionLink) -> bool:
        """Whether the link may have got ordinary messages that did not count before its node became the home."""
        return link.node is self._homes[PATTERNS] and bool(link.confirmed[PATTERNS] & self._many[PATTERNS])

    # What changes

    def lose(self, node: Node) -> None:
        """The link to this node is gone. A new one may take as long as the node is down: others come first."""
        self._avoided = node
        self._homes = [None if home is node else home for home in self._homes]
        self.displace([name for name, at in self._at.items() if at is node])

    def avoid(self, node: Node | None) -> None:
        """This node cannot be reached."""
        if node not in self._linked:
            self._avoided = node
            self._homes = [None if home is node else home for home in self._homes]

    def displace(self, names: Iterable[bytes]) -> None:
        """Shard channels that are nowhere now, or not where they were taken to be."""
        for name in names:
            self._at.pop(name, None)

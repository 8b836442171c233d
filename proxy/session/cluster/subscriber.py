"""What a client with a cluster upstream is subscribed to, and the links to nodes over which that reaches it.

The links change under the client: a slot moves, a node fails, leaves the cluster, or becomes a primary. What is missing
then is subscribed to anew, and the client notices nothing but the messages that it does not get meanwhile; these gaps
are counted. What is still missing after ``HELD_SECONDS`` closes the client.
"""

from collections.abc import Iterable, Mapping

from proxy.cluster.hidden_nodes import hidden_redirect
from proxy.commands.error_texts import SUBSCRIBED_ELSEWHERE, SUBSCRIBES_LATER
from proxy.hotpath.upstream.sender_listener import HeldUpstream
from proxy.session.cluster.interjected import InterjectedMessages
from proxy.session.cluster.subscription_gaps import CALM_SECONDS, SubscriptionGaps
from proxy.session.cluster.subscription_link import (
    CHANNELS,
    KINDS,
    PATTERNS,
    SHARD_CHANNELS,
    Asked,
    LinkListener,
    NodeWaiter,
    Subscribed,
    SubscriptionLink,
    nothing,
)
from proxy.session.cluster.subscription_places import SubscriptionPlaces
from proxy.session.guarded import guarded
from proxy.session.item import Change, Ping
from proxy.session.ports.node_port import NodePort
from proxy.session.ports.pool_key import Node
from proxy.session.ports.pool_waiter import LOGIN_LOST, UpstreamWait
from proxy.session.session import Session
from proxy.session.state import Awaited

_AGAIN_SECONDS = 0.1


class Subscriber(LinkListener):
    """The subscriptions of one client. ``names`` is what the client has been told that it is subscribed to."""

    def __init__(self, session: Session, nodes: NodePort) -> None:
        self.ports = session.ports
        self.names: Subscribed = nothing()
        self.change: Change | None = None
        self.links: dict[Node, SubscriptionLink] = {}
        self._session = session
        self._nodes = nodes
        self._ended = False
        self._openings: dict[Node, UpstreamWait] = {}
        self._looking = False
        self._places = SubscriptionPlaces(nodes, self.links.keys(), session.origin, session.ports.route.chance)
        self._messages = InterjectedMessages(session)
        self._gaps = SubscriptionGaps(session, self.names, self.links, self._places)
        nodes.follow(self)

    @property
    def gone(self) -> bool:
        """Whether the client has left, or is subscribed to nothing any more."""
        return self._ended or self._session.gone

    def close(self, cause: str) -> None:
        """Close the client."""
        self._session.close(cause)

    def confines(self) -> bool:
        """Whether the client may do little else: in RESP2, until the last subscription ends."""
        return self._session.key.protocol == 2 and any(self.names)

    def count(self, kind: int) -> int:
        """The number that a confirmation of this kind has."""
        if kind == SHARD_CHANNELS:
            return len(self.names[SHARD_CHANNELS])
        return len(self.names[CHANNELS]) + len(self.names[PATTERNS])

    # Changes by the client

    def begin(self, change: Change) -> None:
        """Ask the nodes for what a command wants."""
        self.change = change
        if change.opening:
            self._places.add(change.kind, change.names)
            self._open_and_ask(change.kind, self._placed(change.kind, change.names))
        else:
            for link in list(self.links.values()):
                link.ask(self._session, change.kind, change.names, opening=False)

    def is_done(self, change: Change) -> bool:
        """Whether all that a command wants is confirmed."""
        left = change.left
        while left and self._is_settled(change, left[-1]):
            left.pop()
        if not left:  # of the others, some may have been lost with their links meanwhile
            left += [name for name in change.names if not self._is_settled(change, name)]
        return not left

    def _is_settled(self, change: Change, name: bytes) -> bool:
        kind = change.kind
        if change.opening:
            return self._places.is_confirmed(kind, name, self.links)
        return not any(name in link.wanted[kind] or name in link.confirmed[kind] for link in self.links.values())

    def end(self, change: Change, *, done: bool) -> None:
        """The command is over. If it is not ``done``, all is to be as it was before."""
        self.change = None
        names = self.names[change.kind]
        if done and change.opening:
            names |= change.names
        elif done:
            names -= change.names
        if done is not change.opening:
            self._places.forget(change.kind, change.names - names)
        if not done or self._openings:
            self.settle()
        self._give_back()

    def ping(self, raw: bytes) -> Ping | None:
        """Send a PING of the client to a node that has subscriptions of it; the session's ``arrived`` is called when
        the reply is there, or the link is lost. None if there is no such node now."""
        link = next((link for link in self.links.values() if any(link.confirmed) and not link.upstream.closed), None)
        return None if link is None else link.ping(self._session, raw)

    @guarded
    def ponged(self) -> None:
        """The reply to a PING is there."""
        self._session.arrived()
        if not all(any(link.wanted) for link in self.links.values()):
            self.ports.route.after(0.0, self._give_back)

    def awaits(self, ping: Ping) -> bool:
        """Whether the link on which the PING was sent is still there."""
        return any(ping in link.pings for link in self.links.values())

    def leave(self) -> None:
        """The client has left, or begins anew."""
        self._ended = True
        self._nodes.unfollow(self)
        self._gaps.end()
        for link in self.links.values():
            link.upstream.owner = None
            self.ports.pools.discard(link.upstream)
            link.release()
        self.links.clear()
        self._wait_no_more(set(self._openings))

    # Where it is subscribed

    def _wanted(self, kind: int) -> set[bytes]:
        change = self.change
        if change is None or change.kind != kind:
            return self.names[kind]
        return self.names[kind] | change.names if change.opening else self.names[kind] - change.names

    def _placed(self, kind: int, names: Iterable[bytes]) -> dict[Node, set[bytes]]:
        # By node; what has no place is looked for again soon.
        placed: dict[Node, set[bytes]] = {}
        for name in names:
            places = self._places.of(kind, name)
            for node in places:
                placed.setdefault(node, set()).add(name)
            if not places:
                self._look()
        if self._places.moved:
            self._places.moved = False
            self._gaps.note()
        if self._places.rehomed:
            self._places.rehomed = False
            for link in filter(self._places.overlaps, self.links.values()):
                link.fence(self._session)
        return placed

    def _open_and_ask(self, kind: int, placed: Mapping[Node, set[bytes]]) -> None:
        for node, names in placed.items():
            link = self.links.get(node)
            if link is not None and link.user != self._session.key.user and not names <= link.wanted[kind]:
                self._replace(link)  # the client has logged in as another user, whose rights count for what is new
                link = None
            link = link or self._open(node)
            if link is not None:
                link.ask(self._session, kind, names, opening=True)

    def settle(self) -> None:
        """Ask each node for what is missing there, and end what does not belong there."""
        useless = set(self._openings)
        for kind in KINDS:
            placed = self._placed(kind, self._wanted(kind))
            for node, link in list(self.links.items()):
                link.ask(self._session, kind, link.wanted[kind] - placed.get(node, set()), opening=False)
            self._open_and_ask(kind, placed)
            useless -= placed.keys()
        self._wait_no_more(useless)
        self._give_back()

    # Links

    def _open(self, node: Node) -> SubscriptionLink | None:
        if node in self._openings:
            return None
        key = self._session.key._replace(node=node)
        upstream = self.ports.pools.private(key)
        if upstream is None:
            self._openings[node] = self.ports.pools.await_private(NodeWaiter(self, node), key)
            return None
        link = self.links[node] = SubscriptionLink(self, upstream)
        link.begin(self._session, self._session.names)
        return link

    @guarded
    def _give_back(self) -> None:
        if self.gone:
            return
        for link in list(self.links.values()):
            if link.is_idle():
                self._end(link)
        if not any(self.names) and self.change is None and not self.links:
            self._ended = True
            self._nodes.unfollow(self)
            self._session.subscriber = None

    def _end(self, link: SubscriptionLink) -> None:
        del self.links[link.node]
        link.upstream.owner = None
        link.upstream.follow(None)
        if link.node in self._nodes.primaries() and not link.upstream.closed:
            self.ports.pools.release(link.upstream)
        else:
            self.ports.pools.discard(link.upstream)

    @guarded
    def may_go_on(self, node: Node | None) -> None:
        """There may be a connection to this node, or another map."""
        self._arrived(node)
        self._go_on()

    def unreached(self, node: Node | None, error: bytes = b"") -> None:
        """There is no connection to this node."""
        self._arrived(node)
        if self.change is not None and error:
            self._fail(error)
        self._places.avoid(node)
        self._look()

    def must_log_in(self) -> None:
        """Only another login of the client would bring a connection."""
        self._session.close_when_drained(LOGIN_LOST)

    def _arrived(self, node: Node | None) -> None:
        if node is None:
            self._looking = False
        else:
            self._wait_no_more({node})

    def _wait_no_more(self, nodes: Iterable[Node]) -> None:
        # Else the client would be closed if no connection came in time, although it needs none there.
        for node in nodes:
            wait = self._openings.pop(node, None)
            if wait is not None:
                wait.end()

    def _look(self) -> None:
        if not self._looking:
            self._looking = True
            self._nodes.await_look(NodeWaiter(self))

    # What happens to links

    @guarded
    def answered(self, link: SubscriptionLink) -> None:
        """All that one command has asked a node for is confirmed."""
        self._tell_if_done()
        self._give_back()

    @guarded
    def refused(self, link: SubscriptionLink, asked: Asked, error: bytes) -> None:
        """A node refuses a command."""
        change = self.change
        if not asked.opening:
            # Nobody knows what it is subscribed to, unless the slot has left anyway.
            self._drop(link)
            if change is not None and not change.opening and not SUBSCRIBED_ELSEWHERE.begin(error):
                self._fail(error)
            self._tell_if_done()
        elif SUBSCRIBED_ELSEWHERE.begin(error):
            self._places.displace(asked.names)
            self._look()
        elif change is None or not asked.names & change.names or SUBSCRIBES_LATER.begin(error):
            self.ports.route.after(_AGAIN_SECONDS if SUBSCRIBES_LATER.begin(error) else CALM_SECONDS, self._go_on)
        else:
            self._fail(error)

    @guarded
    def out_of_step(self, link: SubscriptionLink) -> None:
        """What a node has sent cannot be an answer: begin anew."""
        self._drop(link)

    @guarded
    def ended(self, link: SubscriptionLink, kind: int, name: bytes) -> None:
        """The slot has left: the owner may be known already."""
        self._gaps.note()
        self._places.displace([name])
        self._open_and_ask(kind, self._placed(kind, {name} & self._wanted(kind)))

    @guarded
    def lost(self, link: SubscriptionLink) -> None:
        """The connection is gone."""
        if self.links.get(link.node) is link:
            link.upstream.owner = None
            del self.links[link.node]
            self._miss(link)
        link.release()

    def _drop(self, link: SubscriptionLink) -> None:
        if self.links.get(link.node) is link:
            self._discard(link)
            self._miss(link)

    def _replace(self, link: SubscriptionLink) -> None:
        self._discard(link)
        self._gaps.note()
        self.ports.route.after(0.0, self._go_on)

    def _discard(self, link: SubscriptionLink) -> None:
        del self.links[link.node]
        link.upstream.owner = None
        self.ports.pools.discard(link.upstream)

    def _miss(self, link: SubscriptionLink) -> None:
        # What it had is subscribed to anew, in the next turn of the loop.
        again = self._gaps.began_just_now()
        if any(link.confirmed):
            self._gaps.note()
        self._places.lose(link.node)
        if again or self._nodes.primaries() == [link.node]:
            self._look()
        else:
            self.ports.route.after(0.0, self._go_on)

    @guarded
    def _go_on(self) -> None:
        if not self.gone:
            self.settle()
            self._tell_if_done()
            if self._session.awaited is Awaited.SUBSCRIPTION:
                self._session.arrived()  # a PING that was lost with its link is sent again

    def changed(self, *, came: bool) -> None:
        """Nodes have come or gone; where some ``came``, their notifications may have been missed."""
        primaries = self._nodes.primaries()
        for link in list(self.links.values()):
            was_primary, link.is_primary = link.is_primary, link.node in primaries
            if self._places.gathers() and link.is_primary and not was_primary:
                self._drop(link)  # what it has sent as a replica may still come
        if came and self._places.gathers():
            self._gaps.note()
        if self._places.gathers() or self._places.depends_on_slots():
            self._go_on()

    # What the client is told

    def _tell_if_done(self) -> None:
        if self.change is not None and self.is_done(self.change):
            self._session.arrived()

    def _fail(self, error: bytes) -> None:
        if self.change is not None:
            self.change.error = hidden_redirect(error)
            self._session.arrived()

    def message(self, link: SubscriptionLink, kind: int, name: bytes, channel: bytes, frame: bytes) -> None:
        """A message has come: to the client, if this is the link that it counts from."""
        if name not in self.names[kind] or self.links.get(link.node) is not link:
            return
        if self._places.counts(kind, name, channel, link):
            self._messages.add(frame, link.protocol)
            reads = self._session.sender.reads
            if reads is not None:
                reads.note_everywhere(False)  # replicas may lack what it tells of

    def send_messages(self) -> bool:
        """Send what has come to the client, between its replies; whether it takes more."""
        return self._messages.send()

    def advance(self) -> None:
        """Replies of the client have come to their end."""
        self._messages.advance()

    # For the network side

    def waiting(self) -> int:
        """Bytes that the client has been sent and has not taken."""
        return self._session.waiting()

    def hold_upstream(self, upstream: HeldUpstream) -> None:
        """Resume the upstream when the client has caught up."""
        self._session.hold_upstream(upstream)

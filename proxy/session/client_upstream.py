"""The upstream side of a session: the state of its connection, shared or its own, and which commands the intake may
send there."""

from typing import Protocol

from proxy.hotpath.intake.command_sender import CommandSender
from proxy.hotpath.intake.intake import Intake
from proxy.session.client_link import LinkedClient
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.pool_key import Node, PoolKey
from proxy.session.ports.ports import Ports
from proxy.session.state import POOLED, ClientState, Event, Pinned, unpinned


class NodeSubscriptions(Protocol):
    """What a client with a cluster upstream is subscribed to."""

    def confines(self) -> bool:
        """Whether the client may do little else."""

    def advance(self) -> None:
        """Replies of the client have come to their end."""

    def leave(self) -> None:
        """The client has left, or begins anew."""


class UpstreamClient(LinkedClient):
    """A client and its connections to Redis. ``key`` is its pool: user, database and protocol. With a cluster upstream,
    ``node`` is that of the keys of the command at hand."""

    __slots__ = ("key", "node", "state", "subscriber")

    def __init__(self, ports: Ports, sender: CommandSender, intake: Intake, key: PoolKey) -> None:
        super().__init__(ports, sender, intake)
        self.key = key
        self.node: Node | None = None
        self.state: ClientState = POOLED
        self.subscriber: NodeSubscriptions | None = None

    @property
    def on_its_own(self) -> Pinned:
        """The state of a client that has an upstream for itself."""
        state = self.state
        assert type(state) is Pinned, "only a private upstream holds state of a client"
        return state

    def happens(self, event: Event) -> None:
        """Something changes for how long the private upstream is kept, if there still is one."""
        if type(self.state) is Pinned:
            self.state.happens(event)

    def set_state(self, state: ClientState) -> None:
        """A transaction or a WATCH has begun or ended: meanwhile the upstream takes nobody else's commands."""
        self.state = state
        self.settle_nodes()
        if self.sender.upstream is not None:
            open_unit = state.transaction is not None or state.watching is not None
            self.sender.upstream.unit = self.sender if open_unit else None

    def settle_nodes(self) -> None:
        """With a cluster upstream, a client without state on a connection has one for each node."""
        nodes, known = self.ports.nodes, self.sender.nodes or []
        if nodes is not None:
            missing = nodes.size() - len(known)
            self.sender.nodes = known + [None] * missing if self.state is POOLED else None

    def plain_commands(self) -> bytes:
        """What the intake may send by itself: nothing to the one node of a private upstream with a cluster upstream,
        and nothing of a tenant's to a private one, where a transaction's replies may need edits."""
        config, own = self.intake.config, self.state.upstream is not None
        if self.subscriber is not None and self.subscriber.confines():
            return bytes(len(config.pinned))
        if own and (self.ports.nodes is not None or self.intake.prefix):
            return bytes(len(config.pinned))
        return config.pinned if own else config.pooled

    def place(self) -> PoolKey:
        """The pool for a private upstream: on the node of the command at hand, if it has one."""
        return self.key if self.node is None else self.key._replace(node=self.node)

    def keeps_pin(self) -> bool:
        """Whether the private upstream still holds state of this client, or an unfinished command."""
        state = self.state
        return self.intake.streams() or (type(state) is Pinned and state.holds())

    def unpin(self) -> None:
        """Give the private upstream back: it holds nothing of this client any more."""
        spoiled = type(self.state) is Pinned and self.state.spoiled
        upstream = self.leave_upstream()
        if upstream is not None:
            upstream.follow(None)
            if spoiled:
                self.ports.pools.close_gracefully(upstream)
            elif not upstream.closed:
                self.ports.pools.release(upstream)

    def leave_upstream(self) -> PrivatePipeline | None:
        """The private upstream, if there is one, is this client's no more; the caller says what becomes of it."""
        upstream = self.state.upstream
        if upstream is None:
            return None
        self.state = unpinned(self.state)
        if self.sender.reads is not None:
            self.sender.reads.primary = None
            self.sender.reads.note_everywhere(True)
        upstream.owner = upstream.push_edit = None
        self.sender.upstream = None
        self.settle_nodes()
        self.intake.direct = False
        self.intake.simple = self.plain_commands()
        return upstream

    def let_go(self) -> bool:
        """The private upstream is lost: whether nothing of this client is lost with it."""
        own_login = self.key.user is not None and self.ports.nodes is None
        if self.sender.pending_replies > 0 or self.keeps_pin() or own_login:
            return False
        self.unpin()
        return True

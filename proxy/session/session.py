"""One client: its identity, the state of its connection, and the policy in force for it.

It holds what the client has sent to Redis (``sender``), what has arrived from it and is not read yet (``intake``), and
its transport (``link``). The handlers are functions that take it, each with the commands of one subject;
``dispatcher.py`` chooses the handler for a command. What the session calls of them comes in as ``Handlers``.

Commands and answers of Keyrail's own fall silent where CLIENT REPLY says so.
"""

from collections.abc import Callable, Hashable
from typing import NamedTuple, Protocol

from proxy.commands.command import Command
from proxy.hotpath.command_sender import CommandSender
from proxy.hotpath.in_flight import InFlightEntry
from proxy.hotpath.intake import READING, Intake
from proxy.hotpath.intake_handler import IntakeHandler
from proxy.hotpath.reply_order import MOST_HELD, Segment
from proxy.hotpath.sender_listener import HeldUpstream
from proxy.hotpath.upstream_pipeline import UpstreamPipeline
from proxy.policy.apps import Caller
from proxy.policy.decision import Decision
from proxy.rules.context import NO_SLOT
from proxy.rules.limit_membership import LimitMembership
from proxy.session.client_identity import UNNAMED, Origin
from proxy.session.client_link import UPSTREAM_CONGESTED, ClientLink, ClientTransport
from proxy.session.guarded import guarded
from proxy.session.item import FollowUp, Item, ReadRun, ScriptSearch
from proxy.session.login_port import LoginPort
from proxy.session.pool_key import Node, PoolKey
from proxy.session.pool_waiter import UpstreamWait
from proxy.session.ports import CommandName, EffectivePolicy, Ports, PrivatePipeline, TracedCommand
from proxy.session.running_procedure import RunningProcedure
from proxy.session.state import (
    LACKING,
    POOLED,
    Awaited,
    ClientState,
    Event,
    Keeping,
    Pinned,
    unpinned,
)
from proxy.wire.request import COMPLETE, Request, RequestLimits


class NodeSubscriptions(Protocol):
    """What a client with a cluster upstream is subscribed to."""

    def confines(self) -> bool:
        """Whether the client may do little else."""

    def advance(self) -> None:
        """Replies of the client have come to their end."""

    def leave(self) -> None:
        """The client has left, or begins anew."""


class Handlers(NamedTuple):
    """What a session calls of its handlers, which import it."""

    dispatcher: Callable[["Session"], IntakeHandler]
    catch_up: Callable[["Session"], bool]
    begin_reads: Callable[["Session"], None]
    redirected: Callable[["Session", UpstreamPipeline, InFlightEntry, bytes], bytes | None]
    turn_away: Callable[["Session", bytes, str], None]
    leave: Callable[["Session"], None]


class Session:
    """One client. ``key`` is its pool: user, database and protocol. With a cluster upstream, ``node`` is that of the
    keys of the command at hand. ``may_have_follow_ups`` says that something may have to follow the commands that are
    under way, and ``deferred`` holds what has to wait until it may. ``overtaking`` is the place of the reply to the
    command that has overtaken others, which the next one waits for. ``lacking`` says since when the next command waits
    for something that Keyrail lacks, and how many commands had been sent by then.
    """

    __slots__ = (
        "awaited",
        "deferred",
        "effective_policy",
        "handlers",
        "held",
        "home",
        "intake",
        "judged_calls",
        "key",
        "lacking",
        "limit_membership",
        "link",
        "local",
        "local_user",
        "logins",
        "may_have_follow_ups",
        "n_plus_one",
        "names",
        "no_hidden_commands",
        "no_transactions",
        "node",
        "origin",
        "overtaking",
        "ports",
        "probe",
        "redirects",
        "resolved",
        "running_procedure",
        "search",
        "sender",
        "slot",
        "state",
        "subscriber",
        "trace",
        "unreachable",
        "unreached_since",
        "upstream_wait",
        "wants_login",
    )

    def __init__(
        self,
        handlers: Handlers,
        ports: Ports,
        home: PoolKey,
        limits: RequestLimits,
        listener: str = "",
        logins: LoginPort | None = None,
    ) -> None:
        effective_policy = ports.policies.effective_policy(home, Caller(home.user_name, listener=listener))
        self.sender = CommandSender(self, effective_policy.config.window // 2)
        self.intake = Intake(effective_policy.config, limits, self.sender, handlers.dispatcher(self))
        self.handlers = handlers
        self.ports = ports
        self.link = ClientLink()
        self.state: ClientState = POOLED
        self.local = 0
        self.logins = ports.logins if logins is None else logins
        self.local_user = ""
        self.key = home
        self.node: Node | None = None
        self.unreached_since: float | None = None
        self.unreachable = False
        self.wants_login = b""
        self.names = UNNAMED
        self.origin = Origin(listener)
        self.effective_policy: EffectivePolicy = effective_policy
        self.slot = NO_SLOT
        self.judged_calls = 0
        self.limit_membership: LimitMembership | None = None
        self.home = home
        self.awaited: Awaited | None = None
        self.upstream_wait: UpstreamWait | None = None
        self.overtaking: Segment | None = None
        self.lacking: tuple[float, int] | None = None
        self.held: Item | None = None
        self.running_procedure: RunningProcedure | None = None
        self.resolved: Decision | None = None
        self.may_have_follow_ups = False
        self.deferred: dict[Hashable, FollowUp] | None = None
        self.no_hidden_commands = ""
        self.no_transactions = False
        self.search: ScriptSearch | None = None
        self.probe: CommandName | None = None
        self.trace: TracedCommand | None = None
        self.redirects: Callable[[UpstreamPipeline, InFlightEntry, bytes], None] | None = None
        self.n_plus_one: ReadRun | None = None
        self.subscriber: NodeSubscriptions | None = None

    # The state of its connection

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
        """What the intake may send by itself: with a cluster upstream, nothing to the one node of a private
        upstream."""
        config, own = self.intake.config, self.state.upstream is not None
        if self.subscriber is not None and self.subscriber.confines():
            return bytes(len(config.pinned))
        alone = config.pinned if self.ports.nodes is None else bytes(len(config.pinned))
        return alone if own else config.pooled

    def place(self) -> PoolKey:
        """The pool for a private upstream: on the node of the command at hand, if it has one."""
        return self.key if self.node is None else self.key._replace(node=self.node)

    def keeps_pin(self) -> bool:
        """Whether the private upstream still holds state of this client, or an unfinished command."""
        state = self.state
        return self.intake.streams() or (type(state) is Pinned and state.holds())

    # Who it is, and the policy for that

    def enter(self, key: PoolKey) -> None:
        """The client belongs to this pool now: nothing of another one is used for its next command."""
        self.key = key
        self.no_transactions = False
        if self.state.upstream is None:
            self.sender.upstream = self.sender.nodes = None
            self.settle_nodes()
            self.intake.direct = False
        self._choose_replicas_anew()

    def _choose_replicas_anew(self) -> None:
        # Others may be for its pool, or nearby by the policy.
        if self.sender.reads is not None:
            self.sender.reads.choose_anew(self.shares_replicas())

    def shares_replicas(self) -> bool:
        """Whether clients of its pool may read from replicas: the connections to them are of the route's own user."""
        return self.key.user is None and self.ports.route.pooling

    @property
    def user_name(self) -> str:
        """The user as rules and figures know it: Redis's, or one of the listener's password file."""
        return self.local_user or self.key.user_name

    def reconsider(self) -> None:
        """Who the client is has changed, or the policy: other limits may hold."""
        self.intake.token_sets = None
        if self.limit_membership is not None:
            self.limit_membership.leave(self.sender)
            self.limit_membership = None

    def caller(self) -> Caller:
        """The client, as policies identify apps."""
        name = self.names.client.decode("utf-8", "replace")
        return Caller(self.user_name, name, self.origin.listener, self.origin.certificate)

    def rename(self, name: bytes) -> None:
        """The client has another name, by which it may be of another app."""
        if name != self.names.client:
            self.names = self.names._replace(client=name)
            self.reconsider()
            self.adopt()

    def adopt(self) -> None:
        """Take over the policy that is in force now; a transaction keeps the one that it began with."""
        if self.state.transaction is not None:
            self.state.transaction.outdated = True
            return
        self.reconsider()
        self.effective_policy = self.ports.policies.effective_policy(self.key, self.caller())
        self.intake.config = self.effective_policy.config
        self.intake.simple = self.plain_commands()
        self.settle_reads()
        self._choose_replicas_anew()
        if self.held is not None:
            self.held.terms = None  # of the policy before: the primary answers

    def settle_reads(self) -> None:
        """Who the client is, its database or the policy has changed: so may what it is answered from memory."""
        caches = self.ports.caches
        if caches is not None:
            self.intake.cached_reads = caches.reads_of(self, self.intake.cached_reads)

    # Waiting, and its upstreams

    def wait_for(self, awaited: Awaited) -> None:
        """Forward nothing until somebody calls ``arrived``."""
        self.awaited = awaited
        if awaited in LACKING and self.lacks_since() is None:
            self.lacking = self.ports.route.now(), self.sender.requested + self.local
        self.intake.wait()

    def wait_for_upstream(self, wait: UpstreamWait) -> None:
        """The same, and end this wait then."""
        self.wait_for(Awaited.UPSTREAM)
        self.upstream_wait = wait

    def lacks_since(self) -> float | None:
        """Since when the next command waits for something that Keyrail lacks; None if it does not."""
        lacking = self.lacking
        if lacking is not None and lacking[1] != self.sender.requested + self.local:
            lacking = self.lacking = None  # the command that waited has been sent, or answered
        return None if lacking is None else lacking[0]

    def has_left(self, waits_since: float | None) -> bool:
        """Whether the client has left, as is asked right before what waited is sent. Then it is closed."""
        waited = 0.0 if waits_since is None else self.ports.route.now() - waits_since
        if not self.ports.route.has_left(self.link.transport, waited):
            return False
        self.close("gave_up")
        return True

    def stop_waiting(self) -> None:
        """Nothing is awaited any more."""
        self.awaited = None
        if self.upstream_wait is not None:
            self.upstream_wait.end()
            self.upstream_wait = None
        self.intake.go_on()

    @guarded
    def arrived(self) -> None:
        """What it waits for may be there, or what it waited for once and gave up."""
        if self.awaited is not None and self.intake.running:
            # In the middle of the command that has just begun to wait: nothing would bring it on after that.
            self.ports.route.after(0.0, self.arrived)
            return
        if self.awaited is not None and not self.gone and not self._waits_on():
            self._go_on()
        self.link.close_if_done(self)

    def _go_on(self) -> None:
        self.stop_waiting()
        self.intake.resume()

    def _waits_on(self) -> bool:
        # Where a command has been sent already, its reply decides who the client is then, and where the next one goes.
        if self.awaited is Awaited.REPLIES and self.sender.pending_replies > 0:
            self.sender.notify_when_idle = True
            return True
        return self.awaited is Awaited.REPLICA or self._awaits_elsewhere()

    def _awaits_elsewhere(self) -> bool:
        # Whether the reply to a command that has overtaken others is pending, which the next command waits for.
        if self.overtaking is not None and self.overtaking.pending_replies == 0:
            self.overtaking = None
        return self.overtaking is not None

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
        upstream.owner = None
        self.sender.upstream = None
        self.settle_nodes()
        self.intake.direct = False
        self.intake.simple = self.plain_commands()
        return upstream

    # What its sender tells

    @guarded
    def on_idle(self) -> None:
        """No reply is pending: a private upstream whose state has ended goes back, and the next command goes on."""
        state = self.state
        if type(state) is Pinned:
            state.replies_have_come()
        if self.deferred and self.handlers.catch_up(self):
            self.sender.notify_when_idle = True
        elif type(state) is Pinned and state.keeping is not Keeping.LINGERING and not self.keeps_pin():
            self.unpin()
        if self.ports.caches is not None:
            self.ports.caches.look_again(self.sender)
        self.arrived()
        if self.gone:
            self._break_references()

    @guarded
    def on_resume(self) -> None:
        """Few enough replies are pending."""
        if self.subscriber is not None:
            self.on_advance()
        self.intake.resume()
        self.link.close_if_done(self)

    @guarded
    def on_advance(self) -> None:
        """Some of the replies that several sources send have come."""
        order = self.sender.order
        if self.subscriber is not None:
            self.subscriber.advance()
        if not self.sender.full and (order is None or order.size <= MOST_HELD):
            self.sender.notify_on_advance = self.subscriber is not None or self.overtaking is not None
            self.link.release_upstreams(self)
        if self.overtaking is not None and not self._awaits_elsewhere():
            self.arrived()

    @guarded
    def on_large_reply(self, run: bytes, index: int, size: int) -> None:
        """A reply of at least ``size`` bytes has begun, to one of these commands: tell of its key, if it has one."""
        request = Request()
        for _ in range(index + 1):
            if request.scan(run, request.end, self.intake.limits) != COMPLETE:
                return
        command = Command(self.effective_policy.table, request.arguments())
        if len(command.known_keys) == 1:
            self.ports.traces.observe_large(self, command.known_keys[0].name, size)

    @guarded
    def begin_reads(self) -> None:
        """The policy lets replicas answer some reads."""
        self.handlers.begin_reads(self)

    def hold_reads(self) -> bool:
        """Send nothing more for a moment: then it is known which replica has all that the client has seen."""
        calm = self.awaited is None and self.held is None and not self.intake.running and not self.gone
        if not calm or self.state is not POOLED or self.intake.phase != READING or self.intake.streams():
            return False
        self.wait_for(Awaited.REPLICA)
        return True

    @guarded
    def release_reads(self) -> None:
        """Go on."""
        if self.awaited is Awaited.REPLICA:
            self._go_on()
            self.link.close_if_done(self)

    # What connections to Redis ask

    def on_redirect(self, upstream: UpstreamPipeline, entry: InFlightEntry, error: bytes) -> bytes | None:
        """The next frame of this connection's head is MOVED or one of its kin: what to tell instead, or None."""
        return self.handlers.redirected(self, upstream, entry, error)

    @property
    def gone(self) -> bool:
        """Whether the client has left."""
        return self.sender.gone

    @property
    def blocked(self) -> bool:
        """Whether Redis may hold a reply back until something happens."""
        return self.state.blocked > 0

    def let_go(self) -> bool:
        """The private upstream is lost: whether nothing of this client is lost with it."""
        own_login = self.key.user is not None and self.ports.nodes is None
        if self.sender.pending_replies > 0 or self.keeps_pin() or own_login:
            return False
        self.unpin()
        return True

    def waiting(self) -> int:
        """Bytes that the client has been sent and has not taken, or that wait for replies before them."""
        order = self.sender.order
        return self.link.unsent() + (0 if order is None else order.size)

    def hold_upstream(self, upstream: HeldUpstream) -> None:
        """Resume the upstream when the client has caught up."""
        self.sender.notify_on_advance = True
        self.link.hold_upstream(upstream)

    def pause_source(self) -> None:
        """The private upstream takes no more."""
        self.link.pause(UPSTREAM_CONGESTED)

    def resume_source(self) -> None:
        """The private upstream takes more again."""
        self.link.resume(UPSTREAM_CONGESTED)

    # Its connection

    def connected(self, transport: ClientTransport, address: str, certificate: str) -> None:
        """The client is there: its address, and the subject of its certificate if it has shown one."""
        self.link.transport = transport
        self.sender.write = transport.write
        self.origin = Origin(self.origin.listener, address, certificate)
        if certificate:
            self.adopt()
        else:
            self.settle_reads()

    def end_of_stream(self) -> bool:
        """The client sends no more: whether it has still to be answered. One that is blocked has left."""
        return not self.state.blocked and self.link.half_close(self)

    def pause_writing(self) -> None:
        """The client does not read its replies: nothing more is forwarded for it."""
        self.sender.full = True

    @guarded
    def resume_writing(self) -> None:
        """The client has caught up."""
        self.sender.full = False
        self.link.release_upstreams(self)
        self.intake.resume()

    def connection_lost(self) -> None:
        """The connection is closed."""
        if not self.gone:
            self.on_close()
        self.link.release_upstreams(self)
        self.link.transport = None
        self._break_references()

    def _break_references(self) -> None:
        # The connection is closed and no reply is pending: without circles of references, the client is freed now.
        if self.link.transport is None:
            if self.sender.pending_replies > 0:
                self.sender.notify_when_idle = True
            else:
                self.sender.listener = None
                self.sender.upstream = self.sender.nodes = None
                self.intake.handler = None
                self.redirects = self.search = self.trace = self.held = None

    def assembling(self, size: int) -> None:
        """An unfinished command grows."""
        if size > self.ports.route.query_limit:
            self.close("query_limit")

    # Its end

    def close(self, cause: str) -> None:
        """Close the client now; ``cause`` is the label that metrics show."""
        self.link.close(self, cause)

    def close_when_drained(self, cause: str) -> None:
        """Read no more of the client, and close it when no reply is pending."""
        self.link.close_when_drained(self, cause)

    def turn_away(self, error: bytes, cause: str) -> None:
        """Close the client with an error that Redis would have given, behind the replies that it still gets."""
        self.handlers.turn_away(self, error, cause)

    def end_probe(self) -> None:
        """If it asks about a command, it does not any more; others may."""
        if self.probe is not None:
            self.ports.capabilities.end_probe(self.probe, False)
            self.probe = None

    def end_subscriptions(self) -> None:
        """With a cluster upstream: the client is subscribed to nothing any more."""
        if self.subscriber is not None:
            self.subscriber.leave()
            self.subscriber = None

    def on_close(self) -> None:
        """The client has left."""
        self.handlers.leave(self)

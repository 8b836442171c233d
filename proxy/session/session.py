"""One client: its identity, the state of its connection, and the policy in force for it.

It holds what the client has sent to Redis (``sender``), what has arrived from it and is not read yet (``intake``), and
its transport (``client_link.py``). The handlers are functions that take it, each with the commands of one subject;
``dispatcher.py`` chooses the handler for a command. What the session calls of them comes in as ``Handlers``.

Commands and answers of Keyrail's own fall silent where CLIENT REPLY says so.
"""

from collections.abc import Callable, Hashable
from typing import NamedTuple

from proxy.commands.command import Command
from proxy.hotpath.counting.call_counts import CallCounts
from proxy.hotpath.intake.command_sender import CommandSender
from proxy.hotpath.intake.intake import READING, Intake
from proxy.hotpath.intake.intake_handler import IntakeHandler
from proxy.hotpath.order.reply_order import MOST_HELD
from proxy.hotpath.upstream.in_flight import InFlightEntry
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.policy.apps import Caller
from proxy.policy.tenants import Tenant
from proxy.rules.context import NO_SLOT
from proxy.rules.limit_membership import LimitMembership
from proxy.session import reply_mode
from proxy.session.client_waits import AwaitingClient
from proxy.session.guarded import guarded
from proxy.session.item import FollowUp, Item, ReadRun
from proxy.session.ports.client import ClientTransport, EffectivePolicy
from proxy.session.ports.client_identity import UNNAMED, Names, Origin
from proxy.session.ports.login_port import LoginPort
from proxy.session.ports.open_trace import OpenTrace
from proxy.session.ports.pool_key import PoolKey
from proxy.session.ports.ports import CommandName, Ports
from proxy.session.progress import Step
from proxy.session.state import POOLED, Awaited, Keeping, Pinned
from proxy.tenants.messages import message_edit
from proxy.wire.request import COMPLETE, Request, RequestLimits


class Handlers(NamedTuple):
    """What a session calls of its handlers, which import it."""

    dispatcher: Callable[["Session"], IntakeHandler]
    catch_up: Callable[["Session"], bool]
    begin_reads: Callable[["Session"], None]
    redirected: Callable[["Session", UpstreamPipeline, InFlightEntry, bytes], bytes | None]
    turn_away: Callable[["Session", bytes, str], None]
    leave: Callable[["Session"], None]
    to_primary: Callable[["Session", Item], Step[None] | None]


_UNIDENTIFIED = CallCounts(0)
"""Until it is known who the client is."""


class Session(AwaitingClient):
    """One client. ``may_have_follow_ups`` says that something may have to follow the commands that are under way, and
    ``deferred`` holds what has to wait until it may. ``search`` is that for scripts of a command whose text is still to
    come. ``tracks_no_loop``: Redis tells it nothing of keys that its own connection changes.
    """

    __slots__ = (
        "deferred",
        "effective_policy",
        "handlers",
        "held",
        "home",
        "judged_calls",
        "limit_membership",
        "local_user",
        "logins",
        "may_have_follow_ups",
        "n_plus_one",
        "names",
        "no_hidden_commands",
        "no_transactions",
        "origin",
        "probe",
        "redirects",
        "search",
        "slot",
        "tenant",
        "tenant_changed",
        "trace",
        "tracks_no_loop",
        "unreachable",
        "unreached_since",
        "untold",
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
        sender = CommandSender(self, effective_policy.config.window // 2)
        intake = Intake(effective_policy.config, limits, sender, handlers.dispatcher(self), _UNIDENTIFIED)
        super().__init__(ports, sender, intake, home)
        self.handlers = handlers
        self.logins = ports.logins if logins is None else logins
        self.local_user = ""
        self.unreached_since: float | None = None
        self.unreachable = False
        self.wants_login = b""
        self.names = self.untold = UNNAMED
        self.origin = Origin(listener)
        self.effective_policy: EffectivePolicy = effective_policy
        self.tenant_changed = False
        self._become(self._whose_tenant())
        self.count_by_identity()
        self.slot = NO_SLOT
        self.judged_calls = 0
        self.limit_membership: LimitMembership | None = None
        self.home = home
        self.held: Item | None = None
        self.may_have_follow_ups = False
        self.deferred: dict[Hashable, FollowUp] | None = None
        self.no_hidden_commands = ""
        self.no_transactions = self.tracks_no_loop = False
        self.search: Step[None] | None = None
        self.probe: CommandName | None = None
        self.trace: OpenTrace | None = None
        self.redirects: Callable[[UpstreamPipeline, InFlightEntry, bytes], None] | None = None
        self.n_plus_one: ReadRun | None = None

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
        """The user as rules and figures know it: Redis's, also where it is the route's own, or one of the listener's
        password file."""
        return self.local_user or self.key.user_name

    def reconsider(self) -> None:
        """Who the client is has changed, or the policy: other limits may hold."""
        self.intake.token_sets = None
        if self.limit_membership is not None:
            self.limit_membership.leave(self.sender)
            self.limit_membership = None

    @property
    def shown_names(self) -> Names:
        """Its names, with the library that it has named to an engine that does not ask for that."""
        untold = self.untold
        if untold is UNNAMED or self.names.library:
            return self.names
        return self.names._replace(library=untold.library, version=untold.version)

    def caller(self) -> Caller:
        """The client, as policies identify apps."""
        name = self.names.client.decode("utf-8", "replace")
        return Caller(self.user_name, name, self.origin.listener, self.origin.certificate, self.origin.host)

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
        self.intake.missed = False  # a command that waits for memory is judged anew
        self.intake.config = self.effective_policy.config
        self._settle_tenant()
        self.intake.simple = self.plain_commands()
        self.count_by_identity()
        self.settle_reads()
        self._choose_replicas_anew()
        if self.held is not None:
            self.held.terms = None  # of the policy before: the primary answers

    def _whose_tenant(self) -> Tenant | None:
        compiled = self.effective_policy.compiled
        return compiled.policy.tenants.of(compiled.app, self.user_name, self.origin.listener)

    def _become(self, tenant: Tenant | None) -> None:
        self.tenant = tenant
        self.intake.prefix = b"" if tenant is None else tenant.prefix

    def push_edit(self) -> Callable[[bytes], bytes] | None:
        """The edit of what Redis sends the client unasked: none but to one of a tenant."""
        return None if self.tenant is None else message_edit(self.tenant.prefix)

    def _settle_tenant(self) -> None:
        # Names that the client knows, or that its connection holds, would mean other keys behind another prefix.
        before = self.tenant
        self._become(self._whose_tenant())
        if self.state.upstream is not None:
            self.state.upstream.push_edit = self.push_edit()
        same = before is self.tenant if before is None else before.sees_as(self.tenant)
        if same or not self._holds_names():
            return
        if self.state.blocked:
            self.close("tenant_changed")
        elif self.intake.running:
            self.tenant_changed = True
        else:
            self.close_when_drained("tenant_changed")

    def _holds_names(self) -> bool:
        state, subscribed = self.state, self.subscriber is not None or self.state.subscriptions is not None
        unit = state.watching is not None or state.transaction is not None or self.intake.streams()
        tracks = bool(self.no_hidden_commands) or state.reply_mode != reply_mode.ON
        return self.intake.used_prefix or subscribed or unit or tracks

    def count_by_identity(self) -> None:
        """Who the client is may have changed: its commands are counted with those of all that are not told from it."""
        self.intake.calls = self.ports.policies.calls_of(self)

    def settle_reads(self) -> None:
        """Who the client is, its database or the policy has changed: so may what it is answered from memory."""
        caches = self.ports.caches
        if caches is not None:
            self.intake.cached_reads = caches.reads_of(self, self.intake.cached_reads)

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
        self.close_if_done()

    @guarded
    def on_advance(self) -> None:
        """Some of the replies that several sources send have come."""
        order = self.sender.order
        if self.subscriber is not None:
            self.subscriber.advance()
        if not self.sender.full and (order is None or order.size <= MOST_HELD):
            self.sender.notify_on_advance = self.subscriber is not None or self.overtaking is not None
            self._release_upstreams()
        if self.overtaking is not None and not self._awaits_elsewhere():
            self.arrived()

    @guarded
    def on_large_reply(self, run: bytes, index: int, size: int, stored: int) -> None:
        """A reply of at least ``size`` bytes has begun, to one of these commands: tell of its key, if it has one."""
        request = Request()
        for _ in range(index + 1):
            if request.scan(run, request.end, self.intake.limits) != COMPLETE:
                return
        command = Command(self.effective_policy.table, request.arguments())
        if len(command.known_keys) == 1:
            self.ports.traces.observe_large(self, command.known_keys[0].name, size, stored)

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
            self.close_if_done()

    # What connections to Redis ask

    def on_redirect(self, upstream: UpstreamPipeline, entry: InFlightEntry, error: bytes) -> bytes | None:
        """The next frame of this connection's head is MOVED or one of its kin: what to tell instead, or None."""
        return self.handlers.redirected(self, upstream, entry, error)

    @property
    def blocked(self) -> bool:
        """Whether Redis may hold a reply back until something happens."""
        return self.state.blocked > 0

    # Its connection

    def connected(self, transport: ClientTransport, address: str, certificate: str) -> None:
        """The client is there: its address, and the subject of its certificate if it has shown one."""
        self.transport = transport
        self.sender.write = transport.write
        self.origin = Origin(self.origin.listener, address, certificate)
        # Its address or its certificate may tell its app, and during a TLS handshake the policy may have changed.
        if self.ports.policies.effective_policy(self.key, self.caller()) is not self.effective_policy:
            self.adopt()
        else:
            self.settle_reads()
            self.count_by_identity()

    def end_of_stream(self) -> bool:
        """The client sends no more: whether it has still to be answered. One that is blocked has left."""
        return not self.state.blocked and self._half_close()

    def connection_lost(self) -> None:
        """The connection is closed."""
        if not self.gone:
            self.on_close()
        self._release_upstreams()
        self.transport = None
        self._break_references()

    def _break_references(self) -> None:
        # The connection is closed and no reply is pending: without circles of references, the client is freed now.
        if self.transport is None:
            if self.sender.pending_replies > 0:
                self.sender.notify_when_idle = True
            else:
                self.sender.listener = None
                self.sender.upstream = self.sender.nodes = None
                self.intake.handler = None
                self.redirects = self.search = self.trace = self.held = None

    # Its end

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

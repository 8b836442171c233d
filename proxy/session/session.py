"""One client: its identity, the state of its connection, and the commands and replies that leave for it.

Handlers work on it, each with the commands of one subject. Which handler a command goes to is ``dispatcher.py``'s
business.

What it sends has its place among the pending replies, and falls silent where CLIENT REPLY says so.
"""

from collections.abc import Hashable
from functools import partial

from proxy.hotpath.in_flight import EDIT, FORWARD, HIDE, LOCAL, REPLACE, TRACE, InFlightEntry
from proxy.hotpath.intake import ENDED, TAKEN, Intake
from proxy.policy.apps import Caller
from proxy.policy.decision import Decision
from proxy.rules.context import NO_SLOT
from proxy.rules.limit_membership import LimitMembership
from proxy.rules.shared_state import FactKey
from proxy.rules.verdict import ReplyEdit, Verdict, closes
from proxy.session import reply_mode
from proxy.session.client_identity import UNNAMED, Origin
from proxy.session.client_link import BYTES_WAIT, UPSTREAM_CONGESTED, ClientLink, HeldUpstream
from proxy.session.exec_abort import ABORTING_COMMAND
from proxy.session.item import FollowUp, Item
from proxy.session.n_plus_one import NPlusOneDetector
from proxy.session.open_trace import OpenTrace
from proxy.session.ports import CommandName, EffectivePolicy, LoginPort, PoolKey, Ports, PrivatePipeline
from proxy.session.running_procedure import RunningProcedure
from proxy.session.state import POOLED, Awaited, ClientState, Event, Pinned, Transaction, Watching
from proxy.session.subscription import Subscriptions
from proxy.wire.request import RequestLimits

_AT_ONCE = 64
_SHORT = 4096
"""Bytes. So many short answers gather before they leave, and no longer one, as the client may not take them."""

_UNREAD_WHILE_BLOCKED = 1 << 20
"""Bytes of a client that is blocked in Redis, beyond which it is not read."""


class Session(Intake):
    """One client. ``key`` is the pool that it belongs to: user, database and protocol; ``pinned`` is the upstream that
    it has for itself.

    ``may_have_follow_ups`` says that something may have to follow the commands that are under way, and ``deferred``
    holds what has to wait until it may.
    """

    __slots__ = (
        "awaited",
        "deferred",
        "effective_policy",
        "held",
        "home",
        "key",
        "limit_membership",
        "link",
        "local",
        "local_user",
        "logins",
        "may_have_follow_ups",
        "n_plus_one",
        "names",
        "no_hidden_commands",
        "origin",
        "ports",
        "probe",
        "resolved",
        "running_procedure",
        "slot",
        "sought",
        "state",
        "trace",
    )

    def __init__(
        self,
        ports: Ports,
        home: PoolKey,
        limits: RequestLimits,
        listener: str = "",
        logins: LoginPort | None = None,
    ) -> None:
        effective_policy = ports.policies.effective_policy(home, Caller(home.user_name, listener=listener))
        super().__init__(effective_policy.config, limits)
        self.ports = ports
        self.link = ClientLink()
        self.state: ClientState = POOLED
        self.local = 0
        self.logins = ports.logins if logins is None else logins
        self.local_user = ""
        self.key = home
        self.names = UNNAMED
        self.origin = Origin(listener)
        self.effective_policy: EffectivePolicy = effective_policy
        self.slot = NO_SLOT
        self.limit_membership: LimitMembership | None = None
        self.home = home
        self.awaited: Awaited | None = None
        self.held: Item | None = None
        self.running_procedure: RunningProcedure | None = None
        self.resolved: Decision | None = None
        self.may_have_follow_ups = False
        self.deferred: dict[Hashable, FollowUp] = {}
        self.no_hidden_commands = ""
        self.sought: frozenset[FactKey] = frozenset()
        self.probe: CommandName | None = None
        self.trace: OpenTrace | None = None
        self.n_plus_one: NPlusOneDetector | None = None

    # The state of its connection

    @property
    def pinned(self) -> PrivatePipeline | None:
        """The upstream that it has for itself."""
        return self.state.upstream

    @property
    def transaction(self) -> Transaction | None:
        """The transaction since MULTI."""
        return self.state.transaction

    @property
    def watching(self) -> Watching | None:
        """The keys that it watches."""
        return self.state.watching

    @property
    def subscriptions(self) -> Subscriptions | None:
        """Its subscriptions, confirmed or asked for."""
        return self.state.subscriptions

    @property
    def blocked(self) -> int:
        """How many of its commands may be waiting in Redis for something to happen."""
        return self.state.blocked

    @property
    def reply_mode(self) -> int:
        """Which commands are answered (``reply_mode.py``)."""
        return self.state.reply_mode

    @reply_mode.setter
    def reply_mode(self, mode: int) -> None:
        self.on_its_own.reply_mode = mode

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
        if self.upstream is not None:
            open_unit = state.transaction is not None or state.watching is not None
            self.upstream.unit = self if open_unit else None

    # Who it is, and the policy for that

    @property
    def user_name(self) -> str:
        """The user as rules and figures know it: Redis's, or one of the listener's password file."""
        return self.local_user or self.key.user_name

    def reconsider(self) -> None:
        """Who the client is has changed, or the policy: other limits may hold."""
        self.token_sets = None
        if self.limit_membership is not None:
            self.limit_membership.leave()
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
        if self.transaction is not None:
            self.transaction.outdated = True
            return
        self.reconsider()
        self.effective_policy = self.ports.policies.effective_policy(self.key, self.caller())
        self.config = self.effective_policy.config
        self.simple = self.config.pooled if self.pinned is None else self.config.pinned

    def end_if_closed_by(self, verdict: Verdict) -> int:
        """Close the client if the verdict says so. A transaction is ended first, as others may share its upstream."""
        if not closes(verdict) or self.transaction is not None:
            return TAKEN
        self.close_when_drained("limited")
        return ENDED

    # Sending

    def submit_traced(self, raw: bytes, edit: ReplyEdit | None, trace: OpenTrace) -> None:
        """The same as ``submit``, and the reply is measured."""
        upstream = self.upstream
        assert upstream is not None
        if edit is None:
            self.forwarded += 1
            self.submit_with_action(raw, TRACE, trace)
        else:
            self.submit(raw, trace.around(edit))
        upstream.when_sent(trace.leaves)

    def submit(self, raw: bytes, edit: ReplyEdit | None = None) -> None:
        """Send one command to the current upstream and expect its reply, unless CLIENT REPLY has silenced it."""
        upstream = self.upstream
        assert upstream is not None
        if self.reply_mode != reply_mode.ON and reply_mode.falls_on(self):
            self.forwarded += 1
            self.wrote = True
            self.issue(upstream, raw, commands=1)
        elif edit is None:
            assert not self.awaits_elsewhere(), "what comes behind such a command waits for its reply"
            self.forward(upstream, raw)
        else:
            self.forwarded += 1
            self.submit_with_action(raw, EDIT, edit)

    def send_unanswered(self, raw: bytes) -> None:
        """Send a command to which no reply comes."""
        assert self.upstream is not None
        self.issue(self.upstream, raw)

    def submit_with_action(self, raw: bytes, action: int, payload: object, due: int = 1) -> None:
        """Send one command whose reply has an action of its own."""
        upstream = self.upstream
        assert upstream is not None
        if self.order is None:
            self.issue(upstream, raw, InFlightEntry(self, due, action, payload), commands=1)
            return
        assert due == 1, "only a private upstream has commands with several replies"
        assert not self.awaits_elsewhere(), "what comes behind such a command waits for its reply"
        self.send_for(self.order.segment(upstream), upstream, raw, action, payload)
        self.wrote = True

    def send_elsewhere(self, upstream: PrivatePipeline, raw: bytes, edit: ReplyEdit | None) -> None:
        """Send one command on this idle connection, which goes back behind the reply. The reply keeps its place among
        the client's, and the next command waits for it."""
        segment = self.begin_order().segment(upstream)
        self.forwarded += 1
        self.send_for(segment, upstream, raw, FORWARD if edit is None else EDIT, edit)
        self.wait_for(Awaited.REPLY_ELSEWHERE)
        upstream.when_drained(partial(self._answered_elsewhere, upstream))

    def _answered_elsewhere(self, upstream: PrivatePipeline) -> None:
        self.ports.pools.release(upstream)
        self.advance()
        self.arrived()

    def awaits_elsewhere(self) -> bool:
        """Whether a command that was sent elsewhere is unanswered."""
        segment = None if self.order is None else self.order.first
        while segment is not None:
            if segment.pending_replies > 0 and segment.source is not self.upstream:
                return True
            segment = segment.next_entry
        return False

    def hide(self, raw: bytes) -> None:
        """Send a command of the proxy's own on the private upstream; its reply is dropped."""
        assert self.pinned is not None
        self.issue(self.pinned, raw, InFlightEntry(self, 1, HIDE, None))

    def answer(self, payload: bytes) -> None:
        """An answer of the proxy's own, in its place among the replies."""
        if self.reply_mode != reply_mode.ON and reply_mode.swallows(self):
            return
        self.local += 1
        if payload.startswith(b"-"):
            self.ports.route.count_error(payload)
        if self.pending_replies == 0:
            self.out.append(payload)
            if not self.running or len(self.out) >= _AT_ONCE or len(payload) > _SHORT:
                self.flush()
        elif self.order is not None:
            self.order.answer(payload)
        else:
            assert self.upstream is not None
            self.upstream.enqueue(self, 1, LOCAL, payload)

    def refuse(self, error: bytes, aborting: bytes = ABORTING_COMMAND) -> None:
        """Answer a refusal; inside MULTI, so that Redis aborts the transaction as for any bad command."""
        if self.transaction is None:
            self.answer(error)
            return
        upstream = self.upstream
        assert upstream is not None
        self.ports.route.count_error(error)
        silent = reply_mode.falls_on(self)
        self.issue(upstream, aborting, *(() if silent else (InFlightEntry(self, 1, REPLACE, error),)))

    # Waiting, and its upstreams

    def wait_for(self, awaited: Awaited) -> None:
        """Forward nothing until somebody calls ``arrived``."""
        self.awaited = awaited
        self.halted = True

    def stop_waiting(self) -> None:
        """Nothing is awaited any more."""
        self.awaited = None
        self.halted = False

    def arrived(self) -> None:
        """The upstream, the reply or the answer that it waited for may be there."""
        if self.awaited is not None and not self.gone and not self.awaits_elsewhere():
            self.stop_waiting()
            self.resume()

    def unpin(self) -> None:
        """Give the private upstream back: it holds nothing of this client any more."""
        upstream = self.leave_upstream()
        if upstream is not None:
            upstream.follow(None)
            if not upstream.closed:
                self.ports.pools.release(upstream)

    def leave_upstream(self) -> PrivatePipeline | None:
        """The private upstream, if there is one, is this client's no more; the caller says what becomes of it."""
        upstream = self.pinned
        if upstream is None:
            return None
        self.state = POOLED
        upstream.owner = None
        self.upstream = None
        self.direct = False
        self.simple = self.config.pooled
        return upstream

    # Reading and backpressure

    def hold(self) -> None:
        """Bytes wait: read no more, except from a client that is blocked in Redis."""
        if self.blocked and self.unread() <= _UNREAD_WHILE_BLOCKED:
            self.link.resume(BYTES_WAIT)
        else:
            self.link.pause(BYTES_WAIT)

    def drained(self) -> None:
        """No command waits any more."""
        self.link.resume(BYTES_WAIT)

    def pause_source(self) -> None:
        """The private upstream takes no more."""
        self.link.pause(UPSTREAM_CONGESTED)

    def resume_source(self) -> None:
        """The private upstream takes more again."""
        self.link.resume(UPSTREAM_CONGESTED)

    def assembling(self, size: int) -> None:
        """An unfinished command grows."""
        if size > self.ports.route.query_limit:
            self.close("query_limit")

    def waiting(self) -> int:
        """Bytes that the client has been sent and has not taken, or that wait for replies before them."""
        return self.link.unsent() + (0 if self.order is None else self.order.size)

    def hold_upstream(self, upstream: HeldUpstream) -> None:
        """Resume the upstream when the client has caught up."""
        self.link.hold_upstream(upstream)

    def rests(self) -> bool:
        """Whether the client waits for nothing, and nothing of it is on its way."""
        waits = self.pending_replies > 0 or self.halted or self.stalled or self.full or self.subscriptions is not None
        comes = self.pending is not None or self.assembly is not None or self.stream is not None
        return not waits and not comes and not (self.pinned is not None and self.pinned.relay)

    # Its end

    def close(self, cause: str) -> None:
        """Close the client now; ``cause`` is the label that metrics show."""
        self.link.close(self, cause)

    def close_when_drained(self, cause: str) -> None:
        """Read no more of the client, and close it when no reply is pending."""
        self.link.close_when_drained(self, cause)

    def turn_away(self, error: bytes, cause: str) -> None:
        """Close the client with an error that Redis would have given, behind the replies that it still gets."""
        self.link.turn_away(self, error, cause)

    def on_close(self) -> None:
        """The client has left, or is about to be closed."""
        raise AssertionError("the dispatcher knows what is under way")

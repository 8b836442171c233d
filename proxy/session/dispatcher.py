"""The dispatcher judges each command of a client, then routes it to a handler.

A command that waits (``WAIT``: for an upstream, for replies, for another session's answer) comes back by ``arrived``.
The policy does not judge it twice.
"""

from collections.abc import Callable
from functools import update_wrapper
from typing import Concatenate, ParamSpec

from proxy.commands.command import Command
from proxy.commands.table import ConnectionState
from proxy.hotpath.intake import ENDED, TAKEN, WAIT
from proxy.hotpath.reply_order import MOST_HELD
from proxy.rules.verdict import Answer, Refuse, Rewrite, chained
from proxy.session import (
    follow_ups,
    handshake,
    judging,
    keyrail_command,
    login,
    n_plus_one,
    names,
    pinned,
    procedure,
    reply_mode,
    scripts,
    streaming,
    subscribe,
    switching,
    transaction,
    unhindered,
)
from proxy.session.client_identity import Origin
from proxy.session.client_link import ClientTransport
from proxy.session.forwarding import forward
from proxy.session.item import Item
from proxy.session.open_trace import OpenTrace
from proxy.session.ports import UNAUTHENTICATED
from proxy.session.session import Session
from proxy.session.state import POOLED, Awaited, Keeping, Pinned, PooledTransaction, departed
from proxy.wire.encode import encode_command
from proxy.wire.request import COMPLETE, Request

_ORDERED = frozenset({ConnectionState.POOL, ConnectionState.ADMIN, ConnectionState.IDLE})
"""Commands that may run while several upstreams send replies."""
_EMPTY_REQUEST = b"*0\r\n"
P = ParamSpec("P")


def _guarded(step: Callable[Concatenate["Dispatcher", P], None]) -> Callable[Concatenate["Dispatcher", P], None]:
    # A fault in one client's session must not reach the upstream, or the client, that set it off.
    def guarded(session: "Dispatcher", /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            step(session, *args, **kwargs)
        except Exception:  # noqa: BLE001 - logged with its traceback; it closes this client alone
            session.ports.route.report_fault()
            session.close("internal_error")

    update_wrapper(guarded, step)
    return guarded


class Dispatcher(Session):
    """Judges each command of one client, and hands it to the handler for what it does."""

    __slots__ = ()

    # Events of its connection

    def connected(self, transport: ClientTransport, address: str, certificate: str) -> None:
        """The client is there: its address, and the subject of its certificate if it has shown one."""
        self.link.transport = transport
        self.write = transport.write
        self.origin = Origin(self.origin.listener, address, certificate)
        if certificate:
            self.adopt()

    def end_of_stream(self) -> bool:
        """The client sends no more: whether it has still to be answered. One that is blocked has left."""
        return not self.blocked and self.link.half_close(self)

    def pause_writing(self) -> None:
        """The client does not read its replies: nothing more is forwarded for it."""
        self.full = True

    @_guarded
    def resume_writing(self) -> None:
        """The client has caught up."""
        self.full = False
        self.link.release_upstreams(self)
        self.resume()

    def connection_lost(self) -> None:
        """The connection is closed."""
        if not self.gone:
            self.on_close()
        self.link.release_upstreams(self)

    # Judging

    def choose_upstream(self) -> None:
        """Take a shared upstream before the first command: if that is a plain one, the plan decides about it."""
        user = self.key.user
        if self.state is not POOLED or not self.ports.route.pooling or not self.limits.authenticated:
            return
        if user is not None and not self.ports.capabilities.knows_user(user):
            return
        self.upstream = self.ports.pools.ready(self.key)
        self.direct = self.upstream is not None
        if self.direct and self.effective_policy.compiled.limits:
            judging.join_limits(self, judging.context_of(self))

    def handle(self, command_id: int, data: bytes, request: Request) -> int:
        """Judge the command that the intake stopped at, and route it."""
        if self._waits():
            return WAIT
        held = self.held
        if held is not None:
            self.held = None
            return self._route(held, data, request.end)
        table = self.effective_policy.table
        command = Command(table, request.arguments(), table.specs[command_id])
        if self.n_plus_one is not None and self.resolved is None:
            self.n_plus_one.meet(self, command)
        if self.sampled:
            size = request.end - request.start
            self.trace = OpenTrace(self.ports.traces, self, command, self.sampled, size, self.ports.traces.clock())
            n_plus_one.begin(self, command, self.sampled)
            self.sampled = 0
        return self._take(command, data[request.start : request.end], data, request.end, request)

    def refused(self, command_id: int, request: Request) -> None:
        """The plan refuses a command by itself: somebody may want to know whose it is."""
        if self.ports.reports.may_inspect():
            table = self.effective_policy.table
            command = Command(table, request.arguments(), table.specs[command_id])
            self.ports.reports.inspect((self.effective_policy.compiled.lowered[command_id],), command, self)

    def handle_inline(self, words: list[bytes], size: int) -> int:
        """Judge an inline command as the command that it is; it travels as an array."""
        if self._waits():
            return WAIT
        held = self.held
        if held is not None:
            self.held = None
            return self._route(held, b"", 0)
        command = Command(self.effective_policy.table, words)
        self.command_id = command.spec.id
        return self._take(command, encode_command(words), b"", 0)

    def _waits(self) -> bool:
        # Whether the next command waits, for replies or for a procedure, before the policy judges it.
        if self.pending_replies >= self.config.window:
            self.stalled = True
            return True
        if self.running_procedure is not None:
            self.wait_for(Awaited.PROCEDURE)
            return True
        return self._awaits_user()

    def _awaits_user(self) -> bool:
        # Until Keyrail knows which commands the user may run, rules cannot send theirs: keys would stay without a TTL.
        user = self.key.user
        if user is None or not self.ports.pools.await_user(self, user):
            return False
        self.wait_for(Awaited.USER)
        return True

    def handle_large(self, data: bytes, request: Request) -> int:
        """Stream a request that is too large to collect."""
        if self._awaits_user():
            return WAIT
        if self.order is not None:
            switching.wait_until_drained(self)
            return WAIT
        return streaming.begin(self, data, request)

    @_guarded
    def on_large_reply(self, run: bytes, index: int, size: int) -> None:
        """A reply of at least ``size`` bytes has begun, to one of these commands: tell of its key, if it has one."""
        request = Request()
        for _ in range(index + 1):
            if request.scan(run, request.end, self.limits) != COMPLETE:
                return
        command = Command(self.effective_policy.table, request.arguments())
        if len(command.known_keys) == 1:
            self.ports.traces.observe_large(self, command.known_keys[0].name, size)

    def empty(self) -> None:
        """Pass it on to a private upstream: in Redis it ends states of one command (SKIP, ASKING, CACHING)."""
        if self.pinned is not None:
            self.issue(self.pinned, _EMPTY_REQUEST)
            reply_mode.use_up(self)

    def malformed(self, request: Request) -> None:
        """Answer in the engine's own words, behind the pending replies, and close.

        Under CLIENT REPLY OFF and SKIP, Redis neither answers nor closes (``CLIENT_CLOSE_AFTER_REPLY``, and there is no
        reply): it reads no further until the client leaves.
        """
        if self.reply_mode in (reply_mode.OFF, reply_mode.SKIP):
            self.ended = True
            return
        self.answer(self.ports.route.protocol_error(request.error, request.error_byte))
        self.close_when_drained("protocol_error")

    def _take(self, command: Command, raw: bytes, data: bytes, end: int, request: Request | None = None) -> int:
        if self.key.user == UNAUTHENTICATED:
            if login.from_web_page(command):
                self.close_when_drained("web_request")
                return ENDED
            if error := login.error_before(self, command):
                self._tell_refused()
                self.answer(error)
                return TAKEN
        decision, self.resolved = self.resolved, None
        learns = bool(self.effective_policy.compiled.learning)
        if decision is None:
            if learns and scripts.waits(self, command):
                return WAIT
            decision = judging.judge(self, command)
        if decision.pause is not None or decision.background:
            decision = procedure.settle(self, command, decision)
            if decision is None:
                return WAIT
            # A connection may have been given back, and whoever waited for it has scanned requests of its own.
            request = None
        verdict = decision.verdict
        if type(verdict) is Refuse:
            return self._deny(command, verdict)
        if type(verdict) is Answer:
            self._tell_refused()
            self.answer(verdict.reply)
            return TAKEN
        if type(verdict) is Rewrite:
            rewritten = Command(self.effective_policy.table, verdict.argv, verdict.spec)
            judging.count_keys(self, rewritten)
            raw = encode_command(verdict.argv)
            reads = command.spec.only_reads
            edit = chained(scripts.edit_for(self, rewritten) if learns else None, verdict.edit)
            return self._route(Item(rewritten, raw, edit, decision.hidden, reads=reads), data, end)
        if request is None:
            judging.count_keys(self, command)
        elif self.effective_policy.compiled.policy.count_keys:
            config = self.config
            found = config.keys.find(command.spec.id, request)
            config.plan.count(request, data, config.keys, found, config.counters)
        edit = scripts.edit_for(self, command) if learns else None
        return self._route(Item(command, raw, edit, decision.hidden, reads=command.spec.only_reads), data, end)

    def _deny(self, command: Command, verdict: Refuse) -> int:
        self._tell_refused()
        if command.spec.state is ConnectionState.EXEC and self.transaction is not None:
            transaction.abort(self, verdict.error)
        else:
            self.refuse(verdict.error)
        if login.from_web_page(command):
            self.close_when_drained("web_request")
            return ENDED
        return self.end_if_closed_by(verdict)

    def _tell_refused(self) -> None:
        if self.trace is not None:
            self.trace.refused = True
            self.trace.without_reply()
            self.trace = None

    # Routing

    def _route(self, item: Item, data: bytes, end: int) -> int:
        state = item.command.spec.state
        if item.command.spec.process_bound:
            self.ports.pools.relies_on_process(self)
        if self.order is not None and (item.hidden or state not in _ORDERED):
            switching.wait_until_drained(self)
            self.held = item
            return WAIT
        if state is ConnectionState.ADMIN:
            login.note_change(self, item)
        if self.trace is not None:
            item.trace, self.trace = self.trace, None
            if self.transaction is not None or state is not ConnectionState.POOL or self.reply_mode != reply_mode.ON:
                item.trace.without_reply()
                item.trace = None
        if state is ConnectionState.UNKNOWN and (
            error := pinned.error_for_name(item.command.argv, self.effective_policy.table)
        ):
            self.refuse(error)
            return TAKEN
        if self.transaction is not None and state not in transaction.ENDS_OR_LEAVES:
            return transaction.queue(self, item)
        # The transaction's look-ahead is the only handler that reads on.
        outcome = (
            transaction.multi(self, item, data, end) if state is ConnectionState.MULTI else _HANDLERS[state](self, item)
        )
        if outcome == WAIT:
            self.held = item
        return outcome

    # Events of its upstreams

    @_guarded
    def on_idle(self) -> None:
        """No reply is pending: a private upstream whose state has ended goes back, and the next command goes on."""
        self.notify_when_idle = False
        state = self.state
        if type(state) is Pinned:
            state.blocked = 0
            if state.subscriptions is not None:
                state.subscriptions.asked = 0
                if state.subscriptions.empty():
                    subscribe.stop(state)
        if self.deferred and follow_ups.catch_up(self):
            self.notify_when_idle = True
        elif type(state) is Pinned and state.keeping is not Keeping.LINGERING and not switching.keeps_pin(self):
            self.unpin()
        self.arrived()
        self.link.close_if_done(self)

    @_guarded
    def advance(self) -> None:
        """Some of the replies that several sources send have come."""
        super().advance()
        if not self.full and (self.order is None or self.order.size <= MOST_HELD):
            self.link.release_upstreams(self)

    @_guarded
    def on_resume(self) -> None:
        """Few enough replies are pending."""
        super().on_resume()
        self.link.close_if_done(self)

    @_guarded
    def arrived(self) -> None:
        """What the session waited for may be there."""
        super().arrived()
        self.link.close_if_done(self)

    def let_go(self) -> bool:
        """The private upstream is lost: whether nothing of this client is lost with it."""
        if (
            self.pending_replies > 0
            or switching.keeps_pin(self)
            or self.stream is not None
            or self.key.user is not None
        ):
            return False
        self.unpin()
        return True

    def on_close(self) -> None:
        """The client has left: its pending replies are dropped, its private upstream is closed."""
        self.gone = True
        self.halted = True
        self.reconsider()
        self.pending = None
        self.assembly = None
        self.held = None
        if self.order is not None:
            self.order.abandon()
            self.order = None
            self.ordered = False
        if self.running_procedure is not None:
            self.running_procedure.cancel()
            self.running_procedure = None
        holds = switching.keeps_pin(self)
        if self.deferred or (self.transaction is not None and self.pinned is not None):
            follow_ups.leave(self)
        if self.probe is not None:
            self.ports.capabilities.end_probe(self.probe, False)
            self.probe = None
        state, self.state = self.state, departed(self.state)
        match state:
            case PooledTransaction() if self.upstream is not None:
                # Only a fault can end a session here. Its transaction must not go on, on an upstream that others share.
                self.ports.pools.discard(self.upstream)
            case Pinned(upstream) if not upstream.closed:
                upstream.owner = None
                if state.blocked or upstream.partial is not None:
                    self.ports.pools.discard(upstream)
                elif self.pending_replies > 0 or holds:
                    self.ports.pools.close_gracefully(upstream)
                else:
                    upstream.follow(None)
                    self.ports.pools.release(upstream)


_HANDLERS = {
    ConnectionState.POOL: forward,
    **handshake.HANDLERS,
    **names.HANDLERS,
    **keyrail_command.HANDLERS,
    **transaction.HANDLERS,
    **subscribe.HANDLERS,
    **pinned.HANDLERS,
    **unhindered.HANDLERS,
}

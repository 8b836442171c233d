"""The dispatcher judges each command of a client, then has it routed to a handler (``routing.py``).

A command that waits (for an upstream, for replies, for another session's answer) is held, and goes on by ``arrived``.
The policy does not judge it twice.
"""

from proxy.commands.command import Command
from proxy.commands.spec import ConnectionState, Lane
from proxy.commands.wrapped import node_of, wrapped_in
from proxy.hotpath.intake.intake import TAKEN, WAIT
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.policy.decision import NOTHING, Decision
from proxy.policy.tenants import Tenant
from proxy.rules.verdict import Answer, Refuse, ReplyEdit, Rewrite, chained
from proxy.session import reply_mode
from proxy.session.client_link import BYTES_WAIT
from proxy.session.cluster import named_node, node_connections, node_of_keys, nodeless_multi
from proxy.session.commands import client_reply, sending, switching, tenant_flush, tenant_walks
from proxy.session.dispatcher import n_plus_one, refusals, routing, streaming
from proxy.session.item import NO_LOOK_AHEAD, Item, LookAhead
from proxy.session.logins import login
from proxy.session.policy import judging, procedure, scripts, tenancy
from proxy.session.ports.open_trace import OpenTrace
from proxy.session.ports.pool_key import UNAUTHENTICATED
from proxy.session.progress import NotYet, Step
from proxy.session.replicas import replica_reads
from proxy.session.session import Session
from proxy.session.state import Awaited
from proxy.tenants.requests import NotOfferedError, walk_of
from proxy.wire.encode import encode_command
from proxy.wire.request import Request

_EMPTY_REQUEST = b"*0\r\n"
_UNREAD_WHILE_BLOCKED = 1 << 20
"""Bytes of a client that is blocked in Redis, beyond which it is not read."""


class Dispatcher:
    """Judges each command of the client whose ``session`` it holds."""

    __slots__ = ("session",)

    def __init__(self, session: Session) -> None:
        self.session = session

    # Judging

    def choose_upstream(self) -> None:
        """Take a shared upstream before the first command: if that is a plain one, the plan decides about it."""
        session = self.session
        if switching.choose_ready(session) and session.effective_policy.compiled.limits:
            judging.join_limits(session)

    def connect(self, node: int) -> UpstreamPipeline | None:
        """The client's first connection to a node: a command that only needs that is no reason to judge it here."""
        return node_connections.first_connection(self.session, node)

    def handle(self, command_id: int, data: bytes, request: Request) -> int:
        """Judge the command that the intake stopped at, and route it."""
        session = self.session
        if replica_reads.waits(session):
            return WAIT
        if session.intake.missed:
            session.intake.missed = False
            table = session.effective_policy.table
            command = Command(table, request.arguments(), table.specs[command_id])
            item = Item(command, data[request.start : request.end], reads=True)
            if session.tenant is not None:
                tenancy.put_prefix(session, session.tenant, item, command, NOTHING, None)
            self._locate(item)
            return self._go_on(item)
        passes, session.intake.passes = session.intake.passes, False
        if not passes and self._waits():
            return WAIT
        held = session.held
        if held is not None:
            if held.look_ahead is not NO_LOOK_AHEAD:
                held.look_ahead = LookAhead(data, request.end)
            return self._resume(held)
        table = session.effective_policy.table
        command = Command(table, request.arguments(), table.specs[command_id])
        wrapper, command = self._unwrapped(command)
        if session.n_plus_one is not None:
            n_plus_one.meet(session, session.n_plus_one, command)
        judged = not passes and (
            wrapper is not None or session.effective_policy.config.leaves_to_rules(command_id, data)
        )
        self._trace(command, request.end - request.start, judged=judged)
        decision = replica_reads.passed(session, command_id, data, request) if passes else None
        if wrapper is not None:
            return self._take(self._item(command, wrapper), decision)
        item = Item(command, data[request.start : request.end], reads=command.spec.only_reads)
        if command.spec.state is ConnectionState.MULTI:
            item.look_ahead = LookAhead(data, request.end)
        return self._take(item, decision, data, request)

    def _trace(self, command: Command, size: int, *, judged: bool) -> None:
        # Forms of commands that only the rules can judge are exact: each counts as one, chosen by the sampler or not.
        session = self.session
        traces, weight, prefix = session.ports.traces, session.intake.sampled, tenancy.prefix_of(session)
        session.intake.sampled = 0
        if judged:
            traces.see_form(session, command, 1)
        elif weight:
            traces.see_form(session, command, weight)
        if weight:
            session.trace = OpenTrace(traces, session, command, weight, size, traces.clock(), prefix=prefix)
            n_plus_one.begin(session, command, weight)
        elif command.spec.lane is Lane.SLOW and traces.follows_slow():
            session.trace = OpenTrace(traces, session, command, 0, size, traces.clock(), prefix=prefix)

    def _item(self, command: Command, wrapper: Command | None) -> Item:
        return Item(command, encode_command(command.argv), reads=command.spec.only_reads, wrapper=wrapper)

    def _unwrapped(self, command: Command) -> tuple[Command | None, Command]:
        # KEYRAIL NODE and the command that it carries, which is what is judged and counted; or None, and any other.
        wrapped = wrapped_in(command, self.session.effective_policy.table)
        if wrapped is None:
            return None, command
        self.session.intake.command_id = wrapped.spec.id
        return command, wrapped

    def refuse(self, error: bytes) -> None:
        """Answer a command that the plan refuses."""
        sending.refuse(self.session, error)

    def refused(self, command_id: int, request: Request) -> None:
        """The plan refuses a command by itself: somebody may want to know whose it is."""
        session = self.session
        compiled = session.effective_policy.compiled
        hits = compiled.lowered[command_id]
        if session.ports.reports.may_inspect(hits, compiled.app):
            table = session.effective_policy.table
            command = Command(table, request.arguments(), table.specs[command_id])
            session.ports.reports.inspect(hits, command, session)

    def _go_on(self, item: Item) -> int:
        session = self.session
        if not routing.go_on(session, item):
            return WAIT
        if session.tenant_changed:
            session.close_when_drained("tenant_changed")
        return TAKEN

    def _resume(self, held: Item) -> int:
        session = self.session
        session.held = None
        # Another engine may have come meanwhile.
        table = session.effective_policy.table
        held.command = held.command.known_to(table)
        held.instead_of = None if held.instead_of is None else held.instead_of.known_to(table)
        # The intake knows the command by its first words: what KEYRAIL NODE carries is counted as what it is.
        session.intake.command_id = (held.instead_of or held.command).spec.id
        if session.wants_login:
            error, session.wants_login = session.wants_login, b""
            held.close()
            sending.refuse(session, login.error_before(session, held.command) or error)
            return TAKEN
        if held.judging is not None:
            return self._judge_on(held, held.judging)
        if not session.unreachable:
            return self._go_on(held)
        session.unreachable = False
        session.end_probe()
        if held.trace is not None:
            held.trace.without_reply()
        held.close()
        nodeless_multi.unreachable(session, held)
        return TAKEN

    def handle_inline(self, words: list[bytes], size: int) -> int:
        """Judge an inline command as the command that it is; it travels as an array."""
        session = self.session
        if replica_reads.waits(session) or self._waits():
            return WAIT
        held = session.held
        if held is not None:
            return self._resume(held)
        command = Command(session.effective_policy.table, words)
        session.intake.command_id = command.spec.id
        wrapper, command = self._unwrapped(command)
        session.ports.traces.see_form(session, command, 1)  # the plan is not asked about it
        return self._take(self._item(command, wrapper))

    def _waits(self) -> bool:
        # Whether the next command waits before the policy judges it.
        session, sender, router = self.session, self.session.sender, self.session.intake.config.router
        if router is not None and sender.nodes is not None and not sender.fits(router):
            switching.wait_until_drained(session)
            return True
        if session.sender.room(session.intake.config.window) <= 0:
            session.sender.stalled = True
            return True
        return self._awaits_user()

    def _awaits_user(self) -> bool:
        # Until Keyrail knows which commands the user may run, rules cannot send theirs: keys would stay without a TTL.
        session = self.session
        user = session.key.user
        if user is None or not session.ports.pools.await_user(session, user):
            return False
        session.wait_for(Awaited.USER)
        return True

    def handle_large(self, data: bytes, request: Request) -> int:
        """Stream a request that is too large to collect."""
        session = self.session
        if replica_reads.waits(session) or self._awaits_user():
            return WAIT
        try:
            if session.sender.order is not None:
                switching.must_drain(session)
            streaming.begin(session, data, request)
        except NotYet:
            return WAIT
        return TAKEN

    def empty(self) -> None:
        """Pass it on to a private upstream where it ends states of one command (SKIP, ASKING, CACHING)."""
        session = self.session
        if session.state.upstream is not None and session.ports.capabilities.empty_request_counts():
            session.sender.issue(session.state.upstream, _EMPTY_REQUEST)
            client_reply.use_up(session)

    def malformed(self, request: Request) -> None:
        """Answer in the engine's own words, behind the pending replies, and close.

        Under CLIENT REPLY OFF and SKIP, Redis neither answers nor closes (``CLIENT_CLOSE_AFTER_REPLY``, and there is no
        reply): it reads no further until the client leaves.
        """
        session = self.session
        if session.state.reply_mode in (reply_mode.OFF, reply_mode.SKIP):
            session.intake.finish()
            return
        sending.answer(session, session.ports.route.protocol_error(request.error, request.error_byte))
        session.close_when_drained("protocol_error")

    def _take(
        self, item: Item, decision: Decision | None = None, data: bytes = b"", request: Request | None = None
    ) -> int:
        session, command = self.session, item.command
        if session.key.user == UNAUTHENTICATED and self._answers_stranger(command):
            return TAKEN
        tenant = session.tenant
        refusal = None if tenant is None else tenancy.refusal(tenant, item.wrapper or command)
        if refusal is not None:
            refusals.refuse(session, command, refusal)
            return TAKEN
        self._locate(item)
        session.search = None  # the command has arrived whole since
        if decision is None:
            told = scripts.told(session, command) if session.effective_policy.compiled.learns else None
            if told is not None:
                return self._judge_on(item, self._judged(item, told))
            decision = self._judge(item)
        if decision.pause is not None or decision.background:
            return self._judge_on(item, self._settled(item, decision))
        return self._decided(item, decision, data, request)

    def _answers_stranger(self, command: Command) -> bool:
        session = self.session
        if login.from_web_page(command):
            session.close_when_drained("web_request")
            return True
        error = login.error_before(session, command)
        if error:
            refusals.tell(session)
            sending.answer(session, error)
        return bool(error)

    def _judge_on(self, item: Item, judging: Step[Decision]) -> int:
        item.judging = judging
        try:
            next(judging)
        except StopIteration as end:
            item.judging = None
            # Others have had their turn meanwhile, and have scanned requests of their own.
            return self._decided(item, end.value)
        self.session.held = item
        return WAIT

    def _judged(self, item: Item, told: Step[None]) -> Step[Decision]:
        yield from told
        self._locate(item)
        decision = self._judge(item)
        if decision.pause is not None or decision.background:
            decision = yield from self._settled(item, decision)
        return decision

    def _settled(self, item: Item, decision: Decision) -> Step[Decision]:
        item.asked = True
        decision = yield from procedure.settled(self.session, item.command, decision)
        self._locate(item)
        return decision

    def _decided(self, item: Item, decision: Decision, data: bytes = b"", request: Request | None = None) -> int:
        session, command = self.session, item.command
        verdict = decision.verdict
        if type(verdict) is Refuse:
            refusals.refuse(session, command, verdict)
            return TAKEN
        if type(verdict) is Answer:
            refusals.answer(session, command, verdict, asked=item.asked)
            return TAKEN
        item.hidden = decision.hidden
        if type(verdict) is Rewrite and session.trace is not None:
            session.trace.goes_as(verdict.argv)
        if session.tenant is not None:
            return self._decided_for_tenant(item, session.tenant, decision)
        if type(verdict) is Rewrite:
            item.instead_of = command
            command = item.command = Command(session.effective_policy.table, verdict.argv, verdict.spec)
            item.raw = encode_command(verdict.argv)
            item.edit = chained(self._learn(command), verdict.edit)
            judging.count_keys(session, command)
            return self._go_on(item)
        if request is None:
            judging.count_keys(session, command)
        elif session.effective_policy.compiled.policy.count_keys:
            config = session.intake.config
            found = config.keys.find(command.spec.id, request)
            config.plan.count(request, data, config.keys, found, config.counters)
        item.edit, item.terms = chained(self._learn(command), decision.edit), decision.replica
        item.value_edit = decision.edit
        return self._go_on(item)

    def _decided_for_tenant(self, item: Item, tenant: Tenant, decision: Decision) -> int:
        session, own, verdict = self.session, item.command, decision.verdict
        if type(verdict) is Rewrite:
            own = Command(session.effective_policy.table, verdict.argv, verdict.spec)
        if walk_of(own) is not None or tenant.empties(own.spec.name):
            item.asked = True
            walk = tenant_walks.answered if walk_of(own) is not None else tenant_flush.emptied
            return self._judge_on(item, walk(session, tenant, own))
        try:
            tenancy.put_prefix(session, tenant, item, own, decision, self._learn(own))
        except NotOfferedError as refused:
            refusals.refuse(session, item.command, Refuse(refused.error))
            return TAKEN
        judging.count_keys(session, item.command)
        self._locate(item)
        return self._go_on(item)

    def _learn(self, command: Command) -> ReplyEdit | None:
        # What rules learn from the reply, and which script has been accepted.
        session, known = self.session, self.session.ports.known_scripts or replica_reads.scripts(self.session)
        edit = scripts.edit_for(session, command) if session.effective_policy.compiled.learns else None
        if known is None or "scripting" not in command.spec.categories:
            return edit
        return chained(scripts.remembering(known, command), edit)

    def _locate(self, item: Item) -> None:
        session, nodes = self.session, self.session.ports.nodes
        if session.tenant is not None and item.instead_of is None:
            session.node = None  # it has names that Redis does not know, as long as it is judged
        elif nodes is not None:
            node_of_keys.locate(session, nodes, item.command.spec, item.raw)
            if item.wrapper is not None and session.node is None:
                session.node = named_node.named(nodes, node_of(item.wrapper))

    def _judge(self, item: Item) -> Decision:
        # A policy can refuse KEYRAIL NODE itself.
        if item.wrapper is not None:
            decision = judging.judge(self.session, item.wrapper)
            if isinstance(decision.verdict, Refuse | Answer):
                return decision
        refused = tenancy.refusal_of_script(self.session, item.command)
        return judging.judge(self.session, item.command) if refused is None else Decision(refused)

    # Reading

    def hold(self) -> None:
        """Bytes wait: read no more, except from a client that is blocked in Redis."""
        session = self.session
        if session.state.blocked and session.intake.unread() <= _UNREAD_WHILE_BLOCKED:
            session.resume_reading(BYTES_WAIT)
        else:
            session.pause_reading(BYTES_WAIT)

    def drained(self) -> None:
        """No command waits any more."""
        self.session.resume_reading(BYTES_WAIT)

    def has_left(self) -> bool:
        """Whether the client has left while its bytes waited."""
        session = self.session
        return session.has_left(session.lacks_since())

    def assembling(self, size: int) -> None:
        """An unfinished command grows."""
        self.session.assembling(size)

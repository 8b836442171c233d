"""The dispatcher judges each command of a client, then has it routed to a handler (``routing.py``).

A command that waits (``WAIT``: for an upstream, for replies, for another session's answer) comes back by ``arrived``.
The policy does not judge it twice.
"""

from proxy.commands.command import Command
from proxy.commands.spec import Lane
from proxy.commands.wrapped import node_of, wrapped_in
from proxy.hotpath.intake.intake import ENDED, TAKEN, WAIT
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.policy.decision import Decision
from proxy.rules.verdict import Answer, Refuse, ReplyEdit, Rewrite, chained
from proxy.session import reply_mode
from proxy.session.client_link import BYTES_WAIT
from proxy.session.cluster import named_node, node_connections, nodeless_multi, over_nodes, redirects
from proxy.session.commands import client_reply, follow_ups, sending, switching
from proxy.session.dispatcher import leaving, n_plus_one, refusals, routing, streaming
from proxy.session.item import Item
from proxy.session.logins import login
from proxy.session.policy import judging, procedure, scripts
from proxy.session.ports.node_port import NodePort
from proxy.session.ports.open_trace import OpenTrace
from proxy.session.ports.pool_key import UNAUTHENTICATED
from proxy.session.replicas import replica_reads
from proxy.session.session import Handlers, Session
from proxy.session.state import Awaited
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
            if session.ports.nodes is not None:
                self._locate(session.ports.nodes, command, item.raw, None)
            return routing.route(session, item, data, request.end)
        passes, session.intake.passes = session.intake.passes, False
        if not passes and self._waits():
            return WAIT
        held = session.held
        if held is not None:
            return self._resume(held, data, request.end)
        table = session.effective_policy.table
        command = Command(table, request.arguments(), table.specs[command_id])
        wrapper, command = self._unwrapped(command)
        if session.n_plus_one is not None and session.resolved is None:
            n_plus_one.meet(session, session.n_plus_one, command)
        if session.intake.sampled:
            size = request.end - request.start
            traces, weight = session.ports.traces, session.intake.sampled
            session.intake.sampled = 0
            session.trace = OpenTrace(traces, session, command, weight, size, traces.clock())
            n_plus_one.begin(session, command, weight)
        elif command.spec.lane is Lane.SLOW and session.ports.traces.follows_slow():
            size, traces = request.end - request.start, session.ports.traces
            session.trace = OpenTrace(traces, session, command, 0, size, traces.clock())
        if passes:
            session.resolved = replica_reads.passed(session, command_id, data, request)
        if wrapper is not None:
            return self._take(command, encode_command(command.argv), b"", 0, wrapper=wrapper)
        return self._take(command, data[request.start : request.end], data, request.end, request)

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
        if session.ports.reports.may_inspect():
            table = session.effective_policy.table
            command = Command(table, request.arguments(), table.specs[command_id])
            session.ports.reports.inspect(session.effective_policy.compiled.lowered[command_id], command, session)

    def _resume(self, held: Item, data: bytes, end: int) -> int:
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
            sending.refuse(session, login.error_before(session, held.command) or error)
            return TAKEN
        if not session.unreachable:
            return routing.route(session, held, data, end)
        session.unreachable = False
        session.end_probe()
        if held.trace is not None:
            held.trace.without_reply()
        return nodeless_multi.unreachable(session, held)

    def handle_inline(self, words: list[bytes], size: int) -> int:
        """Judge an inline command as the command that it is; it travels as an array."""
        session = self.session
        if replica_reads.waits(session):
            return WAIT
        if self._waits():
            return WAIT
        held = session.held
        if held is not None:
            return self._resume(held, b"", 0)
        command = Command(session.effective_policy.table, words)
        session.intake.command_id = command.spec.id
        wrapper, command = self._unwrapped(command)
        return self._take(command, encode_command(command.argv), b"", 0, wrapper=wrapper)

    def _waits(self) -> bool:
        # Whether the next command waits, for replies or for a procedure, before the policy judges it.
        session, sender, router = self.session, self.session.sender, self.session.intake.config.router
        if router is not None and sender.nodes is not None and not sender.fits(router):
            switching.wait_until_drained(session)
            return True
        if session.sender.room(session.intake.config.window) <= 0:
            session.sender.stalled = True
            return True
        if session.running_procedure is not None:
            session.wait_for(Awaited.PROCEDURE)
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
        if session.sender.order is not None:
            switching.wait_until_drained(session)
            return WAIT
        return streaming.begin(session, data, request)

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
        self,
        command: Command,
        raw: bytes,
        data: bytes,
        end: int,
        request: Request | None = None,
        wrapper: Command | None = None,
    ) -> int:
        session = self.session
        if session.key.user == UNAUTHENTICATED:
            if login.from_web_page(command):
                session.close_when_drained("web_request")
                return ENDED
            if error := login.error_before(session, command):
                refusals.tell(session)
                sending.answer(session, error)
                return TAKEN
        if session.ports.nodes is not None:
            self._locate(session.ports.nodes, command, raw, wrapper)
        decision, session.resolved = session.resolved, None
        asked = decision is not None and decision.asked
        learns = bool(session.effective_policy.compiled.learning)
        if decision is None:
            if learns and scripts.waits(session, command):
                return WAIT
            decision = judging.judge(session, command) if wrapper is None else self._judge_both(wrapper, command)
        if decision.pause is not None or decision.background:
            asked = True
            decision = procedure.settle(session, command, decision)
            if decision is None:
                return WAIT
            # A connection may have been given back, and whoever waited for it has scanned requests of its own.
            request = None
        verdict = decision.verdict
        if type(verdict) is Refuse:
            return refusals.refuse(session, command, verdict)
        if type(verdict) is Answer:
            return refusals.answer(session, command, verdict, asked=asked)
        if type(verdict) is Rewrite:
            rewritten = Command(session.effective_policy.table, verdict.argv, verdict.spec)
            judging.count_keys(session, rewritten)
            raw = encode_command(verdict.argv)
            reads = command.spec.only_reads
            edit = chained(self._learn(rewritten), verdict.edit)
            item = Item(rewritten, raw, edit, decision.hidden, reads=reads, instead_of=command, wrapper=wrapper)
            return routing.route(session, item, data, end)
        if request is None:
            judging.count_keys(session, command)
        elif session.effective_policy.compiled.policy.count_keys:
            config = session.intake.config
            found = config.keys.find(command.spec.id, request)
            config.plan.count(request, data, config.keys, found, config.counters)
        reads = command.spec.only_reads
        edit, terms = self._learn(command), decision.replica
        item = Item(command, raw, edit, decision.hidden, reads=reads, terms=terms, wrapper=wrapper, asked=asked)
        return routing.route(session, item, data, end)

    def _learn(self, command: Command) -> ReplyEdit | None:
        # What rules learn from the reply, and which script has been accepted.
        session, known = self.session, self.session.ports.known_scripts or replica_reads.scripts(self.session)
        edit = scripts.edit_for(session, command) if session.effective_policy.compiled.learning else None
        if known is None or "scripting" not in command.spec.categories:
            return edit
        return chained(scripts.remembering(known, command), edit)

    def _locate(self, nodes: NodePort, command: Command, raw: bytes, wrapper: Command | None) -> None:
        over_nodes.locate(self.session, nodes, command.spec, raw)
        if wrapper is not None and self.session.node is None:
            self.session.node = named_node.named(nodes, node_of(wrapper))

    def _judge_both(self, wrapper: Command, command: Command) -> Decision:
        # A policy can refuse KEYRAIL NODE itself.
        decision = judging.judge(self.session, wrapper)
        return decision if isinstance(decision.verdict, Refuse | Answer) else judging.judge(self.session, command)

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


HANDLERS = Handlers(
    Dispatcher, follow_ups.catch_up, replica_reads.begin, redirects.told_instead, leaving.turn_away, leaving.leave
)

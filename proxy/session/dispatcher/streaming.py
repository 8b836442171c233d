"""A request with a bulk string too large to collect: it passes through in pieces, on a private upstream.

Where the large string is the last argument, everything that a rule may ask is known with its first bytes, so the
command is judged, and rewritten, before anything is sent; a refused one is read to its end and answered. Where
arguments follow, the pieces are sent as they come with the very last byte withheld: the command is judged when all of
it has passed, and a refusal closes that upstream, so that Redis never runs it.

Each is traced, whatever the sampler says: they are few, and the largest values are what people look for.

Rules see the first bytes of each large argument (``words.LONGEST``): Redis reads a word up to its first NUL, and
whatever stands behind that does not change which word it is.

Commands that change the connection, those that are not known, and those whose subcommand is the large string are
collected instead: none of them is meant to carry megabytes.

While it is under way the upstream is `partial`: it takes the rest of this command, or it is closed.
"""

from collections.abc import Mapping

from proxy.commands.command import Command
from proxy.commands.table import ConnectionState
from proxy.commands.words import LONGEST
from proxy.hotpath.intake.intake import FINISHED
from proxy.policy.decision import Decision, HiddenCommands
from proxy.rules.verdict import PASS, Answer, Refuse, ReplyEdit, Rewrite, Verdict, chained
from proxy.session import reply_mode
from proxy.session.cluster import node_of_keys, subscribing
from proxy.session.commands import cached_answers, follow_ups, hidden_commands, pinned, sending, switching, write_pauses
from proxy.session.dispatcher import transaction
from proxy.session.item import Item
from proxy.session.policy import judging, procedure, scripts, tenancy
from proxy.session.policy.paying import Paying
from proxy.session.ports.open_trace import OpenTrace
from proxy.session.progress import NotYet
from proxy.session.session import Session
from proxy.tenants.requests import NotOfferedError
from proxy.wire.encode import encode_error
from proxy.wire.request import ARGUMENT_BYTES, COMPLETE, LARGE, MALFORMED, Request

_STREAMED_STATES = frozenset({ConnectionState.POOL, ConnectionState.BLOCKING})

_OVER = object()
_ON_ITS_WAY = "its value is on its way already"
_CANNOT_REWRITE = encode_error(
    "DENIED keyrail: the policy rewrites this command, which is not possible once a value this large is on its way; "
    "send the large value as its last argument"
)


def begin(session: Session, data: bytes, request: Request) -> None:
    """Take over the unfinished request at ``request.start``; its arguments so far are in ``request``. Raises
    ``NotYet``."""
    argv = request.arguments()
    table = session.effective_policy.table
    spec = table.spec_of(argv) if argv else table.specs[0]
    collected = spec.state not in _STREAMED_STATES or (spec.container and len(argv) == 1)
    # What stands before the large string could not get a tenant's prefix any more, once it is on its way.
    collected = collected or (session.tenant is not None and len(argv) + 1 != request.expected)
    if collected or subscribing.is_confined(session):
        session.intake.collect(data[request.start :])
        return
    _ask_about_scripts(session, Command(table, argv, spec))
    write_pauses.check_streamed(session, spec)
    if session.state.blocked or (session.state.upstream is not None and follow_ups.undecided(session)):
        # In the middle of a value nothing can follow the commands before it, and behind one that blocks nothing runs.
        switching.drained(session)
    session.assembling(request.position - request.start + request.bulk + ARGUMENT_BYTES * request.argc)
    if session.gone:
        return
    if not _finds_node(session, Command(table, argv, spec), request):
        session.intake.collect(data[request.start :])
        return
    may_block = spec.state is ConnectionState.BLOCKING and session.state.transaction is None
    upstream = (switching.to_drained_private if may_block else switching.to_private)(session)
    at = upstream.key.node
    assert session.ports.nodes is None or at is session.node, "pieces go to the node of a key"
    if spec.process_bound:
        session.ports.pools.relies_on_process(session)
    stream = _Stream(session, argv, request.expected, request.bulk)
    session.intake.unfinished = stream
    stream.begin(data[request.start : request.position])
    stream.receive(data[request.position :])


def _ask_about_scripts(session: Session, command: Command) -> None:
    search, session.search = session.search, None
    if not session.effective_policy.compiled.learns:
        return
    if search is None:
        search = scripts.told(session, command)
    if search is not None and next(search, _OVER) is not _OVER:
        session.search = search
        raise NotYet


def _finds_node(session: Session, command: Command, request: Request) -> bool:
    # With a cluster upstream, pieces go to the node of a key that has arrived; nothing else is known of the command
    # yet.
    nodes = session.ports.nodes
    if nodes is None:
        return True
    if session.unreachable:
        # Its node could not be reached in time. An error can be the reply to it once it has arrived whole.
        session.unreachable = False
        return False
    full = tenancy.begun_for_redis(session, command, request.bulk)
    session.node = None if full is None else node_of_keys.node_of_first(session, nodes, full, request.expected)
    return session.node is not None


class _Stream:
    """One request on its way: the arguments that have arrived, and the bytes that are still to come."""

    def __init__(self, session: Session, argv: list[bytes], expected: int, length: int) -> None:
        self.session = session
        self.argv = [*argv, b""]
        self.streamed = len(argv)
        self.length = length
        self.further: dict[int, int] = {}
        self.expected = expected
        self.left = length + 2
        self.telling = min(length, LONGEST)
        self.head: bytes | None = None
        self.held = b""
        self.rest = b""
        self.size = 0
        self.judged: Command | None = None
        self.refusal: bytes | None = None
        self.verdict: Verdict = PASS
        self.edit: ReplyEdit | None = None
        self.surrounded: hidden_commands.SurroundedCommand | None = None
        self.paying: Paying | None = None
        self.tail = b""

    def begin(self, head: bytes) -> None:
        """Take the bytes before the large argument. If that is the last one, nothing is sent before the verdict."""
        self.size = len(head)
        if len(self.argv) == self.expected:
            self.head = head
        else:
            self.pay_ahead(0)
            self.emit(head)

    def _take(self, chunk: bytes) -> None:
        # Bytes of a large argument; the first ones are kept for those who judge.
        if self.head is not None:
            self.held += chunk
            if len(self.held) < self.telling:
                return
            chunk, self.held = self.held, b""
            self.argv[-1] = chunk[: self.telling]
            head, self.head = self.head, None
            self._judge_first(head)
        elif len(self.argv[-1]) < self.telling:
            self.argv[-1] += chunk[: self.telling - len(self.argv[-1])]
        self.emit(chunk)

    def _judge_first(self, head: bytes) -> None:
        # Everything but the rest of the last argument is known: judge, and send what goes before it.
        command = self._command()
        self.judged = command
        decision = self._decide(command, None)
        self.edit = decision.edit
        verdict = self.verdict = decision.verdict
        if isinstance(verdict, Refuse | Answer):
            self.refusal = _instead(verdict)
        elif isinstance(verdict, Rewrite):
            head, self.tail = _around(verdict.argv, self.streamed, self.length)
            self.edit = verdict.edit
            self.judged = Command(
                self.session.effective_policy.table, verdict.argv, verdict.spec, self.streamed, self.length
            )
        hidden = decision.hidden
        if self.session.tenant is not None and self.refusal is None:
            try:
                full = tenancy.for_redis(self.session, self.session.tenant, self.judged, hidden)
            except NotOfferedError as refused:
                self.refusal = refused.error
            else:
                self.judged, self.edit, hidden = full.command, chained(full.edit, self.edit), full.hidden
                head, self.tail = _around(full.command.argv, self.streamed, self.length)
        self._invite(hidden, begun=False)
        self.emit(head)

    def _decide(self, command: Command, prepaid: Mapping[str, int] | None) -> Decision:
        # What rules ask Redis cannot hold up a command that is on its way: it serves the commands after it.
        session = self.session
        refusal = None if session.tenant is None else tenancy.refusal(session.tenant, command)
        refused = refusal or tenancy.refusal_of_script(session, command)
        if refused is not None:
            return Decision(refused)
        decision = judging.judge(session, command, _ON_ITS_WAY, prepaid)
        for background in decision.background:
            procedure.look_on(session, session.effective_policy.compiled, command, background)
        return decision

    def _invite(self, hidden: tuple[HiddenCommands, ...], *, begun: bool) -> None:
        # What goes with the command begins before its first byte, unless that has left.
        assert self.judged is not None
        if not hidden or self.refusal is not None:
            return
        session = self.session
        self.refusal, hidden = hidden_commands.alongside(session, hidden, self.judged, begun=begun)
        if hidden and self.refusal is None:
            self.surrounded = hidden_commands.SurroundedCommand(session, Item(self.judged, b"", self.edit, hidden))
            self.surrounded.begin()

    def _command(self) -> Command:
        command = Command(self.session.effective_policy.table, self.argv)
        command.streamed = self.streamed
        command.streamed_length = self.length
        command.further = self.further
        return command

    def pay_ahead(self, arrived: int) -> None:
        """So many bytes more are about to pass unjudged, and what is announced behind them."""
        if self.paying is None:
            self.paying = Paying(self.session, self._command())
        total = self.size + arrived + self.left
        self.session.assembling(total + ARGUMENT_BYTES * len(self.argv))
        if self.refusal is None and not self.session.gone:
            self.refusal = self.paying.pay(total)

    def emit(self, chunk: bytes) -> None:
        """Send on all bytes of a judged command, all but the last byte of another."""
        if not chunk or self.refusal is not None or self.session.gone:
            return
        upstream = self.session.sender.upstream
        assert upstream is not None
        self.session.sender.send_piece(upstream, chunk, self.judged is None)

    def receive(self, data: bytes) -> None:
        """Take more bytes of the client."""
        if self.rest:
            data = self.rest + data
            self.rest = b""
        position = 0
        while True:
            taken = min(self.left, len(data) - position)
            self._take(data[position : position + taken])
            self.left -= taken
            self.size += taken
            position += taken
            if self.left:
                return
            if len(self.argv) == self.expected:
                self._finish(data[position:])
                return
            begun = position
            position, stopped = self._read_arguments(data, position)
            self.size += position - begun
            if stopped or self.session.gone:
                self.rest = data[position:]
                return

    def _read_arguments(self, data: bytes, position: int) -> tuple[int, bool]:
        # Take the arguments that are whole from ``position``, up to another large one: the new position, and whether
        # more bytes are needed to go on.
        walker = Request()
        walker.expected = self.expected - len(self.argv)
        walker.position = position
        code = walker.resume(data, self.session.intake.limits)
        if code == MALFORMED:
            handler = self.session.intake.handler
            assert handler is not None, "the client is connected"
            handler.malformed(walker)
            return position, True
        end = walker.ends[walker.argc - 1] + 2 if walker.argc else position
        self.argv += walker.arguments()
        if code == LARGE:
            self.further[len(self.argv)] = walker.bulk
            self.argv.append(b"")
            self.left = walker.bulk + 2
            self.telling = min(walker.bulk, LONGEST)
            end = walker.position
        self.pay_ahead(end - position)
        self.emit(data[position:end])
        return end, code not in (COMPLETE, LARGE)

    def _finish(self, following: bytes) -> None:
        session = self.session
        session.intake.unfinished = None
        if self.judged is None:
            self._judge_last()
        if session.gone or session.intake.phase == FINISHED:
            return
        assert self.judged is not None
        # Another engine may have come meanwhile.
        self.judged = self.judged.known_to(session.effective_policy.table)
        session.intake.calls.add(self.judged.spec.id)
        trace = self._trace(self.judged if session.tenant is None else self._command())
        if self.refusal is None:
            judging.count_keys(session, self.judged)
            self._submit(trace)
        elif session.state.upstream is not None:
            sending.refuse(session, self.refusal)
            switching.release_pin(session)
        else:
            sending.answer(session, self.refusal)
        if judging.end_if_closed_by(session, self.verdict):
            return
        if following:
            session.intake.pending = following
        if not session.intake.running:
            session.intake.resume()

    def _trace(self, command: Command) -> OpenTrace | None:
        """The trace of the command; None if its reply is not measured, or nothing is traced."""
        session = self.session
        traces = session.ports.traces
        traces.see_form(session, command, 1)
        if session.intake.config.sampler.traces <= 0:
            return None
        made: OpenTrace = OpenTrace(traces, session, command, 1, self.size, traces.clock())
        made.prefix = tenancy.prefix_of(session)
        made.refused = self.refusal is not None
        alone = (
            session.state.transaction is None and self.surrounded is None and session.state.reply_mode == reply_mode.ON
        )
        if alone and not made.refused and command.spec.state is ConnectionState.POOL:
            return made
        made.without_reply()
        return None

    def _submit(self, trace: OpenTrace | None) -> None:
        session = self.session
        assert session.sender.upstream is not None
        assert self.judged is not None
        session.sender.end_pieces(session.sender.upstream)
        if self.judged.spec.may_replicate:
            session.sender.note_write(session.sender.upstream)
        if session.state.transaction is None:
            session.sender.notify_when_idle = True
        may_block = pinned.may_block(session, self.judged)
        before, cached = cached_answers.before(session), session.intake.cached_reads
        if self.surrounded is not None:
            self.surrounded.end(self.tail)
            session.on_its_own.blocked += may_block
        elif may_block:
            pinned.submit_blocking(session, Item(self.judged, self.tail, self.edit))
        elif trace is not None:
            sending.submit_traced(session, self.tail, self.edit, trace)
        elif session.state.transaction is None:
            sending.submit(session, self.tail, self.edit)
        else:
            transaction.queue_bytes(session, self.tail, self.edit)
        if cached is not None:
            cached_answers.hold(session, cached, self.judged, before)

    def _judge_last(self) -> None:
        session = self.session
        command = self.judged = self._command()
        if self.refusal is not None:
            if session.state.upstream is not None and session.state.upstream.partial is not None:
                _cut(session, self.refusal)
            return
        assert self.paying is not None
        decision = self._decide(command, self.paying.prepaid)
        self.edit = decision.edit
        verdict = self.verdict = decision.verdict
        if isinstance(verdict, Refuse | Answer):
            self.refusal = _instead(verdict)
        elif isinstance(verdict, Rewrite):
            self.refusal = _CANNOT_REWRITE
        self._invite(decision.hidden, begun=True)
        if self.refusal is not None:
            # Redis has all but the last byte: without that upstream, it has nothing.
            _cut(session, self.refusal)


def _instead(verdict: Refuse | Answer) -> bytes:
    return verdict.error if isinstance(verdict, Refuse) else verdict.reply


def _cut(session: Session, error: bytes) -> None:
    # Close the private upstream, on which the command stands unfinished; its state, if any, is lost with it.
    upstream = session.state.upstream
    assert upstream is not None
    if session.sender.pending_replies > 0 or session.keeps_pin():
        # Replies that were asked for before are lost as well: the client is told by the close. Where CLIENT REPLY has
        # silenced it, nothing can go to Redis that uses up a SKIP.
        if session.sender.pending_replies == 0 and session.state.reply_mode == reply_mode.ON:
            sending.answer(session, error)
        session.close("refused_while_streaming")
        return
    session.leave_upstream()
    session.ports.pools.discard(upstream)


def _around(argv: list[bytes], streamed: int, length: int) -> tuple[bytes, bytes]:
    # The bytes of a rewritten command before the streamed argument, and behind the line end that follows it.
    before = bytearray(b"*%d\r\n" % len(argv))
    for argument in argv[:streamed]:
        before += b"$%d\r\n%b\r\n" % (len(argument), argument)
    before += b"$%d\r\n" % length
    behind = bytearray()
    for argument in argv[streamed + 1 :]:
        behind += b"$%d\r\n%b\r\n" % (len(argument), argument)
    return bytes(before), bytes(behind)

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""Runs: neighbouring commands of one client that leave for Redis together.

Commands that the plan lets pass and that need no connection state gather into a run: one slice of the client's own
bytes and one entry with a count in the queue of the upstream that the session chose. A command that is rewritten by a
closed operation stays in the run, with its pieces replaced. With a cluster upstream, each node gets a run
(``Portions``).

Where the policy lets replicas answer reads, a run also ends between these and the commands for the primary. A command
by which the client learns or changes what it may read from replicas waits for their replies: Redis might run it before.
"""

from proxy.hotpath.cache.cache_outcomes import COUNTED, MISSED, UNASKED, UNREAD
from proxy.hotpath.cache.cached_reads import CachedReads
from proxy.hotpath.cluster.key_splitter import REACHED, KeySplitter
from proxy.hotpath.cluster.portions import Portions
from proxy.hotpath.cluster.router import SEVERAL_SLOTS
from proxy.hotpath.counting.call_counts import CallCounts
from proxy.hotpath.intake.command_sender import CommandSender
from proxy.hotpath.intake.intake_handler import IntakeHandler
from proxy.hotpath.intake.open_run import OpenRun, SpareRun
from proxy.hotpath.intake.repeated_reads import MOST_ANSWERED, RepeatedReads
from proxy.hotpath.plan.hot_path_config import MAY_WRITE, HotPathConfig
from proxy.hotpath.plan.leased_tokens import TokenSet
from proxy.hotpath.plan.plan import EDIT, EDIT_REPLY, JUDGE, PASS, PREFIX, REFUSE, UNSOUGHT
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.wire.request import COMPLETE, RequestLimits

# Why a run ends, where the scanner has found a whole command. Under two names each: C integers in here, Python's for
# everybody else.
_SPECIAL = 10  # the next command is not for a run
_STALLED = 11  # so many replies are pending for the client that the next command waits
_REFUSED = 12  # the plan refuses the next command
_SPLIT = 13  # the next command has keys of several slots
_FULL = 14  # the client does not take what it has been sent; the command is answered
_ANSWERED = 15  # the command is answered
SPECIAL, STALLED, REFUSED, FULL = _SPECIAL, _STALLED, _REFUSED, _FULL

_LARGE_ANSWER = 4096
"""Bytes of an answer from memory that leaves at once, as MOST_ANSWERED of them do: the client may not take them."""
_MOST_AT_ONCE = 16
"""Smaller ones that gather, where each ends a run."""

_SPLITTER = KeySplitter()
_SPARE = SpareRun()
_REPEATED = RepeatedReads()


class Runs:
    """What a client sends as runs, by the ``sender``.

    ``direct``: the connection chosen last may take runs; ``simple`` says which commands may join one. ``again``: the
    next command is one that the handler has made wait; it goes there, not into a run. ``missed``: the plan lets it go
    on, and it may be answered from memory, once that has the reply. ``calls`` counts the client's commands. ``prefix``
    is that of the client's tenant, and ``used_prefix`` says whether a key has had it.

    What a client may still spend under the limits of its policy is in ``token_sets``; the session puts them there when
    it judges a first command, and takes them away (None) when they may no longer be the right ones.
    """

    # Not compiled, a dictionary of so many names would be a kilobyte larger for each client.
    __slots__ = (
        "again",
        "cached_reads",
        "calls",
        "command_id",
        "config",
        "direct",
        "handler",
        "limits",
        "missed",
        "passes",
        "prefix",
        "sampled",
        "sender",
        "simple",
        "token_sets",
        "used_prefix",
    )

    def __init__(
        self,
        config: HotPathConfig,
        limits: RequestLimits,
        sender: CommandSender,
        handler: IntakeHandler,
        calls: CallCounts | None,
    ) -> None:
        self.config = config
        self.calls = CallCounts(len(config.pooled)) if calls is None else calls
        self.limits = limits
        self.sender = sender
        self.handler: IntakeHandler | None = handler
        self.simple = config.pooled
        self.direct = self.again = self.passes = self.missed = self.used_prefix = False
        self.command_id = self.sampled = 0
        self.prefix = b""
        self.token_sets: list[TokenSet] | None = None
        self.cached_reads: CachedReads | None = None

    def _gather(self, data: bytes, p: bytes, position: int) -> int:
        # One run from ``position``. When it returns, ``request`` stands at what stopped the run, and the run is sent.
        config, run = self.config, _SPARE.take()
        request = config.request
        self._begin(config, run, position)
        size = len(data)
        while True:
            code = request.scan_in(data, p, size, run.end, self.limits)
            if code == COMPLETE:
                code = self._take(config, run, data, p)
            if code != COMPLETE:
                break
        if config.plan.spends:
            config.spender.settle()
        run.leave(self.sender, data, p, request.start)
        if code == _SPLIT:
            code = self._split(config, run.portions, p)
        run.upstream = run.reads = None
        _SPARE.run = run
        return code

    def _begin(self, config: HotPathConfig, run: OpenRun, position: int) -> None:
        sender = self.sender
        # A client with state on a connection sends all there.
        router = None if sender.nodes is None else config.router
        upstream, reads = sender.upstream, sender.reads
        if reads is None and config.plan.replica_reads is not None and sender.listener is not None:
            sender.listener.begin_reads()
            reads = sender.reads
        if reads is not None:
            upstream = reads.home(upstream)
            if router is not None:
                reads.follow(router.version)
            elif upstream is not None and not _is_shared(upstream):
                reads = None
        run.begin(upstream, router is not None, position)
        run.reads = reads
        run.room = sender.room(config.window)
        # A command that the session has made wait is its to bring on.
        run.direct = self.direct and not self.again
        if router is None:
            run.direct = run.direct and upstream is not None and upstream.usable
        elif not sender.fits(router):
            run.direct = False
        if config.plan.spends:
            config.spender.forget()
        if config.plan.prefixes:
            config.plan.editor.prefix = self.prefix
            run.seed = 0 if router is None else router.seed_of(self.prefix)

    def _take(self, config: HotPathConfig, run: OpenRun, data: bytes, p: bytes) -> int:
        # COMPLETE if the next command joins the run or is answered, else why the run ends before it.
        plan = config.plan
        request = config.request
        command_id = config.lookup.find_in(request, p)
        self.command_id = command_id
        if not self.again and config.sampler.due():
            return self._trace(config, run, p)
        simple = self.simple
        if not run.direct or (simple[command_id] == 0 and not plan.refuses(command_id)):
            return _SPECIAL
        if config.gate.closed and config.may_pause[command_id] != 0:
            return _SPECIAL
        if run.count >= run.room:
            return _STALLED
        remembers = self.cached_reads
        if remembers is not None and remembers.waits_for_untold(command_id):
            return _SPECIAL
        found = UNSOUGHT
        if run.portions is not None and not plan.judges(command_id):
            found = config.keys.find(command_id, request)
            code = self._turn_to_node(config, run, p, found)
            if code != COMPLETE:
                return code
        reads = run.reads
        looked = reads is not None and reads.away
        goes_on = False
        if looked and reads is not None:
            found = plan.look(found, command_id, request, p, config.keys)
            goes_on = self.cached_reads is None and reads.goes_on(config, command_id, run.upstream)
            if not goes_on and reads.holds(config, self.cached_reads, command_id, p, run.unsent(), run.place()):
                return _SPECIAL
        if plan.spends and not config.affords(command_id, self.token_sets):
            return _SPECIAL
        decision = plan.decide_by(found, looked, command_id, request, p, config.keys, config.counters)
        if decision == JUDGE:
            return _SPECIAL
        if decision == REFUSE:
            return _REFUSED
        edit = plan.reply_edit if decision == EDIT_REPLY else None
        if edit is not None:
            # Not where the reply may be EXEC's, or that of memory or another server.
            elsewhere = run.portions is not None or reads is not None or remembers is not None
            if elsewhere or not _is_shared(run.upstream):
                return _SPECIAL
            config.count_edited(command_id, p)
        if run.edit is not edit:
            run.turn_to_edit(self.sender, data, p, edit)
        passes = decision == PASS or decision == PREFIX
        self.used_prefix = self.used_prefix or (plan.prefixes and decision != PASS)
        if goes_on and passes and reads is not None:
            reads.go_on(config, command_id, p)
            if plan.spends:
                config.spender.take(request.end - request.start)
        elif reads is not None or self._is_remembered(config, p):
            code = self._read_elsewhere(config, run, data, p, passes)
            if code != COMPLETE:
                return COMPLETE if code == _ANSWERED else code
        elif plan.spends:
            config.spender.take(request.end - request.start)
        if simple[command_id] == MAY_WRITE:
            run.wrote = True
        run.count += 1
        self.calls.numbers[command_id] += 1
        run.end = request.end
        if decision == EDIT or decision == PREFIX:
            run.splice.put(p, run.start, request.start)
            plan.editor.write(run.splice, p, request, config.keys, plan.found)
            run.start = request.end
        return COMPLETE

    def _is_remembered(self, config: HotPathConfig, p: bytes) -> bool:
        # Whether memory may have to do with the command that the plan has decided.
        remembers = self.cached_reads
        if remembers is None or remembers.cache.idle:
            return False
        return remembers.may_concern(self.command_id, config.request, p, config.keys, config.plan.found)

    def _read_elsewhere(self, config: HotPathConfig, run: OpenRun, data: bytes, p: bytes, passes: bool) -> int:
        # Memory may have the reply, or a replica; the plan has decided about the command, which ``passes`` as it is or
        # is edited. It is paid for. ANSWERED, COMPLETE if it joins the run, or why the run ends before it.
        command_id, request, reads, remembers = self.command_id, config.request, run.reads, self.cached_reads
        if reads is not None and not self._is_remembered(config, p):
            remembers = None
        payload = None
        served = UNASKED
        if remembers is not None and passes and _is_shared(run.upstream if reads is None else reads.primary):
            payload = remembers.answer_request(command_id, request, p, config.keys)
            served = remembers.outcome
        if reads is not None and payload is None:
            source = reads.source(config, self.cached_reads, command_id, p, passes, run.unsent(), run.place())
            if source is not run.upstream and not run.turn_to_source(self.sender, data, p, source):
                return _SPECIAL
        if config.plan.spends:
            config.spender.take(request.end - request.start)
        if payload is not None:
            return self._answer(config, run, data, p, payload)
        if remembers is not None:
            absent = served == MISSED or served == UNREAD
            if absent and remembers.may_serve(command_id, request, p, config.keys):
                self.missed = True
                return _SPECIAL
            if served != COUNTED:
                at = self.sender.requested + run.unsent() + 1
                remembers.hold(command_id, request, p, config.keys, self.sender, at)
        return COMPLETE

    def _trace(self, config: HotPathConfig, run: OpenRun, p: bytes) -> int:
        self.sampled = config.sampler.weight
        if run.direct and self.simple[self.command_id] != 0 and run.count < run.room:
            self.passes = config.passes(self.command_id, p, self.token_sets)
        return _SPECIAL

    def _turn_to_node(self, config: HotPathConfig, run: OpenRun, p: bytes, found: int) -> int:
        # With a cluster upstream: the command, whose keys were found, goes to their node. COMPLETE, or why it does not.
        router = config.router
        assert router is not None, "only with a cluster upstream"
        node = router.node_of(found, config.request, p, config.keys, run.seed)
        if node < 0:
            return _SPLIT if node == SEVERAL_SLOTS else _SPECIAL
        if node == run.node:
            return COMPLETE
        if run.is_whole():
            upstream = self._connection(node)
            if upstream is None:
                return _SPECIAL
            run.upstream = upstream
        else:
            portions = run.portions
            assert portions is not None, "with a cluster upstream there are some"
            portion = portions.of(node)
            upstream = portion.upstream
            if upstream is None:
                upstream = self._connection(node)
                if upstream is None or portions.full():
                    return _SPECIAL
            run.turn_to_portion(p, portion, upstream)
        run.node = node
        if run.reads is not None:
            run.reads.primary = upstream
        return COMPLETE

    def _answer(self, config: HotPathConfig, run: OpenRun, data: bytes, p: bytes, payload: bytes) -> int:
        # The command is answered from memory, behind the replies to all that was gathered.
        sender, remembers = self.sender, self.cached_reads
        assert remembers is not None, "it has answered"
        hit, remembers.hit = remembers.hit, None
        place = run.place()
        run.leave(sender, data, p, config.request.end)
        if run.reads is not None:
            run.reads.note(place, False)  # memory may know more than its replica
        self._remember(payload)
        run.room = sender.room(config.window)
        run.answered += len(payload)
        if run.answered > MOST_ANSWERED or len(payload) > _LARGE_ANSWER:
            run.answered = 0
            sender.flush()
            return _FULL if sender.full else _ANSWERED
        if hit is not None:
            _REPEATED.answer(config, run, sender, self.calls, remembers, hit, self.command_id, data, p, payload)
        return _ANSWERED

    def _remember(self, payload: bytes) -> int:
        self.sender.answer(payload)
        self.sender.remembered += 1
        self.calls.numbers[self.command_id] += 1
        return 0

    def _split(self, config: HotPathConfig, portions: Portions | None, p: bytes) -> int:
        # The next command has keys of several slots: what becomes of it. If COMPLETE, each node was sent its part.
        request = config.request
        command_id = self.command_id
        plan, router, sender, commands = config.plan, config.router, self.sender, config.split_commands
        if router is None or portions is None or sender.nodes is None or commands is None:
            return _SPECIAL
        kinds = commands.kinds
        if kinds[command_id] == 0:
            return _SPECIAL
        if config.keys.find(command_id, request) != request.argc - 1 or not plan.renames_at_most(command_id):
            return _SPECIAL
        parts = _SPLITTER.group(request, p, router)
        if parts == 0 or parts > config.window // 2:
            return _SPECIAL
        node = _SPLITTER.unreached(sender.nodes)
        while node != REACHED:
            if self._connection(node) is None:
                return _SPECIAL
            node = _SPLITTER.unreached(sender.nodes)
        if parts > config.window - sender.pending_replies:
            return _STALLED
        reads = sender.reads
        if reads is not None and reads.waits(0):
            return _SPECIAL
        decision = config.spend_and_decide(command_id, p, self.token_sets)
        if decision == JUDGE:
            return _SPECIAL
        remembers = self.cached_reads
        if remembers is not None and remembers.cache.idle:
            remembers = None
        if remembers is not None and decision == PASS:
            code = self._answer_split(config, remembers, p)
            if code != COMPLETE:
                return COMPLETE if code == _ANSWERED else code
        name = plan.editor.name if decision == EDIT else b""
        simple = self.simple
        wrote = simple[command_id] == MAY_WRITE
        if reads is not None:
            reads.note_everywhere(wrote)
        _SPLITTER.put(portions, sender.nodes, request, p, name, wrote)
        sender.forward_split(portions, _SPLITTER, commands, command_id, name)
        if remembers is not None and (decision != PASS or remembers.outcome != COUNTED):
            remembers.hold(command_id, request, p, config.keys, sender, sender.requested)
        self.calls.numbers[command_id] += 1
        return COMPLETE

    def _answer_split(self, config: HotPathConfig, remembers: CachedReads, p: bytes) -> int:
        # Memory may have all that the command reads, from several nodes. ANSWERED, COMPLETE if it is to be sent, or why
        # the run ends before it.
        sender, request, command_id = self.sender, config.request, self.command_id
        payload = remembers.answer_request(command_id, request, p, config.keys)
        if payload is None:
            absent = remembers.outcome == MISSED or remembers.outcome == UNREAD
            if not absent or not remembers.may_serve(command_id, request, p, config.keys):
                return COMPLETE
            self.missed = True
            return _SPECIAL
        if sender.reads is not None:
            sender.reads.note_everywhere(False)  # memory may know more than its replicas
        self._remember(payload)
        if len(payload) > _LARGE_ANSWER or len(sender.out) >= _MOST_AT_ONCE:
            sender.flush()
            if sender.full:
                return _FULL
        return _ANSWERED

    def _connection(self, node: int) -> UpstreamPipeline | None:
        # The connection that this client uses for a node; None where the session must decide.
        nodes = self.sender.nodes
        if node < 0 or nodes is None or node >= len(nodes):
            return None
        target = nodes[node]
        if target is None and self.handler is not None:
            target = self.handler.connect(node)
        return target if target is not None and target.usable else None


def _is_shared(upstream: UpstreamPipeline | None) -> bool:
    # Only a private connection has anything of this client, or a transaction that is on its way.
    return upstream is not None and upstream.owner is None and upstream.unit is None

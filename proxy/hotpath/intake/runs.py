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
from proxy.hotpath.cluster.router import SEVERAL_SLOTS
from proxy.hotpath.intake.open_run import OpenRun, SpareRun
from proxy.hotpath.intake.repeated_reads import MOST_ANSWERED, RepeatedReads
from proxy.hotpath.intake.run_ends import ANSWERED, FULL, REFUSED, SPECIAL, SPLIT, STALLED
from proxy.hotpath.intake.split_runs import LARGE_ANSWER, SplitRuns
from proxy.hotpath.plan.hot_path_config import MAY_WRITE, HotPathConfig
from proxy.hotpath.plan.plan import EDIT, EDIT_REPLY, JUDGE, PASS, PREFIX, REFUSE, UNSOUGHT
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.wire.request import COMPLETE

_SPARE = SpareRun()
_REPEATED = RepeatedReads()


class Runs(SplitRuns):
    """What a client sends as runs."""

    __slots__ = ()

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
        if code == SPLIT:
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
        # Chosen once for a read, not asked for each of its commands.
        run.is_plain = router is None and reads is None and self.cached_reads is None and not config.plan.spends

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
            return SPECIAL
        if config.gate.closed and config.may_pause[command_id] != 0:
            return SPECIAL
        if run.count >= run.room:
            return STALLED
        if run.is_plain:
            decision = plan.decide_by(UNSOUGHT, False, command_id, request, p, config.keys, config.counters)
            if decision == PASS and run.edit is None:
                return self._join(run, request.end)
            return self._go_on(config, run, data, p, decision, False)
        remembers = self.cached_reads
        if remembers is not None and remembers.waits_for_untold(command_id):
            return SPECIAL
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
                return SPECIAL
        if plan.spends and not config.affords(command_id, self.token_sets):
            return SPECIAL
        decision = plan.decide_by(found, looked, command_id, request, p, config.keys, config.counters)
        return self._go_on(config, run, data, p, decision, goes_on)

    def _go_on(self, config: HotPathConfig, run: OpenRun, data: bytes, p: bytes, decision: int, goes_on: bool) -> int:
        # The same for a command that the plan has decided; ``goes_on``: a replica may answer it like those before.
        command_id, request, plan = self.command_id, config.request, config.plan
        reads, remembers = run.reads, self.cached_reads
        if decision == JUDGE:
            return SPECIAL
        if decision == REFUSE:
            return REFUSED
        edit = plan.reply_edit if decision == EDIT_REPLY else None
        if edit is not None:
            # Not where the reply may be EXEC's, or that of memory or another server.
            elsewhere = run.portions is not None or reads is not None or remembers is not None
            if elsewhere or not _is_shared(run.upstream):
                return SPECIAL
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
                return COMPLETE if code == ANSWERED else code
        elif plan.spends:
            config.spender.take(request.end - request.start)
        if decision == EDIT or decision == PREFIX:
            plan.editor.write(run.splice, p, run.start, request, config.keys, plan.found)
            run.start = request.end
        return self._join(run, request.end)

    def _join(self, run: OpenRun, end: int) -> int:
        simple = self.simple
        if simple[self.command_id] == MAY_WRITE:
            run.wrote = True
        run.count += 1
        self.calls.numbers[self.command_id] += 1
        run.end = end
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
                return SPECIAL
        if config.plan.spends:
            config.spender.take(request.end - request.start)
        if payload is not None:
            return self._answer(config, run, data, p, payload)
        if remembers is not None:
            absent = served == MISSED or served == UNREAD
            if absent and remembers.may_serve(command_id, request, p, config.keys):
                self.missed = True
                return SPECIAL
            if served != COUNTED:
                at = self.sender.requested + run.unsent() + 1
                remembers.hold(command_id, request, p, config.keys, self.sender, at)
        return COMPLETE

    def _trace(self, config: HotPathConfig, run: OpenRun, p: bytes) -> int:
        self.sampled = config.sampler.weight
        if run.direct and self.simple[self.command_id] != 0 and run.count < run.room:
            self.passes = config.passes(self.command_id, p, self.token_sets)
        return SPECIAL

    def _turn_to_node(self, config: HotPathConfig, run: OpenRun, p: bytes, found: int) -> int:
        # With a cluster upstream: the command, whose keys were found, goes to their node. COMPLETE, or why it does not.
        router = config.router
        assert router is not None, "only with a cluster upstream"
        node = router.node_of(found, config.request, p, config.keys, run.seed)
        if node < 0:
            return SPLIT if node == SEVERAL_SLOTS else SPECIAL
        if node == run.node:
            return COMPLETE
        if run.is_whole():
            upstream = self._connection(node)
            if upstream is None:
                return SPECIAL
            run.upstream = upstream
        else:
            portions = run.portions
            assert portions is not None, "with a cluster upstream there are some"
            portion = portions.of(node)
            upstream = portion.upstream
            if upstream is None:
                upstream = self._connection(node)
                if upstream is None or portions.full():
                    return SPECIAL
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
        if run.answered > MOST_ANSWERED or len(payload) > LARGE_ANSWER:
            run.answered = 0
            sender.flush()
            return FULL if sender.full else ANSWERED
        if hit is not None:
            _REPEATED.answer(config, run, sender, self.calls, remembers, hit, self.command_id, data, p, payload)
        return ANSWERED


def _is_shared(upstream: UpstreamPipeline | None) -> bool:
    # Only a private connection has anything of this client, or a transaction that is on its way.
    return upstream is not None and upstream.owner is None and upstream.unit is None

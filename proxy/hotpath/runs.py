# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""Runs: neighbouring commands of one client that leave for Redis together.

Commands that the plan lets pass and that need no connection state gather into a run: one slice of the client's own
bytes and one entry with a count in the queue of the upstream that the session chose. A command that is rewritten by a
closed operation stays in the run, with its pieces replaced. Before a cluster, each node gets a run (``Portions``).

Where the policy lets replicas answer reads, a run also ends between these and the commands for the primary. A command
by which the client learns or changes what it may read from replicas waits for their replies: Redis might run it before.
"""

from proxy.commands.cached_reads import CACHED as _CACHED
from proxy.commands.cached_reads import CACHED_PARTS as _CACHED_PARTS
from proxy.hotpath.cached_reads import COUNTED, MISSED, UNREAD, CachedReads
from proxy.hotpath.command_sender import CommandSender
from proxy.hotpath.hot_path_config import MAY_WRITE, HotPathConfig
from proxy.hotpath.intake_handler import IntakeHandler
from proxy.hotpath.key_splitter import REACHED, KeySplitter
from proxy.hotpath.leased_tokens import TokenSet
from proxy.hotpath.plan import EDIT, JUDGE, PASS, REFUSE
from proxy.hotpath.portions import Portion
from proxy.hotpath.router import SEVERAL_SLOTS
from proxy.hotpath.splice import Splice
from proxy.hotpath.upstream_pipeline import UpstreamPipeline
from proxy.wire.request import COMPLETE, RequestLimits

# Why a run ends, where the scanner has found a whole command. Under two names each: C integers in here, Python's for
# everybody else.
_SPECIAL = 10
_STALLED = 11
_REFUSED = 12
_SPLIT = 13
_FULL = 14
SPECIAL = _SPECIAL
"""The next command is not for a run."""
STALLED = _STALLED
"""So many replies are pending for the client that the next command waits."""
REFUSED = _REFUSED
"""The plan refuses the next command."""
FULL = _FULL
"""The client does not take what it has been sent; the command is answered."""

_LARGE_ANSWER = 4096
_MOST_GATHERED = 65536
"""Bytes of answers from memory; with more of them, or a large one, they leave, as the client may not take them."""

_SPLITTER = KeySplitter()


class Runs:
    """What a client sends as runs, by the ``sender``.

    ``direct``: the connection chosen last may take runs; ``simple`` says which commands may join one. ``again``: the
    next command is one that the handler has made wait; it goes there, not into a run. ``missed``: the plan lets it go
    on, and it may be answered from memory, once that has the reply.

    What a client may still spend under the limits of its policy is in ``token_sets``; the session puts them there when
    it judges a first command, and takes them away (None) when they may no longer be the right ones.
    """

    # Not compiled, a dictionary of so many names would be a kilobyte larger for each client.
    __slots__ = (
        "again",
        "cached_reads",
        "command_id",
        "config",
        "direct",
        "handler",
        "limits",
        "missed",
        "passes",
        "sampled",
        "sender",
        "simple",
        "token_sets",
    )

    def __init__(
        self, config: HotPathConfig, limits: RequestLimits, sender: CommandSender, handler: IntakeHandler
    ) -> None:
        self.config = config
        self.limits = limits
        self.sender = sender
        self.handler: IntakeHandler | None = handler
        self.simple = config.pooled
        self.direct = False
        self.again = False
        self.command_id = 0
        self.sampled = 0
        self.passes = False
        self.token_sets: list[TokenSet] | None = None
        self.cached_reads: CachedReads | None = None
        self.missed = False

    def _gather(self, data: bytes, p: bytes, position: int) -> int:
        # One run from ``position``. When it returns, ``request`` stands at what stopped the run, and the run is sent.
        config = self.config
        request = config.request
        plan = config.plan
        sender = self.sender
        # A client with state on a connection sends all there.
        router = None if sender.nodes is None else config.router
        upstream = sender.upstream
        simple = self.simple
        cached_reads = self.cached_reads
        reads = sender.reads
        if reads is None and plan.replica_reads is not None and sender.listener is not None:
            sender.listener.begin_reads()
            reads = sender.reads
        if reads is not None:
            upstream = reads.home(upstream)
            if router is not None:
                reads.follow(router.version)
            elif upstream is not None and not self._is_shared(upstream):
                reads = None
        # A command that the session has made wait is its to bring on.
        direct = self.direct and not self.again and (router is not None or (upstream is not None and upstream.usable))
        if router is not None and not sender.fits(router):
            direct = False
        limits = self.limits
        size = len(data)
        budget = sender.room(config.window)
        start = position
        count = 0
        wrote = False
        gathered = 0
        splice = config.splice
        splice.clear()
        node = number = -1
        unsent = 0
        portion: Portion | None = None
        portions = None if router is None else router.portions
        if portions is not None:
            portions.clear()
        spender = config.spender
        if plan.spends:
            spender.forget()
        while True:
            code = request.scan_in(data, p, size, position, limits)
            if code != COMPLETE:
                break
            command_id = config.lookup.find_in(request, p)
            self.command_id = command_id
            if not self.again and config.sampler.due():
                self.sampled = config.sampler.weight
                if direct and simple[command_id] != 0 and count < budget:
                    self.passes = config.passes(command_id, p, self.token_sets)
                code = _SPECIAL
                break
            if not direct or (simple[command_id] == 0 and not plan.refuses(command_id)):
                code = _SPECIAL
                break
            if count >= budget:
                code = _STALLED
                break
            if router is not None and portions is not None and not plan.refuses(command_id):
                target = router.node(command_id, request, p, config.keys)
                if target == SEVERAL_SLOTS:
                    code = _SPLIT
                    break
                if target < 0:
                    code = _SPECIAL
                    break
                if target != node or portion is None:
                    target_portion = portions.of(target)
                    target_upstream = target_portion.upstream
                    if target_upstream is None:
                        target_upstream = self._connection(target)
                        if target_upstream is None or portions.full():
                            code = _SPECIAL
                            break
                    if count > 0 and portion is not None and upstream is not None:
                        portions.add(portion, upstream, p, start, position, count, wrote)
                        budget -= count
                        count = 0
                        wrote = False
                    start = request.start
                    node = target
                    upstream = target_upstream
                    portion = target_portion
                    splice = portion.splice
                    if reads is not None:
                        reads.primary = upstream
            if reads is not None:
                number = max(node, 0)
                unsent = count if portions is None else count + portions.count
                if reads.holds(config, cached_reads, command_id, p, unsent, number):
                    code = _SPECIAL
                    break
            if plan.spends:
                numbers = plan.token_sets[plan.token_sets_of[command_id]]
                if numbers is not spender.numbers:
                    spender.open(self.token_sets, numbers)
                if not spender.affords(request.end - request.start):
                    code = _SPECIAL
                    break
            decision = plan.decide(command_id, request, p, config.keys, config.counters)
            if decision == JUDGE:
                code = _SPECIAL
                break
            if decision == REFUSE:
                code = _REFUSED
                break
            payload = None
            served = -1
            remembers = (
                cached_reads is not None
                and not cached_reads.cache.idle
                and cached_reads.may_concern(command_id, request, p, config.keys)
            )
            if cached_reads is not None and remembers:
                home = upstream if reads is None else reads.primary
                role = cached_reads.roles[command_id]
                if decision == PASS and (role == _CACHED or role == _CACHED_PARTS) and self._is_shared(home):
                    if role == _CACHED:
                        payload = cached_reads.answer_in(p, request.start, request.end)
                    else:
                        payload = cached_reads.answer_keys(command_id, request, p, config.keys)
                    served = cached_reads.outcome
            if reads is not None and payload is None:
                source = reads.source(config, cached_reads, command_id, p, decision == PASS, unsent, number)
                if source is not upstream:
                    if count > 0 and upstream is not None:
                        if portions is not None and portion is not None:
                            portions.add(portion, upstream, p, start, position, count, wrote)
                        else:
                            self._send_run(upstream, splice, data, p, start, position, count, wrote)
                        budget -= count
                        count = 0
                        wrote = False
                    start = request.start
                    upstream = source
                    if portions is not None:
                        portion = portions.of(source.number if source.reads_only else node)
                        splice = portion.splice
                        if portion.upstream is not source and (portion.upstream is not None or portions.full()):
                            code = _SPECIAL
                            break
            if plan.spends:
                spender.take(request.end - request.start)
            if payload is not None:
                if count > 0 and upstream is not None:
                    self._send_run(upstream, splice, data, p, start, position, count, wrote)
                    count = 0
                    wrote = False
                if reads is not None:
                    reads.note(0, False)  # memory may know more than its replica
                sender.answer(payload)
                sender.remembered += 1
                config.calls[command_id] += 1
                budget = sender.room(config.window)
                start = position = request.end
                gathered += len(payload)
                if gathered > _MOST_GATHERED or len(payload) > _LARGE_ANSWER:
                    gathered = 0
                    sender.flush()
                    if sender.full:
                        code = _FULL
                        break
                continue
            if cached_reads is not None and remembers:
                absent = served == MISSED or served == UNREAD
                if absent and cached_reads.may_serve(command_id, request, p, config.keys):
                    self.missed = True
                    code = _SPECIAL
                    break
                if served != COUNTED:
                    cached_reads.hold(command_id, request, p, config.keys, sender, sender.requested + count + 1)
            wrote = wrote or simple[command_id] == MAY_WRITE
            count += 1
            config.calls[command_id] += 1
            position = request.end
            if decision != PASS:
                splice.put(p, start, request.start)
                plan.editor.write(splice, p, request)
                start = position
        if plan.spends:
            spender.settle()
        if count > 0 and upstream is not None:
            if portions is not None and portion is not None and portions.count > 0:
                portions.add(portion, upstream, p, start, position, count, wrote)
            else:
                self._send_run(upstream, splice, data, p, start, position, count, wrote)
        if portions is not None and portions.count > 0:
            sender.forward_portions(portions)
        return self._split(p) if code == _SPLIT else code

    def _split(self, p: bytes) -> int:
        # The next command has keys of several slots: what becomes of it. If COMPLETE, each node was sent its part.
        config = self.config
        request = config.request
        command_id = self.command_id
        plan, router, sender, commands = config.plan, config.router, self.sender, config.split_commands
        if router is None or sender.nodes is None or commands is None:
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
        name = plan.editor.name if decision == EDIT else b""
        simple = self.simple
        wrote = simple[command_id] == MAY_WRITE
        if reads is not None:
            reads.note_everywhere(wrote)
        _SPLITTER.put(router.portions, sender.nodes, request, p, name, wrote)
        sender.forward_split(router.portions, _SPLITTER, commands, command_id, name)
        config.calls[command_id] += 1
        return COMPLETE

    def _is_shared(self, upstream: UpstreamPipeline | None) -> bool:
        # Only a private connection has anything of this client, or a transaction that is on its way.
        return upstream is not None and upstream.owner is None and upstream.unit is None

    def _send_run(
        self,
        upstream: UpstreamPipeline,
        splice: Splice,
        data: bytes,
        p: bytes,
        start: int,
        end: int,
        count: int,
        wrote: bool,
    ) -> int:
        if splice.size == 0:
            chunk = data if start == 0 and end == len(data) else p[start:end]
        else:
            splice.put(p, start, end)
            chunk = splice.take()
        if wrote:
            self.sender.note_write(upstream)
        self.sender.forward_run(upstream, chunk, count, wrote)
        return 0

    def _connection(self, node: int) -> UpstreamPipeline | None:
        # The connection that this client uses for a node; None where the session must decide.
        nodes = self.sender.nodes
        if node < 0 or nodes is None or node >= len(nodes):
            return None
        target = nodes[node]
        if target is None and self.handler is not None:
            target = self.handler.connect(node)
        return target if target is not None and target.usable else None

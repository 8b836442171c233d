# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""What a client's runs know of it, and its commands with keys of several slots, each of which ends a run.

Each node is sent its part of such a command; the replies become one.
"""

from proxy.hotpath.cache.cache_outcomes import COUNTED, MISSED, UNREAD
from proxy.hotpath.cache.cached_reads import CachedReads
from proxy.hotpath.cluster.key_splitter import REACHED, KeySplitter
from proxy.hotpath.cluster.portions import Portions
from proxy.hotpath.counting.call_counts import CallCounts
from proxy.hotpath.intake.command_sender import CommandSender
from proxy.hotpath.intake.intake_handler import IntakeHandler
from proxy.hotpath.intake.run_ends import ANSWERED, FULL, SPECIAL, STALLED
from proxy.hotpath.plan.hot_path_config import MAY_WRITE, HotPathConfig
from proxy.hotpath.plan.leased_tokens import TokenSet
from proxy.hotpath.plan.plan import EDIT, JUDGE, PASS
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.wire.request import COMPLETE, RequestLimits

_LARGE_ANSWER = 4096
LARGE_ANSWER = _LARGE_ANSWER
"""Bytes of an answer from memory that leaves at once, as MOST_ANSWERED of them do: the client may not take them."""
_MOST_AT_ONCE = 16
"""Smaller ones that gather, where each ends a run."""

_SPLITTER = KeySplitter()


class SplitRuns:
    """What a client sends, by the ``sender``: the commands with keys of several slots.

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
            return SPECIAL
        kinds = commands.kinds
        if kinds[command_id] == 0:
            return SPECIAL
        if config.keys.find(command_id, request) != request.argc - 1 or not plan.renames_at_most(command_id):
            return SPECIAL
        parts = _SPLITTER.group(request, p, router)
        if parts == 0 or parts > config.window // 2:
            return SPECIAL
        node = _SPLITTER.unreached(sender.nodes)
        while node != REACHED:
            if self._connection(node) is None:
                return SPECIAL
            node = _SPLITTER.unreached(sender.nodes)
        if parts > config.window - sender.pending_replies:
            return STALLED
        reads = sender.reads
        if reads is not None and reads.waits(0):
            return SPECIAL
        decision = config.spend_and_decide(command_id, p, self.token_sets)
        if decision == JUDGE:
            return SPECIAL
        remembers = self.cached_reads
        if remembers is not None and remembers.cache.idle:
            remembers = None
        if remembers is not None and decision == PASS:
            code = self._answer_split(config, remembers, p)
            if code != COMPLETE:
                return COMPLETE if code == ANSWERED else code
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
            return SPECIAL
        if sender.reads is not None:
            sender.reads.note_everywhere(False)  # memory may know more than its replicas
        self._remember(payload)
        if len(payload) > _LARGE_ANSWER or len(sender.out) >= _MOST_AT_ONCE:
            sender.flush()
            if sender.full:
                return FULL
        return ANSWERED

    def _connection(self, node: int) -> UpstreamPipeline | None:
        # The connection that this client uses for a node; None where the session must decide.
        nodes = self.sender.nodes
        if node < 0 or nodes is None or node >= len(nodes):
            return None
        target = nodes[node]
        if target is None and self.handler is not None:
            target = self.handler.connect(node)
        return target if target is not None and target.usable else None

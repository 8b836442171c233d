# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
# cython: initializedcheck=False
"""The parts of the policy in force for a client that the hot path needs."""

from proxy.commands.keys import KeyFinder
from proxy.commands.lookup import Lookup
from proxy.hotpath.cluster.router import Router
from proxy.hotpath.counting.counters import Counters
from proxy.hotpath.counting.sampler import Sampler
from proxy.hotpath.order.split_join import SplitCommands
from proxy.hotpath.plan.leased_tokens import TokenSet, TokenSpender
from proxy.hotpath.plan.plan import JUDGE, Plan
from proxy.hotpath.upstream.write_gate import WriteGate
from proxy.wire.request import Request

# May the intake forward the command by itself? Under two names each: C integers in here, Python's for everybody else.
_READS = 1
_MAY_WRITE = 2
READS = _READS
MAY_WRITE = _MAY_WRITE


class HotPathConfig:
    """What is in force for a client: the plan, the table behind it, and which command ids may join a run.

    ``pooled`` and ``pinned`` hold a byte for each command id: READS or MAY_WRITE where the intake may forward the
    command by itself on a shared and on a private upstream, 0 elsewhere. ``request`` is the scratch space that all
    clients of a worker share, and ``sampler`` says which commands are traced; without one, none are.
    ``router`` says which node owns a request's keys, where the topology has several; each client's ``nodes`` then holds
    the connections that it uses, by node, and ``upstream`` is the last one. The intake splits ``split_commands`` by the
    slots of their keys.
    ``beside`` has a 1 for commands that tell nothing of keys: reads of replicas do not depend on them.
    ``hides_absence`` has one for reads whose reply does not always show that their key does not exist.
    ``may_pause`` has one for commands that Redis may hold back while the ``gate`` is closed.
    """

    def __init__(
        self,
        plan: Plan,
        lookup: Lookup,
        keys: KeyFinder,
        counters: Counters,
        request: Request,
        pooled: bytes,
        pinned: bytes,
        window: int = 1024,
        sampler: Sampler | None = None,
        router: Router | None = None,
        split_commands: SplitCommands | None = None,
        beside: bytes | None = None,
        hides_absence: bytes | None = None,
        may_pause: bytes | None = None,
        gate: WriteGate | None = None,
    ) -> None:
        self.plan = plan
        self.lookup = lookup
        self.keys = keys
        self.counters = counters
        self.request = request
        self.pooled = pooled
        self.pinned = pinned
        self.window = window
        self.sampler = Sampler(0) if sampler is None else sampler
        self.router = router
        self.split_commands = split_commands
        self.spender = TokenSpender()
        self.beside = bytes(len(pooled)) if beside is None else beside
        self.hides_absence = bytes(len(pooled)) if hides_absence is None else hides_absence
        self.may_pause = bytes(len(pooled)) if may_pause is None else may_pause
        self.gate = WriteGate() if gate is None else gate

    def passes(self, command_id: int, data: bytes, token_sets: list[TokenSet] | None) -> bool:
        """Whether the plan lets the command that ``request`` holds go on as it is, or with a tenant's prefix. If so, it
        is paid for."""
        plan = self.plan
        request = self.request
        if not plan.passes(command_id, request, data, self.keys):
            return False
        if plan.spends:
            if not self.affords(command_id, token_sets):
                return False
            self.spender.take(request.end - request.start)
        return True

    def affords(self, command_id: int, token_sets: list[TokenSet] | None) -> bool:
        """Whether the client can pay for the command that ``request`` holds, behind those of the same run."""
        plan, request, spender = self.plan, self.request, self.spender
        numbers = plan.token_sets[plan.token_sets_of[command_id]]
        if numbers is not spender.numbers:
            spender.open(token_sets, numbers)
        return spender.affords(request.end - request.start)

    def leaves_to_rules(self, command_id: int, data: bytes) -> bool:
        """Whether only the rules can tell what to do about the command that ``request`` holds."""
        return self.plan.leaves_to_rules(command_id, self.request, data, self.keys)

    def spend_and_decide(self, command_id: int, data: bytes, token_sets: list[TokenSet] | None) -> int:
        """What the plan decides about the command that ``request`` holds, and JUDGE if it cannot be paid for. Unless it
        is judged, it is paid for."""
        plan = self.plan
        request = self.request
        spender = self.spender
        if plan.spends:
            spender.open(token_sets, plan.token_sets[plan.token_sets_of[command_id]])
            if not spender.affords(request.end - request.start):
                spender.forget()
                return JUDGE
        decision = plan.decide(command_id, request, data, self.keys, self.counters)
        if plan.spends:
            if decision != JUDGE:
                spender.take(request.end - request.start)
            spender.settle()
        return decision

    def count_edited(self, command_id: int, data: bytes) -> None:
        """Count the keys of the request that was decided last, EDIT_REPLY: it is sent."""
        if self.plan.counts_keys(command_id):
            self.plan.count(self.request, data, self.keys, self.plan.found, self.counters)

    def count_moved(self, command_id: int, data: bytes) -> None:
        """The request that was decided last goes to a replica: so do the uses of its keys that were counted."""
        request, keys = self.request, self.keys
        if not self.plan.counts_keys(command_id):
            return
        if not self.plan.several:
            self.counters.move_last()
            return
        plan = self.plan
        found = keys.find(command_id, request)
        i = 0
        while i < found:
            start, end = request.starts[keys.indexes[i]], request.ends[keys.indexes[i]]
            if plan.prefixes:
                name = plan.editor.prefix + data[start:end]
                self.counters.move(name, 0, len(name))
            else:
                self.counters.move(data, start, end)
            i += 1

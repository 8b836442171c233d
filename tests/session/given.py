"""A network side without a network: what a session asks for is given or withheld as a test wants, and written down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hiredis import pack_command

from proxy.commands.command import Command
from proxy.commands.table import STANDARD, Lane, State
from proxy.hotpath.counters import Counters
from proxy.hotpath.debts import Creditor
from proxy.hotpath.intake import Terms
from proxy.hotpath.ledger import Ledger
from proxy.hotpath.sampler import Sampler
from proxy.policy.apps import Caller
from proxy.policy.compile import CompiledPolicy, compile_policy
from proxy.policy.decision import Hit
from proxy.policy.model import TRANSPARENT, Policy
from proxy.rules.memory import Memory
from proxy.rules.scripts.memory import ScriptKey
from proxy.session.dispatcher import Dispatcher
from proxy.session.handshake import LINGER
from proxy.session.measuring import Measurement
from proxy.session.ports import (
    CapabilityPort,
    CommandName,
    PolicyPort,
    PoolKey,
    PoolPort,
    Ports,
    PrivateLedger,
    QueryPort,
    Questions,
    Regime,
    ReportPort,
    RoutePort,
    ScriptPort,
    SupervisorPort,
    TracePort,
)
from proxy.session.seeker import Seeker
from proxy.session.topic import Topic
from proxy.wire.request import Limits, Request
from tests.policy.given import policy as policy_of

HOME = PoolKey(None, 0, 2)
LARGE = 64
"""Bytes from which these sessions stream a value: small, so that tests can be."""


PLAIN = bytes(spec.state is State.POOL and not spec.process_bound for spec in STANDARD.specs)
FAST = bytes(may and spec.lane is Lane.FAST for may, spec in zip(PLAIN, STANDARD.specs, strict=True))

_compiled: list[tuple[Policy, CompiledPolicy]] = []
_policies: dict[str, Policy] = {}


def compiled(policy: Policy) -> CompiledPolicy:
    """The policy bound to the standard table; it is the same one each time, since binding takes long."""
    for known, bound in _compiled:
        if known is policy:
            return bound
    _compiled.append((policy, compile_policy(policy, STANDARD, None, 7, memory=Memory())))
    return _compiled[-1][1]


def call(*arguments: bytes | str | int) -> bytes:
    """A request as clients send it."""
    packed: bytes = pack_command(arguments)
    return packed


class Upstream(PrivateLedger):
    """A connection to nobody: what would be sent is kept, what is `answered` comes from it."""

    def __init__(self, key: PoolKey) -> None:
        super().__init__()
        self.key = key
        self.identity = (b"", b"", b"")
        self.sent: list[bytes] = []
        self.write = self.sent.append
        self.schedule = lambda: None
        self.usable = True
        self.complaints: list[str] = []

    def taken(self) -> bytes:
        """What was sent since the last call."""
        self.flush()
        sent = b"".join(self.sent)
        self.sent.clear()
        return sent

    def answer(self, *frames: bytes) -> None:
        """Redis sends."""
        self.receive(b"".join(frames))

    def owes(self, creditor: Creditor) -> bool:
        """Whether anything is due to this client."""
        return any(entry.creditor is creditor for entry in self.entries())

    def out_of_step(self) -> None:
        self.complaints.append("out of step")
        self.closed = True

    def uninvited(self, frame: bytes) -> None:
        self.complaints.append(f"uninvited {frame!r}")
        self.closed = True

    def doubt_role(self) -> None:
        self.usable = False


class Route(
    RoutePort,
    PoolPort,
    CapabilityPort,
    PolicyPort,
    ReportPort,
    TracePort,
    QueryPort,
    ScriptPort,
    SupervisorPort,
):
    """One route, with as many upstreams as a test gives it: none where `starving`."""

    def __init__(self, policy: Policy = TRANSPARENT, pooling: bool = True, window: int = 1024, looks: int = 0) -> None:
        self.pooling = pooling
        self.window = window
        self.request = Request()
        self.counters = Counters(sets=16)
        self.pools: dict[tuple[PoolKey, Lane], Upstream] = {}
        self.lent: list[Upstream] = []
        self.idle: list[Upstream] = []
        self.released: list[Upstream] = []
        self.discarded: list[Upstream] = []
        self.relying: set[Seeker] = set()
        self.anywhere: list[Upstream] = []
        self.dismissed: list[Upstream] = []
        self.starving = False
        self.waiting: list[Seeker] = []
        self.lingering: list[Callable[[], None]] = []
        self.hits: list[tuple[str, str, str]] = []
        self.witnessed: list[tuple[str, str, int]] = []
        self.lacking: set[CommandName] = set()
        self.workers = False
        self.sought: list[tuple[Seeker, frozenset[ScriptKey]]] = []
        self.briefings: dict[str, dict[str, Any]] = {}
        self.strangers = False
        self.probes: dict[CommandName, list[Seeker]] = {}
        self.known_users: set[str | None] = {None}
        self.unknown_users: set[str] = set()
        self.waiting_for_user: list[Seeker] = []
        self.observed: list[Measurement] = []
        self.large: list[tuple[bytes, int]] = []
        self.follows = False
        self.runs: list[tuple[str, int]] = []
        self.sampler = Sampler(looks)
        self.asked: list[tuple[PoolKey, Questions, Callable[[Sequence[bytes] | None], None]]] = []
        self.timers: list[Callable[[], None]] = []
        self.moment = 1000.0
        self.generation = 0
        self.put_in_force(policy)
        self.ports = Ports(self, self, self, self, self, self, self, self, self)

    def put_in_force(self, policy: Policy) -> None:
        """A new generation of the policy; sessions are not told."""
        self.generation += 1
        rules = compiled(policy)
        lookup, keys = STANDARD.lookup, STANDARD.keys
        terms = Terms(rules.plan, lookup, keys, self.counters, self.request, FAST, PLAIN, self.window, self.sampler)
        self._regime = Regime(terms, rules, STANDARD, self.generation)

    def upstream(self, key: PoolKey = HOME, lane: Lane = Lane.FAST) -> Upstream:
        """The shared upstream of a pool; it exists from the first look at it."""
        found = self.pools.get((key, lane))
        if found is None:
            found = self.pools[key, lane] = self.connect(key)
        return found

    def connect(self, key: PoolKey) -> Upstream:
        """A new connection, logged in and set to what the pool's are."""
        return Upstream(key)

    def all_upstreams(self) -> list[Upstream]:
        return [*self.pools.values(), *self.lent]

    def feed(self) -> None:
        """Upstreams are there again: whoever waited may try."""
        self.starving = False
        waiting, self.waiting = self.waiting, []
        for seeker in waiting:
            seeker.arrived()

    # The ports

    def regime(self, key: PoolKey, caller: Caller) -> Regime:
        return self._regime

    def rehearsal(self, key: PoolKey, caller: Caller) -> CompiledPolicy:
        return self._regime.policy

    def limits(self, authenticated: bool) -> Limits:
        return Limits(1 << 31, 1 << 29, LARGE, True)

    def shared(self, key: PoolKey, lane: Lane) -> Ledger | None:
        found = self.upstream(key, lane)
        return None if self.starving or not found.usable else found

    def has_pool(self, key: PoolKey) -> bool:
        return (key, Lane.FAST) in self.pools

    def await_shared(self, seeker: Seeker, key: PoolKey, lane: Lane) -> None:
        self.waiting.append(seeker)

    def private(self, key: PoolKey) -> PrivateLedger | None:
        if self.starving:
            return None
        for upstream in self.idle:
            if upstream.key == key:
                self.idle.remove(upstream)
                self.lent.append(upstream)
                return upstream
        if key.user not in self.known_users:
            return None
        self.lent.append(self.connect(key))
        return self.lent[-1]

    def await_private(self, seeker: Seeker, key: PoolKey) -> None:
        self.waiting.append(seeker)

    def private_anywhere(self, key: PoolKey) -> PrivateLedger | None:
        if not self.anywhere:
            return self.private(key)
        self.lent.append(self.anywhere.pop())
        return self.lent[-1]

    def await_private_anywhere(self, seeker: Seeker, key: PoolKey) -> None:
        self.waiting.append(seeker)

    def relies_on_process(self, seeker: Seeker) -> None:
        self.relying.add(seeker)

    def release(self, ledger: PrivateLedger) -> None:
        assert isinstance(ledger, Upstream)
        assert ledger.head is None, "released with debts"
        self.lent.remove(ledger)
        self.released.append(ledger)
        self.idle.append(ledger)

    def discard(self, ledger: Ledger) -> None:
        assert isinstance(ledger, Upstream)
        ledger.closed = True
        if ledger in self.lent:
            self.lent.remove(ledger)
        self.discarded.append(ledger)

    def dismiss(self, ledger: Ledger) -> None:
        assert isinstance(ledger, Upstream)
        ledger.flush()
        ledger.closed = ledger.head is None
        if ledger in self.lent:
            self.lent.remove(ledger)
        self.dismissed.append(ledger)

    def retire(self, ledger: Ledger) -> None:
        ledger.usable = False

    def knows_user(self, user: str) -> bool:
        return user not in self.unknown_users

    def await_user(self, seeker: Seeker, user: str) -> bool:
        if user not in self.unknown_users:
            return False
        self.waiting_for_user.append(seeker)
        return True

    def report(self, hits: Sequence[Hit], command: Command, seeker: Seeker) -> None:
        self.hits += [(hit.rule, hit.mode.value, hit.what) for hit in hits]

    def looks(self) -> bool:
        return True

    def witness(self, hits: Sequence[Hit], command: Command, seeker: Seeker) -> None:
        self.witnessed += [(hit.rule, command.name, len(command.argv)) for hit in hits]

    def consult(self, seeker: Seeker, topic: Topic) -> dict[str, Any] | None:
        if topic.subject not in self.briefings:
            self.waiting.append(seeker)
        return self.briefings.get(topic.subject)

    def seek(self, seeker: Seeker, keys: frozenset[ScriptKey]) -> bool:
        if not self.workers or not keys:
            return False
        self.sought.append((seeker, keys))
        return True

    def lacks(self, name: CommandName) -> bool:
        return name in self.lacking

    def has(self, name: CommandName) -> None:
        self.lacking.discard(name)

    def probing(self, name: CommandName) -> bool:
        return name in self.probes

    def await_probe(self, seeker: Seeker, name: CommandName) -> None:
        self.probes[name].append(seeker)

    def begin_probe(self, seeker: Seeker, name: CommandName) -> None:
        self.probes[name] = []

    def end_probe(self, name: CommandName, lacking: bool) -> None:
        if lacking:
            self.lacking.add(name)
        for seeker in self.probes.pop(name):
            seeker.arrived()

    def ask(self, key: PoolKey, questions: Questions, answered: Callable[[Sequence[bytes] | None], None]) -> None:
        if self.starving:
            answered(None)
        else:
            self.asked.append((key, questions, answered))

    def after(self, seconds: float, act: Callable[[], None]) -> Callable[[], None]:
        if seconds == LINGER:
            self.lingering.append(act)
            return lambda: None
        self.timers.append(act)
        return lambda: self.timers.remove(act) if act in self.timers else None

    def keeps_names(self, key: PoolKey) -> bool:
        return True

    def strange(self, key: PoolKey) -> bool:
        return self.strangers

    def any_command_covers(self) -> bool:
        return True

    def names_libraries(self) -> bool:
        return True

    def protocol_error(self, code: int, byte: int) -> bytes:
        return b"-ERR Protocol error: %d\r\n" % code

    def now(self) -> float:
        return self.moment

    def clock(self) -> float:
        return self.moment

    def chance(self) -> float:
        return 0.5

    def departs(self, ledger: Ledger, measurement: Measurement) -> None:
        measurement.sent = self.moment

    def follow(self, weight: int) -> int:
        return weight if self.follows else 0

    def observe_large(self, seeker: Seeker, key: bytes, size: int) -> None:
        self.large.append((key, size))

    def found_run(self, pattern: str, weight: int) -> None:
        self.runs.append((pattern, weight))

    def observe(self, measurement: Measurement) -> None:
        self.observed.append(measurement)


class Client(Dispatcher):
    """A session whose client is the test: `say` sends, `heard` is what has come back since."""

    __slots__ = ("cause", "heard_parts", "paused", "route")

    def __init__(self, route: Route, home: PoolKey = HOME) -> None:
        self.route = route
        self.cause: str | None = None
        self.paused = False
        self.heard_parts: list[bytes] = []
        super().__init__(route.ports, home, route.limits(authenticated=False))
        self.write = self.heard_parts.append

    def say(self, *arguments: bytes | str | int) -> None:
        """Send one command."""
        self.send(call(*arguments))

    def silence(self, mode: str) -> None:
        """Send CLIENT REPLY; Redis, asked with a mode that it does not know, is ready to do it."""
        self.say("CLIENT", "REPLY", mode)
        self.own.answer(b"-ERR syntax error\r\n")
        assert self.own.taken().endswith(call("CLIENT", "REPLY", mode))

    def send(self, data: bytes) -> None:
        """Send bytes, whatever they are."""
        self.receive(data)
        self.check()

    def heard(self) -> bytes:
        heard = b"".join(self.heard_parts)
        self.heard_parts.clear()
        return heard

    def check(self) -> None:
        """Debts at one upstream only, and a private upstream belongs to who holds it."""
        owing = [upstream for upstream in self.route.all_upstreams() if upstream.owes(self)]
        assert len(owing) <= 1, "debts on two upstreams"
        assert not owing or owing[0] is self.ledger
        if self.pinned is not None:
            assert self.pinned.owner is self
            assert self.ledger is self.pinned

    @property
    def own(self) -> Upstream:
        """The upstream that this client alone has."""
        assert isinstance(self.pinned, Upstream), "not pinned"
        return self.pinned

    def is_paused(self) -> bool:
        return self.paused

    def is_pinned(self) -> bool:
        return self.pinned is not None

    def hold(self) -> None:
        self.paused = True

    def drained(self) -> None:
        self.paused = False

    def close(self, cause: str) -> None:
        if not self.gone:
            self.cause = cause
            self.depart()

    def close_when_paid(self, cause: str) -> None:
        self.ended = True
        self.pending = None
        self.cause = cause


def route_with(rules: str, *, pooling: bool = True, looks: int = 0) -> Route:
    """A route whose policy file has these lines."""
    if rules not in _policies:
        _policies[rules] = policy_of(rules)
    return Route(_policies[rules], pooling, looks=looks)

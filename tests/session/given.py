"""A fake network side: the test gives or withholds what a session asks for, and everything is recorded."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from hiredis import pack_command

from proxy.commands.command import Command
from proxy.commands.table import STANDARD, ConnectionState, Lane, Spec, Table
from proxy.hotpath.counting.call_counts import CallCounts
from proxy.hotpath.counting.counters import Counters
from proxy.hotpath.counting.sampler import Sampler
from proxy.hotpath.intake.intake import WAITING
from proxy.hotpath.plan.hot_path_config import MAY_WRITE, READS, HotPathConfig
from proxy.hotpath.upstream.in_flight import ReplySink
from proxy.hotpath.upstream.upstream_pipeline import UpstreamPipeline
from proxy.policy.apps import Caller
from proxy.policy.compile import CompiledPolicy
from proxy.policy.decision import Hit
from proxy.policy.model import TRANSPARENT, Policy
from proxy.rules.memory import Memory
from proxy.rules.scripts.memory import ScriptKey
from proxy.session.dispatcher.injected import handlers_of
from proxy.session.logins.handshake import LINGER
from proxy.session.ports.client import EffectivePolicy, ServedClient
from proxy.session.ports.info_query import InfoQuery
from proxy.session.ports.keyed_pipeline import PrivatePipeline
from proxy.session.ports.login_port import Credentials, LoginPort, LoginReply
from proxy.session.ports.open_trace import OpenTrace, TracePort
from proxy.session.ports.pool_key import Node, PoolKey, user_named
from proxy.session.ports.pool_waiter import PoolWaiter, UpstreamWait, Waiter
from proxy.session.ports.ports import (
    CapabilityPort,
    CommandName,
    PolicyPort,
    PoolPort,
    Ports,
    QueryPort,
    Questions,
    ReportPort,
    RoutePort,
    ScriptPort,
    SupervisorPort,
)
from proxy.session.session import Session
from proxy.session.state import Awaited
from proxy.wire.request import Request, RequestLimits
from tests.hotpath.listening import never
from tests.policy.given import compile_policy
from tests.policy.given import policy as policy_of

HOME = PoolKey(None, 0, 2)
RULES = """
defaults: {mode: enforce}
rules:
  no-flush: {refuse: [FLUSHALL]}
  unlink: {replace: {DEL: UNLINK}}
  lifetime: {lifetime: {default: 5m}}
"""
LARGE = 64
"""Bytes from which these sessions stream a value: small, so that tests can be."""


def _forwarding(spec: Spec) -> int:
    plain = spec.state is ConnectionState.POOL and not spec.process_bound
    return (READS if spec.only_reads else MAY_WRITE) if plain else 0


def forwarded(table: Table) -> tuple[bytes, bytes]:
    """What the intake sends by itself on a private connection, and on a shared one."""
    plain = bytes(map(_forwarding, table.specs))
    return plain, bytes(may * (spec.lane is Lane.FAST) for may, spec in zip(plain, table.specs, strict=True))


PLAIN, FAST = forwarded(STANDARD)

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


class Complaints:
    """The listener of such a connection."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream

    def out_of_step(self) -> None:
        self.upstream.complaints.append("out of step")
        self.upstream.closed = True

    def uninvited(self, frame: bytes) -> None:
        self.upstream.complaints.append(f"uninvited {frame!r}")
        self.upstream.closed = True

    def on_large_head(self, sink: ReplySink) -> None:
        """Others may queue behind it."""

    def overflowing(self, sink: ReplySink) -> None:
        """It is read all the same."""

    def hold(self) -> None:
        """It brings nothing by itself."""

    def resume_for(self, client: object) -> None:
        """It brings nothing by itself."""

    def command_refused(self, line: bytes) -> None:
        """What Redis knows does not change here."""

    def doubt_role(self) -> None:
        self.upstream.usable = False


class Upstream(PrivatePipeline):
    """A connection to nobody: what would be sent is kept, what is `answered` comes from it."""

    def __init__(self, key: PoolKey) -> None:
        super().__init__(Complaints(self), never, key)
        self.sent: list[bytes] = []
        self.write = self.sent.append
        self.usable = True
        self.complaints: list[str] = []

    def taken(self) -> bytes:
        """The bytes that were sent since the last call."""
        self.flush()
        sent = b"".join(self.sent)
        self.sent.clear()
        return sent

    def answer(self, *frames: bytes) -> None:
        """Redis sends."""
        self.receive(b"".join(frames))

    def owes(self, sink: ReplySink) -> bool:
        """Whether anything is due to this client."""
        return any(entry.sink is sink for entry in self.entries())


class WaitInLine(UpstreamWait):
    """For a connection of the route."""

    def __init__(self, route: FakeRoute, waiter: PoolWaiter) -> None:
        self.route = route
        self.waiter = waiter
        route.waiting.append(waiter)

    def end(self) -> None:
        self.route.waiting[:] = [each for each in self.route.waiting if each is not self.waiter]


class FakeLogins(LoginPort):
    """Decides about the logins of ``own``, or of all where a listener has passwords of its own, by what a test puts
    into ``replies``; what is not there is asked."""

    def __init__(self, own: bytes | None = None, local: bool = False) -> None:
        self.own = own
        self.local = local
        self.anonymous = False
        self.replies: dict[Credentials, LoginReply] = {}
        self.asked: list[Credentials] = []
        self.seen: list[tuple[str, Credentials]] = []

    def is_own(self, login: Credentials) -> bool:
        return login.user == self.own

    def check(self, client: PoolWaiter, login: Credentials) -> LoginReply | None:
        self.asked.append(login)
        return self.replies.get(login)

    def accepted(self, client: PoolWaiter, login: Credentials, key: PoolKey) -> str | None:
        self.seen.append(("accepted", login))
        return None if self.is_own(login) else user_named(login.user)

    def refused(self, client: PoolWaiter, login: Credentials) -> None:
        self.seen.append(("refused", login))


class FakeRoute(
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

    query_limit = 1 << 30

    def __init__(self, policy: Policy = TRANSPARENT, pooling: bool = True, window: int = 1024, traces: int = 0) -> None:
        self.pooling = pooling
        self.window = window
        self.request = Request()
        self.counters = Counters(sets=16)
        self.pools: dict[tuple[PoolKey, Lane], Upstream] = {}
        self.lent: list[Upstream] = []
        self.idle: list[Upstream] = []
        self.released: list[Upstream] = []
        self.discarded: list[Upstream] = []
        self.relying: set[PoolWaiter] = set()
        self.anywhere: list[Upstream] = []
        self.closed_gracefully: list[Upstream] = []
        self.starving = False
        self.left: Callable[[float], bool] = lambda _: False
        """Whether clients have left whose command waits for so many seconds."""
        self.unknown_databases: set[int] = set()
        self.lacking_databases: dict[int, bytes] = {}
        self.refusals: dict[Node, str] = {}
        self.private_connections = 1
        self.waiting: list[PoolWaiter] = []
        self.lingering: list[Callable[[], None]] = []
        self.hits: list[tuple[str, str, str]] = []
        self.witnessed: list[tuple[str, str, int]] = []
        self.lacking: set[CommandName] = set()
        self.workers = False
        self.sought: list[tuple[Waiter, frozenset[ScriptKey]]] = []
        self.group_infos: dict[str, dict[str, Any]] = {}
        self.strangers = False
        self.probes: dict[CommandName, list[PoolWaiter]] = {}
        self.known_users: set[str | None] = {None}
        self.unknown_users: set[str] = set()
        self.waiting_for_user: list[PoolWaiter] = []
        self.observed: list[OpenTrace] = []
        self.errors: list[bytes] = []
        self.events: Counter[str] = Counter()
        self.knows_libraries = True
        self.forms: list[tuple[str, int]] = []
        self.large: list[tuple[bytes, int, int]] = []
        self.follows = False
        self.follows_slow_lane = False
        self.runs: list[tuple[str, int]] = []
        self.sampler = Sampler(traces)
        self.asked: list[tuple[PoolKey, Questions, Callable[[Sequence[bytes] | None], None]]] = []
        self.timers: list[Callable[[], None]] = []
        self.moment = 1000.0
        self.tick = 0.0
        """Seconds from one look at the clock to the next."""
        self.generation = 0
        self.counts = CallCounts(len(STANDARD.specs))
        self.counted: Counter[int] = Counter()
        self.put_in_force(policy)
        self.logins = FakeLogins()
        self.user_changes = 0
        self.users: dict[ServedClient, str | None] = {}
        self.ports = Ports(self, self, self, self, self, self, self, self, self, self.logins)

    def put_in_force(self, policy: Policy, table: Table = STANDARD) -> None:
        """A new generation of the policy, for an engine of these commands; sessions are not told."""
        self.generation += 1
        standard = table is STANDARD
        rules = compiled(policy) if standard else compile_policy(policy, table, None, 7, memory=Memory())
        plain, fast = (PLAIN, FAST) if standard else forwarded(table)
        config = HotPathConfig(
            rules.plan,
            table.lookup,
            table.keys,
            self.counters,
            self.request,
            fast,
            plain,
            self.window,
            self.sampler,
        )
        self._effective_policy = EffectivePolicy(config, rules, table, self.generation)

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
        for waiter in waiting:
            waiter.arrived()

    # The ports

    def effective_policy(self, key: PoolKey, caller: Caller) -> EffectivePolicy:
        return self._effective_policy

    def calls_of(self, client: ServedClient) -> CallCounts:
        table = client.effective_policy.table
        return self.counts if table is STANDARD else CallCounts(len(table.specs))

    @property
    def calls(self) -> Counter[int]:
        """The commands so far, by id."""
        self.counted.update(dict(self.counts.take()))
        return Counter(self.counted)

    def rehearsal(self, key: PoolKey, caller: Caller) -> CompiledPolicy:
        return self._effective_policy.compiled

    def limits(self, authenticated: bool, must_log_in: bool = False) -> RequestLimits:
        return RequestLimits(1 << 31, 1 << 29, LARGE, True)

    def shared(self, key: PoolKey, lane: Lane) -> UpstreamPipeline | None:
        found = self.upstream(key, lane)
        return None if self.starving or not found.usable else found

    def ready(self, key: PoolKey) -> UpstreamPipeline | None:
        return self.shared(key, Lane.FAST) if self.has_pool(key) else None

    def has_pool(self, key: PoolKey) -> bool:
        return (key, Lane.FAST) in self.pools

    def refusal(self, key: PoolKey) -> str:
        return self.refusals.get(key.node, "")

    def lacking_database(self, waiter: PoolWaiter, number: int) -> bytes | None:
        if number in self.unknown_databases:
            self.waiting.append(waiter)
            return None
        return self.lacking_databases.get(number, b"")

    def await_shared(self, waiter: PoolWaiter, key: PoolKey, lane: Lane) -> UpstreamWait:
        return WaitInLine(self, waiter)

    def private(self, key: PoolKey) -> PrivatePipeline | None:
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

    def await_private(self, waiter: PoolWaiter, key: PoolKey) -> UpstreamWait:
        return WaitInLine(self, waiter)

    def private_anywhere(self, key: PoolKey) -> PrivatePipeline | None:
        if not self.anywhere:
            return self.private(key)
        self.lent.append(self.anywhere.pop())
        return self.lent[-1]

    def private_alike(self, key: PoolKey) -> PrivatePipeline | None:
        return self.private_anywhere(key)

    def opens_private(self, key: PoolKey) -> bool:
        return self.private_connections > 0

    def await_private_anywhere(self, waiter: PoolWaiter, key: PoolKey) -> UpstreamWait:
        return WaitInLine(self, waiter)

    def entered(self, client: ServedClient) -> None:
        self.users[client] = client.key.user

    def relies_on_process(self, waiter: PoolWaiter) -> None:
        self.relying.add(waiter)

    def release(self, upstream: PrivatePipeline) -> None:
        assert isinstance(upstream, Upstream)
        assert upstream.head is None, "released with pending replies"
        self.lent.remove(upstream)
        self.released.append(upstream)
        self.idle.append(upstream)

    def discard(self, upstream: UpstreamPipeline) -> None:
        assert isinstance(upstream, Upstream)
        upstream.closed = True
        if upstream in self.lent:
            self.lent.remove(upstream)
        self.discarded.append(upstream)

    def close_gracefully(self, upstream: UpstreamPipeline) -> None:
        assert isinstance(upstream, Upstream)
        upstream.flush()
        upstream.closed = upstream.head is None
        if upstream in self.lent:
            self.lent.remove(upstream)
        self.closed_gracefully.append(upstream)

    def retire(self, upstream: UpstreamPipeline) -> None:
        upstream.usable = False

    def knows_user(self, user: str) -> bool:
        return user not in self.unknown_users

    def await_user(self, waiter: PoolWaiter, user: str) -> bool:
        if user not in self.unknown_users:
            return False
        self.waiting_for_user.append(waiter)
        return True

    def report(self, hits: Sequence[Hit], command: Command, client: ServedClient) -> None:
        self.hits += [(hit.rule, hit.mode.value, hit.what) for hit in hits]

    def may_inspect(self, hits: Sequence[Hit], app: str) -> bool:
        return True

    def inspect(self, hits: Sequence[Hit], command: Command, client: ServedClient) -> None:
        self.witnessed += [(hit.rule, command.name, len(command.argv)) for hit in hits]

    def group_info(self, waiter: PoolWaiter, query: InfoQuery) -> dict[str, Any] | None:
        if query.subject not in self.group_infos:
            self.waiting.append(waiter)
        return self.group_infos.get(query.subject)

    def find(self, waiter: Waiter, keys: frozenset[ScriptKey]) -> bool:
        if not self.workers or not keys:
            return False
        self.sought.append((waiter, keys))
        return True

    def lacks(self, name: CommandName) -> bool:
        return name in self.lacking

    def has(self, name: CommandName) -> None:
        self.lacking.discard(name)

    def probing(self, name: CommandName) -> bool:
        return name in self.probes

    def await_probe(self, waiter: PoolWaiter, name: CommandName) -> None:
        self.probes[name].append(waiter)

    def begin_probe(self, waiter: PoolWaiter, name: CommandName) -> None:
        self.probes[name] = []

    def end_probe(self, name: CommandName, lacking: bool) -> None:
        if lacking:
            self.lacking.add(name)
        for waiter in self.probes.pop(name):
            waiter.arrived()

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

    def unauthenticated(self, key: PoolKey) -> bool:
        return self.strangers

    def any_command_covers(self) -> bool:
        return True

    def answers_tracking_once(self) -> bool:
        return True

    def looks_up_subcommands(self) -> bool:
        return True

    def is_valkey(self) -> bool:
        return False

    def names_libraries(self) -> bool:
        return self.knows_libraries

    def report_fault(self) -> None:
        fault = sys.exception()
        assert fault is not None, "a fault is reported while it is handled"
        raise fault

    def names_protocol_in_hello(self) -> bool:
        return True

    def empty_request_counts(self) -> bool:
        return True

    def protocol_error(self, code: int, byte: int) -> bytes:
        return b"-ERR Protocol error: %d\r\n" % code

    def count(self, event: str) -> None:
        self.events[event] += 1

    def count_error(self, error: bytes) -> None:
        self.errors.append(error)

    def note_user_change(self) -> None:
        self.user_changes += 1

    def has_left(self, transport: object, waited: float) -> bool:
        return self.left(waited)

    def now(self) -> float:
        self.moment += self.tick
        return self.moment

    def clock(self) -> float:
        return self.moment

    def chance(self) -> float:
        return 0.5

    def start_n_plus_one(self, weight: int) -> int:
        return weight if self.follows else 0

    def follows_slow(self) -> bool:
        return self.follows_slow_lane

    def see_form(self, client: ServedClient, command: Command, weight: int) -> None:
        self.forms.append((command.name, weight))

    def observe_large(self, client: ServedClient, key: bytes, size: int, stored: int) -> None:
        self.large.append((key, size, stored))

    def found_n_plus_one(self, pattern: str, weight: int) -> None:
        self.runs.append((pattern, weight))

    def observe(self, trace: OpenTrace) -> None:
        self.observed.append(trace)


class Client(Session):
    """A session whose client is the test: `say` sends, `heard` is what has come back since."""

    __slots__ = ("heard_parts", "route")

    def __init__(self, route: FakeRoute, home: PoolKey = HOME) -> None:
        self.route = route
        self.heard_parts: list[bytes] = []
        super().__init__(handlers_of(route.ports), route.ports, home, route.limits(authenticated=False))
        self.sender.write = self.heard_parts.append

    def say(self, *arguments: bytes | str | int) -> None:
        """Send one command."""
        self.send(call(*arguments))

    def set_reply_mode(self, mode: str) -> None:
        """Send CLIENT REPLY; Redis, asked with a mode that it does not know, is ready to do it."""
        self.say("CLIENT", "REPLY", mode)
        self.own.answer(b"-ERR syntax error\r\n")
        assert self.own.taken().endswith(call("CLIENT", "REPLY", mode))

    def send(self, data: bytes) -> None:
        """Send bytes, whatever they are. What it waited for once may come late: it waits on."""
        self.intake.receive(data)
        asks_anew = self.awaited is Awaited.UPSTREAM and self.upstream_wait is None
        if not asks_anew and self.awaited not in (Awaited.LOGIN, Awaited.SUBSCRIPTION):
            self.arrived()
        self.check()

    def heard(self) -> bytes:
        heard = b"".join(self.heard_parts)
        self.heard_parts.clear()
        return heard

    def check(self) -> None:
        """Pending replies at one upstream only, and a private upstream belongs to who holds it."""
        assert self.gone or (self.intake.phase == WAITING) == (self.awaited is not None), (
            "nobody knows what it waits for"
        )
        assert self.route.users.get(self, self.home.user) == self.key.user, "the route takes it for another user's"
        owing = [upstream for upstream in self.route.all_upstreams() if upstream.owes(self.sender)]
        assert len(owing) <= 1, "pending replies at two upstreams"
        assert not owing or owing[0] is self.sender.upstream
        if self.state.upstream is not None:
            assert self.state.upstream.owner is self.sender
            assert self.sender.upstream is self.state.upstream

    @property
    def own(self) -> Upstream:
        """The upstream that this client alone has."""
        assert isinstance(self.state.upstream, Upstream), "not pinned"
        return self.state.upstream

    def is_paused(self) -> bool:
        return self.paused != 0

    def is_pinned(self) -> bool:
        return self.state.upstream is not None

    @property
    def cause(self) -> str | None:
        """Why Keyrail has closed it, or is about to."""
        return None if self.end_cause == "client" else self.end_cause


def route_with(rules: str, *, pooling: bool = True, traces: int = 0) -> FakeRoute:
    """A route whose policy file has these lines."""
    if rules not in _policies:
        _policies[rules] = policy_of(rules)
    return FakeRoute(_policies[rules], pooling, traces=traces)

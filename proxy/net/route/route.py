"""One route in one worker: its listeners, its clients and its upstream connections.

The route puts its parts together. Sessions call them through the ports of ``session/ports/ports.py``, and the worker
calls those that are public here.
"""

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from proxy.commands.table import STANDARD
from proxy.hotpath.counting.counters import Counters
from proxy.hotpath.counting.error_counts import ErrorCounts
from proxy.hotpath.counting.sampler import Sampler
from proxy.net.cache.local_caches import LocalCaches
from proxy.net.config.settings import RouteSettings, Settings
from proxy.net.connection.deadline import Deadline
from proxy.net.connection.engine import Engine
from proxy.net.connection.failures import Failures
from proxy.net.connection.group_counts import GroupCounts
from proxy.net.connection.periodic import Periodic
from proxy.net.connection.upstream import UpstreamConnection
from proxy.net.downstream.admission import Admission
from proxy.net.downstream.census import Census
from proxy.net.downstream.client import log_fault
from proxy.net.downstream.client_timeouts import ClientTimeouts
from proxy.net.downstream.patience import Patience
from proxy.net.downstream.route_clients import RouteClients
from proxy.net.follow.nodes import Nodes
from proxy.net.follow.script_exchange import FindCalls, ScriptExchange
from proxy.net.follow.topologies import watch_over
from proxy.net.logins.logins import Logins
from proxy.net.policy.capabilities import Capabilities
from proxy.net.policy.command_cost import CommandCost
from proxy.net.policy.command_times import CommandTimesAtRedis
from proxy.net.policy.expiries import Expiries
from proxy.net.policy.plan_compiler import FindPlans
from proxy.net.policy.policies import Policies
from proxy.net.policy.shared_rule_state import SharedRuleState, run_compression
from proxy.net.policy.supervisor_requests import RequestInfo, SupervisorRequests
from proxy.net.policy.tracer import Tracer
from proxy.net.policy.verdicts import Verdicts, VerdictUpdate
from proxy.net.pool.checkout import Checkout
from proxy.net.pool.connections import Connections
from proxy.net.pool.internal_queries import InternalQueries
from proxy.net.pool.late_writes import LateWrites
from proxy.net.pool.latency_probe import LatencyProbe
from proxy.net.pool.liveness import Liveness
from proxy.net.pool.relearning import Relearning
from proxy.net.pool.standstills import Standstills
from proxy.net.pool.write_pauses import WritePauses
from proxy.net.replicas.replica_connections import ReplicaConnections
from proxy.net.replicas.replica_watch import ReplicaWatch
from proxy.net.route.listeners import RouteListeners
from proxy.net.route.readiness import Readiness
from proxy.net.topology.cluster import Cluster
from proxy.net.topology.primary import Primary
from proxy.net.topology.topology import Topology
from proxy.policy.model import Policy
from proxy.rules.shared_state import CompressedValues, SharedFacts
from proxy.session.ports.client import ClientTransport
from proxy.session.ports.pool_key import Node
from proxy.session.ports.ports import Ports, RoutePort
from proxy.session.session import Session
from proxy.traffic.interval_stats import IntervalStats
from proxy.traffic.merge import KEYS_OF_SECOND
from proxy.traffic.rule_totals import RuleTotals
from proxy.wire.limits import protocol_error

_TOLD_APART = ("reconnects", "out_of_step")
"""Events that the snapshot shows by themselves."""


class Route(RoutePort):
    """The traffic of one route. ``on_second`` is called when the `intervals` of another second are complete."""

    now = staticmethod(time.time)
    clock = staticmethod(time.monotonic)
    chance = staticmethod(random.random)
    report_fault = staticmethod(log_fault)

    def __init__(
        self,
        route: RouteSettings,
        settings: Settings,
        topology: Topology,
        policy: Policy,
        loop: asyncio.AbstractEventLoop,
        generation: int,
        find_plans: FindPlans,
        request_info: RequestInfo,
        paused: bool,
        find_calls: FindCalls | None,
        on_second: Callable[[], None],
        admission: Admission,
        counts: GroupCounts,
        *,
        asks_replicas: bool = True,
    ) -> None:
        self.route_settings = route
        self._admission = admission
        self._counts = counts
        self._server_changes_known = counts.servers.counts()
        self.settings = settings
        self.pooling, self.query_limit = settings.pooling, settings.client_query_limit
        self.loop = loop
        self.topology = topology
        self._failures = Failures(loop.time)
        self._patience = Patience(settings.accept_patience, admission.loads.unattended)
        self.clients = RouteClients(admission, self._refuses_clients, self._client_left, self._failures)
        self._counters, self._own_errors = Counters(), ErrorCounts()
        self.census = Census(loop, self.clients, self.count)
        self._supervisor_requests = SupervisorRequests(loop.time, request_info)
        logs = settings.violations is not None
        tells = logs or settings.admin is not None
        warns = settings.violations is None or settings.violations.path is not None
        self._verdicts = Verdicts(route.name, settings.redaction, tells=tells, logs=logs, warns=warns)
        self._verdicts.keep(policy.rule_names, policy.redact, exact=policy.exact_evidence)
        self._rule_totals = RuleTotals(policy.rule_names)
        self._events: Counter[str] = Counter()
        table = STANDARD.with_aliases(route.aliases)
        capabilities = self._capabilities = Capabilities(loop, topology, counts.users, table)
        sampler = Sampler(settings.traces, random.getrandbits(64), every=policy.exact_evidence)
        policies = self._policies = Policies(
            policy,
            generation,
            find_plans,
            capabilities,
            self._counters,
            sampler,
            self.clients,
            settings.workers,
            paused,
            loop.create_task,
            topology.router,
        )
        connections = self._connections = Connections(
            topology,
            settings,
            loop,
            capabilities,
            policies,
            self.clients,
            self._events,
            self._failures,
            give_back=self._give_back,
            doubt=self._doubt,
            log_as=route.name * asks_replicas,
        )
        self.pauses = WritePauses(policies.gate, connections, self.clients)
        nodes = Nodes(topology, route.advertised, connections.replicas) if isinstance(topology, Cluster) else None
        watch = watch_over(topology, nodes, connections, route.name * asks_replicas)
        self._checkout = Checkout(connections, capabilities, policies, self.clients)
        self._relearning = Relearning(connections, self._checkout, capabilities, policies, self.clients)
        self.late_writes = LateWrites(loop, connections.all, self.clients, self._patience)
        supply, pools, count, memory = connections.supply, connections.pools, connections.count, policies.memory
        self.rule_state = SharedRuleState(memory, self.now)
        run_compression(memory, self.now, loop.call_soon, self.report_fault)
        self.scripts = ScriptExchange(find_calls, lambda: memory.each_shared(SharedFacts), connections.known_scripts)
        self._latency_probe = LatencyProbe(loop, memory, pools, topology, supply.failover.waits, self.now, count)
        self._liveness = Liveness(connections, settings.upstream_silence, asks_info=asks_replicas)
        self._standstills = Standstills(connections, self._liveness)
        processes = connections.demotions.writable
        self._replicas = ReplicaWatch(topology, loop, settings.connect_timeout, count, self.clock, processes)
        if nodes is not None:
            nodes.when_asked(self._replicas.migrates)
        connections.on_server_change(self._server_changed)
        self._readers = readers = ReplicaConnections(self._replicas, connections, policies)
        watched = self._liveness, watch, self._replicas, readers
        self.readiness = Readiness(topology, capabilities, connections, *watched, asks_replicas=asks_replicas)
        self._timeouts = ClientTimeouts(
            loop, self.clients, settings, lambda: self._liveness.silent_since is not None, count
        )
        self._internal_queries = InternalQueries(self._checkout)
        ask_home = partial(self._internal_queries.ask, pools.home)
        self._logins = Logins(connections, self._checkout.give_back, counts.users)
        self._expiries = Expiries(
            self._internal_queries.ask, self._checkout.has_spare, None if nodes is None else nodes.owner
        )
        self._tracer = Tracer(sampler, self._expiries, CommandTimesAtRedis(ask_home), self._verdicts.evidence)
        self._caches = LocalCaches(
            loop,
            topology,
            connections.opening.open_tracking,
            connections.all,
            self._touch,
            CommandCost(ask_home),
            self.clients,
            counts.users,
            self._verdicts,
            count,
        )
        policies.cached_by(self._caches)
        self.pauses.tenants.when_deleted(self._caches.keys_deleted)
        self._ticker = Periodic(loop, 1.0, self._each_second(on_second), count)
        self.ports = Ports(
            self,
            self._checkout,
            capabilities,
            policies,
            self._verdicts,
            self._tracer,
            self._internal_queries,
            self.scripts,
            self._supervisor_requests,
            self._logins,
            nodes,
            connections.known_scripts,
            self._caches,
            self.pauses,
            readers,
            self.pauses.counted,
        )
        parts = self.clients, self.ports, pools.home, capabilities, self._logins
        self.listeners = RouteListeners(loop, *parts, self._failures, admission, self._patience)

    def _server_changed(self) -> None:
        self._counts.servers.add()
        self._replicas.follow()
        self._caches.server_changed()

    def _heed_other_workers(self) -> None:
        # A name can have moved without a sign that each worker sees.
        counts = self._counts.servers.counts()
        if counts != self._server_changes_known and isinstance(self.topology, Primary):
            self.topology.doubt()
        self._server_changes_known = counts

    def _touch(self, database: int, node: Node, parts: Sequence[Sequence[bytes]]) -> None:
        # Redis evicts by the last use that it knows of, or by how often there was one.
        key = self._connections.pools.home_of(node)._replace(database=database)
        self._internal_queries.ask(key, [[b"TOUCH", *names] for names in parts], lambda _: None)

    def _give_back(self, upstream: UpstreamConnection) -> None:
        self._checkout.give_back(upstream)

    def _doubt(self, upstream: UpstreamConnection, line: bytes) -> None:
        self._relearning.doubt(upstream, line)

    def _refuses_clients(self) -> bool:
        return self._capabilities.refusal is not None or self._connections.all.closing

    def _client_left(self, client: Session) -> None:
        self.census.leaves(client)
        self._connections.restarts.client_closed(client)
        self._logins.client_closed(client)
        self._connections.logins.left(client)
        self._tracer.left(client, client.local + client.sender.remembered + client.sender.forwarded)

    def after(self, seconds: float, act: Callable[[], None]) -> Callable[[], None]:
        """Call ``act`` after this time. The returned function cancels that."""
        return Deadline(self.loop, seconds, act).cancel

    def has_left(self, transport: ClientTransport | None, waited: float) -> bool:
        """Whether the client of something that has waited for so many seconds has left."""
        return self._patience.has_left(transport, waited)

    def protocol_error(self, code: int, byte: int) -> bytes:
        """The engine's error reply for a protocol error."""
        self._events["protocol_errors"] += 1
        return protocol_error(code, byte)

    def count_error(self, error: bytes) -> None:
        """Count an error reply of Keyrail's own."""
        self._own_errors.add(error, 0, len(error))

    def note_user_change(self) -> None:
        """Users or passwords may have changed."""
        self._counts.users.add()
        self._capabilities.doubts_password()
        self._caches.look_at_users()

    # Life

    async def start(self) -> None:
        """Start to connect. If Redis is down, this is no error. Raises ClusterFoundError and TlsError."""
        self._connections.supply.begin()
        self._latency_probe.begin()
        self._timeouts.begin()
        self._ticker.turn()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.connect_timeout):
                await self.readiness.attempted()
        await self._policies.begin()

    async def drain(self, seconds: float) -> None:
        """Read no more; give each client up to ``seconds`` to receive its pending replies, then close it."""
        await self.clients.drain(seconds)

    def close(self) -> None:
        """Close everything now."""
        self._connections.all.closing = True
        self.readiness.close()
        self.listeners.close()
        self._latency_probe.end()
        self._timeouts.end()
        self.clients.close()
        self._caches.close()
        self._connections.close()
        self._standstills.end()
        self._ticker.end()
        self.census.settle()
        self._end_second()

    def _end_second(self) -> None:
        counts = self._counters.harvest(KEYS_OF_SECOND)
        counts, cached = self._caches.another_second(counts)
        self._tracer.another_second(sum(self.census.commands_by_app().values()), counts, cached)

    def _each_second(self, on_second: Callable[[], None]) -> dict[str, Callable[[], object]]:
        pools, checkout = self._connections.pools, self._checkout
        return {
            "counting a second": lambda: self.census.begin(self._end_second),
            "counting verdicts": self._verdicts.another_second,
            "learning anew what has changed": self._relearning.another_second,
            "asking Redis whether it answers": self._liveness.another_second,
            "asking servers for their roles": self._connections.demotions.another_second,
            "heeding other workers": self._heed_other_workers,
            **self._timeouts.steps,
            "tending Keyrail's own queries": self._internal_queries.tend,
            "tending connection pools": lambda: pools.tend(self.loop.time(), checkout.logged_in),
            "reporting a second": on_second,
        }

    # Policy

    async def prepare(self, policy: Policy, generation: int, find_plans: FindPlans) -> None:
        """Compile a policy without putting it into force. Raises what compiling raises, and PlanUnavailableError."""
        await self._policies.prepare(policy, generation, find_plans)

    async def commit(self) -> None:
        """Put the prepared policy into force for all clients. Clients inside MULTI finish under the old one."""
        if not self._policies.prepared:
            return
        if await self._policies.commit():
            self._relearning.learn_all()
        self._verdicts.show_keys(self._policies.redact)
        self._policies.sample()
        await self.census.complete()
        self._verdicts.keep(self._policies.rules, self._policies.redact, exact=self._policies.exact_evidence)
        self._rule_totals.keep(self._policies.rules, self._policies.calls.totals(self.census.commands_by_app()))

    async def pause(self, paused: bool) -> None:
        """Enforce only locked rules from now on, or end that. Transactions finish as they began."""
        await self._policies.pause(paused)

    # Figures

    def count(self, event: str) -> None:
        """Count an event of the whole worker."""
        self._events[event] += 1

    def snapshot(self) -> dict[str, Any]:
        """All figures since the start, as JSON can hold them."""
        self._policies.count_into(self._verdicts)
        engine = self._capabilities.engine
        return {
            "route": self.route_settings.name,
            **self.readiness.figures(),
            "engine": None if engine is None else {"name": engine.name, "version": engine.version_text},
            **self.clients.figures(),
            "upstreams": self._connections.all.connection_counts(),
            "commands": {**self._connections.all.carried(), "local": self.census.answered_locally},
            "calls": self._policies.calls.figures(),
            "errors": {"redis": self._connections.errors.figures(), "keyrail": self._own_errors.figures()},
            **self.census.figures(),
            "verdicts": self._verdicts.figures(),
            "violations_dropped": self._verdicts.dropped(),
            "out_of": self._rule_totals.figures(self._policies.calls.totals(self.census.commands_by_app())),
            "logins": dict(self._logins.outcomes),
            "events": {event: n for event, n in self._events.items() if event not in _TOLD_APART},
            "failures": self._failures.figures(),
            "out_of_step": self._events["out_of_step"],
            "reconnects": self._events["reconnects"],
            "traces": self._tracer.latencies(),
            "compressed": self._policies.memory.shared(CompressedValues).figures(),
            "breakers": self._latency_probe.figures(),
            **self._caches.figures(),
            "features_off": [] if engine is None else self._features_off(engine),
            "generation": self._policies.generation,
        }

    def _features_off(self, engine: Engine) -> list[str]:
        others = (self._policies.features_off, self._expiries.off, self._connections.restarts.off)
        off = (*others, self._caches.features_off, self._readers.off)
        return [*engine.features_off, *(feature for each in off for feature in each)]

    def intervals(self) -> list[IntervalStats]:
        """The statistics of each second since the last call."""
        return self._tracer.intervals()

    def verdict_update(self) -> VerdictUpdate:
        """The decisions of rules since the last call: lines for the log, and evidence."""
        self._policies.calls.release(self.clients)
        return self._verdicts.verdict_update(self._policies.calls.news())

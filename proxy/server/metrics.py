"""The process group's figures for Prometheus. The workers count; this module adds up their figures.

keyrail_commands_total{route,path}          path: pooled (shared upstream), pinned (private one), local (answered here)
keyrail_pooled_share{route}                 pooled commands of all that went to an upstream, 0 to 1
keyrail_command_calls_total{route,command}  commands by name, ``unknown`` for all that are in no command table
keyrail_error_replies_total{route,source,prefix}   source: redis, keyrail; prefix: the error's first word, or ``other``
keyrail_commands_in_flight{route}, keyrail_commands_queued{route}   waiting for Redis, and in Keyrail
keyrail_oldest_wait_seconds{route}          the longest time that a client has been waiting for a reply
keyrail_verdicts_total{route,rule,app,mode,what}   what: refused, rewritten, skipped, error
keyrail_rule_errors_total{route,rule}       commands that the rule itself failed on, in all modes
keyrail_violations_dropped_total{route,rule}       violations over the rate of the violations log
keyrail_clients{route}, keyrail_clients_accepted_total{route}, keyrail_client_closes_total{route,cause}
keyrail_logins_total{route,outcome}         accepted, remembered (Redis accepted the same a moment ago), refused
keyrail_buffer_bytes{route,kind}            bytes in client buffers; kind: output, query
keyrail_upstream_connections{route,kind}, keyrail_upstream_reconnects_total{route}, keyrail_out_of_step_total{route}
keyrail_events_total{route,event}           events of clients and upstream connections, by kind
keyrail_accept_failures_total{route,reason} client connections that could not be accepted; reason: as in errno(3)
keyrail_tls_handshake_failures_total{route,side,reason}   side: client, upstream
keyrail_breaker_open{route,rule}            workers in which a circuit breaker answers for Redis
keyrail_upstream_silent_seconds{route}      how long the upstream has not answered; 0 while it does
keyrail_route_ready{route}, keyrail_feature_off{route,feature}, keyrail_upstream_info{route,name,version}
keyrail_incidents_total{route,kind}, keyrail_incidents_open{route,kind}   kind: hot-key, hot-slot, big-value, keys-loop,
                                                                       reconnects, busy-client
keyrail_workers, keyrail_worker_restarts_total, keyrail_max_clients   the last one for each worker
keyrail_worker_cpu_seconds_total{worker}, keyrail_worker_memory_bytes{worker}, keyrail_worker_open_files{worker}
keyrail_worker_lag_seconds{worker}          how late the event loop was
keyrail_supervisor_cpu_seconds_total, keyrail_supervisor_memory_bytes, keyrail_supervisor_open_files
keyrail_supervisor_lag_seconds              of the process that adds all this up; --traffic-memory bounds its memory
keyrail_log_lines_dropped_total{process,log}   lines that could not be written; process: supervisor, worker-0 …
keyrail_open_files_limit                    of the supervisor and of each worker
keyrail_policy_generation, keyrail_policy_reload_failures_total, keyrail_kill_switch, keyrail_build_info{version,form}
keyrail_evidence_kept, keyrail_evidence_lost_rows_total

Series that alert rules look at with ``increase`` or ``rate`` are exported as 0 before the first event: Prometheus sees
no increase in a series that begins with 5.

``node_metrics`` has the metrics about nodes of clusters, ``traffic_metrics`` those about keys and clients.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from proxy import __version__
from proxy.build_form import BUILD_FORM
from proxy.hotpath.counting.error_counts import PREFIXES
from proxy.net.downstream.acceptor import ACCEPT_FAILURES
from proxy.policy.model import Policy
from proxy.server.cache_metrics import collect_caches
from proxy.server.compression_metrics import collect_compressed
from proxy.server.evidence.keeper import EvidenceKeeper
from proxy.server.figures import RouteFigures
from proxy.server.incidents import Incidents
from proxy.server.kill_switch import KillSwitch
from proxy.server.node_metrics import collect_nodes
from proxy.server.open_files import open_files_limit
from proxy.server.process_figures import ProcessFigures, figures_of_this_process
from proxy.server.reload import Reloader
from proxy.server.traffic_metrics import RouteTraffic, collect_traces, collect_traffic
from proxy.server.workers import Workers
from proxy.server.writer_thread import dropped_lines
from proxy.traffic.hotspots import IncidentKind

_ALERTED_CLOSES = ("max_clients", "upstream_refused")


class GroupCollector(Collector):
    """Collects the workers' figures for each request."""

    def __init__(
        self, workers: Workers, reloader: Reloader, switch: KillSwitch, incidents: Incidents, keeper: EvidenceKeeper
    ) -> None:
        self._workers = workers
        self._switch = switch
        self._reloader = reloader
        self._incidents = incidents
        self._keeper = keeper

    def describe(self) -> Iterable[Metric]:
        """Describe no metric in advance, so that registering does not collect."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        yield from self._collect_group()
        yield from _collect_supervisor(figures_of_this_process(self._workers.lag))
        yield from _collect_processes(self._workers.processes())
        yield _collect_dropped(self._workers.processes())
        routes = self._workers.figures()
        yield from _collect_commands(routes)
        yield _collect_rule_errors(routes, self._workers.policies)
        yield from _collect_names(routes)
        yield from _collect_backlog(routes)
        yield from collect_traces(routes)
        yield from _collect_clients(routes)
        yield from _collect_upstreams(routes)
        yield from collect_nodes(routes)
        yield from collect_caches(routes)
        yield from collect_compressed(routes)
        yield from _collect_incidents(routes, self._incidents)
        workers = self._workers
        traffic = [
            RouteTraffic(route.name, workers.time_series[i], workers.redaction(i), workers.policies[i].alerts.hot_key)
            for i, route in enumerate(routes)
        ]
        yield from collect_traffic(traffic, time.time())

    def _collect_group(self) -> Iterator[Metric]:
        build = InfoMetricFamily("keyrail_build", "The running Keyrail.")
        build.add_metric((), {"version": __version__, "form": BUILD_FORM})
        yield build
        yield GaugeMetricFamily("keyrail_workers", "Worker processes that serve.", self._workers.living)
        yield GaugeMetricFamily(
            "keyrail_max_clients", "Clients that each worker accepts at most.", self._workers.max_clients
        )
        yield CounterMetricFamily(
            "keyrail_worker_restarts", "Workers that died and were replaced.", self._workers.restarts
        )
        yield GaugeMetricFamily(
            "keyrail_policy_generation", "The set of policies in force, counted from 1.", self._workers.generation
        )
        yield GaugeMetricFamily(
            "keyrail_kill_switch", "1 while only locked rules are enforced.", float(self._switch.on)
        )
        yield GaugeMetricFamily(
            "keyrail_evidence_kept", "0 while evidence cannot be written.", float(self._keeper.kept)
        )
        yield CounterMetricFamily(
            "keyrail_evidence_lost_rows",
            "Rows of evidence that could not be kept.",
            self._workers.evidence.lost.total(),
        )
        yield CounterMetricFamily(
            "keyrail_policy_reload_failures", "Reloads that were refused.", self._reloader.failures
        )


def _collect_supervisor(figures: ProcessFigures) -> Iterator[Metric]:
    yield CounterMetricFamily("keyrail_supervisor_cpu_seconds", "CPU time that the supervisor has used.", figures.cpu)
    yield GaugeMetricFamily("keyrail_supervisor_memory_bytes", "Resident memory of the supervisor.", figures.memory)
    yield GaugeMetricFamily("keyrail_supervisor_open_files", "Open files of the supervisor.", figures.files)
    yield GaugeMetricFamily("keyrail_supervisor_lag_seconds", "How late the supervisor's event loop was.", figures.lag)
    yield GaugeMetricFamily(
        "keyrail_open_files_limit", "Files that the supervisor, and each worker, may open.", open_files_limit()
    )


def _collect_processes(processes: Mapping[int, ProcessFigures]) -> Iterator[Metric]:
    labels = ("worker",)
    cpu = CounterMetricFamily("keyrail_worker_cpu_seconds", "CPU time that a worker has used.", labels=labels)
    memory = GaugeMetricFamily("keyrail_worker_memory_bytes", "Resident memory of a worker.", labels=labels)
    files = GaugeMetricFamily("keyrail_worker_open_files", "Open files of a worker.", labels=labels)
    lag = GaugeMetricFamily("keyrail_worker_lag_seconds", "How late a worker's event loop was.", labels=labels)
    for number, figures in processes.items():
        worker = (str(number),)
        cpu.add_metric(worker, figures.cpu)
        memory.add_metric(worker, figures.memory)
        files.add_metric(worker, figures.files)
        lag.add_metric(worker, figures.lag)
    yield from (cpu, memory, files, lag)


def _collect_dropped(workers: Mapping[int, ProcessFigures]) -> Metric:
    lines = CounterMetricFamily(
        "keyrail_log_lines_dropped", "Lines of a log that could not be written.", labels=("process", "log")
    )
    processes = {"supervisor": dropped_lines, **{f"worker-{number}": each.dropped for number, each in workers.items()}}
    for process, dropped in processes.items():
        for log, number in sorted(dropped.items()):
            lines.add_metric((process, log), number)
    return lines


def registry_of(collector: GroupCollector) -> CollectorRegistry:
    """Return a registry with this collector alone: without figures of the supervisor's own Python process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return registry


def _with_zeros(names: Iterable[str], numbers: Mapping[str, int]) -> dict[str, int]:
    return dict.fromkeys(names, 0) | dict(numbers)


def _collect_commands(routes: list[RouteFigures]) -> Iterator[Metric]:
    commands = CounterMetricFamily("keyrail_commands", "Commands by path.", labels=("route", "path"))
    share = GaugeMetricFamily(
        "keyrail_pooled_share", "Share of forwarded commands that used a shared upstream.", labels=("route",)
    )
    verdicts = CounterMetricFamily(
        "keyrail_verdicts", "Verdicts of rules, by mode.", labels=("route", "rule", "app", "mode", "what")
    )
    dropped = CounterMetricFamily(
        "keyrail_violations_dropped", "Violations that were not logged.", labels=("route", "rule")
    )
    for route in routes:
        by_path: Mapping[str, float] = route.counters.get("commands", {})
        for path in ("pooled", "pinned", "local"):
            commands.add_metric((route.name, path), by_path.get(path, 0))
        forwarded = by_path.get("pooled", 0) + by_path.get("pinned", 0)
        share.add_metric((route.name,), by_path.get("pooled", 0) / forwarded if forwarded else 1.0)
        for rule, by_app in route.counters.get("verdicts", {}).items():
            for app, counts in by_app.items():
                for key, number in counts.items():
                    mode, _, what = key.partition(" ")
                    verdicts.add_metric((route.name, rule, app, mode, what), number)
        for rule, number in route.counters.get("violations_dropped", {}).items():
            dropped.add_metric((route.name, rule), number)
    yield from (commands, share, verdicts, dropped)


def _collect_rule_errors(routes: list[RouteFigures], policies: Sequence[Policy]) -> Metric:
    # Without the labels app and mode: not all series of `keyrail_verdicts` can begin with 0.
    errors = CounterMetricFamily(
        "keyrail_rule_errors", "Commands that a rule itself failed on.", labels=("route", "rule")
    )
    for route, policy in zip(routes, policies, strict=True):
        numbers = Counter({rule.name: 0 for rule in policy.rules})
        for rule, by_app in route.counters.get("verdicts", {}).items():
            for counts in by_app.values():
                numbers[rule] += sum(number for key, number in counts.items() if key.partition(" ")[2] == "error")
        for rule, number in numbers.items():
            errors.add_metric((route.name, rule), number)
    return errors


def _collect_names(routes: list[RouteFigures]) -> Iterator[Metric]:
    calls = CounterMetricFamily("keyrail_command_calls", "Commands by name.", labels=("route", "command"))
    errors = CounterMetricFamily(
        "keyrail_error_replies",
        "Error replies that clients got, by their first word.",
        labels=("route", "source", "prefix"),
    )
    for route in routes:
        for command, number in route.counters.get("calls", {}).items():
            calls.add_metric((route.name, command), number)
        by_source = route.counters.get("errors", {})
        of_redis = _with_zeros(PREFIXES, by_source.get("redis", {}))
        for source, by_prefix in (("redis", of_redis), ("keyrail", by_source.get("keyrail", {}))):
            for prefix, number in by_prefix.items():
                errors.add_metric((route.name, source, prefix), number)
    yield from (calls, errors)


def _collect_backlog(routes: list[RouteFigures]) -> Iterator[Metric]:
    in_flight = GaugeMetricFamily("keyrail_commands_in_flight", "Commands that wait for a reply.", labels=("route",))
    queued = GaugeMetricFamily(
        "keyrail_commands_queued", "Clients with a command that waits in Keyrail.", labels=("route",)
    )
    oldest = GaugeMetricFamily(
        "keyrail_oldest_wait_seconds", "The longest time that a client has been waiting for a reply.", labels=("route",)
    )
    for route in routes:
        backlog = route.gauges.get("backlog", {})
        in_flight.add_metric((route.name,), backlog.get("in_flight", 0))
        queued.add_metric((route.name,), backlog.get("queued", 0))
        oldest.add_metric((route.name,), route.oldest)
    yield from (in_flight, queued, oldest)


def _collect_clients(routes: list[RouteFigures]) -> Iterator[Metric]:
    clients = GaugeMetricFamily("keyrail_clients", "Clients connected now.", labels=("route",))
    accepted = CounterMetricFamily("keyrail_clients_accepted", "Clients that have connected.", labels=("route",))
    closes = CounterMetricFamily(
        "keyrail_client_closes", "Client connections that ended, by cause.", labels=("route", "cause")
    )
    buffers = GaugeMetricFamily("keyrail_buffer_bytes", "Bytes in client buffers, by kind.", labels=("route", "kind"))
    logins = CounterMetricFamily("keyrail_logins", "Logins of clients, by outcome.", labels=("route", "outcome"))
    for route in routes:
        for outcome in ("accepted", "remembered", "refused"):
            logins.add_metric((route.name, outcome), route.counters.get("logins", {}).get(outcome, 0))
        for kind, number in route.gauges.get("buffers", {}).items():
            buffers.add_metric((route.name, kind), number)
        clients.add_metric((route.name,), route.gauges.get("clients", 0))
        accepted.add_metric((route.name,), route.counters.get("clients_total", 0))
        for cause, number in _with_zeros(_ALERTED_CLOSES, route.counters.get("closed", {})).items():
            closes.add_metric((route.name, cause), number)
    yield from (clients, buffers, accepted, closes, logins)


def _collect_upstreams(routes: list[RouteFigures]) -> Iterator[Metric]:
    ready = GaugeMetricFamily("keyrail_route_ready", "1 if the route's upstream answers.", labels=("route",))
    silent = GaugeMetricFamily(
        "keyrail_upstream_silent_seconds", "How long the upstream has not answered; 0 while it does.", labels=("route",)
    )
    connections = GaugeMetricFamily(
        "keyrail_upstream_connections", "Upstream connections now.", labels=("route", "kind")
    )
    reconnects = CounterMetricFamily(
        "keyrail_upstream_reconnects", "Connections made to replace a lost one.", labels=("route",)
    )
    out_of_step = CounterMetricFamily(
        "keyrail_out_of_step", "Replies that belonged to no client; both sides were closed.", labels=("route",)
    )
    events = CounterMetricFamily(
        "keyrail_events", "Events of clients and upstream connections, by kind.", labels=("route", "event")
    )
    accepts = CounterMetricFamily(
        "keyrail_accept_failures", "Client connections that could not be accepted.", labels=("route", "reason")
    )
    handshakes = CounterMetricFamily(
        "keyrail_tls_handshake_failures", "TLS handshakes that failed.", labels=("route", "side", "reason")
    )
    breakers = GaugeMetricFamily(
        "keyrail_breaker_open", "Workers in which a rule's circuit is not closed.", labels=("route", "rule")
    )
    off = GaugeMetricFamily(
        "keyrail_feature_off",
        "1 for each feature that is off because Redis lacks or refuses a command.",
        labels=("route", "feature"),
    )
    engine = GaugeMetricFamily(
        "keyrail_upstream_info", "The engine behind the route.", labels=("route", "name", "version")
    )
    for route in routes:
        ready.add_metric((route.name,), float(route.ready))
        since = route.silent_since
        silent.add_metric((route.name,), 0.0 if since is None else max(0.0, time.time() - since))
        for kind, number in route.gauges.get("upstreams", {}).items():
            connections.add_metric((route.name, kind), number)
        reconnects.add_metric((route.name,), route.counters.get("reconnects", 0))
        out_of_step.add_metric((route.name,), route.counters.get("out_of_step", 0))
        for event, number in route.counters.get("events", {}).items():
            events.add_metric((route.name, event), number)
        failures = route.counters.get("failures", {})
        for reason, number in _with_zeros(ACCEPT_FAILURES, failures.get("accept", {})).items():
            accepts.add_metric((route.name, reason), number)
        for side in ("client", "upstream"):
            for reason, number in failures.get(f"tls_{side}", {}).items():
                handshakes.add_metric((route.name, side, reason), number)
        for rule, number in route.gauges.get("breakers", {}).items():
            breakers.add_metric((route.name, rule), number)
        for feature in route.features_off:
            off.add_metric((route.name, feature), 1)
        if route.engine:
            engine.add_metric((route.name, route.engine["name"], route.engine["version"]), 1)
    yield from (ready, silent, connections, reconnects, out_of_step, events, accepts, handshakes, breakers, off, engine)


def _collect_incidents(routes: list[RouteFigures], incidents: Incidents) -> Iterator[Metric]:
    begun = CounterMetricFamily("keyrail_incidents", "Incidents that have begun.", labels=("route", "kind"))
    open_ = GaugeMetricFamily("keyrail_incidents_open", "Incidents that are not over.", labels=("route", "kind"))
    for index, route in enumerate(routes):
        now = incidents.open(index)
        for kind in IncidentKind:
            begun.add_metric((route.name, kind.value), incidents.begun[route.name, kind.value])
            open_.add_metric((route.name, kind.value), now[kind.value])
    yield from (begun, open_)

"""Metrics have the names that promlint wants; the dashboard and the alert rules use only these metrics.

The rules are those of prometheus/util/promlint about names, units, labels and help texts.
"""

import json
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib.resources import files
from typing import Any, cast

import pytest
import yaml
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from proxy.hotpath.counting.counter_snapshot import CounterSnapshot, KeyCount
from proxy.net.connection.info_figures import figures_of, read_info
from proxy.policy.model import TRANSPARENT
from proxy.rules.shared_state import COMPRESSION_FIGURES
from proxy.server.evidence.group_evidence import GroupEvidence
from proxy.server.evidence.keeper import EvidenceKeeper
from proxy.server.evidence.memory_store import MemoryStore
from proxy.server.figures import RouteFigures
from proxy.server.incidents import Incidents
from proxy.server.kill_switch import KillSwitch
from proxy.server.metrics import GroupCollector, registry_of
from proxy.server.node_views import merged_nodes
from proxy.server.process_figures import ProcessFigures
from proxy.server.reload import Reloader
from proxy.server.traffic_metrics import MOST_CLIENTS, MOST_KEYS, MOST_PATTERNS, RouteTraffic, collect_traffic
from proxy.server.workers import Workers
from proxy.traffic.alerts import Hot
from proxy.traffic.interval_stats import IntervalStats
from proxy.traffic.latency import Latencies
from proxy.traffic.redaction import Redact, Redaction
from proxy.traffic.time_series import TimeSeries
from proxy.traffic.trace import Trace
from tests.server.given_nodes import a_node
from tests.traffic.given import READ

NOW = 1001.0
TRACE = replace(READ, weight=30, stored_out=40, who=("default", "we\xffb", "redis-py 8", "10.0.0.1:5555"))
UNITS = ("seconds", "bytes", "ratio", "celsius", "volts", "joules", "grams", "meters")
WRONG_UNITS = re.compile(
    r"(milli|micro|nano|kilo|mega|giga|kibi|mebi)(seconds|bytes)|minutes|hours|days|weeks|bits|percents?|ms|us|ns|sec|kb|mb"
)


USES = (KeyCount(b"user:1", 60, 0, 60, 0),)
OPEN = Redaction(Redact.NONE)


def time_series(
    *traces: Trace, key_counts: tuple[KeyCount, ...] = USES, total: int = 100, began: float = NOW - 1
) -> TimeSeries:
    made = IntervalStats(began, 1.0)
    for trace in traces:
        made.see(trace, frozenset())
        made.see_expiry(trace.patterns[0], trace.keys[0], NOW + 60)
    made.counter_snapshots = [CounterSnapshot(total, 0, key_counts)]
    made.close()
    found = TimeSeries()
    found.add(IntervalStats(began - 59, 1.0))
    found.add(made)
    return found


INFO = figures_of(
    read_info(
        b"# Memory\r\nused_memory:9000\r\nmaxmemory:0\r\nmem_fragmentation_ratio:1.25\r\nused_memory_rss:x\r\n"
        b"# Stats\r\nexpired_keys:7\r\nevicted_keys:4\r\n"
        b"# Keyspace\r\ndb0:keys=5,expires=2,avg_ttl=9000\r\ndb3:keys=1,expires=1,avg_ttl=3000\r\n"
        b"db\xc2\xb2:keys=9\r\n"
    )
)
NODES = [
    a_node("n1", slots=[[0, 99], [200, 299]], ping_ms=0.25, connections=3, info=INFO),
    a_node("n2", slots=[[100, 199]], health="silent"),
    a_node("n4", role="replica", primary="n1", lag=512, lag_seconds=0.3, serves=True),
]


class OneRoute:
    """Workers with something of everything to tell."""

    living, restarts, generation, failures, on, lag, max_clients = 2, 1, 3, 4, True, 0.01, 500
    policies = (TRANSPARENT,)
    evidence = GroupEvidence(["default"])

    def __init__(self) -> None:
        self.time_series = (time_series(TRACE, began=time.time()),)

    def redaction(self, _route: int) -> Redaction:
        return OPEN

    def processes(self) -> dict[int, ProcessFigures]:
        return {0: ProcessFigures(1.5, 1 << 20, 30, 0.01)}

    def figures(self) -> list[RouteFigures]:
        latencies = Latencies()
        latencies.add(TRACE)
        counters: dict[str, Any] = {
            "clients_total": 1,
            "commands": {"pooled": 1, "pinned": 0, "local": 0},
            "calls": {"GET": 1, "unknown": 2},
            "errors": {"redis": {"WRONGTYPE": 1}, "keyrail": {"DENIED": 1}},
            "verdicts": {"no-keys": {"shop": {"enforce refused": 1}}},
            "violations_dropped": {"no-keys": 1},
            "closed": {"client": 1},
            "events": {"uninvited": 1},
            "failures": {"accept": {"EMFILE": 1}, "tls_client": {"closed": 2}, "tls_upstream": {"timeout": 1}},
            "out_of_step": 0,
            "reconnects": 0,
            "traces": latencies.figures(),
            "compressed": {"docs": {figure: at + 1 for at, figure in enumerate(COMPRESSION_FIGURES)}},
            "local_cache": {"hits": 3, "audited_hits": 1, "ages": 1.5, "fills": 2, "fills_in_vain": 1},
            "replica_reads": {"moved": 8, "own_writes": 1, "no_replica": 2},
        }
        gauges = {
            "local_cache_now": {"entries": 1, "memory_limit_bytes": 64, "off": 1},
            "clients": 1,
            "backlog": {"in_flight": 3, "queued": 1},
            "buffers": {"output": 1},
            "upstreams": {"shared": 1},
            "breakers": {"calm": 0},
        }
        engine = {"name": "valkey", "version": "9.1.0"}
        nodes = merged_nodes([{"nodes": NODES}], {"n1-id": 7}, {"n4-id": {"reads": 8, "resent": 3, "errors": 1}})
        return [RouteFigures("default", True, "", engine, 1, ["COMMAND"], counters, gauges, nodes=nodes)]


@pytest.fixture(scope="module")
def exported() -> list[Metric]:
    everything = cast("Any", OneRoute())
    workers, reloader, switch = (
        cast("Workers", everything),
        cast("Reloader", everything),
        cast("KillSwitch", everything),
    )
    incidents = Incidents(workers, ["default"], None)
    keeper = EvidenceKeeper(everything, ["default"], lambda: MemoryStore(1 << 20, 1))
    text = generate_latest(registry_of(GroupCollector(workers, reloader, switch, incidents, keeper)))
    return list(text_string_to_metric_families(text.decode()))


def complaints(metrics: Iterable[Metric]) -> Iterator[str]:
    """The complaints that promlint would have."""
    for metric in metrics:
        name = metric.name
        if not metric.documentation.strip():
            yield f"{name}: no help text"
        if not re.fullmatch(r"keyrail(_[a-z][a-z0-9]*)+", name):
            yield f"{name}: not in snake_case under keyrail_"
        if metric.type != "counter" and name.endswith("_total"):
            yield f"{name}: non-counter metrics should not have _total"
        if metric.type != "histogram" and re.search(r"_(count|sum|bucket)$", name):
            yield f"{name}: the suffix of a histogram"
        words = name.split("_")
        if any(word in ("gauge", "counter", "histogram", "summary", "metric") for word in words):
            yield f"{name}: its type in its name"
        if any(WRONG_UNITS.fullmatch(word) for word in words):
            yield f"{name}: not a base unit"
        if any(word in UNITS for word in words) and words[-1] not in (*UNITS, "rate"):
            yield f"{name}: the unit comes last"
        seen = set()
        for sample in metric.samples:
            if metric.type == "counter" and not sample.name.endswith(("_total", "_created")):
                yield f"{sample.name}: a counter should end in _total"
            allowed = {"le"} if metric.type == "histogram" else set()
            for label in sample.labels.keys() - allowed:
                if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", label) or label in ("le", "quantile"):
                    yield f"{name}: the label {label}"
            seen.add((sample.name, *sorted(sample.labels.items())))
        if len(seen) != len(metric.samples):
            yield f"{name}: the same sample twice"


def test_names_are_as_prometheus_wants_them(exported: list[Metric]) -> None:
    assert list(complaints(exported)) == []
    assert all(metric.samples for metric in exported), "this test has to see the labels of each"


def test_what_is_wrong_is_seen() -> None:
    bad = [Metric("keyrail_busy_total", "", "gauge"), Metric("keyrail_waitMs", "x", "gauge")]
    late = Metric("keyrail_seconds_waited_sum", "Time.", "gauge")
    late.add_sample("keyrail_seconds_waited_sum", {"leaseTime": "1"}, 1)
    late.add_sample("keyrail_seconds_waited_sum", {"leaseTime": "1"}, 2)
    said = list(complaints([*bad, late]))
    for part in ("no help", "snake_case", "_total", "histogram", "comes last", "label leaseTime", "sample twice"):
        assert any(part in each for each in said), part


def values(traffic: TimeSeries, redaction: Redaction = OPEN) -> dict[str, dict[tuple[str, ...], float]]:
    found = collect_traffic([RouteTraffic("r", traffic, redaction, Hot())], NOW)
    return {each.name: {tuple(s.labels.values())[1:]: s.value for s in each.samples} for each in found}


def test_the_busiest_keys_and_no_more() -> None:
    alike = tuple(KeyCount(b"user:%d" % n, 5, 0, 5, 0) for n in range(200))
    assert values(time_series(key_counts=alike, total=1000))["keyrail_hot_key_rate"] == {}
    busy = tuple(KeyCount(b"user:%d" % n, 6000, 0, 6000, 0) for n in range(15))
    assert len(values(time_series(key_counts=busy, total=90_000))["keyrail_hot_key_rate"]) == MOST_KEYS
    hot = (KeyCount(b"user:1", 90_000, 0, 90_000, 0), KeyCount(b"user:2", 6000, 0, 0, 6000))
    told = values(time_series(key_counts=hot, total=100_000))
    assert told["keyrail_hot_keys"] == {(): 1}
    assert told["keyrail_hot_keys_timestamp_seconds"] == {(): NOW}
    assert told["keyrail_hot_key_rate"] == {("user:1",): 1500, ("user:2",): 100}
    assert told["keyrail_hot_key_share"] == {("user:1",): 0.9, ("user:2",): 0.06}
    hidden = values(time_series(key_counts=hot, total=100_000), Redaction(Redact.SHAPE))
    assert hidden["keyrail_hot_key_rate"] == {("user:{int}",): 1600}, "keys that look the same are one"


def test_many_patterns_and_clients_are_folded() -> None:
    traces = [replace(TRACE, patterns=(f"p{n}",), app=f"a{n}") for n in range(100)]
    told = values(time_series(*traces, replace(TRACE, patterns=("other",), app="other", weight=60)))
    patterns, clients = told["keyrail_pattern_rate"], told["keyrail_client_rate"]
    assert patterns["other", "read"] == 1
    assert patterns["other", "any"] == pytest.approx((101 - MOST_PATTERNS) * 0.5)
    assert len(patterns) == 2 * MOST_PATTERNS + 1
    assert len(clients) == MOST_CLIENTS + 1
    assert sum(clients.values()) == pytest.approx(100 * 0.5 + 1)
    assert told["keyrail_pattern_bytes_rate"]["other", "out"] == 100
    assert told["keyrail_pattern_hit_ratio"]["other",] == told["keyrail_pattern_expiring_ratio"]["other",] == 1


def test_nothing_at_all() -> None:
    told = values(TimeSeries())
    assert told["keyrail_hot_keys"] == {(): 0}
    assert told["keyrail_busiest_slot_share"] == {(): 0}


# Dashboard and alert rules


def resource(name: str) -> str:
    return files("proxy.server.admin").joinpath(name).read_text("utf-8")


def unknown_names(expression: str, exported: list[Metric]) -> Iterator[str]:
    """Metrics and labels in an expression that nobody exports."""
    labels: dict[str, set[str]] = {}
    for metric in exported:
        for sample in metric.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    used = set(re.findall(r"\bkeyrail_\w+", expression))
    assert used, f"{expression}: about nothing of Keyrail's"
    yield from used - labels.keys()
    known = set.union({"instance", "job"}, *(labels.get(name, set()) for name in used))
    matchers = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", expression)
    groups = re.findall(r"\b(?:by|without|on)\s*\(([^)]*)\)", expression)
    asked = re.findall(r"label_values\(\w+, (\w+)\)", expression)
    yield from {*matchers, *asked, *(name.strip() for group in groups for name in group.split(","))} - known


def test_the_dashboard_is_whole_and_shows_what_is_exported(exported: list[Metric]) -> None:
    dashboard = json.loads(resource("grafana.json"))
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for grid in (panel["gridPos"] for panel in panels)
        for x in range(grid["x"], grid["x"] + grid["w"])
        for y in range(grid["y"], grid["y"] + grid["h"])
    ]
    assert len(set(cells)) == len(cells), "panels that overlap"
    assert max(x for x, _ in cells) < 24
    datasource, route = dashboard["templating"]["list"]
    assert (datasource["type"], datasource["query"]) == ("datasource", "prometheus")
    expressions = [route["query"]["query"]]
    for panel in panels:
        if panel["type"] == "row":
            continue
        assert panel["datasource"] == {"type": "prometheus", "uid": f"${{{datasource['name']}}}"}
        assert panel["description"]
        targets = panel["targets"]
        assert len({target["refId"] for target in targets}) == len(targets) > 0
        for target in targets:
            legend = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            expressions += [target["expr"], f"{target['expr']} by ({', '.join(legend)})" if legend else target["expr"]]
    assert {name for each in expressions for name in unknown_names(each, exported)} == set()


def test_alert_rules_ask_for_what_is_exported(exported: list[Metric]) -> None:
    (group,) = yaml.safe_load(resource("alerts.yaml"))["groups"]
    rules = group["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 9
    for rule in rules:
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"].keys() == {"summary", "description"}
        told = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        assert set(unknown_names(f"{rule['expr']} by ({', '.join(told | {'instance'})})", exported)) == set(), rule


def test_prometheus_parses_every_expression() -> None:
    promql = pytest.importorskip(
        "promql_parser", reason="its parser is not installed here: pip install 'keyrail[deploy]'"
    )
    (group,) = yaml.safe_load(resource("alerts.yaml"))["groups"]
    expressions = [rule["expr"] for rule in group["rules"]]
    for panel in json.loads(resource("grafana.json"))["panels"]:
        expressions += [target["expr"].replace("$__rate_interval", "1m") for target in panel.get("targets", ())]
    assert len(expressions) > 60
    for expression in expressions:
        promql.parse(expression)
    with pytest.raises(ValueError, match="unclosed left parenthesis"):
        promql.parse("sum by (route (keyrail_clients)")


SIGNALS = (
    "keyrail_commands_in_flight",
    "keyrail_commands_queued",
    "keyrail_oldest_wait_seconds",
    "keyrail_worker_lag_seconds",
    "keyrail_worker_cpu_seconds_total",
    "keyrail_worker_memory_bytes",
    "keyrail_worker_open_files",
    "keyrail_supervisor_lag_seconds",
    "keyrail_supervisor_cpu_seconds_total",
    "keyrail_supervisor_memory_bytes",
    "keyrail_supervisor_open_files",
    "keyrail_open_files_limit",
    "keyrail_command_calls_total",
    "keyrail_error_replies_total",
    "keyrail_upstream_seconds_bucket",
    "keyrail_proxy_seconds_bucket",
)


@pytest.mark.parametrize("name", SIGNALS)
def test_each_signal_of_saturation_is_exported_and_has_a_panel(name: str, exported: list[Metric]) -> None:
    assert name in {sample.name for metric in exported for sample in metric.samples}
    assert re.search(rf"\b{name}\b", resource("grafana.json"))


def test_what_nobody_exports_is_seen(exported: list[Metric]) -> None:
    wrong = 'sum by (route, who) (keyrail_nothing) / keyrail_clients{where="x", route="r"}'
    assert set(unknown_names(wrong, exported)) == {"keyrail_nothing", "who", "where"}


def test_what_is_compressed(exported: list[Metric]) -> None:
    figures = {
        sample.name.removeprefix("keyrail_"): sample.value
        for metric in exported
        for sample in metric.samples
        if sample.labels.get("rule") == "docs" and sample.name.endswith("_total")
    }
    assert figures == {
        "compressed_values_total": 1,
        "compressed_plain_bytes_total": 2,
        "compressed_stored_bytes_total": 3,
        "compress_cpu_seconds_total": 4,
        "incompressible_values_total": 5,
        "decompressed_values_total": 6,
        "decompressed_plain_bytes_total": 7,
        "decompressed_stored_bytes_total": 8,
        "decompress_cpu_seconds_total": 9,
    }


def test_the_local_cache(exported: list[Metric]) -> None:
    told = {(s.name, s.labels.get("mode")): s.value for metric in exported for s in metric.samples}
    assert told["keyrail_local_cache_hits_total", "enforce"] == told["keyrail_local_cache_age_seconds_count", None] == 3
    assert told["keyrail_local_cache_age_seconds_sum", None] == 1.5
    assert told["keyrail_local_cache_memory_limit_bytes", None] == 64
    assert told["keyrail_local_cache_off", None] == 1


def test_nodes_of_a_cluster(exported: list[Metric]) -> None:
    told = {
        (sample.name.removeprefix("keyrail_"), sample.labels.get("node")): sample.value
        for metric in exported
        for sample in metric.samples
        if "node" in sample.labels or metric.name == "keyrail_slots_without_node"
    }
    assert {name: value for (name, node), value in told.items() if node == "n1"} == {
        "node_ready": 1,
        "node_primary": 1,
        "node_slots": 200,
        "node_ping_seconds": 0.00025,
        "node_connections": 3,
        "node_commands_total": 7,
        "node_keys": 6,
        "node_expires": 3,
        "node_average_ttl_seconds": 7,
        "node_memory_bytes": 9000,
        "node_memory_limit_bytes": 0,
        "node_fragmentation_ratio": 1.25,
        "node_evicted_keys_total": 4,
        "node_expired_keys_total": 7,
    }
    assert (told["node_ready", "n2"], told["node_primary", "n4"], told["node_lag_bytes", "n4"]) == (0, 0, 512)
    replica = {name: value for (name, node), value in told.items() if node == "n4" and "read" in name.split("_", 1)[1]}
    assert replica == {
        "node_ready": 1,
        "node_serves_reads": 1,
        "node_reads_total": 8,
        "node_reads_resent_total": 3,
        "node_read_errors_total": 1,
    }
    assert told["node_lag_seconds", "n4"] == 0.3
    (outcomes,) = (metric for metric in exported if metric.name == "keyrail_replica_reads")
    assert {sample.labels["outcome"]: sample.value for sample in outcomes.samples} == {
        "moved": 8,
        "own_writes": 1,
        "no_replica": 2,
    }
    assert told["slots_without_node", None] == 16384 - 200

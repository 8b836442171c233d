"""The traffic, for Prometheus: the busiest keys, patterns, clients and slots of the last minute.

All but ``keyrail_traced_commands_total`` are gauges over a sliding minute, with the figures of ``/hotkeys``,
``/patterns``, ``/clients`` and ``/slots``. The number of time series is bounded: all but the busiest are folded into
one that is called ``other``. Keys are shown as ``redact`` says; keys that then look the same are one.

keyrail_hot_keys{route}                             keys that are hot, as the policy's ``alerts`` say
keyrail_hot_keys_timestamp_seconds{route}           the snapshot of this and the next two: ``at`` in ``/hotkeys``
keyrail_hot_key_rate{route,key}                     uses per second of the ten busiest, if they have 1 % or are hot
keyrail_hot_key_share{route,key}                    their share of all uses of keys
keyrail_pattern_rate{route,pattern,kind}            uses of keys per second; kind: read, write
keyrail_pattern_bytes_rate{route,pattern,direction} bytes per second; direction: in (commands), out (replies)
keyrail_pattern_hit_ratio{route,pattern}            commands that found a value, of those with a traced reply
keyrail_pattern_expiring_ratio{route,pattern}       keys with a TTL, of those that were asked about
keyrail_pattern_p99_seconds{route,pattern}          the time at Redis and in the network
keyrail_pattern_runs_rate{route,pattern}            runs of single reads (N+1) per second, as ``/patterns`` has them
keyrail_pattern_largest_bytes{route,pattern}        the largest command or reply for one key
keyrail_pattern_largest_stored_bytes{route,pattern} its bytes at Redis, where the value is stored compressed
keyrail_client_rate{route,app,user,client_name,library,address}   commands per second
keyrail_busiest_slot_share{route}                   the busiest hash slot's share of all uses of keys
keyrail_crossslot_rate{route}                       commands per second that a cluster would refuse
keyrail_traced_commands_total{route}                traced commands
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from proxy.server.figures import RouteFigures
from proxy.traffic import json_views
from proxy.traffic.alerts import Hot
from proxy.traffic.redaction import Redaction
from proxy.traffic.time_series import TimeSeries

WINDOW = 60
MOST_KEYS, MOST_PATTERNS, MOST_CLIENTS = 10, 50, 20
LEAST_SHARE = 0.01
"""The least share of all uses of keys for a time series: if all keys are equally busy, none needs one."""

OTHER = "other"


@dataclass(frozen=True, slots=True)
class RouteTraffic:
    """The recent traffic of one route, and how its keys are shown; `hot` has the thresholds of hot keys."""

    name: str
    time_series: TimeSeries
    redaction: Redaction
    hot: Hot


def collect_traces(routes: list[RouteFigures]) -> Iterator[Metric]:
    """Latency and bytes since the start, as estimated from traced commands."""
    times = {
        "proxy": HistogramMetricFamily(
            "keyrail_proxy_seconds",
            "From a command's arrival until it leaves for Redis (estimate).",
            labels=("route", "app"),
        ),
        "redis": HistogramMetricFamily(
            "keyrail_upstream_seconds", "From then until its reply arrives (estimate).", labels=("route", "app")
        ),
    }
    volumes = {
        "in": CounterMetricFamily("keyrail_received_bytes", "Bytes of commands (estimate).", labels=("route",)),
        "out": CounterMetricFamily("keyrail_sent_bytes", "Bytes of replies (estimate).", labels=("route",)),
    }
    taken = CounterMetricFamily("keyrail_traced_commands", "Traced commands.", labels=("route",))
    for route in routes:
        traces: Mapping[str, Mapping[str, Any]] = route.counters.get("traces", {})
        for name, family in times.items():
            for app, counts in traces.get(name, {}).items():
                by_bound = dict(counts)
                seconds = by_bound.pop("sum")
                buckets = zip(by_bound, itertools.accumulate(by_bound.values()), strict=True)
                family.add_metric((route.name, app), list(buckets), seconds)
        for name, volume in volumes.items():
            volume.add_metric((route.name,), traces.get("bytes", {}).get(name, 0))
        taken.add_metric((route.name,), traces.get("traces", {}).get("taken", 0))
    yield from (*times.values(), *volumes.values(), taken)


def collect_traffic(routes: Iterable[RouteTraffic], now: float) -> Iterator[Metric]:
    """The last minute before `now`, in seconds since the epoch."""
    routes = list(routes)
    yield from _collect_keys(routes, now)
    yield from _collect_patterns(routes, now)
    yield from _collect_clients(routes, now)
    yield from _collect_slots(routes, now)


def _collect_keys(routes: list[RouteTraffic], now: float) -> Iterator[Metric]:
    hot = GaugeMetricFamily("keyrail_hot_keys", "Keys that are hot, by share and by rate.", labels=("route",))
    taken = GaugeMetricFamily(
        "keyrail_hot_keys_timestamp_seconds", "When the figures of hot keys were computed.", labels=("route",)
    )
    labels = ("route", "key")
    rate = GaugeMetricFamily("keyrail_hot_key_rate", "Uses per second of the busiest keys.", labels=labels)
    share = GaugeMetricFamily("keyrail_hot_key_share", "Their share of all uses of keys.", labels=labels)
    for route in routes:
        found = route.time_series.hot_keys(WINDOW, now)
        taken.add_metric((route.name,), found.taken)
        hot.add_metric((route.name,), sum(found.reached(each, route.hot) for each in found.keys))
        uses: Counter[str] = Counter()
        for each in found.keys[:MOST_KEYS]:
            if each.share >= LEAST_SHARE or found.reached(each, route.hot):
                uses[route.redaction.of(each.key)] += each.certain
        for key, count in uses.items():
            rate.add_metric((route.name, key), found.rate_of(count))
            share.add_metric((route.name, key), found.share_of(count))
    yield from (hot, taken, rate, share)


def _collect_patterns(routes: list[RouteTraffic], now: float) -> Iterator[Metric]:
    labels = ("route", "pattern")
    rate = GaugeMetricFamily(
        "keyrail_pattern_rate", "Uses of a pattern's keys per second (estimate).", labels=(*labels, "kind")
    )
    size = GaugeMetricFamily(
        "keyrail_pattern_bytes_rate", "Bytes per second for a pattern (estimate).", labels=(*labels, "direction")
    )
    hits = GaugeMetricFamily("keyrail_pattern_hit_ratio", "Commands that found a value (estimate).", labels=labels)
    expiring = GaugeMetricFamily(
        "keyrail_pattern_expiring_ratio", "Keys with a TTL, of those that were used and asked about.", labels=labels
    )
    slow = GaugeMetricFamily(
        "keyrail_pattern_p99_seconds", "99 % of a pattern's commands take no longer at Redis (estimate).", labels=labels
    )
    runs = GaugeMetricFamily(
        "keyrail_pattern_runs_rate", "Runs of eight single reads in a row, per second (estimate).", labels=labels
    )
    largest = GaugeMetricFamily(
        "keyrail_pattern_largest_bytes", "The largest command or reply for one key that was seen.", labels=labels
    )
    stored = GaugeMetricFamily(
        "keyrail_pattern_largest_stored_bytes",
        "The bytes at Redis of the largest command or reply, where the value is stored compressed.",
        labels=labels,
    )
    for route in routes:
        told = json_views.patterns(route.time_series, WINDOW, MOST_PATTERNS, now, route.redaction)
        for each in told["patterns"]:
            name = route.name, each["pattern"]
            for kind in ("read", "write"):
                rate.add_metric((*name, kind), each[f"{kind}s"])
            for direction in ("in", "out"):
                size.add_metric((*name, direction), each[f"bytes_{direction}"])
            largest.add_metric(name, each["largest"])
            if each["largest_stored"] is not None:
                stored.add_metric(name, each["largest_stored"])
            runs.add_metric(name, each["runs"])
            for family, known, part in ((hits, "hit_ratio", 1), (expiring, "ttl_share", 1), (slow, "p99_ms", 0.001)):
                if each[known] is not None:
                    family.add_metric(name, each[known] * part)
        # No pattern has this kind, so a key with this name cannot be mistaken for it.
        rate.add_metric((route.name, OTHER, "any"), told["other"]["rate"])
    yield from (rate, size, hits, expiring, slow, runs, largest, stored)


def _collect_clients(routes: list[RouteTraffic], now: float) -> Iterator[Metric]:
    names = ("app", "user", "client_name", "library", "address")
    rate = GaugeMetricFamily(
        "keyrail_client_rate", "Commands per second of the busiest clients (estimate).", labels=("route", *names)
    )
    for route in routes:
        told = json_views.clients(route.time_series, WINDOW, MOST_CLIENTS, now)
        for each in told["clients"]:
            rate.add_metric((route.name, *(each[name] for name in names)), each["rate"])
        # Every known client has a user.
        rate.add_metric((route.name, OTHER, "", "", "", ""), told["other"]["rate"])
    yield rate


def _collect_slots(routes: list[RouteTraffic], now: float) -> Iterator[Metric]:
    share = GaugeMetricFamily(
        "keyrail_busiest_slot_share", "The busiest hash slot's share of all uses of keys (estimate).", labels=("route",)
    )
    across = GaugeMetricFamily(
        "keyrail_crossslot_rate", "Commands per second with keys of several slots (estimate).", labels=("route",)
    )
    for route in routes:
        told = json_views.slots(route.time_series, WINDOW, 1, now, route.redaction)
        share.add_metric((route.name,), max((slot["share"] for slot in told["slots"]), default=0.0))
        across.add_metric((route.name,), told["crossslot"])
    yield from (share, across)

"""Prometheus metrics about the local cache, of routes whose policy has one.

keyrail_local_cache_hits_total{route,mode}                 reads answered from memory; mode audit: that would have been
keyrail_local_cache_bytes_total{route,mode}                bytes of these replies
keyrail_local_cache_saved_redis_seconds_total{route,mode}  CPU time of Redis for as many commands (estimate)
keyrail_local_cache_age_seconds_{sum,count}{route}         age of the replies that were sent from memory
keyrail_local_cache_misses_total{route}                    reads that memory lacked
keyrail_local_cache_fills_total{route,result}              replies fetched; result: kept, in_vain
keyrail_local_cache_invalidations_total{route}             keys that Redis said have changed
keyrail_local_cache_evictions_total{route}                 replies that left for lack of room
keyrail_local_cache_entries{route}                         replies in memory now
keyrail_local_cache_memory_bytes{route}                    their bytes
keyrail_local_cache_memory_limit_bytes{route}              the most that they may take
keyrail_local_cache_hot_keys{route}                        keys that are hot for rules with ``when: hot``
keyrail_local_cache_changing_keys{route}                   keys that would be hot, but change too often
keyrail_local_cache_connections{route}                     tracking connections now
keyrail_local_cache_off{route}                             databases of workers without one, although clients read there
"""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

from proxy.server.figures import RouteFigures

_BY_MODE = (
    ("hits", "Reads answered from memory, or that would have been (mode audit).", "hits"),
    ("bytes", "Bytes of these replies.", "bytes"),
    ("saved_redis_seconds", "CPU time of Redis for as many commands (estimate).", "saved_seconds"),
)
_COUNTERS = (
    ("misses", "Reads that memory lacked."),
    ("invalidations", "Keys that Redis said have changed."),
    ("evictions", "Replies that left memory for lack of room."),
)
_GAUGES = (
    ("entries", "Replies in memory."),
    ("memory_bytes", "Bytes of the replies in memory."),
    ("memory_limit_bytes", "The most that they may take, added up over rules and workers."),
    ("hot_keys", "Keys that are hot for rules about hot keys."),
    ("changing_keys", "Keys that would be hot for rules about hot keys, but change too often."),
    ("connections", "Tracking connections."),
    ("off", "Databases that clients read from and whose cache is off, as there is no tracking connection, per worker."),
)


def collect_caches(routes: list[RouteFigures]) -> Iterator[Metric]:
    """Nothing of routes without a local cache."""
    cached = [(route.name, route.counters["local_cache"], route) for route in routes if is_cached(route)]
    for name, text, figure in _BY_MODE:
        by_mode = CounterMetricFamily(f"keyrail_local_cache_{name}", text, labels=("route", "mode"))
        for route, counters, _ in cached:
            by_mode.add_metric((route, "enforce"), counters.get(figure, 0))
            by_mode.add_metric((route, "audit"), counters.get(f"audited_{figure}", 0))
        yield by_mode
    ages = SummaryMetricFamily(
        "keyrail_local_cache_age_seconds", "Age of the replies that were sent from memory.", labels=("route",)
    )
    for route, counters, _ in cached:
        ages.add_metric((route,), counters.get("hits", 0), counters.get("ages", 0.0))
    yield ages
    fills = CounterMetricFamily("keyrail_local_cache_fills", "Replies fetched.", labels=("route", "result"))
    for route, counters, _ in cached:
        in_vain = counters.get("fills_in_vain", 0)
        fills.add_metric((route, "kept"), counters.get("fills", 0) - in_vain)
        fills.add_metric((route, "in_vain"), in_vain)
    yield fills
    for name, text in _COUNTERS:
        counter = CounterMetricFamily(f"keyrail_local_cache_{name}", text, labels=("route",))
        for route, counters, _ in cached:
            counter.add_metric((route,), counters.get(name, 0))
        yield counter
    for name, text in _GAUGES:
        gauge = GaugeMetricFamily(f"keyrail_local_cache_{name}", text, labels=("route",))
        for route, _, figures in cached:
            gauge.add_metric((route,), figures.gauges.get("local_cache_now", {}).get(name, 0))
        yield gauge


def is_cached(route: RouteFigures) -> bool:
    """Whether the policy of the route has, or had, a local cache."""
    return bool(route.counters.get("local_cache"))

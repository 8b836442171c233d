"""What the local cache of a route did in a window: ``/local_cache?window=60``.

    {"window": 60, "age": 0.4, "rules": ["hot-reads"],
     "enforce": {"hits": 10200.4, "bytes": 918036.2, "saved_redis_seconds": 0.0192}, "audit": {…},
     "hit_ratio": 0.9994, "misses": 5.8, "fills": 5.1, "fills_in_vain": 0.1, "invalidations": 3.2, "evictions": 0.0,
     "mean_age": 0.21, "entries": 812, "memory_bytes": 904112, "memory_limit_bytes": 67108864, "hot_keys": 3,
     "changing_keys": 1, "connections": 2, "off": 0}

``rules`` are those in force that are about it; without any, clients get nothing from memory. Figures from ``enforce``
to ``evictions`` are per second, but for ``hit_ratio``, the part of the reads of cached keys whose reply was in memory.
``mean_age`` is that of the replies that were sent, in seconds, or null. The others are of now, over all workers.
"""

import time
from typing import Any

from proxy.net.policy.cache_scope import cache_rules
from proxy.server.admin.state import AdminState
from proxy.traffic.cache_figures import CacheFigures

_NOW = ("entries", "memory_bytes", "memory_limit_bytes", "hot_keys", "changing_keys", "connections", "off")


def local_cache(state: AdminState, route: int, window: int) -> dict[str, Any]:
    """Return the object for one route and window."""
    now, time_series = time.time(), state.workers.time_series[route]
    interval = time_series.window(window, now)
    gauges = state.workers.figures()[route].gauges.get("local_cache_now", {})
    rules = cache_rules(state.workers.policies[route])
    return {
        "window": window,
        "age": round(max(0.0, now - time_series.newest), 3),
        "rules": list(rules),
        **(interval.cached or CacheFigures()).rates(interval.seconds),
        **{name: gauges.get(name, 0) for name in _NOW},
    }

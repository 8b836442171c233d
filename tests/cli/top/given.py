"""Made-up answers of an admin port, with every field."""

from __future__ import annotations

import json
from typing import Any

from proxy.cli.top.asking import Answers
from proxy.cli.top.state import ViewState
from proxy.cli.top.views import VIEWS, View

BESIDE = {"id": "c3f9a1b27", "connects": 51.0, "redis_time": 0.12}
CLIENT = {
    "app": "checkout",
    "user": "default",
    "client_name": "checkout-7",
    "library": "go-redis 9.7",
    "address": "10.0.0.7",
}
HOT = {
    "key": "product:8841:stock",
    "count": 2_460_000,
    "error": 9_840,
    "share": 0.3798,
    "reads": 2_452_620,
    "writes": 7_380,
    "cached_share": 0.0,
    "replica_share": 0.0,
    "bytes_in": 9_318,
    "bytes_out": 391_118_848,
    "hit_ratio": 1.0,
    "pattern": "product:{int}:stock",
    "rate": 41_000.0,
    "slot": 7211,
    "hot": True,
    "before": 120.0,
    "since": "2026-11-21T02:47:10.000Z",
    "clients": [{**CLIENT, "share": 0.91, "new": True}, {**CLIENT, "app": "web", "share": 0.07, "new": False}],
    "other_clients": 0.02,
}
COLD = {
    **HOT,
    "key": "user:1:name",
    "count": 12,
    "error": 0,
    "share": 0.000002,
    "rate": 0.2,
    "hit_ratio": None,
    "pattern": None,
    "hot": False,
    "before": None,
    "since": None,
    "clients": [],
    "other_clients": 0.0,
}
PATTERN = {
    "pattern": "product:{int}:stock",
    "schema": True,
    "app": "checkout",
    "rate": 41_000.0,
    "reads": 40_000.0,
    "writes": 1_000.0,
    "bytes_in": 9_318,
    "bytes_out": 391_118_848,
    "hit_ratio": 0.25,
    "ttl_share": None,
    "largest": 9_318,
    "largest_key": "product:8841:stock",
    "p50_ms": 0.4,
    "p99_ms": 14.0,
    "runs": 0.0,
}
TOLD: dict[str, Any] = {
    "hotkeys": {"counted": True, "window": 60, "age": 0.4, "rate": 108_000.0, "keys": [HOT, COLD]},
    "patterns": {
        "window": 60,
        "age": 0.4,
        "patterns": [PATTERN, {**PATTERN, "pattern": "user:{int}", "rate": 12.0, "bytes_out": 1 << 40, "p99_ms": None}],
        "other": {"patterns": 0, "rate": 0.0},
    },
    "slots": {
        "window": 60,
        "age": 0.4,
        "heat": [0.0] * 112 + [0.5] + [0.001] * 143,
        "slots": [{"slot": 7211, "share": 0.38, "rate": 41_000.0, "keys": ["product:8841:stock"]}],
        "tags": [{"tag": "42", "share": 0.1, "rate": 10_800.0}],
        "crossslot": 3.5,
    },
    "clients": {
        "window": 60,
        "age": 0.4,
        "clients": [
            {**CLIENT, **BESIDE, "rate": 37_310.0, "share": 0.35, "bytes_in": 900, "bytes_out": 9e8, "refused": 2.0}
        ],
        "other": {"clients": 0, "rate": 0.0},
    },
    "slow": {
        "commands": [
            {
                **CLIENT,
                "time": "2026-11-21T02:47:12.000Z",
                "command": "HGETALL",
                "key": None,
                "at_redis_ms": 1_204.0,
                "in_proxy_ms": 0.21,
                "bytes_in": 30,
                "bytes_out": 9_000_000,
            }
        ]
    },
    "rules": {
        "route": "default",
        "rules": [
            {
                "rule": "no-keyspace-walks",
                "mode": "enforce",
                "where": "platform.yaml:7",
                "hits": {"enforce refused": 3, "audit refused": 2},
                "out_of": 90_210,
                "first_seen": "2026-11-21T02:40:00.000Z",
                "last_seen": "2026-11-21T02:47:12.000Z",
                "apps": {"reports": {"mode": "warn", "shapes": [{"shape": "user:{int}", "count": 3}]}},
            },
            {"rule": "silent", "mode": "audit", "where": "platform.yaml:9", "hits": {}, "out_of": 9, "last_seen": None},
        ],
    },
}
VIOLATION = {
    "time": "2026-11-21T02:47:12.000Z",
    "route": "default",
    "rule": "no-keyspace-walks",
    "mode": "enforce",
    "what": "refused",
    "app": "reports",
    "command": "KEYS",
    "user": "default",
    "client_name": "spark-7",
    "address": "10.0.0.7:51234",
}
SECOND = {
    "commands": 108_204,
    "p50_ms": 0.4,
    "p99_ms": 14.0,
    "proxy_p50_ms": 0.02,
    "proxy_p99_ms": 0.2,
    "bytes_in": 12_000_000,
    "bytes_out": 391_118_848,
}
INFO = {
    "version": "1.0",
    "route": "default",
    "ready": True,
    "reason": None,
    "upstream": "valkey 9.1.0",
    "workers": 2,
    "policy": "/etc/keyrail/platform.yaml",
    "policy_generation": 3,
    "clients": 1_204,
}
TOLD["violations"] = {
    "violations": [
        {"time": VIOLATION["time"], "route": "default", "rule": "no-keyspace-walks", "dropped": 17},
        {**VIOLATION, "key": "user:{int}#9f86d081"},
        *[VIOLATION] * 50,
    ]
}
INCIDENT = {
    "id": "INC-9",
    "route": "default",
    "kind": "hot-key",
    "subject": "product:8841:stock",
    "about": "product:{int}:stock",
    "began": "2026-11-21T02:47:03.000Z",
    "ended": None,
    "lines": ["product:8841:stock HOT 41k/s = 38 %", "remedy: keyrail remedy product:8841:stock"],
}
TOLD["incidents"] = {
    "incidents": [INCIDENT, {**INCIDENT, "id": "INC-8", "subject": "other", "ended": "2026-11-20T23:00:00.000Z"}]
}
CACHE: dict[str, Any] = {
    "window": 60,
    "age": 0.4,
    "rules": [],
    "enforce": {"hits": 38_950.0, "bytes": 3.6e8, "saved_redis_seconds": 0.312},
    "audit": {"hits": 0.0, "bytes": 0.0, "saved_redis_seconds": 0.0},
    "hit_ratio": 0.9984,
    "mean_age": 1.2,
    "misses": 62.0,
    "fills": 60.0,
    "fills_in_vain": 0.5,
    "invalidations": 12.0,
    "evictions": 0.0,
    "entries": 1_204,
    "memory_bytes": 904_112,
    "memory_limit_bytes": 128 << 20,
    "hot_keys": 3,
    "changing_keys": 0,
    "connections": 2,
    "off": 0,
}
TOLD["local_cache"] = CACHE
NODE = {
    "node": "n1",
    "id": "9f86d081",
    "address": "10.0.0.1:7000",
    "role": "primary",
    "primary": "",
    "slots": [[0, 8191]],
    "open": [],
    "health": "ok",
    "lack": "",
    "lag": None,
    "rate": 41_000.0,
    "connections": 6,
    "ping_ms": 0.21,
    "commands": 2_460_000,
    "lag_seconds": None,
    "serves": False,
    "reads": 0,
    "reads_resent": 0,
    "read_errors": 0,
    "pending": 0,
}
REPLICA = {
    **NODE,
    "node": "n4",
    "role": "replica",
    "primary": "n1",
    "slots": [],
    "health": "unlinked",
    "lag": 9_318,
    "lag_seconds": 0.35,
    "reads": 1_234,
    "rate": 0.0,
    "ping_ms": None,
}
TOLD["nodes"] = {"nodes": [NODE, {**NODE, "node": "n2", "slots": [[8192, 16383]], "rate": 7.0}, REPLICA]}
NOW = 1_800_000_000.0


def answers(**changed: Any) -> Answers:
    """The answers, with some paths or fields of Answers changed."""
    told = json.loads(json.dumps({**TOLD, **{name: changed.pop(name) for name in list(changed) if name in TOLD}}))
    fields: dict[str, Any] = {
        "query": ViewState().query(),
        "at": NOW - 0.5,
        "route": "default",
        "routes": ("default",),
        "info": INFO,
        "switch": {"on": False},
        "seconds": [{**SECOND, "commands": 50_000}, SECOND, {**SECOND, "commands": 7}],
        "told": told,
    }
    return Answers(**fields | changed)


def view(name: str) -> View:
    return next(each for each in VIEWS if each.name == name)

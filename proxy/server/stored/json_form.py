"""A scan as values that JSON can hold."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from proxy.server.stored.model import TTL_BOUNDS, LargeKey, PatternRow, Scan


def as_json(scan: Scan) -> dict[str, Any]:
    """The whole scan; times are UTC, TTLs of keys milliseconds, bounds of TTLs seconds."""
    patterns = sorted(scan.patterns.items(), key=lambda each: (-each[1].bytes, -each[1].keys, each[0]))
    findings = sorted(scan.findings.items(), key=lambda each: (-each[1].keys, each[0]))
    return {
        "version": 1,
        "upstream": scan.upstream,
        "policy": scan.policy,
        "started": _time(scan.started),
        "ended": _time(scan.ended),
        "finished": scan.finished,
        "share": scan.share,
        "keys": scan.keys,
        "bytes": scan.bytes,
        "expected_missed": scan.expected_missed,
        "notes": list(scan.notes),
        "ttl_bounds": TTL_BOUNDS,
        "apps": [{"app": app, **_row(row)} for app, row in scan.apps.items()],
        "patterns": [{**place._asdict(), **_row(row)} for place, row in patterns],
        "findings": [{**kind._asdict(), **asdict(row)} for kind, row in findings],
        "largest": [_large(each) for each in scan.largest],
        "nodes": [asdict(node) for node in scan.nodes],
        "slots": {"used": scan.used_slots, "heaviest": [asdict(each) for each in scan.slots]},
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _row(row: PatternRow) -> dict[str, Any]:
    return asdict(row)


def _large(key: LargeKey) -> dict[str, Any]:
    shown = asdict(key)
    return {"key": shown.pop("text"), "pattern": key.place.pattern, "app": key.place.app} | {
        name: value for name, value in shown.items() if name != "place"
    }

"""A scan as values that JSON can hold, and back."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any, TypeVar

from proxy.rules.stored import Fault
from proxy.server.stored.model import (
    TTL_BOUNDS,
    Bounds,
    FaultOf,
    FaultRow,
    FindingRow,
    FormRow,
    Kind,
    LargeKey,
    NodeFigures,
    PatternRow,
    Place,
    Sample,
    Scan,
    SlotKeys,
)
from proxy.traffic.tag_spread import UnusualTags

_VERSION = 1
_Row = TypeVar("_Row", PatternRow, FaultRow, FindingRow, FormRow, NodeFigures, SlotKeys)


def as_json(scan: Scan) -> dict[str, Any]:
    """The whole scan; times are UTC, TTLs of keys milliseconds, bounds of TTLs seconds. Where it is a sample, figures
    are estimates, and the 95 % bounds of each are in ``sample``."""
    patterns = sorted(scan.patterns.items(), key=lambda each: (-each[1].bytes, -each[1].keys, each[0]))
    return {
        "version": _VERSION,
        "upstream": scan.upstream,
        "policy": scan.policy,
        "started": _time(scan.started),
        "ended": _time(scan.ended),
        "finished": scan.finished,
        "share": scan.share,
        "sample": None if scan.sample is None else _sample(scan.sample),
        "keys": scan.keys,
        "bytes": scan.bytes,
        "expected_missed": scan.expected_missed,
        "notes": list(scan.notes),
        "ttl_bounds": TTL_BOUNDS,
        "apps": [{"app": app, **_row(row)} for app, row in scan.apps.items()],
        "patterns": [{**place._asdict(), **_row(row)} for place, row in patterns],
        "faults": [{**of._asdict(), **asdict(row)} for of, row in sorted(scan.faults.items())],
        "findings": [{**kind._asdict(), **asdict(row)} for kind, row in scan.worst_first],
        "forms": [{"rule": rule, **asdict(row)} for rule, row in sorted(scan.forms.items())],
        "largest": [_large(each) for each in scan.largest],
        "nodes": [asdict(node) for node in scan.nodes],
        "tags": [asdict(each) for each in scan.tags],
        "slots": {"used": scan.used_slots, "heaviest": [asdict(each) for each in scan.slots]},
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _row(row: PatternRow) -> dict[str, Any]:
    return asdict(row)


def _sample(sample: Sample) -> dict[str, Any]:
    bounds = [{"figure": figure, "low": its.low, "high": its.high} for figure, its in sample.bounds.items()]
    return {"share": sample.share, "drawn": sample.drawn, "of": sample.of, "none": sample.none, "bounds": bounds}


def _sample_of(told: Any) -> Sample | None:
    if told is None:
        return None
    bounds = {tuple(map(str, each["figure"])): Bounds(int(each["low"]), int(each["high"])) for each in told["bounds"]}
    return Sample(float(told["share"]), int(told["drawn"]), int(told["of"]), bounds, Bounds(*map(int, told["none"])))


def _large(key: LargeKey) -> dict[str, Any]:
    shown = asdict(key)
    return {"key": shown.pop("text"), "pattern": key.place.pattern, "app": key.place.app} | {
        name: value for name, value in shown.items() if name != "place" and (name != "tenant" or value is not None)
    }


def from_json(told: Any) -> Scan:
    """The scan of ``as_json``. Fields that it lacks are as if nothing was found. Raises
    ValueError if it is none."""
    try:
        if told["version"] != _VERSION or tuple(told["ttl_bounds"]) != TTL_BOUNDS:
            raise ValueError(told["version"])
        scan = Scan(
            upstream=str(told["upstream"]),
            policy=str(told["policy"]),
            started=_seconds(told["started"]),
            ended=_seconds(told["ended"]),
            finished=bool(told["finished"]),
            share=float(told["share"]),
            patterns={_place(each): _known(PatternRow, each) for each in told["patterns"]},
            findings={_kind(each): _known(FindingRow, each) for each in told["findings"]},
            faults={FaultOf(Fault(each["fault"]), str(each["app"])): _known(FaultRow, each) for each in told["faults"]},
            largest=[_large_of(each) for each in told["largest"]],
            nodes=[_known(NodeFigures, each) for each in told["nodes"]],
            slots=[_known(SlotKeys, each) for each in told["slots"]["heaviest"]],
            used_slots=int(told["slots"]["used"]),
            expected_missed=float(told["expected_missed"]),
            notes=[str(each) for each in told["notes"]],
            tags=[
                UnusualTags(str(each["shape"]), int(each["keys"]), str(each["why"])) for each in told.get("tags", ())
            ],
            forms={str(each["rule"]): _known(FormRow, each) for each in told.get("forms", ())},
            sample=_sample_of(told.get("sample")),
        )
        for figure in (scan.keys, scan.bytes, *(value for node in scan.nodes for value in node.info.values())):
            float(figure)
        len(scan.apps)
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(str(error)) from None
    return scan


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def _place(told: Mapping[str, Any]) -> Place:
    return Place(str(told["pattern"]), str(told["app"]))


def _kind(told: Mapping[str, Any]) -> Kind:
    return Kind(str(told["rule"]), Fault(told["fault"]), *_place(told), str(told["mode"]), bool(told["sure"]))


def _known(row: type[_Row], told: Mapping[str, Any]) -> _Row:
    return row(**{each.name: told[each.name] for each in fields(row) if each.name in told})


def _large_of(told: Mapping[str, Any]) -> LargeKey:
    its = (told["type"], told["members"], told["ttl"], _place(told), told["node"])
    return LargeKey(told["memory"], told["key"], *its, told.get("database", 0), told.get("tenant"))

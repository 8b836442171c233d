"""What grew between two scans, and when the memory of a node will be full at that rate.

A rate of a node is the change of its ``used_memory`` (INFO, when its walk began) between two scans that began at least
an hour apart, by the time between them. Of all such pairs, the least and the most rate are the bounds of the forecast:
they say how fast it has grown, not how fast it will.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

from proxy.server.stored.model import NodeFigures, PatternRow, Place, Scan

APART = 3600.0
"""Seconds between the scans of a pair."""
LOOK_BACK = 30 * 86_400.0
"""Seconds before the newest scan: kept scans before that count for no rate."""
SHARD_BYTES = 10_000_000_000
"""What a shard should have at most: one that is larger takes long to copy, to load and to fail over."""
_Key = TypeVar("_Key", str, Place)


@dataclass(frozen=True, slots=True)
class Change:
    """The keys and bytes of an owner or a pattern, in the old and the new scan."""

    old_keys: int
    keys: int
    old_bytes: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """When the memory of a node reaches a ``limit``, of the kind ``what``; 0: not known. ``least`` and ``most`` are
    rates in bytes per second; with a ``problem`` these are not known, and it says why."""

    node: str
    what: str
    used: float
    limit: float
    least: float = 0.0
    most: float = 0.0
    problem: str = ""

    @property
    def soonest(self) -> float | None:
        """In so many seconds at the most rate; None: not at all, or nobody can tell."""
        return self._after(self.most)

    @property
    def latest(self) -> float | None:
        """The same at the least rate."""
        return self._after(self.least)

    def _after(self, rate: float) -> float | None:
        if not self.limit:
            return None
        left = self.limit - self.used
        return 0.0 if left <= 0 else left / rate if rate > 0 else None


@dataclass(frozen=True, slots=True)
class Growth:
    """What changed from ``old`` to ``new``, the most bytes more first; ``scans``: so many gave the rates."""

    old: Scan
    new: Scan
    apps: Mapping[str, Change]
    patterns: Mapping[Place, Change]
    forecasts: Sequence[Forecast]
    scans: int
    notes: Sequence[str]


def growth(old: Scan, new: Scan, others: Iterable[Scan] = ()) -> Growth:
    """From the ``old`` scan to the ``new`` one. The ``others`` count for the rates, too."""
    since = new.started - LOOK_BACK
    known = {each.started: each for each in (*others, old, new) if each is old or each is new or each.started >= since}
    scans = [known[started] for started in sorted(known)]
    return Growth(
        old,
        new,
        _changes(old.apps, new.apps),
        _changes(old.patterns, new.patterns),
        [each for node in new.nodes for each in _forecasts(node, scans)],
        len(scans),
        [*_notes(old, new)],
    )


def _changes(old: Mapping[_Key, PatternRow], new: Mapping[_Key, PatternRow]) -> dict[_Key, Change]:
    none = PatternRow()
    pairs = {key: (old.get(key, none), new.get(key, none)) for key in {**old, **new}}
    found = {key: Change(was.keys, now.keys, was.bytes, now.bytes) for key, (was, now) in pairs.items()}
    changed = [(key, its) for key, its in found.items() if (its.old_keys, its.old_bytes) != (its.keys, its.bytes)]
    return dict(sorted(changed, key=lambda each: (each[1].old_bytes - each[1].bytes, each[0])))


def _forecasts(node: NodeFigures, scans: Sequence[Scan]) -> Iterator[Forecast]:
    used, least, most, problem = node.info.get("used_memory"), 0.0, 0.0, ""
    if used is None:
        yield Forecast(node.name, "memory", 0.0, 0.0, problem="INFO does not say how much it uses")
        return
    rates = [*_rates(node.name, scans)]
    if rates:
        least, most = min(rates), max(rates)
    else:
        problem = "no two scans of it are an hour apart"
    if maximum := node.info.get("maxmemory"):
        yield Forecast(node.name, "maxmemory", used, maximum, least, most, problem)
    elif machine := node.info.get("total_system_memory"):
        yield Forecast(node.name, "the machine's memory", used, machine, least, most, problem)
    else:
        yield Forecast(node.name, "memory", used, 0.0, problem="INFO does not say how much it may use")
    yield Forecast(node.name, "10 GB of a shard", used, SHARD_BYTES, least, most, problem)


def _rates(name: str, scans: Sequence[Scan]) -> Iterator[float]:
    seen = [
        (scan.started, node.info["used_memory"])
        for scan in scans
        for node in scan.nodes
        if node.name == name and "used_memory" in node.info
    ]
    for (began, before), (ended, after) in combinations(seen, 2):
        if ended - began >= APART:
            yield (after - before) / (ended - began)


def _notes(old: Scan, new: Scan) -> Iterator[str]:
    for scan, which in ((old, "old"), (new, "new")):
        if scan.sample is not None:
            yield f"the {which} scan is a sample of {scan.sample.share:.3g}: its keys and bytes are estimates"
        if not scan.finished:
            yield f"the {which} scan is a part: what it lacks looks as if it was not there"
    if old.upstream != new.upstream:
        yield f"the old scan is of another upstream: {old.upstream}"
    if old.policy != new.policy:
        yield f"the old scan has another policy, so owners and patterns may differ: {old.policy}"

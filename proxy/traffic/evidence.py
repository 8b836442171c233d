"""Evidence for each rule: how often it has matched, for whom, and on which keys.

A worker keeps one record for each rule and application, and sends the changed ones to the supervisor, which adds up the
workers' records. Everything in a record is bounded: the commonest shapes and clients are counted by name, all others in
one number, ``other``. Counters begin when the rule comes into force; times are in seconds since the epoch.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

MOST_RECORDS = 1000
"""The most records of one route (rules times applications)."""

UNKNOWN_APP = "unknown"

Name = TypeVar("Name", str, tuple[str, ...])

ClientLabel = tuple[str, ...]
"""A client: user, client name, library, host."""

LABEL_FIELDS = ("user", "client_name", "library", "address")

Records = dict[tuple[str, str], "Record"]
"""By rule and application."""


@dataclass(slots=True)
class Folded(Generic[Name]):
    """Counts by name for the commonest names; rare names are in ``other``."""

    most: int
    counts: dict[Name, int] = field(default_factory=dict)
    other: int = 0

    def add(self, name: Name, count: int = 1) -> None:
        """Count a name. If there are too many names, the rarer half is folded into ``other``."""
        if name not in self.counts and len(self.counts) >= self.most:
            self._fold()
        self.counts[name] = self.counts.get(name, 0) + count

    def _fold(self) -> None:
        ranked = sorted(self.counts.items(), key=lambda item: -item[1])
        self.other += sum(count for _, count in ranked[self.most // 2 :])
        self.counts = dict(ranked[: self.most // 2])

    def merge(self, more: "Folded[Name]") -> None:
        """Add another's counts."""
        self.other += more.other
        for name, count in sorted(more.counts.items(), key=lambda item: -item[1]):
            self.add(name, count)

    def ranked(self) -> list[tuple[Name, int]]:
        """The commonest first."""
        return sorted(self.counts.items(), key=lambda item: -item[1])


@dataclass(slots=True)
class Record:
    """One rule and one application. ``hits`` counts by mode and verdict: ``{"audit refused": 3}``.

    Keys and clients are recorded for the ``inspected`` hits: in a flood, not for all.
    """

    hits: dict[str, int] = field(default_factory=dict)
    first: float = 0.0
    last: float = 0.0
    inspected: int = 0
    shapes: Folded[str] = field(default_factory=lambda: Folded(12))
    clients: Folded[ClientLabel] = field(default_factory=lambda: Folded(12))
    sample: Mapping[str, Any] | None = None
    sampled: float = 0.0

    def count(self, mode: str, what: str, count: int, now: float) -> None:
        """Count ``count`` equal verdicts of the rule."""
        key = f"{mode} {what}"
        self.hits[key] = self.hits.get(key, 0) + count
        self.first = self.first or now
        self.last = now

    def merge(self, more: "Record") -> None:
        """Add another worker's record of the same rule and application."""
        for key, count in more.hits.items():
            self.hits[key] = self.hits.get(key, 0) + count
        self.first = min(self.first, more.first) if self.first and more.first else self.first or more.first
        self.last = max(self.last, more.last)
        self.inspected += more.inspected
        self.shapes.merge(more.shapes)
        self.clients.merge(more.clients)
        if more.sampled > self.sampled:
            self.sample, self.sampled = more.sample, more.sampled


class Evidence:
    """The records of one route in one worker."""

    def __init__(self) -> None:
        self.records: Records = {}
        self._changed: set[tuple[str, str]] = set()

    def record(self, rule: str, app: str) -> Record:
        """The record of a rule and application; if there are too many applications, a shared one."""
        key = rule, app
        if key not in self.records and len(self.records) >= MOST_RECORDS:
            key = rule, UNKNOWN_APP
        self._changed.add(key)
        found = self.records.get(key)
        if found is None:
            found = self.records[key] = Record()
        return found

    def keep(self, rules: Iterable[str]) -> None:
        """Forget the rules that are no longer in force."""
        kept = set(rules)
        self.records = {key: record for key, record in self.records.items() if key[0] in kept}
        self._changed &= self.records.keys()

    def changed(self) -> Records:
        """The records that have changed since the last call."""
        found = {key: self.records[key] for key in self._changed}
        self._changed.clear()
        return found


def merge_records(parts: Iterable[Records]) -> Records:
    """Several workers' records as one."""
    merged: Records = {}
    for part in parts:
        for key, record in part.items():
            merged.setdefault(key, Record()).merge(record)
    return merged


def moment(seconds: float) -> str | None:
    """A time as text: ``2026-11-21T20:12:03.123Z``; None for 0."""
    if not seconds:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def present(record: Record) -> dict[str, Any]:
    """One record as ``/rules`` shows it."""
    return {
        "hits": dict(sorted(record.hits.items())),
        "first_seen": moment(record.first),
        "last_seen": moment(record.last),
        "inspected": record.inspected,
        "shapes": [{"shape": name, "count": count} for name, count in record.shapes.ranked()],
        "other_shapes": record.shapes.other,
        "clients": [
            {**dict(zip(LABEL_FIELDS, who, strict=True)), "count": count} for who, count in record.clients.ranked()
        ],
        "other_clients": record.clients.other,
        "sample": record.sample,
    }

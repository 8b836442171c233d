"""What is added to the evidence, and what is read of it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Protocol

from proxy.traffic.evidence_rows import EvidenceRows

HOUR = 3600

MOST_CHARACTERS = 300
"""The most characters of a name."""
MOST_VERSIONS_OF_A_RULE, MOST_VERSIONS = 20, 5000

REMOVED = "removed"
"""In place of the digest of a rule that is no longer in force."""

Spans = list[tuple[float, float]]


class EvidenceError(Exception):
    """The evidence cannot be kept or read; the text names the file and the reason."""


@dataclass(frozen=True)
class RuleVersion:
    """When a rule came into force as it is, or was REMOVED (seconds since the epoch)."""

    route: str
    rule: str
    digest: str
    since: float


@dataclass
class Batch:
    """What one write adds.

    From `began` to `now` (seconds since the epoch) this process group has watched. Both grow only: whoever finds that
    the clock has jumped begins a new stretch. `rows` has hours (seconds since the epoch, multiples of 3600) and routes.
    `lost` counts rows or commands that could not be kept, by reason.
    """

    began: float
    now: float
    rows: list[tuple[int, str, EvidenceRows]]
    rules: list[RuleVersion]
    lost: dict[str, int]


@dataclass
class Evidence:
    """What is read: the rows by hour and route.

    `spans` are the stretches in which somebody watched, in order; what came in the gaps between them was not seen. An
    exemplar is in the row of its own hour, or of the newest one if that has none.
    """

    spans: Spans = field(default_factory=list)
    hours: dict[tuple[int, str], EvidenceRows] = field(default_factory=dict)
    rules: list[RuleVersion] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)

    def add(self, more: "Evidence") -> None:
        """Add the evidence of another store, such as another pod's."""
        self.spans = united([*self.spans, *more.spans])
        for at, rows in more.hours.items():
            self.hours.setdefault(at, EvidenceRows()).add(rows)
        self.rules = in_order([*self.rules, *more.rules])
        for reason, count in more.lost.items():
            self.lost[reason] = self.lost.get(reason, 0) + count


class EvidenceStore(Protocol):
    """Keeps evidence. One thread at a time calls it."""

    def add(self, batch: Batch) -> None:
        """Add all of a batch or, with EvidenceError, nothing: the same batch may then be given again."""

    def read(self, since: float) -> Evidence:
        """What is known of the hour of this time and of those after it. Raises EvidenceError."""

    def close(self) -> None:
        """Let the file go."""


def cut(text: str) -> str:
    """A name as it is kept."""
    return text[:MOST_CHARACTERS]


def hour_of(at: float) -> int:
    """The hour that a time is in, as rows have it."""
    return int(at // HOUR) * HOUR


def united(spans: Spans) -> Spans:
    """Spans in order; those that overlap are one."""
    found: Spans = []
    for began, ended in sorted(spans):
        if found and began <= found[-1][1]:
            found[-1] = found[-1][0], max(ended, found[-1][1])
        elif ended > began:
            found.append((began, ended))
    return found


def in_order(versions: Iterable[RuleVersion]) -> list[RuleVersion]:
    """The versions of rules, the oldest first. One that is told again, as after a restart, stays one."""
    found: list[RuleVersion] = []
    kept = (RuleVersion(each.route, cut(each.rule), cut(each.digest), each.since) for each in versions)
    by_rule = sorted(kept, key=lambda each: (each.route, each.rule, each.since))
    for _, its in groupby(by_rule, key=lambda each: (each.route, each.rule)):
        changes = [next(same) for _, same in groupby(its, key=lambda each: each.digest)]
        found += changes[-MOST_VERSIONS_OF_A_RULE:]
    return sorted(found, key=lambda each: (each.since, each.route, each.rule))[-MOST_VERSIONS:]

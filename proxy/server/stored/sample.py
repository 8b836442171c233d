"""A sample in place of a whole walk: which keys are looked at, what each stands for, and how far an estimate may be
off.

A step begins at a random place of a database and takes the next ``STEP`` keys, in the order in which SCAN shows them,
over its end to its beginning. So each key is as likely as any other: no place is preferred, and no key for its name. In
a cluster whose nodes have a table for each slot (Redis 7.4, Valkey 8), the slot of a step is drawn by its number of
keys, which makes a place of the whole database as random.

The table of a database is ordered by hashes that clients do not know, so neighbours have nothing in common; those of
one slot may have. Steps go in turn to ``GROUPS`` groups, each of which is a sample of its own: how far their results
differ says how far the whole is off, whatever neighbours have in common (the method of random groups). A number of keys
gets Wilson's interval for as many independent keys as would differ so much, and at most for the keys that were looked
at, so that none found is no proof; bytes get Student's interval. Both are 95 %.

A database that a sample would take half of is walked as a whole: its keys stand for themselves.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from math import ceil, floor, sqrt
from statistics import fmean
from typing import NamedTuple

from proxy.server.stored.model import (
    Bounds,
    FaultOf,
    FaultRow,
    FindingRow,
    FormRow,
    Kind,
    NodeFigures,
    PatternRow,
    Place,
    Sample,
    fault_figures,
    row_figures,
)
from proxy.server.stored.totals import Totals
from proxy.wire.numbers import read_digits

STEP = 100
"""Keys of a step."""
GROUPS = 20
LEAST_STEPS = 2 * GROUPS
"""Of a database: less would say nothing."""
UNIT = 1_000
"""What a key stands for is counted in thousandths: sums stay whole numbers."""
_T = 2.093
"""Student's t for 95 % and GROUPS - 1 degrees of freedom."""
_CURSOR_BITS = 48
SLOT_BITS = 14


class Stands(NamedTuple):
    """A key stands for so many, in units; its step is of the ``group``."""

    units: int
    group: int


class Sampling:
    """What the walks of one sample share. ``new`` makes the sums of a group; ``random`` draws from [0, 1)."""

    def __init__(self, share: float, new: Callable[[], Totals], random: Callable[[], float]) -> None:
        self.share = share
        self.groups = [new() for _ in range(GROUPS)]
        self.drawn = 0
        self.drawn_of = 0
        self._random = random

    def steps(self, size: int) -> int:
        """How many steps a database of so many keys takes; 0: all of it is walked."""
        steps = max(ceil(size * self.share / STEP), LEAST_STEPS)
        steps = GROUPS * ceil(steps / GROUPS)
        return 0 if 2 * steps * STEP >= size else steps

    def begin(self, size: int, steps: int) -> int:
        """A database is drawn from; what each of its keys stands for, in units."""
        self.drawn_of += size
        return round(UNIT * size / (steps * STEP))

    def places(self, steps: int) -> Iterator[float]:
        """Where steps begin, in [0, 1) of a database: one at a random place of each part."""
        return ((number + self._random()) / steps for number in range(steps))


def cursor_at(place: float, slot: int | None = None) -> bytes:
    """The cursor of SCAN that shows what is at this place of a table, of any size: SCAN counts from the highest bit.
    ``slot``: the table is that of the slot (kvstoreScan of the engine has its number in the lowest bits)."""
    at = int(f"{int(place * (1 << _CURSOR_BITS)):0{_CURSOR_BITS}b}"[::-1], 2)
    return b"%d" % (at if slot is None else at << SLOT_BITS | slot)


def has_table_of_each_slot(info: Mapping[str, str]) -> bool:
    """Whether a node of a cluster keeps the keys of each slot in a table of its own, by INFO server."""
    if "cluster" not in (info.get("redis_mode"), info.get("server_mode")):
        return False
    if "valkey_version" in info:
        return _version(info["valkey_version"]) >= (8, 0)
    return _version(info.get("redis_version", "")) >= (7, 4)


def _version(told: str) -> tuple[int, ...]:
    return tuple(read_digits(each) or 0 for each in told.split(".")[:2])


def slot_at(place: float, sizes: Sequence[int]) -> tuple[int, float]:
    """The slot in which this place of a whole database is, by the number of keys of each, and the place in the slot."""
    left = place * sum(sizes)
    for slot, size in enumerate(sizes):
        if left < size:
            return slot, left / size
        left -= size
    return 0, 0.0  # there are no keys


class Estimate(NamedTuple):
    """What a sample says of all keys."""

    patterns: Mapping[Place, PatternRow]
    findings: Mapping[Kind, FindingRow]
    faults: Mapping[FaultOf, FaultRow]
    sample: Sample
    forms: Mapping[str, FormRow]


def estimate(totals: Totals, sampling: Sampling) -> Estimate:
    """By the sums of all keys that were looked at, and of the groups of those that were drawn."""
    whole = _scaled(totals)
    groups = [figures(*_scaled(each)) for each in sampling.groups]
    bounds = {
        name: _bounds(name, value, [GROUPS * group.get(name, 0) for group in groups], sampling)
        for name, value in figures(*whole).items()
    }
    none = _bounds(("keys",), 0, [0] * GROUPS, sampling)
    forms = {rule: FormRow(*map(_whole, astuple(row))) for rule, row in totals.forms.items()}
    return Estimate(*whole, Sample(sampling.share, sampling.drawn, sampling.drawn_of, bounds, none), forms)


_Rows = tuple[Mapping[Place, PatternRow], Mapping[Kind, FindingRow], Mapping[FaultOf, FaultRow]]


def _scaled(totals: Totals) -> _Rows:
    return (
        {place: _scaled_row(row) for place, row in totals.patterns.items()},
        {
            kind: replace(row, keys=_whole(row.keys), excepted=_whole(row.excepted), bytes=_whole(row.bytes))
            for kind, row in totals.findings.items()
        },
        {
            of: FaultRow(*map(_whole, (row.enforced, row.milder, row.unsure, row.excepted)))
            for of, row in totals.faults.items()
        },
    )


def _scaled_row(row: PatternRow) -> PatternRow:
    keys, size, unmeasured, without_ttl = map(_whole, (row.keys, row.bytes, row.unmeasured, row.without_ttl))
    types = {name: _whole(count) for name, count in row.types.items()}
    return PatternRow(row.team, keys, size, unmeasured, without_ttl, [*map(_whole, row.ttls)], types)


def in_keys(node: NodeFigures) -> NodeFigures:
    """The figures of a server of which a sample was taken."""
    databases = {database: _whole(units) for database, units in node.databases.items()}
    return replace(node, bytes=_whole(node.bytes), databases=databases)


def _whole(units: int) -> int:
    return round(units / UNIT)


def figures(
    patterns: Mapping[Place, PatternRow], findings: Mapping[Kind, FindingRow], faults: Mapping[FaultOf, FaultRow]
) -> dict[tuple[str, ...], int]:
    """All figures of a scan that have bounds, by their names."""
    found: dict[tuple[str, ...], int] = {}
    for name, value in (*row_figures(patterns), *fault_figures(faults)):
        found[name] = found.get(name, 0) + value
    for kind, row in findings.items():
        its = "finding", *map(str, kind)
        found |= {(*its, "keys"): row.keys, (*its, "bytes"): row.bytes, (*its, "excepted"): row.excepted}
    return found


def _bounds(name: tuple[str, ...], value: int, groups: Sequence[int], sampling: Sampling) -> Bounds:
    mean = fmean(groups)
    known = value - mean  # of databases that were walked as a whole
    error = sqrt(sum((each - mean) ** 2 for each in groups) / (GROUPS * (GROUPS - 1)))
    if name[-1] == "bytes":
        low, high = max(mean - _T * error, 0.0), mean + _T * error
    else:
        low, high = _wilson(mean, error, sampling)
    return Bounds(max(floor(known + low), 0), ceil(known + high))


def _wilson(mean: float, error: float, sampling: Sampling) -> tuple[float, float]:
    number, of = sampling.drawn, sampling.drawn_of
    if not number or not of:
        return 0.0, 0.0
    part = min(max(mean / of, 0.0), 1.0)
    independent = min(part * (1 - part) * (of / error) ** 2, number) if error and 0 < part < 1 else number
    spread = _T * _T / max(independent, 1.0)
    middle = (part + spread / 2) / (1 + spread)
    half = sqrt(part * (1 - part) * spread + spread * spread / 4) / (1 + spread)
    return of * max(middle - half, 0.0), of * min(middle + half, 1.0)


@dataclass(slots=True)
class StepKeys:
    """The keys of one step, until there are enough or the database has come round."""

    cursor: bytes
    rounds: int = 0

    def take(self, keys: list[bytes], cursor: bytes, shown: Sequence[bytes]) -> bool:
        """Add a page to the keys; whether there has to be another one, at the ``cursor``."""
        keys += shown[: STEP - len(keys)]
        self.cursor = cursor
        self.rounds += cursor == b"0"
        return len(keys) < STEP and self.rounds < 2

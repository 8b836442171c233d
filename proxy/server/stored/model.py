"""What a scan has found: values that do not change any more, in the form in which they are shown."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

from proxy.rules.stored import Fault
from proxy.traffic.redaction import of_tenant
from proxy.traffic.tag_spread import UnusualTags

ENFORCED = "enforce"
OTHER = "other"
"""The pattern of keys whose own patterns were too many to be kept apart."""

TTL_BOUNDS = (60, 3_600, 86_400, 7 * 86_400, 30 * 86_400)
"""Seconds. A TTL counts for the first bound that it does not exceed; behind the last one is one more place."""


class Place(NamedTuple):
    """Whose keys a row is about. The app is empty if they are nobody's."""

    pattern: str
    app: str


class Kind(NamedTuple):
    """What kind of finding a row is about: of a rule in a ``mode``. Not ``sure``: the keys only may have the fault."""

    rule: str
    fault: Fault
    pattern: str
    app: str
    mode: str
    sure: bool


class FaultOf(NamedTuple):
    """A fault of the keys of an app; the app is empty if they are nobody's."""

    fault: Fault
    app: str


@dataclass(slots=True)
class PatternRow:
    """The keys of one pattern and app. ``bytes`` is the sum of MEMORY USAGE; it lacks the ``unmeasured`` keys. ``ttls``
    counts keys by ``TTL_BOUNDS``, and ``types`` by what TYPE says."""

    team: str = ""
    keys: int = 0
    bytes: int = 0
    unmeasured: int = 0
    without_ttl: int = 0
    ttls: list[int] = field(default_factory=lambda: [0] * (len(TTL_BOUNDS) + 1))
    types: dict[str, int] = field(default_factory=dict)


class ValueForm(StrEnum):
    """What the values of a key of a rule that compresses are: a string that is compressed, with another dictionary than
    the rule's, or with one that the rule does not name; one that is not, although it has as many bytes as the rule
    compresses, or has fewer; one of which this is not known; or a hash, whose fields were not looked at."""

    COMPRESSED = "compressed"
    OLDER_DICTIONARY = "older_dictionary"
    MISSING_DICTIONARY = "missing_dictionary"
    PLAIN = "plain"
    SMALL = "small"
    UNKNOWN = "unknown"
    HASH = "hash"


@dataclass(slots=True)
class FormRow:
    """The keys of a rule that compresses, by the form of their values; ``stored_bytes`` are those of the compressed
    ones, and ``plain_bytes`` what these have if they are decompressed, as far as both are known. Those with an older or
    a missing dictionary are among the ``compressed`` ones."""

    compressed: int = 0
    plain: int = 0
    small: int = 0
    unknown: int = 0
    hash: int = 0
    plain_bytes: int = 0
    stored_bytes: int = 0
    older_dictionary: int = 0
    missing_dictionary: int = 0


@dataclass(slots=True)
class FindingRow:
    """The keys with one kind of fault, of which ``excepted`` ones are under an exception of their owner. ``text`` is
    what the rule says of the worst one, which exceeds its limit ``by`` the most. ``exemplars`` show some of them."""

    text: str
    by: int = 0
    keys: int = 0
    excepted: int = 0
    bytes: int = 0
    exemplars: list[str] = field(default_factory=list)


@dataclass(slots=True)
class FaultRow:
    """The keys with a fault, each once, whatever number of rules find it. Each key counts for the first of these that
    is true of it: it surely has the fault, and a rule that finds it is ``enforced``, or such rules are ``milder``;
    ``unsure``: it may have the fault; ``excepted``: it is under an exception."""

    enforced: int = 0
    milder: int = 0
    unsure: int = 0
    excepted: int = 0

    @property
    def sure(self) -> int:
        """Those that surely have it, and are under no exception."""
        return self.enforced + self.milder


@dataclass(frozen=True, slots=True)
class LargeKey:
    """One of the largest keys; ``text`` shows it, and ``tenant`` has the tenant's own name for it, as JSON does."""

    memory: int
    text: str
    type: str
    members: int | None
    ttl: int | None
    place: Place
    node: str
    database: int = 0
    tenant: dict[str, Any] | None = None

    @property
    def shown(self) -> str:
        """The key with both names of a tenant's, and its database if that is not 0."""
        return in_database(self.text + of_tenant(self.tenant), self.database)


def in_database(shown: str, database: int) -> str:
    """A key as it is shown, with its database if that is not 0."""
    return f"db{database} {shown}" if database else shown


@dataclass(slots=True)
class NodeFigures:
    """One server. ``shown`` keys came from SCAN, of which so many were ``counted`` here; ``repeated`` had been counted
    before, ``gone`` had gone when they were looked at, ``elsewhere`` belonged to another node by then, and the
    ``unreadable`` the user may not read. ``before`` and ``after`` are what DBSIZE said. ``info`` has what INFO says,
    and ``keysizes`` the keys of each type by INFO keysizes. A sample looks at ``planned`` keys; its ``bytes`` and
    ``databases`` are estimates."""

    name: str
    shown: int = 0
    counted: int = 0
    repeated: int = 0
    gone: int = 0
    elsewhere: int = 0
    unreadable: int = 0
    unmeasured: int = 0
    bytes: int = 0
    before: int = 0
    after: int = 0
    restarts: int = 0
    walks: int = 0
    finished: bool = False
    planned: int = 0
    keysizes: dict[str, int] = field(default_factory=dict)
    databases: dict[int, int] = field(default_factory=dict)
    info: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlotKeys:
    """The keys of a slot of a cluster."""

    slot: int
    keys: int
    bytes: int


class Bounds(NamedTuple):
    """The 95 % interval of an estimate."""

    low: int
    high: int


_NOTHING = Bounds(0, 0)


@dataclass(frozen=True, slots=True)
class Sample:
    """A scan that has looked at a ``share`` of the keys: ``drawn`` keys of the databases that have ``of``; others were
    walked as a whole. ``bounds`` are those of figures, by names such as ("app", "shop", "keys")."""

    share: float
    drawn: int
    of: int
    bounds: Mapping[tuple[str, ...], Bounds] = field(default_factory=dict)
    none: Bounds = _NOTHING
    """The bounds of what it has not met at all."""


@dataclass(frozen=True, slots=True)
class Scan:
    """A whole scan, or what a ``sample`` says of it. Not ``finished``: it is the part that was done. ``notes`` say what
    it lacks.

    ``expected_missed``: so many keys were taken for repeated ones, although they were not; 0 where all were told apart.
    """

    upstream: str
    policy: str
    started: float
    ended: float
    finished: bool
    share: float
    patterns: Mapping[Place, PatternRow]
    findings: Mapping[Kind, FindingRow]
    largest: Sequence[LargeKey]
    nodes: Sequence[NodeFigures]
    slots: Sequence[SlotKeys] = ()
    used_slots: int = 0
    expected_missed: float = 0.0
    notes: Sequence[str] = ()
    faults: Mapping[FaultOf, FaultRow] = field(default_factory=dict)
    sample: Sample | None = None
    tags: Sequence[UnusualTags] = ()
    forms: Mapping[str, FormRow] = field(default_factory=dict)
    """By the names of rules that compress."""
    lacks_keys: bool = False
    """Keys may be missing although it is finished; a note says why."""

    def bounds(self, *figure: str) -> Bounds | None:
        """Between which numbers a figure of a sample is; None if it is exact."""
        return None if self.sample is None else self.sample.bounds.get(figure)

    @property
    def keys(self) -> int:
        """All keys that were counted."""
        return sum(row.keys for row in self.patterns.values())

    @property
    def bytes(self) -> int:
        """Their bytes."""
        return sum(row.bytes for row in self.patterns.values())

    @property
    def unmeasured(self) -> int:
        """The keys whose bytes are not known."""
        return sum(row.unmeasured for row in self.patterns.values())

    @property
    def apps(self) -> Mapping[str, PatternRow]:
        """The sums of each app, the largest first."""
        found: dict[str, PatternRow] = {}
        for place, row in self.patterns.items():
            add_row(found.setdefault(place.app, PatternRow(row.team)), row)
        return dict(sorted(found.items(), key=lambda each: (-each[1].bytes, -each[1].keys, each[0])))

    @property
    def worst_first(self) -> list[tuple[Kind, FindingRow]]:
        """The findings: sure ones first, of these enforced ones; then the most keys, without those under an
        exception."""
        return sorted(self.findings.items(), key=_mildness)

    @property
    def by_fault(self) -> Mapping[Fault, FaultRow]:
        """The sums of each fault, in the order of faults."""
        found = {of.fault for of in self.faults}
        return {fault: self._sum(partial(_is_of, fault)) for fault in Fault if fault in found}

    def faults_of(self, app: str) -> FaultRow:
        """The sum of all faults of an app's keys."""
        return self._sum(lambda of: of.app == app)

    def _sum(self, wanted: Callable[[FaultOf], bool]) -> FaultRow:
        rows = [astuple(row) for of, row in self.faults.items() if wanted(of)]
        return FaultRow(*map(sum, zip(*rows, strict=True)))


def _mildness(found: tuple[Kind, FindingRow]) -> tuple[bool, bool, int, Kind]:
    kind, row = found
    return not kind.sure, kind.mode != ENFORCED, row.excepted - row.keys, kind


_Figures = Iterator[tuple[tuple[str, ...], int]]


def row_figures(patterns: Mapping[Place, PatternRow]) -> _Figures:
    """The figures of patterns with their names, to be added up: those of an app, and of all, come several times."""
    for place, row in patterns.items():
        for field_name in ("keys", "bytes", "without_ttl"):
            value = int(getattr(row, field_name))
            for of in (("pattern", *place), ("app", place.app), ("all",)):
                yield (*of, field_name), value
        for at, count in enumerate(row.ttls):
            yield ("ttl", str(at)), count


def fault_figures(faults: Mapping[FaultOf, FaultRow]) -> _Figures:
    """The same of faults."""
    for of, row in faults.items():
        for field_name in ("enforced", "milder", "unsure", "excepted", "sure"):
            yield ("fault", of.fault, field_name), int(getattr(row, field_name))
        yield ("app", of.app, "findings"), row.sure + row.unsure


def _is_of(fault: Fault, of: FaultOf) -> bool:
    return of.fault is fault


def add_row(to: PatternRow, row: PatternRow) -> None:
    """Add the figures of another row."""
    to.keys += row.keys
    to.bytes += row.bytes
    to.unmeasured += row.unmeasured
    to.without_ttl += row.without_ttl
    to.ttls = [mine + theirs for mine, theirs in zip(to.ttls, row.ttls, strict=True)]
    for name, count in row.types.items():
        to.types[name] = to.types.get(name, 0) + count

"""Which reads cannot have been so, from the recorded history of all writes.

A *register* is what is read and written as one: a string, or a field of a hash. It is written by one client at a time,
so the order of its versions is known. A version *can* be read from the moment its write was sent. It *must* be read,
it or a later one, by

- the connection that wrote it, from then on;
- a connection that has read it, from then on;
- everyone, once a message that was published behind the write has arrived (``published``);
- everyone, ``lag`` seconds after the write was acknowledged (``certain``).

A key that expires gets a version without a value: it can be read from when its TTL may have ended, and must be read by
everyone when it has ended for sure.

Values are unique, so most reads tell their version. Where several versions fit, the earliest is taken: whatever comes
later fits it if it fits any.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf


class Rule(Enum):
    """What a cache must not do."""

    OWN_WRITE = "misses a write of its own connection"
    BACK = "goes back in time on one connection"
    PUBLISHED = "is old although a message behind the write has come"
    EXPIRED = "is read after its TTL"
    BOUND = "is older than the bound"
    UNWRITTEN = "was never written"
    TOO_SOON = "is read before it can have been so"
    NOT_NOW = "was so before, and can be so again only later"


class Some(Enum):
    """A read that does not tell the value."""

    VALUE = "some value"


Seen = bytes | None | Some
"""What a read tells: the value, that there is none, or only that there is one."""


@dataclass(slots=True)
class Version:
    """What a register holds: a value, or none. It can be so from ``begins`` on, and is so, if nothing later is, from
    ``certain`` on; ``published`` is when a message told of it. ``expiry``: the key's TTL has ended."""

    value: bytes | None
    begins: float
    certain: float = inf
    published: float = inf
    expiry: bool = False


@dataclass(slots=True)
class Register:
    """All its versions. Nothing but whether a value was ever written is known of reads that end after ``known_until``:
    a write that was not answered may run at any time."""

    name: str
    versions: list[Version] = field(default_factory=lambda: [Version(None, -inf, -inf)])
    known_until: float = inf

    def write(self, version: Version) -> int:
        """Add a version; its place."""
        self.versions.append(version)
        return len(self.versions) - 1


@dataclass(frozen=True, slots=True)
class Wrote:
    """A connection has written this version of the register."""

    register: Register
    version: Version


@dataclass(frozen=True, slots=True)
class Read:
    """A connection has read. ``how`` is for anomalies."""

    register: Register
    seen: Seen
    sent: float
    received: float
    how: str = ""


@dataclass(slots=True)
class Trail:
    """What one connection has done, in the order in which it asked."""

    name: str
    events: list[Wrote | Read] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A read that cannot have been so."""

    rule: Rule
    text: str


@dataclass(slots=True)
class Report:
    """What is wrong; how many reads there were, and how late each one was that was late, in seconds."""

    anomalies: list[Anomaly] = field(default_factory=list)
    reads: int = 0
    late: list[float] = field(default_factory=list)

    def lines(self) -> str:
        return "\n".join(f"{anomaly.rule.value}: {anomaly.text}" for anomaly in self.anomalies[:10])


@dataclass(frozen=True, slots=True)
class Bounds:
    """How late a read may be, in seconds: behind the acknowledgement of a write, and behind a message about it."""

    lag: float = 1.0
    behind_messages: float = 0.0


def check(trails: Iterable[Trail], bounds: Bounds | None = None) -> Report:
    """Check all that was recorded."""
    report = Report()
    orders: dict[int, _Order] = {}
    for trail in trails:
        floors: dict[int, tuple[int, Rule]] = {}
        for event in trail.events:
            register = event.register
            order = orders.get(id(register))
            if order is None:
                order = orders[id(register)] = _Order(register, bounds or Bounds())
            floor = floors.get(id(register), (0, Rule.BACK))
            if isinstance(event, Wrote):
                place = order.place(event.version)
                if place >= floor[0]:
                    floors[id(register)] = (place, Rule.OWN_WRITE)
                continue
            report.reads += 1
            found = order.find(event, floor)
            if isinstance(found, Rule):
                report.anomalies.append(Anomaly(found, order.describe(trail, event, floor[0])))
            else:
                report.late += order.late(found, event)
                if found > floor[0]:
                    floors[id(register)] = (found, Rule.BACK)
    return report


class _Order:
    """The versions of a register, prepared for many reads."""

    def __init__(self, register: Register, bounds: Bounds) -> None:
        self.register = register
        self._versions = register.versions
        self._places: defaultdict[bytes | None, list[int]] = defaultdict(list)
        self._by_object = {id(version): place for place, version in enumerate(self._versions)}
        for place, version in enumerate(self._versions):
            self._places[version.value].append(place)
        self._must = [
            version.certain
            if version.expiry
            else min(version.certain + bounds.lag, version.published + bounds.behind_messages)
            for version in self._versions
        ]
        self._since = _least_of_rest(self._must)
        self._certain = _least_of_rest([version.certain for version in self._versions])

    def place(self, version: Version) -> int:
        return self._by_object.get(id(version), 0)

    def find(self, read: Read, floor: tuple[int, Rule]) -> int | Rule:
        """The earliest version that the read can have seen, or the rule that there is none by."""
        if read.received > self.register.known_until:
            return floor[0] if read.seen is None or self._candidates(read.seen) else Rule.UNWRITTEN
        least = bisect_right(self._since, read.sent) - 1
        candidates = self._candidates(read.seen)
        if not candidates and read.seen is not None:
            return Rule.UNWRITTEN
        begun = [place for place in candidates if self._versions[place].begins <= read.received]
        fitting = [place for place in begun if place >= max(floor[0], least)]
        if fitting:
            return fitting[0]
        if not begun:
            return Rule.TOO_SOON
        if any(place >= max(floor[0], least) for place in candidates):
            return Rule.NOT_NOW
        return floor[1] if begun[-1] < floor[0] else self._broken(least, read)

    def _candidates(self, seen: Seen) -> Sequence[int]:
        if isinstance(seen, Some):
            return [place for place, version in enumerate(self._versions) if version.value is not None]
        return self._places.get(seen, ())

    def _broken(self, least: int, read: Read) -> Rule:
        version = self._versions[least]
        if version.expiry:
            return Rule.EXPIRED
        return Rule.PUBLISHED if version.published <= read.sent else Rule.BOUND

    def late(self, place: int, read: Read) -> list[float]:
        """By how much the read was late, if it was, and tells its version."""
        if not isinstance(read.seen, bytes) or len(self._candidates(read.seen)) > 1:
            return []
        newest = bisect_right(self._certain, read.sent) - 1
        if newest <= place:
            return []
        return [read.sent - self._certain[place + 1]]

    def describe(self, trail: Trail, read: Read, floor: int) -> str:
        least = bisect_right(self._since, read.sent) - 1
        around = sorted({*self._candidates(read.seen)[-2:], floor, max(least, 0), len(self._versions) - 1})
        versions = "; ".join(f"[{place}] {self._versions[place]}" for place in around)
        return (
            f"{trail.name} read {read.seen!r} of {self.register.name} by {read.how}, sent {read.sent:.4f}, received "
            f"{read.received:.4f}; at least [{floor}] by its own history, [{least}] by others: {versions}"
        )


def _least_of_rest(times: Sequence[float]) -> list[float]:
    """For each place, the least of the times from there on: it grows, so that it can be searched."""
    least = list(times)
    for place in range(len(least) - 2, -1, -1):
        least[place] = min(least[place], least[place + 1])
    return least

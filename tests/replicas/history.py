"""What clients wrote and read, and what of it no client may see when replicas answer its reads. No sockets.

Each key has one writer, which writes larger and larger numbers, so that a read tells which write it has seen. Three
things are checked:

- no client goes back: once it has seen a write, it sees no state from before that write, in no key of the same stream;
- each client sees its own writes, and all that was acknowledged before it sent them;
- nothing is older than a bound.

A *stream* is what one primary writes in one order: all keys of a single primary, the keys of a slot of a cluster. A
write certainly comes before another one if it was acknowledged before the other one was sent.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

NOTHING = 0
"""What a read of a key without a value has seen; all numbers that are written are larger."""


@dataclass(frozen=True, slots=True)
class Write:
    """A write and when it was sent and acknowledged, in seconds; None if no acknowledgement has come."""

    client: str
    key: str
    number: int
    sent: float
    acknowledged: float | None


@dataclass(frozen=True, slots=True)
class Read:
    """A read, what it has seen, and when it was sent and answered."""

    client: str
    key: str
    number: int
    sent: float
    answered: float


@dataclass(slots=True)
class _Key:
    """The acknowledged writes of one key, by time and by number, and when each of all writes was sent."""

    acknowledged: list[float] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    sent: dict[int, float] = field(default_factory=dict)

    def latest(self, before: float) -> int:
        """The number that had been acknowledged by then."""
        return self.numbers[at - 1] if (at := bisect_left(self.acknowledged, before)) else NOTHING


@dataclass(slots=True)
class _Seen:
    """What one client has seen of a stream: everything acknowledged before `until`, and these numbers."""

    until: float = float("-inf")
    numbers: dict[str, int] = field(default_factory=dict)
    own: dict[str, int] = field(default_factory=dict)

    def take(self, key: str, number: int, sent: float) -> None:
        self.until = max(self.until, sent)
        self.numbers[key] = max(number, self.numbers.get(key, NOTHING))


class History:
    """Writes and reads in the order in which each client got its answers."""

    def __init__(self, stream: Callable[[str], str] = lambda _: "") -> None:
        self.steps: list[Write | Read] = []
        self._stream = stream

    def add(self, step: Write | Read) -> None:
        """Note one step when its answer has come, or when it is known that none will."""
        self.steps.append(step)

    def reads(self) -> int:
        """How many reads it has."""
        return sum(isinstance(step, Read) for step in self.steps)

    def problems(self, oldest: float, lost: Collection[tuple[str, int]] = ()) -> list[str]:
        """All that no client may see; empty if there is nothing. No read may be older than `oldest` seconds.

        The writes `lost` (key and number) were lost in a failover: they count as never made, and so do reads of them.
        """
        kept = [step for step in self.steps if (step.key, step.number) not in lost]
        keys = _keys_of(kept)
        seen: defaultdict[tuple[str, str], _Seen] = defaultdict(_Seen)
        found: list[str] = []
        for step in kept:
            its = seen[step.client, self._stream(step.key)]
            if isinstance(step, Read):
                found += self._check(step, keys[step.key], its, oldest)
            if step.number in keys[step.key].sent:
                its.take(step.key, step.number, keys[step.key].sent[step.number])
            if isinstance(step, Write) and step.acknowledged is not None:
                its.own[step.key] = step.number
        return found

    def _check(self, read: Read, key: _Key, seen: _Seen, oldest: float) -> list[str]:
        about = f"{read.client} reads {read.number} of {read.key} at {read.sent:.3f}"
        if read.number != NOTHING and key.sent.get(read.number, float("inf")) > read.answered:
            return [f"{about}, which nobody had written"]
        if read.number < (own := seen.own.get(read.key, NOTHING)):
            return [f"{about}, and had written {own} itself"]
        if read.number < (before := seen.numbers.get(read.key, NOTHING)):
            return [f"{about}, and had seen {before}"]
        if read.number < (known := key.latest(seen.until)):
            return [f"{about}, and had seen or made a write that was sent after {known} was acknowledged"]
        if read.number < (due := key.latest(read.sent - oldest)):
            late = read.sent - key.acknowledged[bisect_right(key.numbers, read.number)]
            return [f"{about}, {late:.3f} s after a newer number was acknowledged; {due} was due"]
        return []


def _keys_of(steps: Collection[Write | Read]) -> defaultdict[str, _Key]:
    keys: defaultdict[str, _Key] = defaultdict(_Key)
    for step in steps:
        if isinstance(step, Write):
            key = keys[step.key]
            if step.number <= max(key.sent, default=NOTHING):
                raise ValueError(f"{step.key}: {step.number} is not larger than what was written before")
            key.sent[step.number] = step.sent
            if step.acknowledged is not None:
                key.acknowledged.append(step.acknowledged)
                key.numbers.append(step.number)
    return keys

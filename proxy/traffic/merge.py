"""Adding figures that each know only their busiest keys, so that the bounds still hold in the sum.

A part (a slice of time, or a worker) lists keys with a count that is never too low and at most ``error`` too high,
and a ``floor``: the most that any key which it does not list was used. So a key that a part leaves out adds that
part's floor to its count and to its error, and the sum is a part again.

Keys are ranked by what is sure, ``count - error``: a key that only might have been used often is no finding.
"""

from collections.abc import Iterable
from typing import Generic, TypedDict, TypeVar

LISTED = 200
"""Keys that an answer lists; those left out are in its floor."""

Key = TypeVar("Key", bytes, str)

Entry = tuple[Key, int, int, int, int]
"""Key, count, error, reads, writes; ``reads + writes == count - error``."""


class Answer(TypedDict):
    """What a worker knows about one window; survives JSON. ``age`` in seconds, ``keys`` as Entry.

    A window moves by whole slices, and nothing is known from before the start: ``seconds`` is how long it really is.
    """

    window: int
    seconds: float
    age: float
    total: int
    floor: int
    keys: list[tuple[str, int, int, int, int]]


class BusyKey(TypedDict):
    """One key as it is shown: used between ``count - error`` and ``count`` times, ``share`` of all uses of keys."""

    key: str
    count: int
    error: int
    share: float
    reads: int
    writes: int


class Busiest(TypedDict):
    """The busiest keys of the last ``window`` seconds, as they were ``age`` seconds ago."""

    window: int
    age: float
    keys: list[BusyKey]


class Sum(Generic[Key]):
    """A running sum of parts."""

    def __init__(self) -> None:
        self.total = 0
        self._floor = 0
        # Per key: reads and writes that were seen, reads alone, and how far its count is beyond the sum of all floors.
        self._seen: dict[Key, tuple[int, int, int]] = {}

    def add(self, total: int, floor: int, entries: Iterable[Entry[Key]]) -> None:
        """Add one part."""
        self.total += total
        self._floor += floor
        seen: dict[Key, tuple[int, int, int]] = self._seen
        for key, count, error, reads, _writes in entries:
            if key in seen:
                sure, known_reads, beyond = seen[key]
                seen[key] = (sure + count - error, known_reads + reads, beyond + count - floor)
            else:
                seen[key] = (count - error, reads, count - floor)

    def part(self, limit: int) -> tuple[int, list[Entry[Key]]]:
        """The floor of the sum and its ``limit`` surely busiest keys."""
        floor = self._floor
        ranked = sorted(((sure, reads, beyond, key) for key, (sure, reads, beyond) in self._seen.items()), reverse=True)
        entries = [
            (key, floor + beyond, floor + beyond - sure, reads, sure - reads)
            for sure, reads, beyond, key in ranked[:limit]
        ]
        unlisted = max((floor + beyond for _, _, beyond, _ in ranked[limit:]), default=0)
        return max(floor, unlisted), entries


def merge(answers: Iterable[Answer], limit: int = LISTED) -> Answer:
    """Several workers' answers about the same window as one, as old as the oldest of them."""
    summed = Sum[str]()
    window = 0
    seconds = 0.0
    age = 0.0
    for answer in answers:
        window = max(window, answer["window"])
        seconds = max(seconds, answer["seconds"])
        age = max(age, answer["age"])
        summed.add(answer["total"], answer["floor"], ((k, c, e, r, w) for k, c, e, r, w in answer["keys"]))
    floor, keys = summed.part(limit)
    return Answer(window=window, seconds=seconds, age=age, total=summed.total, floor=floor, keys=keys)


def present(answer: Answer, count: int) -> Busiest:
    """The ``count`` busiest keys of an answer as they are shown to people."""
    total = answer["total"]
    keys = [
        BusyKey(
            key=key,
            count=most,
            error=error,
            share=round(min(most / total, 1.0), 6),
            reads=reads,
            writes=writes,
        )
        for key, most, error, reads, writes in answer["keys"][:count]
    ]
    return Busiest(window=answer["window"], age=round(answer["age"], 3), keys=keys)

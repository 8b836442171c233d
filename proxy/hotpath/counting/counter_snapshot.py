"""What the counters hand over when a stretch of time ends: its busiest keys, with their bounds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyCount:
    """One key in one slice: it was used between ``count - error`` and ``count`` times.

    ``reads + writes == count - error`` is what was seen of the key since it got its counter; ``error`` is the
    most that can have gone by before. ``cached`` of the reads were answered from memory, ``moved`` went to replicas.
    """

    key: bytes
    count: int
    error: int
    reads: int
    writes: int
    cached: int = 0
    moved: int = 0

    @property
    def certain(self) -> int:
        """Uses that were seen."""
        return self.count - self.error


@dataclass(frozen=True, slots=True)
class CounterSnapshot:
    """A stretch of time: all uses of keys, the busiest keys, and the most that any other key was used."""

    total: int
    floor: int
    key_counts: tuple[KeyCount, ...]

"""Merges top lists of keys so that their error bounds hold for the sum.

A part (a second of a worker) lists keys with a count that is never too low and at most ``error`` too high. Its
``floor`` is the most uses of any key that it does not list. So if a part does not list a key, its floor is added to the
key's count and error. The sum is a part again.

Keys are ranked by their certain uses, ``count - error``: a high ``error`` alone puts no key on the list.
"""

from collections.abc import Iterable

from proxy.hotpath.counting.counter_snapshot import CounterSnapshot, KeyCount

KEYS_OF_SECOND = 64
"""Keys that a worker lists for each second: the busiest of a window are among the busiest of its seconds."""
LISTED = 200
"""Keys that a sum lists; its floor covers the others."""


def combined(parts: Iterable[CounterSnapshot]) -> CounterSnapshot:
    """Merge parts into one with valid bounds."""
    total = floor = 0
    # Per key: the certain uses, the reads among them, and how far its count is above the sum of all floors; of the
    # reads, those answered from memory and by replicas.
    seen: dict[bytes, tuple[int, int, int, int, int]] = {}
    for part in parts:
        total += part.total
        floor += part.floor
        for key_count in part.key_counts:
            certain, reads, beyond, cached, moved = seen.get(key_count.key, (0, 0, 0, 0, 0))
            seen[key_count.key] = (
                certain + key_count.certain,
                reads + key_count.reads,
                beyond + key_count.count - part.floor,
                cached + key_count.cached,
                moved + key_count.moved,
            )
    ranked = sorted(
        ((certain, reads, beyond, key, cached, moved) for key, (certain, reads, beyond, cached, moved) in seen.items()),
        reverse=True,
    )
    key_counts = (
        KeyCount(key, floor + beyond, floor + beyond - certain, reads, certain - reads, cached, moved)
        for certain, reads, beyond, key, cached, moved in ranked[:LISTED]
    )
    unlisted = max((floor + beyond for _, _, beyond, *_ in ranked[LISTED:]), default=0)
    return CounterSnapshot(total, max(floor, unlisted), tuple(key_counts))

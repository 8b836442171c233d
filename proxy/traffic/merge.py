"""Merges top lists of keys so that their error bounds hold for the sum.

A part (a second of a worker) lists keys with a count that is never too low and at most ``error`` too high, and a
``floor``: the most that any key which it does not list was used. So a key that a part leaves out adds that part's floor
to its count and to its error, and the sum is a part again.

Keys are ranked by their certain uses, ``count - error``: a key that only might have been used often is not listed.
"""

from collections.abc import Iterable

from proxy.hotpath.slices import Slice, Tally

KEYS_OF_SECOND = 64
"""Keys that a worker lists of each second: the busiest of a window are among the busiest of its seconds."""
LISTED = 200
"""Keys that a sum lists; those left out are in its floor."""


def combined(parts: Iterable[Slice]) -> Slice:
    """Merge parts into one; its bounds hold as theirs do."""
    total = floor = 0
    # Per key: the uses that were seen, the reads among them, and how far its count is beyond the sum of all floors.
    seen: dict[bytes, tuple[int, int, int]] = {}
    for part in parts:
        total += part.total
        floor += part.floor
        for tally in part.tallies:
            certain, reads, beyond = seen.get(tally.key, (0, 0, 0))
            seen[tally.key] = certain + tally.certain, reads + tally.reads, beyond + tally.count - part.floor
    ranked = sorted(((certain, reads, beyond, key) for key, (certain, reads, beyond) in seen.items()), reverse=True)
    tallies = (
        Tally(key, floor + beyond, floor + beyond - certain, reads, certain - reads)
        for certain, reads, beyond, key in ranked[:LISTED]
    )
    unlisted = max((floor + beyond for _, _, beyond, _ in ranked[LISTED:]), default=0)
    return Slice(total, max(floor, unlisted), tuple(tallies))

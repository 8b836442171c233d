"""Counts and sizes, rounded up, so that evidence has few different ones: to powers of two, and to numbers that people
choose as limits (20, 500, 1000, 10 KB).

Whether a number is over a limit can be told from its bucket if the limit is itself the end of a bucket.
"""

from bisect import bisect_left

_POWERS = [1 << power for power in range(63)]
_DECIMAL = [digit * 10**power for power in range(18) for digit in (1, 2, 5)]
_KILOBYTES = [digit << power for power in (10, 20, 30) for digit in (10, 100)]
_ENDS: list[int] = sorted({0, *_POWERS, *_DECIMAL, *_KILOBYTES})
_MOST = _ENDS[-1]


def bucket(number: int) -> int:
    """The number, rounded away from 0 to the next end of a bucket; 0, 1 and 2 have buckets of their own."""
    size = _ENDS[bisect_left(_ENDS, min(abs(number), _MOST))]
    return size if number >= 0 else -size


def least_in(end: int) -> int:
    """The least positive number in the bucket with this end."""
    return _ENDS[max(0, bisect_left(_ENDS, end) - 1)] + 1


def ends_bucket(limit: int | None) -> bool:
    """Whether a number's bucket tells if it is over this limit; None is no limit."""
    return limit is None or (limit <= _MOST and bucket(limit) == limit)

"""Who accepts the connections of a worker that is missing.

With SO_REUSEPORT the kernel gives each new connection to one worker's socket, whether or not that worker lives. So each
worker inherits the sockets of all, and accepts from a missing one's until its replacement serves.
"""

from collections.abc import Collection


def covered_by(workers: int, serving: Collection[int]) -> dict[int, frozenset[int]]:
    """For each serving worker, the missing ones that it stands in for."""
    able = sorted(serving)
    missing = [number for number in range(workers) if number not in able]
    return {
        number: frozenset(missing[index] for index in range(position, len(missing), len(able)))
        for position, number in enumerate(able)
    }

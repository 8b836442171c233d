"""Which worker accepts the connections of a missing worker.

With SO_REUSEPORT the kernel gives each new connection to one worker's socket, even if that worker has ended. So each
worker inherits the sockets of all. A living worker accepts from a missing one's socket until the replacement serves.
"""

from collections.abc import Collection


def covered_by(workers: int, serving: Collection[int]) -> dict[int, frozenset[int]]:
    """For each serving worker, the missing workers that it accepts for."""
    able = sorted(serving)
    missing = [number for number in range(workers) if number not in able]
    return {
        number: frozenset(missing[index] for index in range(position, len(missing), len(able)))
        for position, number in enumerate(able)
    }

"""Counts of what has happened in a group of workers, in memory that all of them see. Nobody has to be told.

    users      how often users or passwords were changed through Keyrail, or databases were swapped. Who remembers what
               Redis has said (``logins``, ``tracking``) compares the counts before each use: by the time that the
               administrator has the reply to a change of users, no worker uses anything from before it
    servers    how often a worker found that another server, or another process of it, takes the commands: the others
               look, too, so that all of them use the same one

The memory is an array of 64-bit integers, one for each worker, which it alone writes, so nobody needs a lock.
"""

from collections.abc import Callable
from dataclasses import dataclass


class GroupCount:
    """One of them, as worker ``number`` sees and counts it."""

    def __init__(self, memory: memoryview, number: int) -> None:
        self._of_workers = memory.cast("B").cast("q")
        self._number = number
        # Not a method, as memory that answers for Redis asks for each piece of a client's bytes.
        self.counts: Callable[[], bytes] = self._of_workers.tobytes
        """Those of all workers so far, to be compared: other ones after each time."""

    def add(self) -> None:
        """It has happened in this worker."""
        self._of_workers[self._number] += 1


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """All of them."""

    users: GroupCount
    servers: GroupCount


def counts_in(memory: memoryview, workers: int, number: int) -> GroupCounts:
    """Those of a group, as worker ``number`` sees them; the memory has ``2 * workers`` integers."""
    table = memory.cast("B").cast("q")
    return GroupCounts(GroupCount(table[:workers], number), GroupCount(table[workers : 2 * workers], number))

"""How often users or passwords were changed through Keyrail, in memory that all workers see.

Who remembers what Redis has said (``logins``, ``tracking``) compares the counts before each use. So by the time that
the administrator has the reply to a change, no worker uses anything from before it, and no worker has to be told.

The memory is an array of 64-bit integers, one for each worker, which it alone writes, so nobody needs a lock.
"""


class UserChanges:
    """The changes of all workers, as worker ``number`` sees and counts them."""

    def __init__(self, memory: memoryview, number: int) -> None:
        self._of_workers = memory.cast("B").cast("q")
        self._number = number

    def add(self) -> None:
        """Users or passwords may have changed."""
        self._of_workers[self._number] += 1

    def counts(self) -> bytes:
        """Those of all workers so far, to be compared: other ones after each change."""
        return self._of_workers.tobytes()


def of_one_worker() -> UserChanges:
    """Those of a group that has one worker."""
    return UserChanges(memoryview(bytearray(8)), 0)

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""The keys of a client's transaction, as its database's reply cache has to know them.

What Redis queues in a transaction runs with EXEC, so until EXEC is sent, its keys are only collected, and hold nothing.
"""

_MOST_QUEUED = 1000
"""Keys that are collected of one transaction; behind them it counts as about any key."""


class QueuedKeys:
    """The keys of a transaction that is open: those that a cache is about, whether it may be about any key
    (``any_key``), or may only read any (``looks``), and whether Redis will not tell which (``untold``)."""

    __slots__ = ("any_key", "looks", "names", "untold")

    def __init__(self) -> None:
        self.names: set[bytes] = set()
        self.any_key = False
        self.looks = False
        self.untold = False

    def add(self, name: bytes) -> None:
        """It is about this key, too."""
        if len(self.names) < _MOST_QUEUED:
            self.names.add(name)
        else:
            self.any_key = True

    def add_any(self, untold: bool) -> None:
        """It may be about any key."""
        self.any_key = True
        self.untold = self.untold or untold

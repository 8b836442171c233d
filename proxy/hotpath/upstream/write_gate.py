# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""Whether Redis is known to hold writes back (CLIENT PAUSE … WRITE): then they leave no run on a shared connection."""


class WriteGate:
    """One for all clients of a route. While it is ``closed``, commands that Redis may pause go to the session."""

    __slots__ = ("closed",)

    def __init__(self) -> None:
        self.closed = False

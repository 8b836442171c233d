"""How many bytes one worker makes of compressed values: so many at once, and so many a second.

Fifty bytes can hold a megabyte, and the replies to many requests arrive in one read. No client of the worker is sent
anything before that read is worked off, so all that is made of it is in memory together.
"""

MOST_AT_ONCE = 256 << 20
PER_SECOND = 512 << 20
"""More than a worker decompresses."""


class PlainBudget:
    """What is ``left``, in bytes; all rules of a worker share it (``Memory.shared``)."""

    __slots__ = ("_refilled", "left")

    def __init__(self) -> None:
        self.left = MOST_AT_ONCE
        self._refilled = 0.0

    def refill(self, now: float) -> None:
        """It is ``now``, in seconds by the clock of rules, which may be set back."""
        gone, self._refilled = now - self._refilled, now
        if gone > 0:
            self.left = int(min(MOST_AT_ONCE, self.left + gone * PER_SECOND))

    def take(self, size: int) -> None:
        """So many bytes have been made."""
        self.left -= size

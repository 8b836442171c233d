"""How many bytes one worker makes of compressed values: so many at once, and so many a second.

Fifty bytes can hold a megabyte, and the replies to many requests arrive in one read. No client of the worker is sent
anything before that read is worked off, so all that is made of it is in memory together.
"""

from collections.abc import Callable

MOST_AT_ONCE = 256 << 20
PER_SECOND = 512 << 20
"""More than a worker decompresses."""


def _never() -> float:
    """The clock of rules that are only tried."""
    return 0.0


class PlainBudget:
    """What is left, in bytes; all rules of a worker share it (``Memory.shared``). Its ``clock`` tells seconds, and may
    be set back."""

    __slots__ = ("_clock", "_left", "_refilled")

    def __init__(self, clock: Callable[[], float] = _never) -> None:
        self._clock = clock
        self._left = MOST_AT_ONCE
        self._refilled = 0.0

    def run_by(self, clock: Callable[[], float]) -> None:
        """Use this clock from now on."""
        self._clock = clock

    @property
    def left(self) -> int:
        """How many bytes may be made now; nothing may if that is not above zero."""
        now = self._clock()
        gone, self._refilled = now - self._refilled, now
        if gone > 0:
            self._left = int(min(MOST_AT_ONCE, self._left + gone * PER_SECOND))
        return self._left

    def take(self, size: int) -> None:
        """So many bytes have been made."""
        self._left -= size

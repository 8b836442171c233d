"""How many bytes one worker makes of compressed values: so many at once, so many a second, and so many in a turn of its
event loop.

Fifty bytes can hold a megabyte, and the replies to many requests arrive in one read. What is made of a reply is in
memory until all of it is made.
"""

from collections.abc import Callable

from proxy.compression.dictionaries import NO_DICTIONARIES, Dictionaries
from proxy.compression.frames import unpack
from proxy.hotpath.upstream.late_replies import Portions

MOST_AT_ONCE = 256 << 20
PER_SECOND = 512 << 20
"""More than a worker decompresses."""
_UNREADABLE = 64 << 10
"""What counts for bytes that only look compressed: to find that out takes time, too."""
_EACH = 16 << 10
"""What a value takes of a portion beside its bytes: to begin takes 10 to 15 microseconds."""


class TooMuchError(Exception):
    """The budget is used up."""


def _never() -> float:
    """The clock of rules that are only tried."""
    return 0.0


class PlainBudget:
    """What is left, in bytes; all rules of a worker share it (``Memory.shared``). Its ``clock`` tells seconds, and may
    be set back. The ``portions`` say what may be made in this turn."""

    __slots__ = ("_clock", "_left", "_portions", "_refilled")

    def __init__(self, clock: Callable[[], float] = _never) -> None:
        self._clock = clock
        self._left = MOST_AT_ONCE
        self._refilled = 0.0
        self._portions = Portions()

    def run_by(self, clock: Callable[[], float]) -> None:
        """Use this clock from now on."""
        self._clock = clock

    @property
    def portions(self) -> Portions:
        return self._portions

    @property
    def left(self) -> int:
        """How many bytes may be made now; nothing may if that is not above zero."""
        now = self._clock()
        gone, self._refilled = now - self._refilled, now
        if gone > 0:
            self._left = int(min(MOST_AT_ONCE, self._left + gone * PER_SECOND))
        return self._left

    def unpack(self, stored: bytes, version: int, dictionaries: Dictionaries = NO_DICTIONARIES) -> bytes:
        """The plain value. Raises TooMuchError, and what ``frames.unpack`` raises."""
        if self.left <= 0:
            raise TooMuchError
        value = unpack(stored, version, dictionaries)
        size = _UNREADABLE if value is stored else len(value)
        self._left -= size
        self._portions.spend(size + _EACH)
        return value


class CountedBudget(PlainBudget):
    """The same for one rule: what is made is taken from the ``budget`` of all, and ``note`` gets the bytes of each
    value, plain and stored, and the seconds by the clock ``cpu``."""

    __slots__ = ("_budget", "_cpu", "_note")

    def __init__(
        self, budget: PlainBudget, note: Callable[[int, int, float], None], cpu: Callable[[], float] = _never
    ) -> None:
        self._budget = budget
        self._note = note
        self._cpu = cpu

    @property
    def portions(self) -> Portions:
        return self._budget.portions

    @property
    def left(self) -> int:
        return self._budget.left

    def unpack(self, stored: bytes, version: int, dictionaries: Dictionaries = NO_DICTIONARIES) -> bytes:
        began = self._cpu()
        value = self._budget.unpack(stored, version, dictionaries)
        if value is not stored:
            self._note(len(value), len(stored), self._cpu() - began)
        return value

"""The pauses between two attempts to connect to Redis."""

from collections.abc import Callable


class Backoff:
    """Seconds to wait before the next attempt: doubling from 50 ms to 2 s, with jitter, reset by success."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._failures = 0

    def failed(self) -> float:
        """Count a failure, and return the seconds to wait."""
        self._failures += 1
        return min(2.0, 0.05 * 2.0 ** min(self._failures - 1, 10)) * (0.5 + self._random())

    def succeeded(self) -> None:
        """Start with 50 ms again."""
        self._failures = 0

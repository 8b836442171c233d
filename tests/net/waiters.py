"""A client that waits, as those know it who bring it on."""

from __future__ import annotations


class Waiter:
    """It counts how often it is brought on; none of these tests closes it."""

    gone = False
    arrivals = 0

    def arrived(self) -> None:
        self.arrivals += 1

    def close(self, cause: str) -> None:
        raise AssertionError(cause)

    def turn_away(self, error: bytes, cause: str) -> None:
        self.close(cause)

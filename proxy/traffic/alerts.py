"""From when on traffic is worth waking somebody: a share and a rate, both surely reached, and the size of a value.

A share alone would ring for a key with 30 % of fifty commands a second, a rate alone for every busy day.
"""

from dataclasses import dataclass

INCIDENT_WINDOW = 5
"""Seconds in which incidents are looked for."""


@dataclass(frozen=True, slots=True)
class Hot:
    """From when on something is hot: a share of all uses of keys, and a rate per second; both must be reached."""

    share: float = 0.1
    rate: float = 1000.0

    def reached(self, sure: int, total: int, seconds: float) -> bool:
        """Whether what was used at least so often in so many seconds, of all uses of keys, is hot."""
        return sure >= self.share * total and sure >= self.rate * seconds

    def milder(self, part: float) -> "Hot":
        """The same at a part of both."""
        return Hot(self.share * part, self.rate * part)


@dataclass(frozen=True, slots=True)
class Alerts:
    """What makes an incident; ``big_value`` in bytes, of a command or its reply."""

    hot_key: Hot = Hot()
    hot_slot: Hot = Hot(0.2, 5000.0)
    big_value: int = 1 << 20


USUAL = Alerts()
"""The defaults."""

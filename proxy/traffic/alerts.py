"""Thresholds for incidents: a share and a rate that a key certainly reaches, and the size of a value.

A share alone would report a key with 30 % of fifty commands a second, a rate alone every busy day.
"""

from dataclasses import dataclass

INCIDENT_WINDOW = 5
"""Seconds of traffic that are searched for incidents."""


@dataclass(frozen=True, slots=True)
class Hot:
    """The thresholds of a hot key: a share of all uses of keys, and a rate per second; both must be reached."""

    share: float = 0.1
    rate: float = 1000.0

    def reached(self, sure: int, total: int, seconds: float) -> bool:
        """Whether a key is hot: it was used at least ``sure`` times in ``seconds``, of ``total`` uses of keys."""
        return sure >= self.share * total and sure >= self.rate * seconds

    def milder(self, part: float) -> "Hot":
        """The same thresholds, both multiplied by a part."""
        return Hot(self.share * part, self.rate * part)


@dataclass(frozen=True, slots=True)
class Alerts:
    """The thresholds of incidents; ``big_value`` in bytes, of a command or its reply."""

    hot_key: Hot = Hot()
    hot_slot: Hot = Hot(0.2, 5000.0)
    big_value: int = 1 << 20


USUAL = Alerts()
"""The defaults."""

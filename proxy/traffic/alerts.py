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
class Misuse:
    """The thresholds of clients that hinder others; all of a line must be reached.

    ``keys_rate`` KEYS a second of one client, which take ``keys_time`` of each second at Redis, if that is known.
    ``ended_rate`` connections a second that end with no more than ``ended_commands`` commands each.
    ``busy_time`` of each second at Redis, and ``busy_share`` of the time of all clients.
    """

    keys_rate: float = 1.0
    keys_time: float = 0.05
    ended_rate: float = 50.0
    ended_commands: float = 6.0
    busy_time: float = 0.5
    busy_share: float = 0.5

    def milder(self, part: float) -> "Misuse":
        """The same, but a client that has reached them still does with this part of its rate and time."""
        return Misuse(
            self.keys_rate * part,
            self.keys_time * part,
            self.ended_rate * part,
            self.ended_commands / part,
            self.busy_time * part,
            self.busy_share * part,
        )


@dataclass(frozen=True, slots=True)
class Alerts:
    """The thresholds of incidents; ``big_value`` in bytes, of a command or its reply."""

    hot_key: Hot = Hot()
    hot_slot: Hot = Hot(0.2, 5000.0)
    big_value: int = 1 << 20
    misuse: Misuse = Misuse()


USUAL = Alerts()
"""The defaults."""

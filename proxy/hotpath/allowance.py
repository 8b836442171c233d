# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""What may still be spent under a limit.

The hot path only spends: a command that a purse affords is paid for and goes on, any other is judged. Whoever judges
(``rules.meter``) knows the time, and grants more.
"""

UNLIMITED = 1 << 62
"""More than can ever be spent."""


class Allowance:
    """``left`` tokens; below zero after a command that cost more than there can ever be."""

    def __init__(self, left: int) -> None:
        self.left = left


class Purse:
    """One command costs one token of ``commands``, one of ``places``, and as many of ``volume`` as it has bytes."""

    def __init__(self, commands: Allowance, volume: Allowance, places: Allowance) -> None:
        self.commands = commands
        self.volume = volume
        self.places = places

    def affords(self, size: int) -> bool:
        """Whether a command of ``size`` bytes can be paid for."""
        return self.commands.left > 0 and self.places.left > 0 and self.volume.left >= size

    def spend(self, size: int) -> None:
        """Pay for a command of ``size`` bytes."""
        self.commands.left -= 1
        self.places.left -= 1
        self.volume.left -= size

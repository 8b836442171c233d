"""Rates as policies and operators write them: ``5000/s``, ``600/m``."""

import re
from dataclasses import dataclass

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
"""By unit."""
_UNIT = {seconds: unit for unit, seconds in SECONDS.items()}
_RATE = re.compile(r"([1-9][0-9]{0,8})/([smhd])")


@dataclass(frozen=True, slots=True)
class Rate:
    """`tokens` in every `seconds`, and at most `burst` at once."""

    tokens: int
    seconds: int
    burst: int

    @property
    def unit(self) -> str:
        """The letter of its time."""
        return _UNIT[self.seconds]

    def __str__(self) -> str:
        return f"{self.tokens}/{self.unit}"


def parse_rate(text: str) -> Rate | None:
    """A rate as policies write it; None if it is none."""
    match = _RATE.fullmatch(text)
    if match is None:
        return None
    tokens = int(match[1])
    return Rate(tokens, SECONDS[match[2]], tokens)

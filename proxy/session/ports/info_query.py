"""What a client can ask about the whole process group, and how it may ask: KEYRAIL HOTKEYS WINDOW 600 BY bytes.

How many rows a client wants is no part of the query. Whatever COUNT says, the supervisor is asked for as many as there
can be, so that its answer serves all clients of the worker for a moment, and few different ones exist.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proxy.commands.words import word_of
from proxy.traffic.time_series import WINDOWS
from proxy.wire.numbers import read_digits

MOST_ROWS = 100
_USUAL_ROWS = 10
_USUAL_WINDOW = 60
_ORDERS = ("all", "reads", "writes", "bytes")


@dataclass(frozen=True, slots=True)
class InfoQuery:
    """``window`` in seconds and ``by`` are for subjects that have them. With a ``prefix``, a tenant asks, about keys
    behind that alone."""

    subject: str
    window: int = 0
    by: str = ""
    prefix: bytes = b""


TRAFFIC = {
    "clients": ("COUNT", "WINDOW"),
    "hotkeys": ("COUNT", "WINDOW", "BY"),
    "incidents": ("COUNT",),
    "patterns": ("COUNT", "WINDOW"),
    "slots": ("COUNT", "WINDOW"),
    "slow": ("COUNT",),
}
"""The subjects that are lists of traffic, and their options."""


def read_options(subject: str, arguments: Sequence[bytes], prefix: bytes = b"") -> tuple[InfoQuery, int]:
    """Read [COUNT n] [WINDOW n] [BY order] into a query, of a tenant with this prefix, and the number of rows wanted.
    Raises ValueError."""
    known = TRAFFIC[subject]
    words = [argument[:64].decode("utf-8", "replace") for argument in arguments]
    given: dict[str, str] = {}
    for index in range(0, len(words), 2):
        option = word_of(arguments[index]).decode("ascii", "replace")
        if option not in known:
            raise ValueError(f"unknown option '{words[index]}', expected {' or '.join(known)}")
        if option in given:
            raise ValueError(f"{option} is given twice")
        if index + 1 == len(words):
            raise ValueError(f"{option}: expected a value behind it")
        given[option] = words[index + 1]
    windows = [str(each) for each in WINDOWS]
    window = _one_of("WINDOW", given.get("WINDOW", str(_USUAL_WINDOW)), windows) if "WINDOW" in known else "0"
    by = _one_of("BY", given.get("BY", _ORDERS[0]).lower(), _ORDERS) if "BY" in known else ""
    return InfoQuery(subject, int(window), by, prefix), _count(given.get("COUNT", str(_USUAL_ROWS)))


def _one_of(option: str, text: str, expected: Sequence[str]) -> str:
    if text not in expected:
        raise ValueError(f"{option}: expected {', '.join(expected[:-1])} or {expected[-1]}, got '{text}'")
    return text


def _count(text: str) -> int:
    number = read_digits(text)
    if number is None or not 1 <= number <= MOST_ROWS:
        raise ValueError(f"COUNT: expected a whole number from 1 to {MOST_ROWS}, got '{text}'")
    return number


def shortened(told: dict[str, Any], count: int) -> dict[str, Any]:
    """The answer with so many rows in each of its lists; what ``other`` says is left out grows accordingly."""
    found = {name: value[:count] if isinstance(value, list) else value for name, value in told.items()}
    if "other" in found:
        other = told["other"]
        (listed,) = other.keys() - {"rate"}
        cut = told[listed][count:]
        rate = round(other["rate"] + sum(row["rate"] for row in cut), 1)
        found["other"] = {listed: other[listed] + len(cut), "rate": rate}
    return found

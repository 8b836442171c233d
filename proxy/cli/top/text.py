"""Text for a terminal: human-readable figures, and safe forms of names that clients choose.

Keys and names may have any character. Printable characters are written as they are, at their width in cells. All others
(they could move the cursor, change colours or turn the direction of a line) are written as ``\\x1b``.
"""

import unicodedata
from collections.abc import Sequence

_UNITS = ("", "K", "M", "G", "T", "P")
UNKNOWN = "-"

_WIDE = frozenset("WF")


def clean(text: object, *, ascii_only: bool = False) -> str:
    """The text in printable characters; with ``ascii_only``, in printable ASCII."""
    return "".join(each if _showable(each, ascii_only) else _escaped(each) for each in str(text))


def _showable(char: str, ascii_only: bool) -> bool:
    return char.isprintable() and (not ascii_only or char.isascii())


def _escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def cells(text: str) -> int:
    """How many cells of a terminal the text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in _WIDE else 1


def fit(text: str, width: int, *, right: bool = False, whole_ends: bool = False) -> str:
    """The text padded to exactly ``width`` cells, or cut with a tilde at its end or in its middle."""
    room = width - cells(text)
    if room < 0:
        text = _shortened(text, width, whole_ends) if width > 0 else ""
        room = width - cells(text)
    return " " * room + text if right else text + " " * room


def _shortened(text: str, width: int, whole_ends: bool) -> str:
    if not whole_ends:
        return cut(text, width - 1) + "~"
    end = cut(text[::-1], (width - 1) // 2)[::-1]
    return cut(text, width - 1 - cells(end)) + "~" + end


def cut(text: str, width: int) -> str:
    """As much of the text as fits in ``width`` cells."""
    if text.isascii():
        return text[: max(0, width)]
    taken = 0
    for index, char in enumerate(text):
        taken += _cells(char)
        if taken > width:
            return text[:index]
    return text


def rate(value: float | None) -> str:
    """A number per second: 0.2, 41,021, 1.24M."""
    if value is None:
        return UNKNOWN
    if value < 10:
        return f"{value:.1f}"
    return f"{value:,.0f}" if value < 1e6 else _with_unit(value, 1000.0)


def size(value: float | None) -> str:
    """A number of bytes: 712, 9.1K, 373M; a K is 1,024."""
    return UNKNOWN if value is None else _with_unit(value, 1024.0)


def _with_unit(value: float, base: float) -> str:
    unit = 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value /= base
        unit += 1
    digits = 0 if unit == 0 or value >= 99.5 else 1
    return f"{value:.{digits}f}{_UNITS[unit]}"


def share(value: float | None) -> str:
    """A part of a whole: 38.2%."""
    return UNKNOWN if value is None else f"{value:.1%}"


def milliseconds(value: float | None) -> str:
    """A time in milliseconds: 0.21, 14.2, 1,204."""
    if value is None:
        return UNKNOWN
    return f"{value:.2f}" if value < 10 else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def clock(moment: str | None) -> str:
    """The time of day, in UTC, of a moment such as 2026-11-21T02:47:10.123Z."""
    return UNKNOWN if not moment else moment[11:19] + "Z"


def when(moment: str | None) -> str:
    """Day and time of day of a moment: 11-21 02:47:10Z."""
    return UNKNOWN if not moment else f"{moment[5:10]} {clock(moment)}"


def bar(part: float | None, width: int, steps: str) -> str:
    """A bar of ``width`` cells for a part from 0 to 1; ``steps`` are the cell's fillings, from empty to full."""
    most = len(steps) - 1
    filled = round(min(max(part or 0.0, 0.0), 1.0) * width * most)
    whole, rest = divmod(filled, most)
    return (steps[-1] * whole + (steps[rest] if rest else "")).ljust(width)


def levels(values: Sequence[float], steps: str) -> str:
    """One cell for each value, filled in proportion to the largest; any value above 0 is visible."""
    most = max(values, default=0.0) or 1.0
    top = len(steps) - 1
    return "".join(steps[min(top, max(1, round(value / most * top)))] if value > 0 else steps[0] for value in values)

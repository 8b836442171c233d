"""Figures in the form of incidents: ``41k``, ``9.1 KB``, ``38 %``, ``02:47:03 UTC``."""

from proxy.traffic.labels import moment

_UNITS = ("B", "KB", "MB", "GB", "TB")


def short(number: float) -> str:
    """A number as text: 41k, 1.2M, 120."""
    for unit in ("", "k", "M"):
        if number < 999.5:
            return f"{two_digits(number)}{unit}"
        number /= 1000
    return f"{number:.0f}G"


def in_bytes(size: float) -> str:
    """A number of bytes as text: 9.1 KB, 373 MB; a KB is 1,024."""
    for unit in _UNITS:
        if size < 1023.5 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{two_digits(size)} {unit}"


def two_digits(number: float) -> str:
    """A number with at least two digits and without an exponent."""
    return f"{number:.2g}" if number < 9.95 else f"{number:.0f}"


def percent(part: float) -> str:
    """A part of 1, in percent."""
    return f"{100 * part:.3g} %"


def clock(seconds: float) -> str:
    """The time of day of a moment, in seconds since the epoch."""
    return f"{(moment(seconds) or '')[11:19]} UTC"

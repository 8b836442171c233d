"""Reads numbers in text, the same way everywhere: ASCII digits only.

``int`` also takes digits of other scripts, underscores, signs and white space. ``str.isdigit`` also takes superscripts.
So no other module calls them on text that a user or a client has sent.
"""

_MOST_DIGITS = 15


def read_digits(text: str) -> int | None:
    """Read one to 15 ASCII digits; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def read_whole(text: str, least: int, most: int) -> int:
    """Read a whole number from ``least`` to ``most``, both included. Raises ValueError with the expected range."""
    number = read_digits(text)
    if number is None or not least <= number <= most:
        raise ValueError(f"expected a whole number from {least} to {most}, got {text!r}")
    return number

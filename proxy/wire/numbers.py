"""Numbers in text, read in one way everywhere: ASCII digits alone.

``int`` takes more than people write: digits of other scripts, underscores, signs, white space, and, for strings,
``str.isdigit`` even superscripts. So nothing else of Keyrail calls them on text that somebody has typed or sent.
"""

_MOST_DIGITS = 15


def read_digits(text: str) -> int | None:
    """The number that one to 15 ASCII digits stand for; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def read_whole(text: str, least: int, most: int) -> int:
    """A whole number from ``least`` to ``most``, both included. Raises ValueError with what was expected."""
    number = read_digits(text)
    if number is None or not least <= number <= most:
        raise ValueError(f"expected a whole number from {least} to {most}, got {text!r}")
    return number

"""Reads the values of a URL's options. Each reader raises ValueError with what it expected and what it got."""

import re
from pathlib import Path

from proxy.wire.numbers import read_digits

_MOST_DATABASES = 999_999_999


def read_database(text: str) -> int:
    """Read the number of a database."""
    number = read_digits(text)
    if number is None or number > _MOST_DATABASES:
        raise ValueError(f"expected a database number, got {text!r}")
    return number


def read_octal(text: str) -> int:
    """Read permission bits."""
    if not re.fullmatch(r"0?[0-7]{3}", text):
        raise ValueError(f"expected permission bits such as 770, got {text!r}")
    return int(text, 8)


def read_file_name(text: str) -> Path:
    """Read the path of a file."""
    if not text:
        raise ValueError("expected the path of a file")
    return Path(text)


def read_boolean(text: str) -> bool:
    """Read true or false, and the words that libraries use for them."""
    folded = text.lower()
    if folded in ("true", "yes", "on", "1"):
        return True
    if folded in ("false", "no", "off", "0"):
        return False
    raise ValueError(f"expected true or false, got {text!r}")

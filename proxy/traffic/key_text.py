"""A key as text: different keys have different texts, and the text is safe in a line, a page or a JSON string."""

import re

_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")


def shown(key: bytes) -> str:
    r"""Printable UTF-8 as it is; every other byte, and the backslash, as ``\xNN``."""
    text = key.decode("utf-8", "surrogateescape")
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(
        char
        if char.isprintable() and char != "\\"
        else "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))
        for char in text
    )


def named(text: str) -> bytes:
    r"""The key of a text; ``\xNN`` is always a byte, even if ``shown`` does not write it in this way."""
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), text.encode("utf-8", "surrogateescape"))


def printable(text: str) -> str:
    """Text that others chose, for one line: what is not printable as ``shown`` writes it."""
    return text if text.isprintable() else shown(text.encode("utf-8", "surrogatepass"))

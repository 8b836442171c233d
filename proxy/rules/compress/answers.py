"""The replies to commands about the bytes of one value, made from the plain value."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from proxy.commands.command import Command
from proxy.commands.compressed_values import About
from proxy.commands.values import whole_number

Answer: TypeAlias = Callable[[bytes | None], bytes]
"""Makes the reply from the plain value, None for a key or a field that does not exist."""


def answer_of(command: Command, about: About) -> Answer | None:
    """How the command is answered; None if Redis refuses it, whatever the value."""
    if not about.range:
        return _length
    numbers = [whole_number(word) for word in command.argv[2:4]]
    start, end = numbers
    return None if start is None or end is None else partial(_range, start, end)


def _length(value: bytes | None) -> bytes:
    return b":%d\r\n" % len(value or b"")


def _range(start: int, end: int, value: bytes | None) -> bytes:
    # As t_string.c does it (getrangeCommand): what lies before the first byte is the first byte.
    size = len(value or b"")
    if value is None or (start < 0 and end < 0 and start > end):
        return b"$0\r\n\r\n"
    start = max(start + size, 0) if start < 0 else start
    end = max(end + size, 0) if end < 0 else min(end, size - 1)
    part = value[start : end + 1] if start <= end else b""
    return b"$%d\r\n%b\r\n" % (len(part), part)

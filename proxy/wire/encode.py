"""Writing requests and replies of the proxy's own.

Requests are packed by hiredis. Replies of the proxy's own use only the types that RESP2 and RESP3 share
(``+``, ``-``, ``:``, ``$n``), so one encoding fits every client; a null is the exception and names its protocol.
"""

from collections.abc import Sequence
from typing import Any

from hiredis import pack_command

_ONE_LINE = dict.fromkeys([*range(32), 127], " ")


def encode_command(argv: Sequence[bytes]) -> bytes:
    """A request as an array of bulk strings."""
    words: Any = tuple(argv)  # hiredis types its argument as a tuple of exactly one
    packed: bytes = pack_command(words)
    return packed


def encode_error(text: str) -> bytes:
    """An error reply of exactly one line: control characters, CR and LF among them, become spaces."""
    line = text if text.isprintable() else text.translate(_ONE_LINE)
    return b"-" + line.encode("utf-8", "replace") + b"\r\n"


def encode_bulk(value: bytes) -> bytes:
    """A bulk string reply."""
    return b"$%d\r\n%b\r\n" % (len(value), value)


def encode_null(protocol: int) -> bytes:
    """The null bulk string of RESP2, the null of RESP3."""
    return b"_\r\n" if protocol == 3 else b"$-1\r\n"


OK = b"+OK\r\n"

"""Writing requests and replies of the proxy's own.

Requests are packed by hiredis. Replies of the proxy's own use only the types that RESP2 and RESP3 share
(``+``, ``-``, ``:``, ``$n``), so one encoding fits every client; a null is the exception and names its protocol.
"""

from collections.abc import Sequence

from hiredis import pack_command

_ONE_LINE = {byte: " " for byte in [*range(0x20), 0x7F]}


def encode_command(argv: Sequence[bytes]) -> bytes:
    """A request as an array of bulk strings."""
    packed: bytes = pack_command(tuple(argv))
    return packed


def encode_error(text: str) -> bytes:
    """An error reply of exactly one line: control characters, CR and LF among them, become spaces."""
    return b"-" + text.translate(_ONE_LINE).encode("utf-8", "replace") + b"\r\n"


def encode_bulk(value: bytes) -> bytes:
    """A bulk string reply."""
    return b"$%d\r\n%b\r\n" % (len(value), value)


def encode_null(protocol: int) -> bytes:
    """The null bulk string of RESP2, the null of RESP3."""
    return b"_\r\n" if protocol == 3 else b"$-1\r\n"


OK = b"+OK\r\n"

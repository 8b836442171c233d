"""Encodes the requests and replies that Keyrail itself sends.

Requests are packed by hiredis. Most of Keyrail's own replies use only the types that RESP2 and RESP3 share
(``+``, ``-``, ``:``, ``$n``), so one encoding fits every client. Functions for nulls and nested data take the protocol.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hiredis import pack_command

_ONE_LINE = dict.fromkeys([*range(32), 127], " ")
_ONE_LINE_OF_BYTES = bytes(32 if byte < 32 or byte == 127 else byte for byte in range(256))


def encode_command(argv: Sequence[bytes]) -> bytes:
    """Encode a request as an array of bulk strings."""
    words: Any = tuple(argv)  # hiredis types its argument as a tuple of exactly one
    packed: bytes = pack_command(words)
    return packed


def encoded_size(argv: Sequence[bytes]) -> int:
    """Return the size of a request in bytes, encoded as an array of bulk strings."""
    return sum(len(word) + len(str(len(word))) + 5 for word in argv) + len(str(len(argv))) + 3


def encode_error(text: str) -> bytes:
    """Encode an error reply of one line. Control characters become spaces, CR and LF included."""
    return b"-%b\r\n" % text.encode("utf-8", "replace").translate(_ONE_LINE_OF_BYTES)


def encode_bulk(value: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(value), value)


def encode_array(values: Sequence[bytes]) -> bytes:
    """Encode a reply that is an array of bulk strings."""
    return b"*%d\r\n" % len(values) + b"".join(map(encode_bulk, values))


def encode_null(protocol: int) -> bytes:
    """Encode the null bulk string of RESP2, or the null of RESP3."""
    return b"_\r\n" if protocol == 3 else b"$-1\r\n"


def encode_lines(lines: Iterable[str]) -> bytes:
    """Encode an array of one-line strings, as HELP subcommands reply."""
    encoded = [b"+%b\r\n" % line.translate(_ONE_LINE).encode("utf-8", "replace") for line in lines]
    return b"*%d\r\n%b" % (len(encoded), b"".join(encoded))


def encode_value(value: object, protocol: int) -> bytes:
    """Encode nested plain data. For RESP2, maps become arrays, fractions strings, and booleans 1 and 0."""
    match value:
        case None:
            return encode_null(protocol)
        case bool():
            return (b"#t\r\n" if value else b"#f\r\n") if protocol == 3 else b":%d\r\n" % value
        case int():
            return b":%d\r\n" % value
        case float() if protocol == 3:
            return b",%b\r\n" % repr(value).encode()
        case Mapping():
            members = [encode_value(each, protocol) for item in value.items() for each in item]
            head = b"%%%d\r\n" % len(value) if protocol == 3 else b"*%d\r\n" % (2 * len(value))
            return head + b"".join(members)
        case list() | tuple():
            return b"*%d\r\n%b" % (len(value), b"".join(encode_value(each, protocol) for each in value))
    return encode_bulk(str(value).encode("utf-8", "replace"))


OK = b"+OK\r\n"

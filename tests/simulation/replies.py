"""Values as replies of RESP2 and RESP3.

str     simple string           bytes   bulk string         None    null
int     number                  float   double              bool    boolean
list    array                   dict    map                 Members set
Refusal error                   Push    push                Text    verbatim string
"""

from __future__ import annotations

from typing import Any

NIL_ARRAY = object()
"""Null, an array in RESP2."""
SILENCE = object()
"""No reply now."""


class Refusal(Exception):
    """An error reply."""


class Push(list[Any]):
    """A push; an array in RESP2."""


class Members(dict[bytes, None]):
    """A set, in the order of its members' arrival."""


class Raw(bytes):
    """Part of a reply, as it is sent."""


class Text(bytes):
    """A verbatim string; a bulk string in RESP2."""


SYNTAX = "ERR syntax error"
WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
NO_INTEGER = "ERR value is not an integer or out of range"


def encode(value: Any, protocol: int) -> bytes:
    """The reply that a connection of this protocol gets."""
    kind = type(value)
    if kind is bytes:
        return b"$%d\r\n%b\r\n" % (len(value), value)
    if kind is str:
        return b"+%b\r\n" % value.encode()
    if kind is int:
        return b":%d\r\n" % value
    if value is None:
        return b"$-1\r\n" if protocol == 2 else b"_\r\n"
    if value is NIL_ARRAY:
        return b"*-1\r\n" if protocol == 2 else b"_\r\n"
    if value is SILENCE:
        return b""
    if kind is list:
        return b"*%d\r\n" % len(value) + b"".join([encode(each, protocol) for each in value])
    if kind is Refusal:
        return b"-%b\r\n" % str(value).encode("utf-8", "surrogateescape")
    return _of_resp3(value, kind, protocol)


def _of_resp3(value: Any, kind: type, protocol: int) -> bytes:
    if kind is bool:
        return b":%d\r\n" % value if protocol == 2 else b"#%b\r\n" % (b"t" if value else b"f")
    if kind is float:
        text = b"%.17g" % value
        return encode(text, 2) if protocol == 2 else b",%b\r\n" % text
    if kind is Raw:
        return bytes(value)
    if kind is Text:
        return encode(bytes(value), 2) if protocol == 2 else b"=%d\r\ntxt:%b\r\n" % (len(value) + 4, value)
    if kind is dict:
        head, parts = (b"*%d\r\n" if protocol == 2 else b"%%%d\r\n"), [part for pair in value.items() for part in pair]
        head %= len(parts) if protocol == 2 else len(value)
    else:
        head, parts = (b">%d\r\n" if kind is Push else b"~%d\r\n") if protocol == 3 else b"*%d\r\n", list(value)
        head %= len(parts)
    return head + b"".join([encode(each, protocol) for each in parts])

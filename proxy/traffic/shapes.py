"""The shape of a key: the key without its ids, so that a million keys have one shape.

    user:1042:cart                                 user:{int}:cart
    session:3f2c9a7e-0d1b-4c55-9c7e-1f2a3b4c5d6e   session:{uuid}
    mail:ada@example.org:2026-11-21                mail:{email}:{date}
    thumb:9f86d081884c7d65                         thumb:{hex}

Words are kept, since they tell one use of Redis from another; a person's name is a word, too. Bytes other than
printable ASCII become ``{bytes}``, so a shape is safe in any line.
"""

import re

from proxy.schema.entries import Schema

_LONGEST = 160
"""The most bytes of a key that are read; the shape of a longer key ends in an ellipsis."""

_LONGEST_WORD = 24
"""The most letters of a word."""

_EMAIL = rb"|(?P<email>[0-9A-Za-z._%+-]{1,64}@[0-9A-Za-z-]{1,63}(?:\.[0-9A-Za-z-]{1,63}){1,8})"
_PARTS = (
    rb"(?P<bytes>[^!-~]+)"
    rb"|(?P<uuid>(?<![0-9A-Za-z])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Za-z]))"
    rb"%b"
    rb"|(?P<ip>(?<![0-9A-Za-z.])\d{1,3}(?:\.\d{1,3}){3}(?![0-9A-Za-z.]))"
    rb"|(?P<date>(?<![0-9A-Za-z])(?:19|20)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
    rb"(?:[T_]\d\d:?\d\d(?::?\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)?(?![0-9A-Za-z])"
    rb"|(?<![0-9A-Za-z])(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?![0-9A-Za-z]))"
    rb"|(?P<run>[0-9A-Za-z]+)"
)
# Searching for addresses is most of the work, so keys without "@" skip it.
_ALL = re.compile(_PARTS.replace(b"%b", _EMAIL))
_ALL_BUT_EMAIL = re.compile(_PARTS.replace(b"%b", b""))
_HEX = re.compile(rb"[0-9a-f]{8,}|[0-9A-F]{8,}")
_NUMBERED = re.compile(rb"([A-Za-z]{1,%d})\d+" % _LONGEST_WORD)


def shape(key: bytes) -> str:
    """The key with placeholders for its ids: ``{int}``, ``{uuid}``, ``{hex}``, ``{date}``, ``{ip}``, ``{opaque}`` …"""
    parts = _ALL if b"@" in key else _ALL_BUT_EMAIL
    text = parts.sub(_folded, key[:_LONGEST]).decode("ascii")
    return f"{text}..." if len(key) > _LONGEST else text


def pattern_of(schema: Schema, key: bytes, prefix: bytes = b"") -> str:
    """The name of the schema's entry that owns the key; without an owner, the key's shape with the prefix that it has
    in Redis."""
    owner = schema.owner_of(key)
    return shape(prefix + key) if owner is None else owner.name


def _folded(part: re.Match[bytes]) -> bytes:
    if part.lastgroup != "run":
        return b"{%b}" % str(part.lastgroup).encode()
    run = part[0]
    if run.isdigit():
        return b"{int}"
    if run.isalpha():
        return run if len(run) <= _LONGEST_WORD else b"{opaque}"
    if _HEX.fullmatch(run):
        return b"{hex}"
    numbered = _NUMBERED.fullmatch(run)
    return numbered[1] + b"{int}" if numbered else b"{opaque}"

"""Limits on what a client may announce, and the engine's errors if it announces more.

Recorded from running engines: Redis 6.2 takes 1,048,576 arguments, Redis 7.0 and later as many as fit an int. A bulk
string may have 512 MB (the default of ``proto-max-bulk-len``). All engines answer a protocol error with one of the
texts below and close the connection.
"""

from proxy.wire.encode import encode_error
from proxy.wire.request import (
    EXPECTED_CRLF,
    EXPECTED_DOLLAR,
    INVALID_BULK_LENGTH,
    INVALID_MULTIBULK_LENGTH,
    TOO_BIG_BULK_COUNT,
    TOO_BIG_INLINE,
    TOO_BIG_MULTIBULK_COUNT,
    UNAUTHENTICATED_BULK_LENGTH,
    UNAUTHENTICATED_MULTIBULK_LENGTH,
    UNBALANCED_QUOTES,
    RequestLimits,
)

LARGE = 1 << 20
"""In bytes. A bulk string of this size or more is streamed; a smaller one is buffered."""

MAX_BULK = 512 * 1024 * 1024
_MAX_ARGUMENTS = (1 << 31) - 1
_MAX_ARGUMENTS_BEFORE_7 = 1024 * 1024

_TEXTS = {
    INVALID_MULTIBULK_LENGTH: "invalid multibulk length",
    UNAUTHENTICATED_MULTIBULK_LENGTH: "unauthenticated multibulk length",
    TOO_BIG_MULTIBULK_COUNT: "too big mbulk count string",
    INVALID_BULK_LENGTH: "invalid bulk length",
    UNAUTHENTICATED_BULK_LENGTH: "unauthenticated bulk length",
    TOO_BIG_BULK_COUNT: "too big bulk count string",
    TOO_BIG_INLINE: "too big inline request",
    EXPECTED_CRLF: "expected CRLF",
    UNBALANCED_QUOTES: "unbalanced quotes in request",
}


def limits_of(name: str, version: tuple[int, ...] | None, authenticated: bool) -> RequestLimits:
    """Return the limits of an engine version. If the version is unknown (None), the wider limits apply, and the engine
    itself refuses what it does not take."""
    old = version is not None and version < (7,)
    mixed_quotes = name == "valkey" and version is not None and version >= (9,)
    return RequestLimits(
        _MAX_ARGUMENTS_BEFORE_7 if old else _MAX_ARGUMENTS, MAX_BULK, LARGE, authenticated, mixed_quotes
    )


def protocol_error(code: int, byte: int) -> bytes:
    """Return the reply to a protocol error; ``byte`` is the byte found in place of a ``$``."""
    if code == EXPECTED_DOLLAR:
        return encode_error(f"ERR Protocol error: expected '$', got '{chr(byte)}'")
    return encode_error(f"ERR Protocol error: {_TEXTS[code]}")

"""Commands of keys, whatever they hold."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tests.simulation.data import KINDS
from tests.simulation.replies import SYNTAX, Refusal
from tests.simulation.table import ALL, TWO, command
from tests.simulation.values import LARGEST, integer

if TYPE_CHECKING:
    from tests.simulation.connection import Connection


@command("del unlink", -2, "w", ALL)
def _del(c: Connection, argv: Sequence[bytes]) -> Any:
    there = [key for key in dict.fromkeys(argv[1:]) if c.read(key) is not None]
    for key in there:
        c.write(key, None)
    return len(there)


@command("exists touch", -2, "r", ALL)
def _exists(c: Connection, argv: Sequence[bytes]) -> Any:
    return sum(c.read(key) is not None for key in argv[1:])


@command("type", 2, "r")
def _type(c: Connection, argv: Sequence[bytes]) -> Any:
    return KINDS.get(type(c.read(argv[1])), "none")


@command("ttl pttl", 2, "r")
def _ttl(c: Connection, argv: Sequence[bytes]) -> Any:
    if c.read(argv[1]) is None:
        return -2
    expires = c.expiry(argv[1])
    left = -1 if expires is None else max(expires - c.server.clock(), 0)
    return left if left < 0 or argv[0].upper() == b"PTTL" else (left + 500) // 1000


@command("expire pexpire expireat pexpireat", -3, "w")
def _expire(c: Connection, argv: Sequence[bytes]) -> Any:
    name = argv[0].decode().lower()
    scale = 1 if name.startswith("p") else 1000
    number, options = integer(argv[2]), [word.upper() for word in argv[3:]]
    for word in argv[3:]:
        if word.upper() not in (b"NX", b"XX", b"GT", b"LT"):
            raise Refusal(f"ERR Unsupported option {word.decode('utf-8', 'surrogateescape')}")
    if b"NX" in options and len(set(options)) > 1:
        raise Refusal("ERR NX and XX, GT or LT options at the same time are not compatible")
    if b"GT" in options and b"LT" in options:
        raise Refusal("ERR GT and LT options at the same time are not compatible")
    at = number * scale + (0 if name.endswith("at") else c.server.clock())
    if abs(at) > LARGEST:
        raise Refusal(f"ERR invalid expire time in '{name}' command")
    if (value := c.read(argv[1])) is None or not _may_expire(options, c.expiry(argv[1]), at):
        return 0
    c.write(argv[1], None if at <= c.server.clock() else value, at)
    return 1


def _may_expire(options: Sequence[bytes], before: int | None, at: int) -> bool:
    return not (
        (b"NX" in options and before is not None)
        or (b"XX" in options and before is None)
        or (b"GT" in options and (before is None or at <= before))
        or (b"LT" in options and before is not None and at >= before)
    )


@command("persist", 2, "w")
def _persist(c: Connection, argv: Sequence[bytes]) -> Any:
    value = c.read(argv[1])
    if value is None or c.expiry(argv[1]) is None:
        return 0
    c.write(argv[1], value, None)
    return 1


@command("rename", 3, "w", TWO)
def _rename(c: Connection, argv: Sequence[bytes]) -> Any:
    value = c.read(argv[1])
    if value is None:
        raise Refusal("ERR no such key")
    expires = c.expiry(argv[1])
    if argv[1] != argv[2]:
        c.write(argv[1], None)
        c.write(argv[2], value, expires)
    return "OK"


@command("keys", 2)
def _keys(c: Connection, argv: Sequence[bytes]) -> Any:
    pattern = argv[1].decode("latin-1")
    return [key for key in c.all_keys() if fnmatch.fnmatchcase(key.decode("latin-1"), pattern)]


@command("scan", -2)
def _scan(c: Connection, argv: Sequence[bytes]) -> Any:
    """All of it at once."""
    if not argv[1].isdigit():
        raise Refusal("ERR invalid cursor")
    pattern = b"*"
    for option, word in zip(argv[2::2], argv[3::2], strict=False):
        pattern = word if option.upper() == b"MATCH" else pattern
    return [b"0", _keys(c, (b"KEYS", pattern))]


@command("dbsize", 1)
def _dbsize(c: Connection, argv: Sequence[bytes]) -> Any:
    return len(c.db.values)


@command("flushdb flushall", -1, "wf", (0, 0, 1))
def _flush(c: Connection, argv: Sequence[bytes]) -> Any:
    if any(word.upper() not in (b"SYNC", b"ASYNC") for word in argv[1:]) or len(argv) > 2:
        raise Refusal(SYNTAX)
    c.server.flush(range(len(c.server.databases)) if argv[0].upper() == b"FLUSHALL" else [c.database])
    return "OK"

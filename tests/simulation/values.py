"""Commands of strings, hashes, lists and sets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tests.simulation.replies import NIL_ARRAY, NO_INTEGER, SYNTAX, Members, Refusal
from tests.simulation.table import ALL, BLOCKING, COUNTED_PAIRS, PAIRS, command

if TYPE_CHECKING:
    from tests.simulation.connection import Connection

_INTEGER = re.compile(rb"0|-?[1-9][0-9]{0,18}")
LARGEST = (1 << 63) - 1


def integer(word: bytes, error: str = NO_INTEGER) -> int:
    """Raises Refusal."""
    if _INTEGER.fullmatch(word) is None or not -LARGEST - 1 <= int(word) <= LARGEST:
        raise Refusal(error)
    return int(word)


def _expiry(c: Connection, unit: bytes, word: bytes, name: str) -> int:
    scale = 1 if unit[:1] == b"P" else 1000
    number = integer(word)
    at = number * scale + (0 if unit.endswith(b"AT") else c.server.clock())
    if number <= 0 or at > LARGEST:
        raise Refusal(f"ERR invalid expire time in '{name}' command")
    return at


# Strings


@command("get", 2, "r")
def _get(c: Connection, argv: Sequence[bytes]) -> Any:
    return c.read(argv[1], bytes)


@command("set", -3, "w")
def _set(c: Connection, argv: Sequence[bytes]) -> Any:
    expires, seen = None, set()
    words = iter(argv[3:])
    for word in words:
        option = word.upper()
        group = b"if" if option in (b"NX", b"XX") else b"ttl" if option != b"GET" else b"get"
        if option not in (b"NX", b"XX", b"GET", b"KEEPTTL", b"EX", b"PX", b"EXAT", b"PXAT") or group in seen:
            raise Refusal(SYNTAX)
        seen |= {group, option}
        if option in (b"EX", b"PX", b"EXAT", b"PXAT"):
            number = next(words, None)
            if number is None:
                raise Refusal(SYNTAX)
            expires = (option, number)
    at = _expiry(c, *expires, "set") if expires is not None else None
    before = c.read(argv[1], bytes if b"GET" in seen else None)
    if (b"NX" in seen and before is not None) or (b"XX" in seen and before is None):
        return before if b"GET" in seen else None
    c.write(argv[1], argv[2], c.db.expires.get(argv[1]) if b"KEEPTTL" in seen else at)
    return before if b"GET" in seen else "OK"


@command("setex psetex", 4, "w")
def _setex(c: Connection, argv: Sequence[bytes]) -> Any:
    name = argv[0].decode().lower()
    c.write(argv[1], argv[3], _expiry(c, b"PX" if name == "psetex" else b"EX", argv[2], name))
    return "OK"


@command("setnx", 3, "w")
def _setnx(c: Connection, argv: Sequence[bytes]) -> Any:
    if c.read(argv[1]) is not None:
        return 0
    c.write(argv[1], argv[2], None)
    return 1


@command("getset", 3, "w")
def _getset(c: Connection, argv: Sequence[bytes]) -> Any:
    before = c.read(argv[1], bytes)
    c.write(argv[1], argv[2], None)
    return before


@command("getdel", 2, "w")
def _getdel(c: Connection, argv: Sequence[bytes]) -> Any:
    before = c.read(argv[1], bytes)
    if before is not None:
        c.write(argv[1], None)
    return before


@command("mget", -2, "r", ALL)
def _mget(c: Connection, argv: Sequence[bytes]) -> Any:
    found = (c.read(key) for key in argv[1:])
    return [value if type(value) is bytes else None for value in found]


@command("mset msetnx", -3, "w", PAIRS)
def _mset(c: Connection, argv: Sequence[bytes]) -> Any:
    nx = argv[0].upper() == b"MSETNX"
    if len(argv) % 2 == 0:
        raise Refusal(f"ERR wrong number of arguments for '{argv[0].decode().lower()}' command")
    if nx and any(c.read(key) is not None for key in argv[1::2]):
        return 0
    for key, value in zip(argv[1::2], argv[2::2], strict=True):
        c.write(key, value, None)
    return 1 if nx else "OK"


@command("msetex", -4, "w", COUNTED_PAIRS)
def _msetex(c: Connection, argv: Sequence[bytes]) -> Any:
    """With EX, and perhaps NX before it, as Keyrail sends it to Valkey 9.1. Redis 7.0 has no such command."""
    behind = 2 + 2 * integer(argv[1])
    options = [word.upper() for word in argv[behind:-1]]
    if options not in ([b"EX"], [b"NX", b"EX"]):
        raise Refusal(SYNTAX)
    if len(options) > 1 and any(c.read(key) is not None for key in argv[2:behind:2]):
        return 0
    for key, value in zip(argv[2:behind:2], argv[3:behind:2], strict=True):
        c.write(key, value, _expiry(c, b"EX", argv[-1], "msetex"))
    return 1


@command("append", 3, "w")
def _append(c: Connection, argv: Sequence[bytes]) -> Any:
    value = (c.read(argv[1], bytes) or b"") + argv[2]
    c.write(argv[1], value, c.expiry(argv[1]))
    return len(value)


@command("strlen", 2, "r")
def _strlen(c: Connection, argv: Sequence[bytes]) -> Any:
    return len(c.read(argv[1], bytes) or b"")


@command("getrange substr", 4, "r")
def _getrange(c: Connection, argv: Sequence[bytes]) -> Any:
    first, last = integer(argv[2]), integer(argv[3])
    value = c.read(argv[1], bytes) or b""
    if first < 0 and last < 0 and first > last:
        return b""
    first = max(first + len(value) if first < 0 else first, 0)
    return value[first : max(last + len(value) if last < 0 else last, 0) + 1]


@command("getex", -2, "w")
def _getex(c: Connection, argv: Sequence[bytes]) -> Any:
    """With EX or PERSIST alone."""
    value = c.read(argv[1], bytes)
    if value is not None and len(argv) > 2:
        c.write(argv[1], value, _expiry(c, b"EX", argv[3], "getex") if len(argv) == 4 else None)
    return value


@command("incr decr", 2, "w")
def _incr(c: Connection, argv: Sequence[bytes]) -> Any:
    return _add(c, argv[1], 1 if argv[0].upper() == b"INCR" else -1)


@command("incrby decrby", 3, "w")
def _incrby(c: Connection, argv: Sequence[bytes]) -> Any:
    number = integer(argv[2])
    if argv[0].upper() == b"DECRBY":
        if number == -LARGEST - 1:
            raise Refusal("ERR decrement would overflow")
        number = -number
    return _add(c, argv[1], number)


def _add(c: Connection, key: bytes, number: int) -> int:
    value = c.read(key, bytes)
    total = integer(b"0" if value is None else value) + number
    if not -LARGEST - 1 <= total <= LARGEST:
        raise Refusal("ERR increment or decrement would overflow")
    c.write(key, b"%d" % total, c.expiry(key))
    return total


# Hashes


@command("hset", -4, "w")
def _hset(c: Connection, argv: Sequence[bytes]) -> Any:
    if len(argv) % 2:
        raise Refusal("ERR wrong number of arguments for 'hset' command")
    value = c.read(argv[1], dict) or {}
    before = len(value)
    value.update(zip(argv[2::2], argv[3::2], strict=True))
    c.write(argv[1], value, c.expiry(argv[1]))
    return len(value) - before


@command("hget hexists", 3, "r")
def _hget(c: Connection, argv: Sequence[bytes]) -> Any:
    found = (c.read(argv[1], dict) or {}).get(argv[2])
    return found if argv[0].upper() == b"HGET" else int(found is not None)


@command("hmget", -3, "r")
def _hmget(c: Connection, argv: Sequence[bytes]) -> Any:
    value = c.read(argv[1], dict) or {}
    return [value.get(field) for field in argv[2:]]


@command("hgetall hlen hvals", 2, "r")
def _hgetall(c: Connection, argv: Sequence[bytes]) -> Any:
    value = c.read(argv[1], dict) or {}
    name = argv[0].upper()
    return dict(value) if name == b"HGETALL" else [*value.values()] if name == b"HVALS" else len(value)


@command("hstrlen", 3, "r")
def _hstrlen(c: Connection, argv: Sequence[bytes]) -> Any:
    return len((c.read(argv[1], dict) or {}).get(argv[2], b""))


@command("hsetnx", 4, "w")
def _hsetnx(c: Connection, argv: Sequence[bytes]) -> Any:
    value = c.read(argv[1], dict) or {}
    if argv[2] in value:
        return 0
    value[argv[2]] = argv[3]
    c.write(argv[1], value, c.expiry(argv[1]))
    return 1


@command("hdel", -3, "w")
def _hdel(c: Connection, argv: Sequence[bytes]) -> Any:
    value = c.read(argv[1], dict) or {}
    return _removed(c, argv[1], value, argv[2:])


def _removed(c: Connection, key: bytes, value: dict[bytes, Any], names: Sequence[bytes]) -> int:
    before = len(value)
    for name in names:
        value.pop(name, None)
    if removed := before - len(value):
        c.write(key, value, c.expiry(key))
    return removed


# Lists


@command("lpush rpush lpushx rpushx", -3, "w")
def _push(c: Connection, argv: Sequence[bytes]) -> Any:
    name = argv[0].upper()
    value = c.read(argv[1], list)
    if value is None:
        if name.endswith(b"X"):
            return 0
        value = []
    if name.startswith(b"L"):
        value[:0] = reversed(argv[2:])
    else:
        value += argv[2:]
    c.write(argv[1], value, c.expiry(argv[1]))
    c.server.ready[c.database, argv[1]] = None
    return len(value)


@command("lpop rpop", -2, "w")
def _pop(c: Connection, argv: Sequence[bytes]) -> Any:
    if len(argv) > 3:
        raise Refusal(f"ERR wrong number of arguments for '{argv[0].decode().lower()}' command")
    count = 1 if len(argv) == 2 else integer(argv[2], "ERR value is out of range, must be positive")
    if count < 0:
        raise Refusal("ERR value is out of range, must be positive")
    value = c.read(argv[1], list)
    if value is None:
        return None if len(argv) == 2 else NIL_ARRAY
    if count == 0:
        return []
    taken = pop(c, argv[1], value, count, left=argv[0].upper() == b"LPOP")
    return taken[0] if len(argv) == 2 else taken


def pop(c: Connection, key: bytes, value: list[bytes], count: int, *, left: bool) -> list[bytes]:
    """Take elements from a list."""
    if left:
        taken, value[:count] = value[:count], []
    else:
        taken, value[-count:] = value[: -count - 1 : -1], []
    c.write(key, value, c.expiry(key))
    return taken


@command("blpop brpop", -3, "w", BLOCKING)
def _blpop(c: Connection, argv: Sequence[bytes]) -> Any:
    try:
        seconds = float(argv[-1])
    except ValueError:
        raise Refusal("ERR timeout is not a float or out of range") from None
    if seconds < 0:
        raise Refusal("ERR timeout is negative")
    for key in argv[1:-1]:
        value = c.read(key, list)
        if value is not None:
            return [key, *pop(c, key, value, 1, left=argv[0].upper() == b"BLPOP")]
    return c.block(argv, argv[1:-1], seconds)


@command("llen", 2, "r")
def _llen(c: Connection, argv: Sequence[bytes]) -> Any:
    return len(c.read(argv[1], list) or ())


@command("lrange", 4, "r")
def _lrange(c: Connection, argv: Sequence[bytes]) -> Any:
    first, last = integer(argv[2]), integer(argv[3])
    value = c.read(argv[1], list) or []
    first = max(first + len(value) if first < 0 else first, 0)
    return value[first : max(last + len(value) if last < 0 else last, -1) + 1]


# Sets


@command("sadd", -3, "w")
def _sadd(c: Connection, argv: Sequence[bytes]) -> Any:
    value = c.read(argv[1], Members) or Members()
    before = len(value)
    value.update(dict.fromkeys(argv[2:]))
    if len(value) > before:
        c.write(argv[1], value, c.expiry(argv[1]))
    return len(value) - before


@command("srem", -3, "w")
def _srem(c: Connection, argv: Sequence[bytes]) -> Any:
    value = c.read(argv[1], Members) or Members()
    return _removed(c, argv[1], value, argv[2:])


@command("smembers scard", 2, "r")
def _smembers(c: Connection, argv: Sequence[bytes]) -> Any:
    value = c.read(argv[1], Members) or Members()
    return Members(value) if argv[0].upper() == b"SMEMBERS" else len(value)


@command("sismember", 3, "r")
def _sismember(c: Connection, argv: Sequence[bytes]) -> Any:
    return int(argv[2] in (c.read(argv[1], Members) or ()))


@command("pfcount", -2, "rp", ALL)
def _pfcount(c: Connection, argv: Sequence[bytes]) -> Any:
    """Of nothing, which is how Keyrail finds out whether writes are paused."""
    if any(c.read(key) is not None for key in argv[1:]):
        raise Refusal("WRONGTYPE Key is not a valid HyperLogLog string value.")
    return 0

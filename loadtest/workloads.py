"""The workloads: GET and SET as redis-benchmark sends them, and a mix of commands.

Each command of the mix has a check of its reply, and a reply of constant length, so that a load generator that only
counts bytes still notices a wrong reply.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

import redis

KEYSPACE = 100_000
VALUE = b"v" * 64
GET_PREFIX = "bench:get:"
SET_PREFIX = "bench:set:"
MGET_KEYS = 30
LIFETIME = 300
"""The TTL in seconds that bench.yaml adds to a bare SET, without its jitter."""

_AT_ONCE = 1000
_MIXED_KEYS = 2_000
_REFUSED_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Probe:
    """A command, and whether a decoded reply is the right one for it."""

    argv: tuple[bytes, ...]
    right: Callable[[object], bool]

    def encoded(self) -> bytes:
        """The command as RESP."""
        parts = [b"*%d\r\n" % len(self.argv)]
        parts += [b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in self.argv]
        return b"".join(parts)


def get_probes(chance: random.Random, count: int) -> list[Probe]:
    """GETs of random preloaded keys."""
    return [
        Probe((b"GET", b"%b%012d" % (GET_PREFIX.encode(), chance.randrange(KEYSPACE))), _is(VALUE))
        for _ in range(count)
    ]


def mget_probes(chance: random.Random, count: int) -> list[Probe]:
    """MGETs of random preloaded keys."""
    return [
        Probe((b"MGET", *(probe.argv[1] for probe in get_probes(chance, MGET_KEYS))), _is([VALUE] * MGET_KEYS))
        for _ in range(count)
    ]


def set_probes(chance: random.Random, count: int, *, lifetime: bool) -> list[Probe]:
    """SETs of random keys, with a lifetime or bare."""
    rest = (VALUE, b"EX", b"%d" % LIFETIME) if lifetime else (VALUE,)
    return [
        Probe((b"SET", b"%b%012d" % (SET_PREFIX.encode(), chance.randrange(KEYSPACE)), *rest), _is(b"OK"))
        for _ in range(count)
    ]


def mixed_probes(chance: random.Random, count: int, *, refusals: bool) -> list[Probe]:
    """Shuffled commands over keys of many lengths in random letter case; with ``refusals`` one in twenty is refused."""
    probes = []
    right: Callable[[object], bool]
    for _ in range(count):
        if refusals and chance.random() < _REFUSED_SHARE:
            argv, right = chance.choice(_REFUSED), refused
        else:
            build, right = chance.choice(_MIX)
            argv = build(mixed_key(chance.randrange(_MIXED_KEYS)))
        probes.append(Probe((_any_case(chance, argv[0]), *argv[1:]), right))
    return probes


def mixed_key(n: int) -> bytes:
    """The n-th key of the mix: 12 to 100 bytes, two to six segments."""
    name = b"bench:mix%05d" % n
    while len(name) < 12 + n % 89:
        name += b":part" if name.count(b":") < 4 else b"-padding"
    return name[: max(14, 12 + n % 89)].rstrip(b":")


def preload(connection: redis.Redis) -> None:
    """Write the keys of GET and SET to Redis itself."""
    for prefix in (GET_PREFIX, SET_PREFIX):
        preload_as(connection, prefix)


def preload_as(connection: redis.Redis, prefix: str) -> None:
    """Write as many keys with this prefix."""
    script = "for i = ARGV[2], ARGV[3] - 1 do redis.call('SET', ARGV[1] .. string.format('%012d', i), ARGV[4]) end"
    for first in range(0, KEYSPACE, _AT_ONCE):  # on a busy machine, one script for all would be BUSY
        connection.eval(script, 0, prefix, first, first + _AT_ONCE, VALUE)


def preload_mixed(connection: redis.Redis) -> None:
    """Write the keys of the mix again, without the lifetimes of earlier runs."""
    pipeline = connection.pipeline(transaction=False)
    for n in range(_MIXED_KEYS):
        key = mixed_key(n)
        pipeline.set(key, VALUE)
        pipeline.delete(key + b"#h", key + b"#l", key + b"#z")
        pipeline.hset(key + b"#h", mapping={"name": VALUE, "size": "64"})
        pipeline.rpush(key + b"#l", "a", "b", "c")
        pipeline.zadd(key + b"#z", {"one": 1, "two": 2})
    pipeline.execute()


def _is(expected: object) -> Callable[[object], bool]:
    return lambda reply: reply == expected


def refused(reply: object) -> bool:
    """Whether the reply is Keyrail's refusal."""
    return isinstance(reply, Exception) and str(reply).startswith("DENIED keyrail/")


def _any_case(chance: random.Random, word: bytes) -> bytes:
    return bytes(byte ^ 0x20 if chance.random() < 0.5 and 65 <= byte <= 90 else byte for byte in word)


_Build = Callable[[bytes], tuple[bytes, ...]]

_MIX: list[tuple[_Build, Callable[[object], bool]]] = [
    (lambda key: (b"GET", key), _is(VALUE)),
    (lambda key: (b"GET", key), _is(VALUE)),
    (lambda key: (b"SET", key, VALUE), _is(b"OK")),
    (lambda key: (b"SET", key, VALUE, b"EX", b"3600"), _is(b"OK")),
    (lambda key: (b"STRLEN", key), _is(64)),
    (lambda key: (b"GETRANGE", key, b"0", b"9"), _is(VALUE[:10])),
    (lambda key: (b"EXISTS", key, key), _is(2)),
    (lambda key: (b"MGET", key, key), _is([VALUE, VALUE])),
    (lambda key: (b"TYPE", key), _is(b"string")),
    (lambda key: (b"DEL", key + b"#gone"), _is(0)),
    (lambda key: (b"HGET", key + b"#h", b"name"), _is(VALUE)),
    (lambda key: (b"HSET", key + b"#h", b"name", VALUE), _is(0)),
    (lambda key: (b"HMGET", key + b"#h", b"name", b"size"), _is([VALUE, b"64"])),
    (lambda key: (b"LRANGE", key + b"#l", b"0", b"2"), _is([b"a", b"b", b"c"])),
    (lambda key: (b"LINDEX", key + b"#l", b"1"), _is(b"b")),
    (lambda key: (b"ZSCORE", key + b"#z", b"two"), _is(b"2")),
    (lambda key: (b"ZADD", key + b"#z", b"2", b"two"), _is(0)),
    (lambda key: (b"EXPIRE", key, b"3600"), _is(1)),
    (lambda _key: (b"PING",), _is(b"PONG")),
    (lambda _key: (b"ECHO", b"hello"), _is(b"hello")),
]

_REFUSED: list[tuple[bytes, ...]] = [
    (b"KEYS", b"*"),
    (b"FLUSHALL",),
    (b"CONFIG", b"SET", b"maxmemory", b"1gb"),
    (b"SET", b"nosegments", VALUE),
    (b"GET", b"bench:white space"),
]

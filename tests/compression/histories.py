"""Random histories of commands about strings and hashes, with values that are compressed and values that are not."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

from proxy.compression.frames import FIELD, MAGIC, STRING, Codec, pack

Argv = list[bytes]

REFUSED = {
    *("APPEND", "SETRANGE", "BITCOUNT", "BITFIELD", "BITFIELD_RO", "BITOP", "BITPOS", "GETBIT", "SETBIT", "LCS"),
    *("PFADD", "PFCOUNT", "PFMERGE", "RENAME", "RENAMENX", "COPY", "EVAL"),
}
"""Commands that a history may see refused."""


def json_of(r: random.Random, size: int) -> bytes:
    """A JSON document of about so many bytes, as an API or a session has it."""
    rows: list[dict[str, object]] = []
    made = 2
    while made < size:
        rows.append(
            {
                "id": r.randrange(10**6),
                "name": r.choice(("Ada Lovelace", "Grace Hopper", "Edsger Dijkstra", "Barbara Liskov", "Tony Hoare")),
                "email": f"user{r.randrange(10**5)}@example.com",
                "price": round(r.random() * 1000, 2),
                "tags": r.sample(["new", "sale", "featured", "hidden", "bulky"], 2),
                "active": r.random() < 0.5,
            }
        )
        made += len(json.dumps(rows[-1])) + 2
    return json.dumps(rows).encode()


def value_of(number: int) -> bytes:
    """The value of the key of this number: JSON, noise, or text that begins as a header does."""
    r = random.Random(number)
    if number % 50 == 1:
        return r.randbytes(r.randrange(3000))
    if number % 50 == 2:
        return b"\x00\x01\x02" + b"text " * r.randrange(20, 300)
    return json_of(r, r.randrange(20, 4000))


def value(r: random.Random) -> bytes:
    """A value of any kind."""
    kind = r.randrange(12)
    if kind < 4:
        return json_of(r, r.choice((40, 90, 500, 5000, 40_000)))
    if kind == 4:
        return r.randbytes(r.choice((1, 70, 3000)))
    if kind == 5:
        return str(r.randrange(-(10**6), 10**6)).encode()
    if kind == 6:
        return b"1" * r.choice((3, 80, 300)) + r.choice((b"", b".5"))
    if kind == 7:
        return MAGIC + r.randbytes(r.choice((0, 1, 2, 5, 200)))
    if kind == 8:
        return pack(b"frame " * 50, r.choice((STRING, FIELD)), r.choice(list(Codec)), 3, 10)
    return r.choice((b"", b"x", b"hello world", b"a" * 64, b"a" * 65, b"\r\n" * 40))


class History:
    """One client's commands."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        r = self.r
        self.strings = [b"doc:1", b"doc:2", b"doc:3", b"plain:1", b"plain:2"]
        self.hashes = [b"doc:h1", b"doc:h2", b"plain:h"]
        self.any = [*self.strings, *self.hashes, b"doc:list", b"doc:none"]
        self.makers: list[tuple[int, Callable[[], Argv]]] = [
            (12, self._set),
            (2, lambda: [b"SETEX", self.string(), b"1000", value(r)]),
            (2, lambda: [b"PSETEX", self.string(), b"1000000", value(r)]),
            (2, lambda: [b"SETNX", self.string(), value(r)]),
            (3, lambda: [b"GETSET", self.string(), value(r)]),
            (3, lambda: [r.choice((b"MSET", b"MSETNX")), *self.pairs(self.strings)]),
            (10, lambda: [b"GET", self.key()]),
            (4, lambda: [b"MGET", *r.choices(self.any, k=r.randrange(1, 6))]),
            (2, lambda: [b"GETDEL", self.string()]),
            (2, lambda: [b"GETEX", self.string(), *r.choice(((), (b"EX", b"1000"), (b"PERSIST",)))]),
            (5, lambda: [r.choice((b"GETRANGE", b"SUBSTR")), self.key(), self.number(), self.number()]),
            (4, lambda: [b"STRLEN", self.key()]),
            (4, lambda: [r.choice((b"INCR", b"DECR")), self.key()]),
            (2, lambda: [r.choice((b"INCRBY", b"INCRBYFLOAT", b"DECRBY")), self.key(), self.number()]),
            (6, lambda: [r.choice((b"HSET", b"HMSET")), self.hash(), *self.pairs([b"f1", b"f2", b"f3", b"f4"])]),
            (2, lambda: [b"HSETNX", self.hash(), self.field(), value(r)]),
            (5, lambda: [b"HGET", self.key(), self.field()]),
            (3, lambda: [b"HMGET", self.hash(), *r.choices([b"f1", b"f2", b"f3", b"f4", b"f5"], k=3)]),
            (3, lambda: [r.choice((b"HGETALL", b"HVALS", b"HKEYS", b"HLEN")), self.hash()]),
            (2, lambda: [b"HSTRLEN", self.hash(), self.field()]),
            (2, lambda: [r.choice((b"HINCRBY", b"HINCRBYFLOAT")), self.hash(), self.field(), self.number()]),
            (2, lambda: [b"HSCAN", self.hash(), b"0", *r.choice(((), (b"COUNT", b"100")))]),
            (1, lambda: [b"HDEL", self.hash(), self.field()]),
            (1, lambda: [b"HEXISTS", self.hash(), self.field()]),
            (2, lambda: [b"DEL", self.key()]),
            (1, lambda: [b"TYPE", self.key()]),
            (2, lambda: [r.choice((b"RENAME", b"RENAMENX")), self.string(), self.string()]),
            (1, lambda: [b"APPEND", self.string(), b"more"]),
            (1, lambda: [b"SETRANGE", self.string(), b"3", b"more"]),
            (1, lambda: [r.choice((b"GETBIT", b"BITCOUNT")), self.string(), b"0", b"1"][: r.choice((2, 3, 4))]),
            (1, lambda: [b"PFADD", self.string(), b"a"]),
            (1, lambda: [b"RPUSH", b"doc:list", *r.choices([b"1", b"2", b"3"], k=2)]),
            (3, self._sort),
            (1, lambda: [b"EVAL", b"return redis.call('STRLEN', KEYS[1])", b"1", self.string()]),
            (1, lambda: [b"GET"]),
            (1, lambda: [b"SET", self.string(), value(r), r.choice((b"NOT", b"EX"))]),
        ]

    def string(self) -> bytes:
        return self.r.choice(self.strings)

    def hash(self) -> bytes:
        return self.r.choice(self.hashes)

    def key(self) -> bytes:
        """Mostly of a string."""
        return self.r.choice(self.any if self.r.random() < 0.3 else self.strings)

    def field(self) -> bytes:
        return self.r.choice((b"f1", b"f2", b"f3", b"f4", b"f5"))

    def number(self) -> bytes:
        return self.r.choice((b"0", b"-1", b"3", b"-7", b"100", b"-100000", b"4000", b"1.5", b"x", b"007"))

    def pairs(self, names: list[bytes]) -> list[bytes]:
        chosen = self.r.sample(names, self.r.randrange(1, 4))
        return [word for name in chosen for word in (name, value(self.r))]

    def _set(self) -> Argv:
        options = self.r.choice(([], [], [b"NX"], [b"XX"], [b"GET"], [b"EX", b"1000"], [b"KEEPTTL"], [b"xx", b"get"]))
        return [b"SET", self.string(), value(self.r), *options]

    def _sort(self) -> Argv:
        gets = self.r.choice(([b"GET", b"doc:*"], [b"GET", b"#", b"GET", b"doc:h*->f1"], [b"GET", b"plain:*"], []))
        return [b"SORT", b"doc:list", *gets]

    def commands(self, count: int) -> Iterator[Argv]:
        """So many of them."""
        weights = [weight for weight, _ in self.makers]
        for _ in range(count):
            yield self.r.choices(self.makers, weights)[0][1]()

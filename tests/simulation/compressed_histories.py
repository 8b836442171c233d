"""What a client does whose values may be compressed: commands about its own keys, some of which are refused."""

from __future__ import annotations

import random

from proxy.compression.frames import FIELD, MAGIC, STRING, Codec, pack
from tests.compression.dictionaries import json_dictionary
from tests.compression.histories import json_of

FIRST, SECOND, THIRD = json_dictionary(1), json_dictionary(2), json_dictionary(3)
"""No rule names the last one."""
LARGE = 3000
"""Bytes: larger values may pass in pieces."""
MARK = b"the end %d"
"""Ends a part."""
Argv = list[bytes]


class Part:
    """Commands, and which of them are refused."""

    def __init__(self) -> None:
        self.commands: list[Argv] = []
        self.refused: list[bool] = []

    def add(self, *words: bytes | str | int, refused: bool = False) -> None:
        self.commands.append([word if isinstance(word, bytes) else str(word).encode() for word in words])
        self.refused.append(refused)


class Historian:
    """What one client does with its own keys."""

    def __init__(self, chance: random.Random, number: int, kind: str, large: bool, has_ttls: bool) -> None:
        self.chance, self.number, self.kind, self.large = chance, number, kind, large
        self.cluster = kind.startswith("cluster")
        self.parts = 0
        self.options = () if has_ttls else ("GET",)
        self.wraps = number != 3 and kind != "reloads"
        self.anew()

    def anew(self) -> None:
        """Other keys, as nobody knows what those have."""
        self.parts += 1
        tag = b"%d:%d" % (self.number, self.parts)
        names = [b"{%b}:%d" % (tag, n) for n in range(3)]
        if self.cluster:
            names += [b"%b:%d" % (tag, n) for n in range(3, 6)]
        self.mine = [kind + b":" + name for kind in (b"k", b"k", b"o") for name in names]
        self.plain = [b"p:" + name for name in names]
        self.hashes = [b"k:{%b}:h" % tag, b"o:{%b}:h" % tag, b"p:{%b}:h" % tag]
        self.list = b"p:{%b}:l" % tag
        self.tag = b"{%b}" % tag

    def value(self, *, any_size: bool = True) -> bytes:
        c = self.chance
        kind = c.randrange(10)
        if kind == 0:
            return str(c.randrange(1000)).encode()
        if kind == 1:
            return b"7" * c.choice((3, 80, 300))
        if kind == 2 and any_size:
            return MAGIC + c.randbytes(c.choice((0, 1, 2, 5, 200)))
        if kind == 3:
            if not self.wraps:
                return b"frame"
            if c.random() < 0.5:
                return pack(b"frame " * 50, c.choice((STRING, FIELD)), Codec.ZSTD, 3, 10, c.choice((FIRST, THIRD)))
            return pack(b"frame " * 50, c.choice((STRING, FIELD)), c.choice(list(Codec)), 3, 10)
        if kind == 4:
            return c.randbytes(c.choice((1, 70, 2000)))
        return json_of(c, c.choice((20, 60, 90, 500, 2000)))

    def big(self) -> bytes:
        return json_of(self.chance, self.chance.choice((LARGE - 200, LARGE + 100, 2 * LARGE)))

    def string(self, one: bool = False) -> bytes:
        """A key of a string; with ``one``, all are of one slot."""
        names = [*self.mine, *self.plain]
        return self.chance.choice([each for each in names if self.tag in each] if one else names)

    def part(self) -> Part:
        part, c = Part(), self.chance
        for _ in range(c.choice((1, 3, 8))):
            kind = c.randrange(14)
            if kind == 0 and self.kind != "cluster moves":
                self.transaction(part)
            elif kind == 1 and not self.cluster:
                self.silence(part)
            elif kind == 2:
                part.add("RPUSH", self.list, "x")
                part.add("BLPOP", self.list, "0.01")
            elif kind == 3 and not self.cluster:
                part.add("HELLO", c.choice((2, 3)))
            elif kind == 4:
                part.add("BLPOP", self.list, "0.01")
            elif kind == 5 and not self.cluster:
                part.add("CLIENT", "TRACKING", c.choice(("ON", "OFF")))
            else:
                self.one(part)
        part.add("ECHO", MARK % self.parts)
        if c.random() < 0.05:
            part.add("QUIT")
        return part

    def transaction(self, part: Part) -> None:
        c = self.chance
        if c.random() < 0.4:
            part.add("WATCH", self.string(one=True))
            if c.random() < 0.5:
                self.one(part, one=True)
        if c.random() < 0.2:
            part.add("UNWATCH")
        part.add("MULTI")
        for _ in range(c.choice((0, 1, 3, 6))):
            self.one(part, one=True)
        if c.random() < 0.1:
            part.add("GET")
        part.add("EXEC" if c.random() < 0.85 else "DISCARD")
        part.add("UNWATCH")

    def silence(self, part: Part) -> None:
        c = self.chance
        mode = c.choice(("OFF", "SKIP", "SKIP"))
        for _ in range(c.choice((1, 2))):
            part.add("CLIENT", "REPLY", mode)
            if mode == "OFF" and c.random() < 0.3:
                self.transaction(part)
            for _ in range(c.choice((1, 3))):
                self.one(part)
        part.add("CLIENT", "REPLY", "ON")

    def one(self, part: Part, *, one: bool = False) -> None:
        c = self.chance
        key, other, hash_ = self.string(one), self.string(one), c.choice(self.hashes)
        field = c.choice((b"f", b"g", b"h"))
        kind = c.randrange(33)
        mine = not key.startswith(b"p:")
        match kind:
            case 0 | 1 | 2:
                options = c.choice(([], [], ["NX"], ["XX"], ["GET"], ["EX", "100000"], ["KEEPTTL"], ["xx", "get"]))
                part.add("SET", key, self.value(), *options)
            case 3:
                part.add("SETEX", key, 100000, self.value())
            case 4:
                part.add(c.choice(("SETNX", "GETSET")), key, self.value())
            case 5:
                count = 4 if self.cluster or c.random() < 0.5 else 30
                words = [word for _ in range(count) for word in (self.string(one=True), self.value())]
                part.add(c.choice(("MSET", "MSETNX")), *words)
            case 6 | 7 | 8:
                part.add("GET", key)
            case 9 | 10:
                part.add("MGET", *(self.string(one) for _ in range(c.choice((1, 3, 20)))))
            case 11:
                part.add("GETDEL", key)
            case 12:
                part.add("GETEX", key, *c.choice(((), ("EX", 100000), ("PERSIST",))))
            case 13 | 14:
                numbers = c.choices((0, -1, 3, -7, 100, -100000, 4000, "x"), k=2)
                part.add("GETRANGE", key, *numbers)
            case 15:
                part.add("STRLEN", key)
            case 16:
                part.add(c.choice(("INCR", "DECR")), key)
            case 17 | 18:
                part.add("HSET", hash_, *(word for each in (field, b"f2") for word in (each, self.value())))
            case 19:
                part.add("HSETNX", hash_, field, self.value())
            case 20:
                part.add("HGET", hash_, field)
            case 21:
                part.add("HMGET", hash_, *c.choices((b"f", b"g", b"h", b"f2", b"no"), k=3))
            case 22:
                part.add(c.choice(("HGETALL", "HVALS", "HLEN")), hash_)
            case 23:
                part.add("HSTRLEN", hash_, field)
            case 24:
                part.add(c.choice(("DEL", "UNLINK", "EXISTS")), key, *([other] if one or not self.cluster else []))
            case 25:
                part.add("APPEND", key, "more", refused=mine)
            case 26 if one or not self.cluster:
                alike = key[:1] == other[:1]
                part.add("RENAME", key, other, refused=not alike)
            case 27:
                part.add("EVAL", "return redis.call('GET', KEYS[1])", 1, key, refused=mine)
            case 28:
                part.add("GET", hash_)
            case 29:
                part.add(c.choice(("GET", "SET", "HSET")), key)
            case 30 if self.large:
                part.add("SET", key, self.big(), *c.choice(((), self.options)))
            case 31 if self.large:
                part.add("HSET", hash_, field, self.big())
            case 32:
                part.add("TYPE", key)
            case _:
                part.add("ECHO", b"word %d" % c.randrange(1000))

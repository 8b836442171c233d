"""Every command that creates keys, and every context that a client can send it in.

A line of ``COMMANDS`` is ``what is there before | the command``: ``{k}`` is the key that it may create, ``{s}`` one
that is there before and has a TTL, ``{v}`` a value, which may be a large one, ``{dump}`` a payload of DUMP, and
``{sha}`` the digest of SCRIPT. What is there before was made past Keyrail.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha1

from tests.resp import words

COMMANDS = """
                    | SET {k} {v}
                    | SET {k} v KEEPTTL
                    | SETNX {k} {v}
                    | GETSET {k} {v}
                    | SETEX {k} 100 {v}
                    | PSETEX {k} 100000 {v}
                    | MSET {k} 1 {k}2 {v}
                    | MSETNX {k} 1 {k}2 {v}
                    | MSETEX 1 {k} v
                    | APPEND {k} {v}
                    | INCR {k}
                    | DECR {k}
                    | INCRBY {k} 2
                    | DECRBY {k} 2
                    | INCRBYFLOAT {k} 1.5
                    | SETRANGE {k} 2 {v}
                    | SETBIT {k} 7 1
                    | BITFIELD {k} SET u8 0 255
SET {s} v           | BITOP NOT {k} {s}
                    | PFADD {k} a
PFADD {s} a         | PFMERGE {k} {s}
                    | HSET {k} f {v}
                    | HSET {k} f {v} g w
                    | HMSET {k} f {v}
                    | HSETNX {k} f {v}
                    | HINCRBY {k} f 1
                    | HINCRBYFLOAT {k} f 1.5
                    | HSETEX {k} FIELDS 1 f v
                    | LPUSH {k} {v}
                    | RPUSH {k} a {v}
RPUSH {s} a b       | LMOVE {s} {k} LEFT LEFT
RPUSH {s} a b       | RPOPLPUSH {s} {k}
RPUSH {s} a b       | BLMOVE {s} {k} LEFT LEFT 1
RPUSH {s} a b       | BRPOPLPUSH {s} {k} 1
RPUSH {s} 2 1       | SORT {s} STORE {k}
                    | SADD {k} {v}
SADD {s} m n        | SMOVE {s} {k} m
SADD {s} m          | SUNIONSTORE {k} {s}
SADD {s} m          | SINTERSTORE {k} {s}
SADD {s} m          | SDIFFSTORE {k} {s}
                    | ZADD {k} 1 {v}
                    | ZINCRBY {k} 1 {v}
ZADD {s} 1 m        | ZUNIONSTORE {k} 1 {s}
ZADD {s} 1 m        | ZINTERSTORE {k} 1 {s}
ZADD {s} 1 m        | ZDIFFSTORE {k} 1 {s}
ZADD {s} 1 m        | ZRANGESTORE {k} {s} 0 9
                    | GEOADD {k} 13 38 m
GEOADD {s} 13 38 m  | GEOSEARCHSTORE {k} {s} FROMLONLAT 13 38 BYRADIUS 9 km ASC COUNT 9
GEOADD {s} 13 38 m  | GEORADIUS {s} 13 38 9 km COUNT 9 STORE {k}
GEOADD {s} 13 38 m  | GEORADIUSBYMEMBER {s} m 9 km COUNT 9 STORE {k}
                    | XADD {k} 1-1 f {v}
                    | XGROUP CREATE {k} group $ MKSTREAM
                    | VADD {k} VALUES 2 1.0 2.0 e
SET {s} v           | COPY {s} {k}
SET {s} v           | COPY {s} {k} DB 1
SET {s} v           | MOVE {s} 1
SET {s} v           | RENAME {s} {k}
SET {s} v           | RENAMENX {s} {k}
                    | RESTORE {k} 0 {dump}
                    | RESTORE-ASKING {k} 0 {dump}
                    | EVAL "return redis.call('SET', KEYS[1], ARGV[1])" 1 {k} {v}
                    | EVAL "redis.call('SADD', KEYS[1], 'a') return redis.call('INCR', KEYS[1])" 1 {k}
                    | EVALSHA {sha} 1 {k}
                    | FCALL create 1 {k}
SET {k} v           | EVAL "return redis.call('PERSIST', KEYS[1])" 1 {k}
SET {k} v           | EVAL "return redis.call('SET', KEYS[1], 'w')" 1 {k}
SET {k} v           | PERSIST {k}
SET {k} v           | GETEX {k} PERSIST
SET {k} v           | SET {k} w
HSET {k} f v        | HSET {k} g w
"""
SCRIPT = "return redis.call('SET',KEYS[1],'v')"
"""What EVALSHA runs. It is loaded past Keyrail."""
LIBRARY = "#!lua name=made\nredis.register_function('create', function(k) return redis.call('SET', k[1], 'v') end)"


@dataclass(frozen=True)
class Case:
    """One command: the lines that run before it, and its words."""

    before: Sequence[Sequence[bytes]]
    argv: Sequence[bytes]

    @property
    def name(self) -> str:
        return self.argv[0].decode()


def cases(value: bytes, dump: bytes) -> list[Case]:
    """All commands, each with keys of its own."""
    found = []
    for number, line in enumerate(COMMANDS.strip().splitlines()):
        given = {
            b"{v}": value,
            b"{dump}": dump,
            b"{sha}": sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest().encode(),
        }
        before, command = (part.replace("{k}", f"user:{{{number}}}:k") for part in line.split("|", 1))
        before, command = (part.replace("{s}", f"user:{{{number}}}:s") for part in (before, command))
        argv = [given.get(word, word) for word in words(command.strip())]
        lines = [words(each.strip()) for each in before.split(";") if each.strip()]
        found.append(Case(lines, argv))
    return found


@dataclass(frozen=True)
class Context:
    """What a client sends before its first command, around each, and behind the last one. ``refused`` says that every
    command that would need a TTL to follow is refused there. ``leaves``: it leaves without having read anything."""

    name: str
    once: Sequence[str] = ()
    before: Sequence[str] = ()
    after: Sequence[str] = ()
    finally_: Sequence[str] = ()
    protocol: int = 2
    user: str = ""
    refused: bool = False
    leaves: bool = False
    large: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def queues(self) -> bool:
        """Whether the commands are inside MULTI, where none blocks."""
        return "MULTI" in self.before

    @property
    def heard(self) -> bool:
        """Whether the client hears what becomes of its commands."""
        return not self.leaves and not any("REPLY" in each for each in self.before)


WATCHED = ("WATCH user:w",)
CONTEXTS = (
    Context("plain"),
    Context("RESP3", protocol=3),
    Context("on a connection of its own", once=("CLIENT ID",)),
    Context("a user of its own", user="ann"),
    Context("a user of its own, watching", user="ann", before=WATCHED, after=("UNWATCH",)),
    Context("WATCH", before=WATCHED, after=("UNWATCH",)),
    Context("WATCH and EXEC", before=WATCHED, after=("MULTI", "GET user:w", "EXEC")),
    Context("WATCH and DISCARD", before=WATCHED, after=("MULTI", "INCR user:none", "DISCARD")),
    Context("WATCH in RESP3", before=WATCHED, after=("UNWATCH",), protocol=3),
    Context("WATCH of the key", before=("WATCH {k}",), after=("MULTI", "GET user:w", "EXEC")),
    Context("WATCH and RESET", once=WATCHED, finally_=("RESET",)),
    Context("WATCH, and it leaves", once=WATCHED, leaves=True),
    Context("inside MULTI", before=("MULTI",), after=("EXEC",)),
    Context("inside MULTI, thrown away", before=("MULTI",), after=("DISCARD",)),
    Context("inside MULTI behind WATCH", before=("WATCH {k}", "MULTI"), after=("EXEC",)),
    Context("inside MULTI behind WATCH, thrown away", before=("WATCH {k}", "MULTI"), after=("DISCARD",)),
    Context("inside MULTI in another database", before=("MULTI", "SELECT 1"), after=("SELECT 0", "EXEC")),
    Context("another database", once=("SELECT 1",), finally_=("SELECT 0",)),
    Context("TRACKING", once=("CLIENT TRACKING ON",), protocol=3),
    Context("TRACKING NOLOOP", once=("CLIENT TRACKING ON NOLOOP",), protocol=3),
    Context("TRACKING BCAST", once=("CLIENT TRACKING ON BCAST",), protocol=3),
    Context("TRACKING and WATCH", once=("CLIENT TRACKING ON",), before=WATCHED, after=("UNWATCH",), protocol=3),
    Context("CACHING", once=("CLIENT TRACKING ON OPTIN",), before=("CLIENT CACHING YES",), protocol=3),
    Context("TRACKING inside MULTI", before=("MULTI", "CLIENT TRACKING ON"), after=("EXEC",), protocol=3),
    Context("subscribed", once=("SUBSCRIBE c",), protocol=3),
    Context("behind UNSUBSCRIBE", before=("SUBSCRIBE c", "UNSUBSCRIBE c")),
    Context("behind a command that blocks", before=("BLPOP user:none 0.01",)),
    Context("CLIENT REPLY OFF", before=("CLIENT REPLY OFF",), after=("CLIENT REPLY ON",), refused=True),
    Context("CLIENT REPLY SKIP", before=("CLIENT REPLY SKIP",), refused=True),
    Context("MONITOR", once=("MONITOR",), refused=True, leaves=True),
    Context("ASKING", before=("ASKING",), refused=True),
    Context("it leaves", leaves=True),
    Context("RESET", after=("RESET",)),
    Context("HELLO", after=("HELLO 3",)),
    Context("large", large=True),
    Context("large, on a connection of its own", once=("CLIENT ID",), large=True),
    Context("large inside MULTI", before=("MULTI",), after=("EXEC",), large=True),
    Context("large behind WATCH", before=WATCHED, after=("UNWATCH",), large=True),
)


def line(context_line: str, case: Case) -> list[bytes]:
    """A line around a command."""
    key = next((word for word in case.argv if re.fullmatch(rb"user:\{\d+\}:k", word)), b"user:w")
    return [key if word == b"{k}" else word for word in words(context_line)]

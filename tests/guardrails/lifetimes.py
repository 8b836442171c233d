"""The cases of the tests of lifetimes, as tables. A case is one line:

    what is there before | the command | what each key's TTL is afterwards

where ``new`` is the policy's five minutes, ``none`` no TTL, ``gone`` no key, and a number that many seconds.
"""

from __future__ import annotations

from tests.engines import Engine
from tests.resp import Wire, pack, words

POLICY = """
keyrail: 1
defaults: {mode: enforce}
schema:
  page: {key: "c:page:{id}", ttl: {default: 5m, max: 1h}}
  cart: {key: "c:cart:{id}", type: hash, ttl: {default: 5m, sliding: true}}
  jobs: {key: "c:jobs:{name}", type: list, ttl: none}
  mail: {key: "c:mail:{name}", type: list, ttl: 5m}
rules:
  by-schema: {schema: ttl}
  types: {schema: type, mode: off}
  given: {lifetime: {default: 5m, types: all, keys: "g:*"}}
  usual: {lifetime: {default: 5m, keys: "u:*"}}
  stamped: {lifetime: {default: 5m, types: all, existing_keys: stamp, keys: "e:*"}}
  sliding: {lifetime: {default: 5m, sliding: true, keys: "s:*"}}
  bounded: {lifetime: {default: 5m, min: 10s, max: 1h, persist: clamp, keys: "b:*"}}
  strict:
    lifetime:
      {default: 5m, max: 1h, required: true, outside: refuse, persist: refuse, without_proof: refuse, types: all,
       keys: "r:*"}
"""

CREATED = """
                    | SET g:k v                             | g:k new
                    | SET g:k v KEEPTTL                     | g:k new
SET g:k v           | SET g:k v KEEPTTL                     | g:k none
SET g:k v EX 9999   | SET g:k v KEEPTTL                     | g:k 9999
                    | SET g:k v GET KEEPTTL                 | g:k new
SET g:k v           | SET g:k v GET KEEPTTL                 | g:k none
                    | SET g:k v XX KEEPTTL                  | g:k gone
                    | SETNX g:k v                           | g:k new
SET g:k v           | SETNX g:k w                           | g:k none
                    | GETSET g:k v                          | g:k new
SET g:k v           | GETSET g:k w                          | g:k new
                    | MSET g:k 1 g:l 2                      | g:k new, g:l new
SET g:k v           | MSET g:k 1 x 2 g:l 3                  | g:k new, x none, g:l new
                    | MSETNX g:k 1 g:l 2                    | g:k new, g:l new
SET g:k v           | MSETNX g:k 1 g:l 2                    | g:k none, g:l gone
                    | MSET g:k 1 g:l                        | g:k gone
                    | INCR g:k                              | g:k new
SET g:k 5           | INCR g:k                              | g:k none
SET g:k 5 EX 9999   | INCR g:k                              | g:k 9999
SET g:k v           | INCR g:k                              | g:k none
RPUSH g:k v         | INCR g:k                              | g:k none
                    | DECRBY g:k 5                          | g:k new
                    | INCRBY g:k 0                          | g:k new
                    | INCRBY g:k x                          | g:k gone
                    | INCRBYFLOAT g:k 1.5                   | g:k new
                    | APPEND g:k v                          | g:k new
SET g:k ""          | APPEND g:k v                          | g:k none
                    | SETRANGE g:k 2 v                      | g:k new
                    | SETRANGE g:k 2 ""                     | g:k gone
                    | SETBIT g:k 7 1                        | g:k new
                    | BITFIELD g:k SET u8 0 255             | g:k new
                    | BITFIELD g:k GET u8 0                 | g:k gone
                    | PFADD g:k a b                         | g:k new
                    | PFADD g:k                             | g:k new
PFADD x a           | PFMERGE g:k x                         | g:k new, x none
                    | HSET g:k f v g w                      | g:k new
HSET g:k f v        | HSET g:k f v                          | g:k none
RPUSH g:k v         | HSET g:k f v                          | g:k none
                    | HSET g:k f                            | g:k gone
                    | HMSET g:k f v                         | g:k new
                    | HSETNX g:k f v                        | g:k new
                    | HINCRBY g:k f 1                       | g:k new
                    | HINCRBYFLOAT g:k f 1.5                | g:k new
                    | LPUSH g:k a b                         | g:k new
RPUSH g:k a         | LPUSH g:k b                           | g:k none
SET g:k v           | LPUSH g:k a                           | g:k none
                    | RPUSH g:k a                           | g:k new
                    | RPUSHX g:k a                          | g:k gone
RPUSH x a           | LMOVE x g:k LEFT LEFT                 | g:k new
                    | LMOVE x g:k LEFT LEFT                 | g:k gone
RPUSH x a b         | RPOPLPUSH x g:k                       | g:k new, x none
RPUSH g:k a b       | RPOPLPUSH g:k g:k                     | g:k none
RPUSH x 2 1         | SORT x STORE g:k                      | g:k new
                    | SORT x STORE g:k                      | g:k gone
                    | SADD g:k m                            | g:k new
SADD x m            | SMOVE x g:k m                         | g:k new
SADD x m            | SMOVE x g:k n                         | g:k gone
SADD g:l m; SET g:k o | SUNIONSTORE g:k g:l x               | g:k new, g:l none
SADD x m            | SINTERSTORE g:k x y                   | g:k gone
SADD x m            | SDIFFSTORE g:k x y                    | g:k new
HSET x f v          | SUNIONSTORE g:k x                     | g:k gone
SET g:k v           | SUNIONSTORE g:k x                     | g:k gone
                    | ZADD g:k 1 m                          | g:k new
                    | ZADD g:k XX 1 m                       | g:k gone
                    | ZADD g:k INCR 1 m                     | g:k new
                    | ZINCRBY g:k 1 m                       | g:k new
ZADD x 1 m          | ZUNIONSTORE g:k 1 x                   | g:k new
ZADD x 1 m          | ZINTERSTORE g:k 2 x y                 | g:k gone
ZADD x 1 m          | ZDIFFSTORE g:k 2 x y                  | g:k new
ZADD x 1 m          | ZRANGESTORE g:k x 0 -1                | g:k new
                    | GEOADD g:k 13 38 m                    | g:k new
GEOADD x 13 38 m    | GEOSEARCHSTORE g:k x FROMLONLAT 13 38 BYRADIUS 9 km ASC | g:k new
GEOADD x 13 38 m    | GEORADIUS x 13 38 9 km STORE g:k      | g:k new
GEOADD x 13 38 m    | GEORADIUSBYMEMBER x m 9 km STOREDIST g:k | g:k new
SET x v             | BITOP NOT g:k x                       | g:k new
                    | BITOP NOT g:k x                       | g:k gone
                    | XADD g:k 1-1 f v                      | g:k new
                    | XADD g:k NOMKSTREAM 1-1 f v           | g:k gone
                    | XADD g:k 0-0 f v                      | g:k gone
                    | XGROUP CREATE g:k group $ MKSTREAM    | g:k new
                    | XGROUP CREATE g:k group $             | g:k gone
SET x v             | COPY x g:k                            | g:k new, x none
SET x v EX 9999     | COPY x g:k                            | g:k 9999
SET x v             | COPY x g:k DB 0                       | g:k new, x none
SET x v; SET g:k w  | COPY x g:k                            | g:k none
SET x v             | RENAME x g:k                          | g:k new
SET x v EX 9999     | RENAME x g:k                          | g:k 9999
SET g:k v           | RENAME g:k g:k                        | g:k none
                    | RENAME x g:k                          | g:k gone
SET x v; SET g:k w  | RENAMENX x g:k                        | g:k none
SET x v             | RENAMENX x g:k                        | g:k new
                    | EVAL "return redis.call('SET',KEYS[1],1)" 2 g:k g:l | g:k new, g:l gone
SET g:k v           | EVAL "return redis.call('INCR',KEYS[2])" 2 g:k g:l  | g:k none, g:l new
                    | EVAL "redis.call('SET',KEYS[1],1) return redis.call('INCR',KEYS[1],2)" 1 g:k | g:k new
                    | EVALSHA nosuch 1 g:k                  | g:k gone
SET g:k v EX 9999   | EVAL "return redis.call('SET',KEYS[1],1)" 1 g:k                 | g:k new
SET g:k v EX 9999   | EVAL "return redis.call('GET',KEYS[1])" 1 g:k                   | g:k 9999
                    | MSET u:k 1 g:k 2                      | u:k new, g:k new
                    | LPUSH u:k a                           | u:k none
                    | XADD u:k 1-1 f v                      | u:k none
RPUSH x a           | RENAME x u:k                          | u:k none
SET x a             | RENAME x u:k                          | u:k new
SADD x a            | COPY x u:k                            | u:k new
                    | EVAL "return redis.call('LPUSH',KEYS[1],1)" 1 u:k | u:k none
                    | EVAL "return redis.call('SADD',KEYS[1],1)" 1 u:k  | u:k new
SET e:k 1           | INCR e:k                              | e:k new
RPUSH e:k a         | RPUSH e:k b                           | e:k new
SET e:k v           | GET e:k                               | e:k none
SET e:k 1 EX 9999   | INCR e:k                              | e:k 9999
"""

HELD = """
SET b:k v           | EXPIRE b:k 5                          | b:k 10
SET b:k v           | EXPIRE b:k 99999                      | b:k 3600
SET b:k v           | EXPIRE b:k 60                         | b:k 60
SET b:k v           | EXPIRE b:k 0                          | b:k gone
SET b:k v           | EXPIRE b:k -1                         | b:k gone
SET b:k v           | EXPIREAT b:k 1                        | b:k gone
SET b:k v           | EXPIREAT b:k 99999999999              | b:k 3600
SET b:k v           | PEXPIREAT b:k 99999999999000          | b:k 3600
SET b:k v           | PEXPIRE b:k 5                         | b:k 10
SET b:k v           | EXPIRE b:k 9223372036854775807        | b:k none
SET b:k v           | EXPIRE b:k x                          | b:k none
                    | EXPIRE b:k 5                          | b:k gone
                    | SET b:k v                             | b:k new
                    | SET b:k v EX 99999                    | b:k 3600
                    | SET b:k v PXAT 99999999999000 GET     | b:k 3600
                    | SET b:k v EX 0                        | b:k gone
                    | SETEX b:k 99999 v                     | b:k 3600
                    | SETEX b:k -5 v                        | b:k gone
                    | SETEX b:k 05 v                        | b:k gone
                    | PSETEX b:k 5 v                        | b:k 10
SET b:k v           | GETEX b:k EX 99999                    | b:k 3600
                    | SET b:k v EX 60 EX 99999              | b:k 3600
                    | SET b:k v PX 99999999 px 60000        | b:k 60
SET b:k v           | GETEX b:k EX 60 EX 99999              | b:k 3600
SET b:k v           | GETEX b:k PERSIST EX 5                | b:k none
SET b:k v           | SET b:k w PERSIST                     | b:k none
SET b:k v EX 60     | SET b:k w PERSIST                     | b:k 60
SET b:k v EX 60     | GETEX b:k KEEPTTL                     | b:k 60
SET b:k v EX 60     | GETEX b:k PERSIST PERSIST             | b:k 60
SET b:k v EX 60     | GETEX b:k PERSIST                     | b:k 60
SET b:k v           | GETEX b:k PERSIST                     | b:k none
SET b:k v           | PERSIST b:k                           | b:k none
                    | PERSIST b:k                           | b:k gone
"""

USED = """
SET s:k v EX 60     | GET s:k                               | s:k new
SET s:k v EX 9999   | GET s:k                               | s:k 9999
SET s:k v           | GET s:k                               | s:k none
                    | GET s:k                               | s:k gone
SET s:k v EX 60     | MGET s:k s:l                          | s:k new, s:l gone
HSET s:k f v; EXPIRE s:k 60 | HGETALL s:k                   | s:k new
HSET s:k f v; EXPIRE s:k 60 | HSET s:k f w                  | s:k new
HSET s:k f v; EXPIRE s:k 60 | GET s:k                       | s:k 60
                    | HSET s:k f w                          | s:k new
SET s:k v EX 60     | TTL s:k                               | s:k 60
SET s:k v EX 60     | EXISTS s:k                            | s:k 60
"""


OURS = ("x", "y", "c:page:1", "c:other", "c:jobs:1", "c:mail:1", "c:cart:1")
EMPTY = pack("DEL", *OURS, *(f"{prefix}:{key}" for prefix in "guebsr" for key in "klm"))

OF_THE_SCHEMA = """
                    | SET c:page:1 v                        | c:page:1 new
                    | SET c:page:1 v EX 9999                | c:page:1 3600
                    | SET c:page:1 v EX 60                  | c:page:1 60
                    | INCR c:page:1                         | c:page:1 new
                    | SET c:other v                         | c:other none
                    | RPUSH c:jobs:1 v                      | c:jobs:1 none
                    | RPUSH c:mail:1 v                      | c:mail:1 new
                    | MSET c:page:1 a c:other b c:mail:1 c  | c:page:1 new, c:other none, c:mail:1 new
HSET c:cart:1 f v; EXPIRE c:cart:1 60 | HGETALL c:cart:1    | c:cart:1 new
                    | HSET c:cart:1 f v                     | c:cart:1 new
"""


class Case:
    """One line of a table."""

    def __init__(self, line: str) -> None:
        before, command, after = (part.strip() for part in line.split(" | "))
        self.line = line
        self.before = [words(each) for each in before.split(";") if each.strip()]
        self.command = words(command)
        self.after = dict(each.split() for each in after.split(", "))

    def prepare(self, direct: Wire) -> None:
        """The keys are as they are to be before."""
        direct.send(EMPTY + b"".join(pack(*argv) for argv in self.before))
        direct.frames(1 + len(self.before))

    def check(self, direct: Wire) -> None:
        """The keys are as the line says."""
        direct.send(b"".join(pack("TTL", key) for key in self.after))
        for key, expected in self.after.items():
            ttl = int(direct.frame()[1:])
            wanted = {"new": 300, "none": -1, "gone": -2}.get(expected) or int(expected)
            assert wanted - 20 * (wanted > 0) <= ttl <= wanted, (self.line, key, ttl)


def cases(table: str) -> list[Case]:
    return [Case(" " + line) for line in table.strip("\n").splitlines()]


ALL_CASES = cases(CREATED) + cases(HELD) + cases(USED) + cases(OF_THE_SCHEMA)


def immortal(engine: Engine) -> list[tuple[int, bytes]]:
    """The keys without a TTL, in both databases."""
    found = []
    for database in (0, 1):
        with engine.wire() as wire:
            wire.ask("SELECT", database)
            keys = wire.value("KEYS", "*")
            assert isinstance(keys, list)
            names = [key for key in keys if isinstance(key, bytes)]
            wire.send(b"".join(pack("TTL", name) for name in names))
            found += [
                (database, name) for name, ttl in zip(names, wire.frames(len(names)), strict=True) if ttl == b":-1\r\n"
            ]
    return found

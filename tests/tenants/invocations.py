"""Commands that are offered to tenants, with their names marked: ``{s}`` is a key, and nothing else is one.

They are sent one after the other: each line finds what the lines before it have left. A pattern is marked as names are,
where its first characters are no star.
"""

import re

PREFIX = "acme:"

LINES = """
SET {s} 10
APPEND {s} 5
GET {s}
GETRANGE {s} 0 1
SUBSTR {s} 0 1
SETRANGE {s} 0 20
STRLEN {s}
INCR {s}
INCRBY {s} 2
INCRBYFLOAT {s} 1.5
SET {n} 3
DECR {n}
DECRBY {n} 2
GETSET {n} 7
SETNX {n} 8
SETEX {n} 1000 9
PSETEX {n} 100000 9
GETEX {n} EX 500
SET {n} 1 EX 100 GET
MSET {a} 1 {b} 2
MSETNX {a} 1 {c} 2
MSETEX 2 {a} 1 {b} 2 EX 100
MGET {a} {b} {none}
LCS {a} {b}
SETBIT {bits} 7 1
GETBIT {bits} 7
BITCOUNT {bits}
BITPOS {bits} 1
BITFIELD {bits} SET u8 0 7 GET u8 0
BITFIELD_RO {bits} GET u8 0
BITOP OR {bitsum} {bits} {a}
DIGEST {a}
DELEX {none}
DELIFEQ {a} other
EXISTS {a} {b} {none}
TOUCH {a} {none}
TYPE {a}
DUMP {a}
RESTORE {restored} 0 bad
COPY {a} {copy}
RENAME {copy} {moved}
RENAMENX {moved} {a}
EXPIRE {a} 1000
PEXPIRE {a} 1000000
EXPIREAT {a} 9999999999
PEXPIREAT {a} 9999999999000
EXPIRETIME {a}
PEXPIRETIME {a}
TTL {b}
PTTL {b}
PERSIST {a}
OBJECT ENCODING {a}
OBJECT FREQ {a}
OBJECT IDLETIME {a}
OBJECT REFCOUNT {n}
MEMORY USAGE {a}
GETDEL {b}
DEL {moved} {none}
UNLINK {restored} {none}
HSET {h} f 1 g 2
HSETNX {h} f 1
HMSET {h} x 1 y 2
HGET {h} f
HMGET {h} f none
HGETALL {h}
HKEYS {h}
HVALS {h}
HLEN {h}
HEXISTS {h} f
HINCRBY {h} f 2
HINCRBYFLOAT {h} f 0.5
HSTRLEN {h} f
HRANDFIELD {h} -1
HSCAN {h} 0 MATCH *
HSETEX {h} EX 1000 FIELDS 1 e 1
HGETEX {h} EX 1000 FIELDS 1 f
HEXPIRE {h} 1000 FIELDS 1 f
HPEXPIRE {h} 1000000 FIELDS 1 f
HEXPIREAT {h} 9999999999 FIELDS 1 f
HPEXPIREAT {h} 9999999999000 FIELDS 1 f
HEXPIRETIME {h} FIELDS 1 f
HPEXPIRETIME {h} FIELDS 1 f
HTTL {h} FIELDS 1 f
HPTTL {h} FIELDS 1 f
HPERSIST {h} FIELDS 1 f
HGETDEL {h} FIELDS 1 e
HDEL {h} y
RPUSH {l} 3 1 2
LPUSH {l} 4
LPUSHX {l} 5
RPUSHX {none} 5
LLEN {l}
LRANGE {l} 0 -1
LINDEX {l} 0
LINSERT {l} BEFORE 1 9
LSET {l} 0 8
LPOS {l} 1
LREM {l} 1 9
LTRIM {l} 0 10
LMOVE {l} {l2} LEFT RIGHT
RPOPLPUSH {l} {l2}
BLMOVE {l} {l2} LEFT RIGHT 1
BRPOPLPUSH {l} {l2} 1
RPUSH {l} 3 1 2 5 6 7 8
LMPOP 2 {none} {l2} LEFT COUNT 2
BLMPOP 1 2 {none} {l2} LEFT
BLPOP {none} {l} 1
BRPOP {none} {l} 1
BLPOP {none} 0.01
LPOP {l}
RPOP {l}
SORT {l} DESC
SORT {l} BY {weight}_* GET # GET {obj}_*->f GET {pay}_* LIMIT 0 5 ALPHA STORE {sorted}
SORT {l} BY {nosort} GET #
SORT {l} GET
SORT_RO {l} BY {weight}_* GET {h}
SADD {t} 1 2 3
SADD {t2} 2 3 4
SCARD {t}
SISMEMBER {t} 1
SMISMEMBER {t} 1 9
SMEMBERS {t2}
SRANDMEMBER {none}
SSCAN {t} 0
SDIFF {t} {t2}
SINTER {t} {t2}
SUNION {t} {t2}
SINTERCARD 2 {t} {t2}
SDIFFSTORE {t3} {t} {t2}
SINTERSTORE {t3} {t} {t2}
SUNIONSTORE {t3} {t} {t2}
SMOVE {t} {t2} 1
SREM {t} 2
SPOP {t}
ZADD {z} 1 a 2 b 3 c 4 d 5 e 6 f 7 g 8 h
ZADD {z2} 1 a 9 x
ZINCRBY {z} 1 a
ZCARD {z}
ZCOUNT {z} 0 5
ZLEXCOUNT {z} - +
ZSCORE {z} a
ZMSCORE {z} a none
ZRANK {z} b
ZREVRANK {z} b
ZRANGE {z} 0 -1 WITHSCORES
ZREVRANGE {z} 0 -1
ZRANGEBYSCORE {z} 0 5
ZREVRANGEBYSCORE {z} 5 0
ZRANGEBYLEX {z} - +
ZREVRANGEBYLEX {z} + -
ZRANDMEMBER {none}
ZSCAN {z} 0
ZDIFF 2 {z} {z2}
ZINTER 2 {z} {z2} WITHSCORES
ZUNION 2 {z} {z2}
ZINTERCARD 2 {z} {z2}
ZDIFFSTORE {z3} 2 {z} {z2}
ZINTERSTORE {z3} 2 {z} {z2}
ZUNIONSTORE {z3} 2 {z} {z2} WEIGHTS 1 2
ZRANGESTORE {z4} {z} 0 -1
ZMPOP 2 {none} {z4} MIN
BZMPOP 1 2 {none} {z4} MAX
BZPOPMIN {none} {z4} 1
BZPOPMAX {none} {z4} 1
ZPOPMIN {z}
ZPOPMAX {z}
ZREM {z} b
ZREMRANGEBYRANK {z3} 0 0
ZREMRANGEBYSCORE {z3} 0 1
ZREMRANGEBYLEX {z3} - [b
GEOADD {g} 13.361389 38.115556 p 15.087269 37.502669 c
GEODIST {g} p c
GEOHASH {g} p
GEOPOS {g} p
GEORADIUS {g} 15 37 200 km
GEORADIUS {g} 15 37 200 km STORE {g2}
GEORADIUS_RO {g} 15 37 200 km
GEORADIUSBYMEMBER {g} p 200 km STOREDIST {g2}
GEORADIUSBYMEMBER_RO {g} p 200 km
GEOSEARCH {g} FROMMEMBER p BYRADIUS 200 km
GEOSEARCHSTORE {g3} {g} FROMMEMBER p BYRADIUS 200 km
PFADD {p} a b
PFADD {p2} b c
PFCOUNT {p} {p2}
PFMERGE {p3} {p} {p2}
XADD {x} 1-1 f v
XADD {x} 1-2 f v
XADD {x2} 1-1 f v
XLEN {x}
XRANGE {x} - +
XREVRANGE {x} + -
XREAD COUNT 1 STREAMS {x} {x2} 0 0
XREAD BLOCK 1 STREAMS {none} 0
XGROUP CREATE {x} grp 0
XGROUP CREATE {none} grp 0
XGROUP CREATECONSUMER {x} grp me
XREADGROUP GROUP grp me COUNT 1 STREAMS {x} >
XREADGROUP GROUP nogroup me STREAMS {x} >
XREADGROUP GROUP nogroup me STREAMS {none} >
XPENDING {x} grp
XPENDING {x} nogroup
XCLAIM {x} grp you 0 1-1
XCLAIM {x} nogroup you 0 1-1
XAUTOCLAIM {x} grp me 0 0
XAUTOCLAIM {none} grp me 0 0
XINFO STREAM {x}
XINFO GROUPS {x}
XINFO CONSUMERS {x} grp
XINFO CONSUMERS {x} nogroup
XACK {x} grp 1-1
XACKDEL {x} grp IDS 1 1-1
XDELEX {x} IDS 1 9-9
XDEL {x} 1-1
XGROUP SETID {x} grp 0
XGROUP DELCONSUMER {x} grp me
XGROUP DESTROY {x} grp
XSETID {x} 1-3
XTRIM {x} MAXLEN 1
KEYS {b}*
KEYS *
SCAN 0 COUNT 1000
SCAN 0 MATCH {s}* COUNT 1000
SCAN 0 MATCH {?} COUNT 1000 TYPE string
SCAN 0 FROM 1
GET
GET {a} {b}
WATCH {a} {b}
UNWATCH
INCR {h}
PING
ECHO acme:x
SELECT 0
TIME
LASTSAVE
LOLWUT
INFO
CLIENT GETNAME
CLIENT SETNAME acme
CLIENT SETINFO LIB-NAME acme
CLIENT ID
CLIENT INFO
CLIENT GETREDIR
CLIENT TRACKINGINFO
CLIENT NO-EVICT off
CLIENT NO-TOUCH off
CLIENT CAPA redirect
CLIENT HELP
CLIENT REPLY ON
COMMAND COUNT
COMMAND GETKEYS MGET a b
COMMAND GETKEYSANDFLAGS MGET a b
COMMAND INFO get
COMMAND DOCS get
COMMAND LIST FILTERBY PATTERN xgroup*
COMMAND HELP
COMMAND
ACL WHOAMI
ACL CAT string
ACL GENPASS 8
ACL HELP
MEMORY HELP
OBJECT HELP
XGROUP HELP
XINFO HELP
WAIT 0 10
WAITAOF 0 0 10
AUTH a b
HELLO 9
RESET
MULTI
DISCARD
MULTI
EXEC
QUIT
"""

INVOCATIONS = [line.split() for line in LINES.strip().splitlines()]
MARK = re.compile(r"\{([^}]*)\}")


def sent(words: list[str], prefix: str = "") -> list[bytes]:
    """The words as a client with this prefix has them."""
    return [MARK.sub(rf"{prefix}\1", word).encode() for word in words]

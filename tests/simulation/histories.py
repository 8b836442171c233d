"""Histories of commands for a few connections to one server: what a seed makes up."""

from __future__ import annotations

import random
from collections.abc import Sequence

KEYS = ("k1", "k2", "k3", "k4")
_DATA = """
get K; set K V; set K V NX; set K V XX GET; set K V EX 100; set K V KEEPTTL; set K V PX 0; set K V GET; set K V NX XX;
set K V EX; setnx K V; setex K 100 V; psetex K 0 V; getset K V; getdel K; mget K K; mset K V K V;
mset K V K; msetnx K V K V; append K V; strlen K; incr K; decr K; incrby K I; decrby K I; set K I;
getrange K I I; getrange K -2 -1; getrange K 0 1; getex K; getex K EX 100; getex K PERSIST;
hset K F V; hset K F V F V; hset K F; hget K F; hexists K F; hmget K F F; hgetall K; hlen K; hdel K F F;
hvals K; hstrlen K F; hsetnx K F V;
lpush K V V; rpush K V V; lpushx K V; rpushx K V; lpop K; rpop K; lpop K 2; rpop K 2; lpop K -1; llen K; lrange K I I;
lrange K 0 -1; blpop K K 0.01; brpop K 0.01; blpop K -1; blpop K x;
sadd K V V; srem K V V; scard K; sismember K V; pfcount nothing;
del K K; unlink K; exists K K; touch K; type K; ttl K; expire K 100; expire K 0; expire K 100 NX; expire K 50 LT;
expire K 200 GT; expire K 100 XX; expire K 1 NX XX; expire K 1 GT LT; expire K 1 YY; expire K x; pexpire K 100000;
expireat K 1; persist K; rename K K; dbsize; flushdb; flushall; flushdb NOW; select 1; select 0; select 99; select x;
echo V; ping; ping V; ping V V; get; get K K; nosuch K V; nosuch; client nosuch; script nosuch; wait 0 0; time x
"""
_STATE = """
multi; multi; exec; exec; discard; watch K; watch K; unwatch; multi; exec; get K; set K V; incr K; lpush K V; nosuch;
blpop K 0.01; client reply off; client reply on; client reply skip; client reply x; client setname V; client getname;
client tracking on; client tracking off; client tracking on noloop; get K; get K; mget K K;
subscribe C; subscribe C C; unsubscribe C; psubscribe P; punsubscribe; ssubscribe c1; sunsubscribe;
publish C V; publish C V; spublish C V; pubsub numsub C; pubsub shardnumsub C; reset; hello 9; hello x; ping; ping V;
eval E 1 K V; eval E 1 K V; evalsha S 1 K V; evalsha 00 0; eval E 9 K; eval E -1 K; script exists S 00; script load E;
asking; readonly; cluster info; select 1; select 0; flushdb; del K; expire K 0; auth x; role x; wait 0
"""
SCRIPTS = (
    "return redis.call('SET', KEYS[1], ARGV[1])",
    "redis.call('RPUSH', KEYS[1], ARGV[1])",
    "return redis.call('LRANGE', KEYS[1], 0, -1)",
    "redis.call('DEL', KEYS[1]) redis.call('SET', KEYS[1], 'x') return redis.call('GET', KEYS[1])",
    "return 1",
    "return ARGV[1]",
)


NEW = {"NX", "GET", "LT", "GT", "XX", "YY", "eval", "shardnumsub"}
"""Words that Redis 6.2 does not know, or not behind each other, or of which it says something else."""


class History:
    """Steps: the number of a connection, and what it sends in one piece. Without MULTI, unless ``whole``: a reply is a
    frame then, whatever else a connection is about."""

    def __init__(
        self, seed: int, connections: int = 3, steps: int = 60, *, whole: bool = True, old: bool = False
    ) -> None:
        self._chance = random.Random(seed)
        lines = [line.split() for line in _DATA.split(";")] + 2 * [line.split() for line in _STATE.split(";")]
        if not whole:
            lines = [line for line in lines if line[0] != "multi"]
        if old:
            lines = [line for line in lines if not NEW & {*line} and not line[0].startswith(("ss", "su", "sp"))]
        self.steps = [
            (
                self._chance.randrange(connections),
                [self._filled(self._chance.choice(lines)) for _ in range(self._chance.choice((1, 1, 1, 2, 4)))],
            )
            for _ in range(steps)
        ]

    def _filled(self, words: Sequence[str]) -> list[str]:
        return [self._word(word) for word in words]

    def _word(self, word: str) -> str:
        pick = self._chance.choice
        match word:
            case "K":
                return pick(KEYS)
            case "V":
                return pick(("v", "w", "xyz", ""))
            case "F":
                return pick(("f", "g"))
            case "I":
                return pick(("0", "1", "-2", "7", "9223372036854775807", "x"))
            case "C":
                return pick(("c1", "c2"))
            case "P":
                return "c*"
            case "E":
                return pick(SCRIPTS)
            case "S":
                return "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"  # of "return 1"
        return pick((word, word, word.upper())) if word.isalpha() else word

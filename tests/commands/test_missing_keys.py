"""The reply to a read of a key that does not exist is told from others by its form, in both protocols."""

from __future__ import annotations

import pytest

from proxy.commands.command import Command
from proxy.commands.replica_reads import hides_absence, served_by_replicas
from proxy.commands.table import STANDARD
from proxy.wire.reply import ReplyScanner
from tests.commands.invocations import split
from tests.conftest import Fleet

LINES = """
BITCOUNT k|BITCOUNT k 0 1|BITFIELD_RO k GET u8 0 GET i4 8|BITPOS k 1|BITPOS k 0 2|DUMP k|EXISTS k|EXPIRETIME k
PEXPIRETIME k|GEODIST k a b|GEOHASH k a b|GEOPOS k a b|GEORADIUSBYMEMBER_RO k a 1 km|GEORADIUS_RO k 1 1 1 km
GEOSEARCH k FROMLONLAT 1 1 BYBOX 1 1 km WITHDIST|GET k|GETBIT k 1|GETRANGE k 0 -1|HEXISTS k a
HEXPIRETIME k FIELDS 2 a b|HPEXPIRETIME k FIELDS 2 a b|HGET k a|HGETALL k|HKEYS k|HVALS k|HLEN k|HSTRLEN k a
HMGET k a b|HPTTL k FIELDS 1 a|HTTL k FIELDS 1 a|HRANDFIELD k|HRANDFIELD k 2 WITHVALUES|LINDEX k 0|LLEN k
LRANGE k 0 -1|LPOS k a|LPOS k a COUNT 0|MGET k|PFCOUNT k|PTTL k|SCARD k|SDIFF k|SINTER k|SINTERCARD 1 k|SISMEMBER k a
SMEMBERS k|SMISMEMBER k a b|SORT_RO k|SRANDMEMBER k|SRANDMEMBER k 2|STRLEN k|SUBSTR k 0 1|SUNION k|TTL k|TYPE k|XLEN k
XPENDING k g|XRANGE k - +|XREVRANGE k + -|ZCARD k|ZCOUNT k 0 1|ZDIFF 1 k WITHSCORES|ZINTER 1 k|ZINTERCARD 1 k
ZLEXCOUNT k - +|ZMSCORE k a b|ZRANDMEMBER k|ZRANDMEMBER k 2 WITHSCORES|ZRANGE k 0 -1 WITHSCORES|ZRANGEBYLEX k - +
ZRANGEBYSCORE k 0 1|ZRANK k a|ZRANK k a WITHSCORE|ZREVRANGE k 0 1|ZREVRANGEBYLEX k + -|ZREVRANGEBYSCORE k 1 0
ZREVRANK k a|ZSCORE k a|ZUNION 1 k
"""
READS = [Command(STANDARD, split(line)) for line in LINES.strip().replace("\n", "|").split("|")]


def test_each_command_is_tried() -> None:
    served = {spec.name for spec in STANDARD.specs if served_by_replicas(spec) and not hides_absence(spec)}
    several = {"LCS", "STRALGO"}
    assert served - {command.name for command in READS} == several


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_reply_about_a_missing_key_is_known_by_its_form(fleet: Fleet, engine_name: str, protocol: int) -> None:
    engine = fleet.engine(engine_name)
    engine.do("FLUSHALL")
    with engine.wire() as wire:
        wire.ask("HELLO", protocol)
        for command in READS:
            reply = wire.ask(*command.argv)
            assert ReplyScanner().nothing_end(reply, 0, len(reply)) == len(reply), (command.argv, reply)

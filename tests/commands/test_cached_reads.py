"""A local cache keeps replies of reads that depend on their only key alone; all engines agree on their RESP2 form."""

from __future__ import annotations

import pytest

from proxy.commands.cached_reads import CACHED_READS, depends_on_whole_hash, fields_read, reply_in_resp2
from proxy.commands.command import Command
from proxy.commands.rows import ALL, ROWS
from proxy.commands.spec import Spec
from proxy.commands.table import STANDARD, ConnectionState
from tests.conftest import Fleet
from tests.engines import Engine
from tests.resp import words

VALUES = (
    "SET string hello",
    "SET number 12",
    'SETRANGE text 0 "\\r\\n$-1\\r\\n"',
    'HSET hash a 1 b "" c 3.5',
    "RPUSH list a b c a",
    "SADD set 1 2 3",
    "SADD names x y z",
    "ZADD sorted 1 a 2.5 b 3e30 c inf d -inf e 0.1 f -0 g 5e-324 h 123456789012345678 i",
    "GEOADD places 13.361389 38.115556 p 15.087269 37.502669 c",
    "XADD stream 1-1 f v g w",
    "XADD stream 1-2 f v",
)
KEYS = ("string", "number", "text", "hash", "list", "set", "names", "sorted", "places", "stream", "missing")
READS = (
    "GET",
    "STRLEN",
    "GETRANGE . 0 3",
    "SUBSTR . -2 -1",
    "GETBIT . 3",
    "BITCOUNT",
    "BITCOUNT . 0 1",
    "BITPOS . 1",
    "BITFIELD_RO . GET u8 0 GET i4 8",
    "EXISTS",
    "TYPE",
    "MGET",
    "HGET . a",
    "HGET . none",
    "HMGET . a none b",
    "HEXISTS . a",
    "HSTRLEN . c",
    "HLEN",
    "HGETALL",
    "HKEYS",
    "HVALS",
    "LRANGE . 0 -1",
    "LRANGE . 5 9",
    "LINDEX . 1",
    "LINDEX . 99",
    "LLEN",
    "LPOS . a",
    "LPOS . none",
    "LPOS . a COUNT 0",
    "LPOS . none COUNT 0",
    "SMEMBERS",
    "SCARD",
    "SISMEMBER . 1",
    "SMISMEMBER . 1 9",
    "ZRANGE . 0 -1",
    "ZRANGE . 0 -1 WITHSCORES",
    "ZRANGE . 5 2 WITHSCORES",
    "ZRANGE . (1 +inf BYSCORE WITHSCORES LIMIT 0 2",
    "ZREVRANGE . 0 -1",
    "ZREVRANGE . 0 -1 WITHSCORES",
    "ZRANGEBYSCORE . -inf +inf",
    "ZRANGEBYSCORE . -inf +inf WITHSCORES",
    "ZREVRANGEBYSCORE . +inf -inf WITHSCORES LIMIT 1 2",
    "ZRANGEBYLEX . - +",
    "ZREVRANGEBYLEX . + -",
    "ZSCORE . a",
    "ZSCORE . d",
    "ZSCORE . f",
    "ZSCORE . none",
    "ZMSCORE . a none e",
    "ZRANK . a",
    "ZRANK . none",
    "ZRANK . a WITHSCORE",
    "ZRANK . none WITHSCORE",
    "ZREVRANK . b",
    "ZREVRANK . none",
    "ZREVRANK . b WITHSCORE",
    "ZREVRANK . none WITHSCORE",
    "ZCARD",
    "ZCOUNT . 0 3",
    "ZLEXCOUNT . - +",
    "GEODIST . p c",
    "GEODIST . p none",
    "GEOHASH . p none",
    "GEOPOS . p none",
    "GEOSEARCH . FROMLONLAT 15 37 BYRADIUS 300 km ASC WITHCOORD WITHDIST WITHHASH",
    "GEOSEARCH . FROMMEMBER p BYBOX 300 300 km DESC",
    "GEORADIUS_RO . 15 37 300 km WITHDIST",
    "GEORADIUSBYMEMBER_RO . p 300 km WITHCOORD",
    "XLEN",
    "XRANGE . - +",
    "XRANGE . - + COUNT 0",
    "XREVRANGE . + - COUNT 1",
)


def reads_of(key: str) -> list[list[bytes]]:
    """The invocations for one key."""
    return [words(read.replace(" .", f" {key}", 1) if " ." in read else f"{read} {key}") for read in READS]


def why_not_cached(spec: Spec) -> str:
    """Why a local cache does not keep the replies of this command; empty if it does."""
    if spec.name in CACHED_READS:
        return ""
    row = ROWS.get(spec.name)
    if row is not None and row.not_cached:
        return row.not_cached
    if "readonly" not in spec.flags:
        return "it may change data"
    if "module" in spec.flags or row is None or row.published is not None:
        return "no engine has proved what its reply depends on"
    return "it reads no key"


def test_every_read_of_keys_is_kept_or_has_a_reason() -> None:
    reads = [spec for spec in STANDARD.specs if "readonly" in spec.flags and spec.may_have_keys]
    undecided = [spec.name for spec in reads if why_not_cached(spec) in ("it reads no key", "it may change data")]
    assert undecided == []
    assert [row.name for row in ALL if row.cached is not None and row.not_cached] == []


def test_only_reads_that_need_no_connection_state_are_kept() -> None:
    specs = [STANDARD.find(name) for name in CACHED_READS]
    assert [spec for spec in specs if spec is None or not spec.only_reads] == []
    assert {spec.state for spec in specs if spec is not None} == {ConnectionState.POOL}
    assert all(why_not_cached(spec) for spec in STANDARD.specs if not spec.only_reads)


def test_every_kept_read_is_tried() -> None:
    tried = {Command(STANDARD, argv).spec.name for argv in reads_of("string")}
    assert tried == CACHED_READS.keys()


def test_a_kept_read_has_one_key_which_is_its_first_argument() -> None:
    for argv in reads_of("hash"):
        assert [(key.index, key.write) for key in Command(STANDARD, argv).keys] == [(1, False)], argv


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("HGET h a", [b"a"]),
        ("HMGET h a b a", [b"a", b"b", b"a"]),
        ("HEXISTS h a", [b"a"]),
        ("GET k", []),
        ("HLEN h", []),
    ],
)
def test_fields_that_a_reply_depends_on(line: str, fields: list[bytes]) -> None:
    argv = words(line)
    read = CACHED_READS[argv[0].decode()]
    assert list(fields_read(read, argv)) == fields
    assert depends_on_whole_hash(read) is (line == "HLEN h")


def test_every_read_of_a_hash_says_which_fields_it_depends_on() -> None:
    reads = {name for name in CACHED_READS if (spec := STANDARD.find(name)) and "hash" in spec.categories}
    assert {name for name in reads if not CACHED_READS[name].fields} == set()


@pytest.fixture
def engine(fleet: Fleet, engine_name: str) -> Engine:
    engine = fleet.engine(engine_name)
    engine.do("FLUSHALL")
    for line in VALUES:
        engine.do(*words(line))
    return engine


def test_every_reply_of_resp3_becomes_that_of_resp2(engine: Engine) -> None:
    with engine.wire(2) as resp2, engine.wire(3) as resp3:
        for key in KEYS:
            for argv in reads_of(key):
                read = CACHED_READS[argv[0].decode()]
                assert reply_in_resp2(read, len(argv), resp3.ask(*argv)) == resp2.ask(*argv), argv

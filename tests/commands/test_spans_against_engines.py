"""No engine answers a read with more than its arguments ask for, and an endless span gets all elements; a write at an
offset makes a string as long as ``values`` says."""

import pytest

from proxy.commands.command import Command
from proxy.commands.spans import ENDLESS, elements_asked, scan_count, scan_pattern
from proxy.commands.table import STANDARD
from proxy.commands.values import values_of
from tests.conftest import Fleet
from tests.engines import Engine
from tests.resp import Failure, words

MEMBERS = 40
READS = (
    "LRANGE l 0 9",
    "LRANGE l 0 -1",
    "LRANGE l -7 -1",
    "LRANGE l -7 38",
    "LRANGE l -300 2",
    "LRANGE l 5 2",
    "LRANGE l 0 1 2",
    "ZRANGE z 0 9",
    "ZRANGE z 0 9 REV",
    "ZRANGE z 0 100 BYSCORE",
    "ZRANGE z 0 100 BYSCORE LIMIT 3 7",
    "ZRANGE z 0 100 LIMIT 3 7 BYSCORE LIMIT 0 9",
    "ZRANGE z 0 100 BYSCORE LIMIT 0 -1",
    "ZRANGE z 0 9 LIMIT 0 5",
    "ZREVRANGE z 0 4",
    "ZRANGEBYSCORE z -inf +inf",
    "ZRANGEBYSCORE z -inf +inf LIMIT 0 5 LIMIT 1 6",
    "ZREVRANGEBYLEX z + - LIMIT 0 3",
    "XRANGE x - +",
    "XRANGE x - + COUNT 5",
    "XRANGE x - + COUNT 5 COUNT 6",
    "XRANGE x - + COUNT 0",
    "XRANGE x - + COUNT -5",
    "XRANGE x 1-1 1-1",
    "XREVRANGE x + - COUNT 5",
    "GEOSEARCH g FROMLONLAT 1 1 BYRADIUS 9999 km",
    "GEOSEARCH g FROMMEMBER m1 BYRADIUS 9999 km COUNT 3",
    "GEOSEARCH g FROMMEMBER m1 COUNT 4 BYRADIUS 9999 km COUNT 3",
    "GEORADIUS g 1 1 9999 km COUNT 6",
    "GEORADIUSBYMEMBER_RO g m1 9999 km",
    "SRANDMEMBER s 7",
    "SRANDMEMBER s -70",
    "HRANDFIELD h 7",
    "ZRANDMEMBER z -70",
    "LPOS l same COUNT 0",
    "LPOS l same COUNT 3",
    "LPOS l same COUNT 3 COUNT 4",
    "SORT s ALPHA",
    "SORT s ALPHA LIMIT 0 5",
    "SORT s ALPHA LIMIT 0 5 LIMIT 2 6",
    "SORT s ALPHA LIMIT 0 -1",
    "SORT s BY LIMIT ALPHA",
    "XPENDING x g - + 3",
)
OFFSETS = (
    "SETRANGE b 100 abc",
    'SETRANGE b 100 ""',
    "SETBIT b 801 1",
    "BITFIELD b SET u8 900 1",
    "BITFIELD b SET u8 #100 1",
    "BITFIELD b GET u8 #900 INCRBY i5 #200 3 OVERFLOW FAIL SET u16 2000 1",
)


@pytest.fixture
def engine(fleet: Fleet, engine_name: str) -> Engine:
    engine = fleet.engine(engine_name)
    engine.do("FLUSHALL")
    return engine


def fill(engine: Engine) -> None:
    names = [f"m{i}" for i in range(MEMBERS)]
    engine.do("RPUSH", "l", *["same"] * MEMBERS)
    engine.do("SADD", "s", *names)
    engine.do("HSET", "h", *[word for name in names for word in (name, "1")])
    engine.do("ZADD", "z", *[word for i, name in enumerate(names) for word in (str(i), name)])
    engine.do("GEOADD", "g", *[word for i, name in enumerate(names) for word in (str(i / 100), "1", name)])
    for i in range(MEMBERS):
        engine.do("XADD", "x", f"{i + 1}-1", "f", "v")
    engine.do("XGROUP", "CREATE", "x", "g", "0")
    engine.do("XREADGROUP", "GROUP", "g", "c", "STREAMS", "x", ">")


def test_no_read_gets_more_than_it_asks_for(engine: Engine) -> None:
    fill(engine)
    with engine.wire() as wire:
        for line in READS:
            reply = wire.value(*words(line))
            got = len(reply) if isinstance(reply, list) else 0
            asked = elements_asked(Command(STANDARD, words(line)))
            assert asked is not None
            assert got <= asked, line
            assert isinstance(reply, Failure) or (asked == ENDLESS) == (got == MEMBERS), line


def test_a_stream_tells_as_many_entries_as_it_is_asked_for(engine: Engine) -> None:
    fill(engine)
    for line in ("XINFO STREAM x FULL", "XINFO STREAM x FULL COUNT 7", "XINFO STREAM x FULL COUNT 0"):
        reply = engine.do(*words(line))
        assert isinstance(reply, list)
        told = dict(zip(reply[::2], reply[1::2], strict=True))[b"entries"]
        assert isinstance(told, list)
        asked = elements_asked(Command(STANDARD, words(line)))
        assert asked is not None
        assert len(told) == min(asked, MEMBERS), line


def test_a_walk_has_the_count_and_the_pattern_that_the_engine_takes(engine: Engine) -> None:
    """NOVALUES and NOSCORES stand alone among options in pairs; where an engine lacks them, it refuses the command."""
    engine.do("HSET", "h", *[word for i in range(2000) for word in (f"f{i}", "1")])
    engine.do("ZADD", "z", *[word for i in range(2000) for word in (str(i), f"m{i}")])
    for line in (
        "HSCAN h 0 COUNT 5 NOVALUES COUNT 900",
        "HSCAN h 0 NOVALUES COUNT 900 MATCH f1*",
        "ZSCAN z 0 NOSCORES COUNT 900",
        "ZSCAN z 0 COUNT 900 NOSCORES MATCH m1* COUNT 700",
    ):
        command = Command(STANDARD, words(line))
        count, pattern = scan_count(command), scan_pattern(command)
        assert count is not None
        assert count[0] in (700, 900)
        assert (command.argv[pattern] in (b"f1*", b"m1*")) is ("MATCH" in line)
        with engine.wire() as wire:
            reply = wire.value(*words(line))
        if isinstance(reply, Failure):
            assert not engine.kind.is_valkey, line
            continue
        assert isinstance(reply, list)
        assert isinstance(reply[1], list)
        assert len(reply[1]) > 100, line


def test_a_write_at_an_offset_is_as_long_as_it_is_said_to_be(engine: Engine) -> None:
    for line in OFFSETS:
        engine.do("DEL", "b")
        engine.do(*words(line))
        values = values_of(Command(STANDARD, words(line)))
        assert engine.do("STRLEN", "b") == max((value.length for value in values), default=0), line

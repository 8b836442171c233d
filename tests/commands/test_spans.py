"""How many elements a read asks for, from its arguments alone; arguments that Redis refuses ask for nothing."""

import pytest

from proxy.commands.spans import ENDLESS, bytes_asked, elements_asked, scan_count
from proxy.commands.whole_collection_commands import measured_keys
from tests.rules.given import command

ASKED = [
    ("LRANGE k 0 9", 10),
    ("LRANGE k 5 2", 0),
    ("LRANGE k 0 -1", ENDLESS),
    ("LRANGE k 10 -10", ENDLESS),
    ("LRANGE k -10 -1", 10),
    ("LRANGE k -10 4", 5),
    ("LRANGE k -3 100", 3),
    ("LRANGE k 0 x", 0),
    ("LRANGE k 0", 0),
    ("ZRANGE k 0 9 WITHSCORES", 10),
    ("ZRANGE k 0 -1 REV", ENDLESS),
    ("ZRANGE k 0 100 BYSCORE", ENDLESS),
    ("ZRANGE k 0 100 BYSCORE LIMIT 0 7", 7),
    ("ZRANGE k - + bylex limit 0 7 LIMIT 0 8", 8),
    ("ZRANGE k 0 100 BYSCORE LIMIT 0 -1", ENDLESS),
    ("ZRANGESTORE d k 0 9", 10),
    ("ZRANGESTORE d k 0 9 BYSCORE", ENDLESS),
    ("ZREVRANGE k 0 -1", ENDLESS),
    ("ZRANGEBYSCORE k -inf +inf", ENDLESS),
    ("ZRANGEBYSCORE k 0 1 WITHSCORES LIMIT 10 20", 20),
    ("ZREVRANGEBYLEX k + - LIMIT 0 3", 3),
    ("XRANGE k - +", ENDLESS),
    ("XRANGE k - + COUNT 5", 5),
    ("XRANGE k - + COUNT 5 COUNT 6", 6),
    ("XRANGE k 1-1 1-1", 1),
    ("XRANGE k 1 1", ENDLESS),
    ("XREVRANGE k + - COUNT 5", 5),
    ("XREAD STREAMS a 0", ENDLESS),
    ("XREAD COUNT 5 STREAMS a b 0 0", 10),
    ("XREAD COUNT 0 STREAMS a 0", ENDLESS),
    ("XREAD COUNT 5 BLOCK 100 COUNT 7 STREAMS a 0", 7),
    ("XREAD BLOCK 0 STREAMS a b $ $", 2),
    ("XREADGROUP GROUP g COUNT COUNT 3 STREAMS a >", 3),
    ("XREADGROUP GROUP g c STREAMS a >", ENDLESS),
    ("XPENDING k g", 0),
    ("XINFO STREAM k", 2),
    ("XINFO STREAM k FULL", 10),
    ("XINFO STREAM k FULL COUNT 50", 50),
    ("XINFO STREAM k full count 0", ENDLESS),
    ("XINFO STREAM k FULL COUNT -5", 10),
    ("XPENDING k g IDLE 5 - + 50", 50),
    ("XPENDING k g - + 50 c", 50),
    ("XAUTOCLAIM k g c 0 0", 100),
    ("XAUTOCLAIM k g c 0 0 COUNT 7", 7),
    ("GEOSEARCH k FROMLONLAT 1 1 BYRADIUS 1 km ASC", ENDLESS),
    ("GEOSEARCH k FROMMEMBER COUNT BYBOX 1 1 km COUNT 3 ANY", 3),
    ("GEORADIUS k 1 1 1 km", ENDLESS),
    ("GEORADIUSBYMEMBER k COUNT 5 km WITHDIST COUNT 4", 4),
    ("GEOSEARCHSTORE d k FROMMEMBER m BYRADIUS 1 km COUNT 9 STOREDIST", 9),
    ("SRANDMEMBER k", 1),
    ("SRANDMEMBER k -500", 500),
    ("HRANDFIELD k 5 WITHVALUES", 5),
    ("SPOP k 1000", 1000),
    ("LPOP k", 1),
    ("ZPOPMIN k 5", 5),
    ("LMPOP 2 a b LEFT COUNT 50", 50),
    ("BZMPOP 0 1 a MIN", 1),
    ("LPOS k e", 1),
    ("LPOS k e COUNT 0", ENDLESS),
    ("LPOS k e RANK 1 COUNT 3 MAXLEN 1000", 3),
    ("SORT k BY LIMIT", ENDLESS),
    ("SORT k BY LIMIT GET # LIMIT 0 10", 10),
]


@pytest.mark.parametrize(("text", "asked"), ASKED)
def test_elements(text: str, asked: int) -> None:
    assert elements_asked(command(text)) == asked


def test_other_commands_ask_for_no_span() -> None:
    assert elements_asked(command("GET k")) is None
    assert bytes_asked(command("LRANGE k 0 1")) is None


def test_parts_of_strings() -> None:
    assert bytes_asked(command("GETRANGE k 0 99")) == 100
    assert bytes_asked(command("SUBSTR k 0 -1")) == ENDLESS
    assert bytes_asked(command("GETRANGE k 0")) == 0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SCAN 0", None),
        ("SCAN 0 COUNT 50", (50, 3)),
        ("SCAN 0 MATCH COUNT COUNT 50", (50, 5)),
        ("SCAN 0 count 50 MATCH x COUNT 60", (60, 7)),
        ("HSCAN k 0 NOVALUES COUNT 50", (50, 5)),
        ("SSCAN k 0 COUNT x", None),
        ("SCAN 0 COUNT", None),
    ],
)
def test_counts_of_walks(text: str, found: tuple[int, int] | None) -> None:
    assert scan_count(command(text)) == found


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("HGETALL k", [b"k"]),
        ("SUNION a b", [b"a", b"b"]),
        ("SINTERSTORE d a b", [b"a", b"b"]),
        ("ZUNION 2 a b WITHSCORES", [b"a", b"b"]),
        ("LRANGE k 0 -1", [b"k"]),
        ("LRANGE k 0 9", []),
        ("XRANGE k - +", [b"k"]),
        ("XRANGE k - + COUNT 5", []),
    ],
)
def test_collections_that_are_read_as_a_whole(text: str, keys: list[bytes]) -> None:
    assert measured_keys(command(text)) == keys

"""The first line of a reply has no more elements than the rule `replies` says that the command can have, in RESP2 and
RESP3, on each engine: such commands pass without a look at their replies."""

from __future__ import annotations

import pytest

from proxy.rules.replies.rule import LARGE_READS, Replies, RepliesSettings
from proxy.rules.verdict import PASS
from tests.conftest import Fleet
from tests.engines import Engine
from tests.resp import words
from tests.rules.given import command, context

MANY = 60
READS = (
    "MGET s1",
    "MGET s1 s1 nosuch s2",
    "HMGET h f1",
    "HMGET h f1 f1 nosuch f2 f3",
    "XREAD STREAMS x 0",
    "XREAD COUNT 50 STREAMS x y x 0 0 0",
    "XREAD BLOCK 1 STREAMS x y 0 0",
    "XREADGROUP GROUP g c STREAMS x >",
    "XREADGROUP GROUP g c COUNT 9 NOACK STREAMS x y 0 >",
    "LMPOP 2 nosuch l LEFT COUNT 50",
    "BLMPOP 1 1 l RIGHT COUNT 9",
    "ZMPOP 1 z MIN COUNT 50",
    "BZMPOP 1 2 nosuch z MAX COUNT 9",
    "XAUTOCLAIM x g c 0 0 COUNT 50",
    "ZRANGESTORE d z 0 -1",
    "GEOSEARCHSTORE d geo FROMLONLAT 1 1 BYRADIUS 9999 km",
)


def looked_at(line: str, most: int) -> bool:
    """Whether the rule with this limit looks at the reply to the command."""
    rule = Replies("large", RepliesSettings(most))
    return rule.judge(command(line), context()) is not PASS


@pytest.mark.parametrize("protocol", [2, 3])
def test_what_passes_unseen_has_no_larger_reply(engine_name: str, fleet: Fleet, protocol: int) -> None:
    engine = fleet.engine(engine_name)
    fill(engine)
    seen = set()
    for line in READS:
        assert words(line)[0].decode() in LARGE_READS
        with engine.wire(protocol) as wire:
            first = wire.ask(*words(line)).partition(b"\r\n")[0]
        if first.startswith(b"-"):
            continue  # this engine has no such command
        seen.add(first[:1])
        elements = int(first[1:]) * (2 if first[:1] == b"%" else 1) if first[:1] in b"*%~" else 0
        assert all(looked_at(line, most) for most in range(elements)), line
        assert not looked_at(line, 20), line
    assert seen >= ({b"*", b":"} if protocol == 2 else {b"*", b":", b"%"})


def fill(engine: Engine) -> None:
    """Every key that READS name has many elements, but for `nosuch`."""
    engine.do("FLUSHALL")
    engine.do("RPUSH", "l", *range(MANY))
    engine.do("ZADD", "z", *[word for each in range(MANY) for word in (each, f"m{each}")])
    engine.do("HSET", "h", *[word for each in range(MANY) for word in (f"f{each}", each)])
    engine.do("GEOADD", "geo", *[word for each in range(MANY) for word in (1, 1, f"m{each}")])
    engine.do("MSET", "s1", "v", "s2", "v")
    for stream in ("x", "y"):
        for _ in range(MANY):
            engine.do("XADD", stream, "*", "f", "v")
        engine.do("XGROUP", "CREATE", stream, "g", 0)
    engine.do("XREADGROUP", "GROUP", "g", "c", "COUNT", MANY // 2, "STREAMS", "x", ">")

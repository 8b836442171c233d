"""Commands that ask for too much: spans (`ranges`), steps of walks (`scan_counts`), keys (`fan_out`), whole
collections. The limit itself passes, one more does not."""

import pytest

from proxy.rules.fan_out.rule import FanOutSettings
from proxy.rules.ranges.rule import RangesSettings
from proxy.rules.replies.rule import Replies, RepliesSettings
from proxy.rules.rule import Wording
from proxy.rules.scan_counts.rule import ScanCountsSettings
from proxy.rules.verdict import PASS, InspectReply, Refuse, Rewrite
from proxy.rules.whole_collections.rule import WholeCollections, WholeCollectionsSettings
from tests.rules.given import BINDING, NO_WORDS, command, context, spec

TEN = RangesSettings(10, bytes=20).bind("short", NO_WORDS, BINDING)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "LRANGE k 0 10",
            b"LRANGE asks for up to 11 elements of the key 'k' (argument 1 of LRANGE), 1 more than",
        ),
        (
            "ZRANGE k 0 -1",
            b"ZRANGE asks for all elements of the key 'k' (argument 1 of ZRANGE), and the limit is",
        ),
        ("XRANGE k - +", b"XRANGE asks for all elements of the key"),
        (
            "SUBSTR k 0 20",
            b"SUBSTR asks for up to 21 bytes of the key 'k' (argument 1 of SUBSTR), 1 more than",
        ),
    ],
)
def test_a_long_span_is_refused(text: str, why: bytes) -> None:
    verdict = TEN.judge(command(text), context())
    assert isinstance(verdict, Refuse)
    assert verdict.error.startswith(b"-DENIED keyrail/short: " + why)


@pytest.mark.parametrize(
    "text", ["LRANGE k 0 9", "ZRANGE k -10 -1", "XRANGE k - + COUNT 10", "GETRANGE k 0 19", "LRANGE k"]
)
def test_a_short_span_passes(text: str) -> None:
    assert TEN.judge(command(text), context()) is PASS


def test_spans_without_an_end_may_be_left_to_another_rule() -> None:
    rule = RangesSettings(10, endless=True).bind("short", NO_WORDS, BINDING)
    assert rule.judge(command("LRANGE k 0 -1"), context()) is PASS
    assert isinstance(rule.judge(command("LRANGE k 0 10"), context()), Refuse)
    assert not rule.touches(spec("GETRANGE"))


def test_large_steps_of_a_walk_are_refused_or_lowered() -> None:
    refusing = ScanCountsSettings(100).bind("steps", Wording("others wait"), BINDING)
    assert refusing.judge(command("SCAN 0 COUNT 100"), context()) is PASS
    assert refusing.judge(command("SCAN 0"), context()) is PASS
    assert refusing.judge(command("HSCAN k 0 COUNT 101"), context()) == Refuse(
        b"-DENIED keyrail/steps: the COUNT of HSCAN (argument 4) is 101, 1 more than the limit of 100, "
        b"and others wait; walk in steps of COUNT 100 or less\r\n"
    )
    lowering = ScanCountsSettings(100, lower=True).bind("steps", NO_WORDS, BINDING)
    verdict = lowering.judge(command("SCAN 0 COUNT 5000 MATCH count"), context())
    assert isinstance(verdict, Rewrite)
    assert verdict.argv == command("SCAN 0 COUNT 100 MATCH count").argv


def test_many_keys_are_refused() -> None:
    rule = FanOutSettings(2).bind("few", NO_WORDS, BINDING)
    assert rule.judge(command("MGET a b"), context()) is PASS
    assert rule.judge(command("MSET a 1 b 2"), context()) is PASS
    assert rule.judge(command("UNLINK a b c"), context()) == Refuse(
        b"-DENIED keyrail/few: UNLINK names 3 keys, 1 more than the limit of 2; send it in pieces of at most 2 keys\r\n"
    )
    for text in ("MSET a 1 b 2 c 3", "EVAL x 3 a b c", "ZUNION 3 a b c", "SUNIONSTORE d a b", "PFMERGE a b c"):
        assert isinstance(rule.judge(command(text), context()), Refuse), text
    assert not rule.touches(spec("GET"))
    assert not rule.touches(spec("RENAME"))
    assert FanOutSettings(1).bind("few", NO_WORDS, BINDING).touches(spec("RENAME"))


@pytest.mark.parametrize(
    ("line", "noticed"),
    [
        (b"*10\r\n", ""),
        (b"*11\r\n", "the reply has 11 elements, 1 more than the limit of 10"),
        (b"~11\r\n", "the reply has 11 elements, 1 more than the limit of 10"),
        (b"%5\r\n", ""),
        (b"%6\r\n", "the reply has 12 elements, 2 more than the limit of 10"),
        (b"$100\r\n", ""),
        (b"$101\r\n", "the reply has 101 bytes, 1 more than the limit of 100"),
        (b"=101\r\n", "the reply has 101 bytes, 1 more than the limit of 100"),
        (b"*-1\r\n", ""),
        (b"_\r\n", ""),
        (b":1000\r\n", ""),
        (b"+QUEUED\r\n", ""),
    ],
)
def test_large_replies_are_noticed(line: bytes, noticed: str) -> None:
    verdict = Replies("large", RepliesSettings(10, 100)).judge(command("HGETALL k"), context())
    assert isinstance(verdict, InspectReply)
    assert verdict.at(line) == noticed


def test_only_commands_that_can_be_answered_by_much_are_looked_at() -> None:
    rule = Replies("large", RepliesSettings(10))
    for name in ("HGETALL", "LRANGE", "MGET", "KEYS", "XREAD", "GETRANGE"):
        assert rule.touches(spec(name)), name
    assert not rule.touches(spec("GET"))
    assert Replies("large", RepliesSettings(10, None, ("GET",))).touches(spec("GET"))


def test_whole_collections_are_refused() -> None:
    rule = WholeCollections("no-wholes", WholeCollectionsSettings(), NO_WORDS, BINDING)
    assert rule.judge(command("HGETALL k"), context()) == Refuse(
        b"-DENIED keyrail/no-wholes: HGETALL reads all members of the key 'k' (argument 1 of HGETALL); "
        b"walk it with HSCAN, or read the fields that you need with HMGET\r\n"
    )
    assert isinstance(rule.judge(command("LRANGE k 0 -1"), context()), Refuse)
    assert rule.judge(command("LRANGE k 0 9"), context()) is PASS
    assert not rule.touches(spec("SUNIONSTORE"))
    other = WholeCollections("no-wholes", WholeCollectionsSettings(("SMEMBERS",)), NO_WORDS, BINDING)
    assert not other.touches(spec("HGETALL"))

"""What one write may bring: values, members, whole commands; the limit itself passes, one more does not."""

import pytest

from proxy.rules.rule import Wording
from proxy.rules.sizes import Sizes, SizesSettings
from proxy.rules.verdict import PASS, Refuse
from tests.rules.given import NO_WORDS, command, context, spec, streamed


def sizes(wording: Wording = NO_WORDS, **settings: int) -> Sizes:
    return Sizes("small", SizesSettings(**settings), wording)


def test_the_error_says_what_is_too_large() -> None:
    assert sizes(value=3).judge(command("SET k abcd"), context()) == Refuse(
        b"-DENIED keyrail/small: the value in argument 2 has 4 bytes, and 3 is the most; "
        b"keep it small: compress it, or split it over several keys\r\n"
    )
    assert sizes(value=100).judge(command("SETRANGE k 100 a"), context()) == Refuse(
        b"-DENIED keyrail/small: the write at an offset makes 101 bytes, and 100 is the most; "
        b"keep it small: compress it, or split it over several keys\r\n"
    )
    assert sizes(members=2).judge(command("RPUSH k a b c"), context()) == Refuse(
        b"-DENIED keyrail/small: 3 members are written at once, and 2 is the most; "
        b"write them in batches of at most 2\r\n"
    )
    said = sizes(Wording("it hurts", "do less"), command=7).judge(command("MGET a b c d"), context())
    assert said == Refuse(
        b"-DENIED keyrail/small: the command has 8 bytes of arguments, and 7 is the most, and it hurts; do less\r\n"
    )


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("SET k abc", SizesSettings(value=3)),
        ("GET a-long-key", SizesSettings(value=3)),
        ("RPUSH k a b", SizesSettings(members=2)),
        ("MSET a 1 b 2 c 3", SizesSettings(members=2)),
        ("MGET a b c d", SizesSettings(command=8)),
    ],
)
def test_what_is_not_too_large_passes(text: str, settings: SizesSettings) -> None:
    assert Sizes("small", settings, NO_WORDS).judge(command(text), context()) is PASS


@pytest.mark.parametrize(
    "text", ["SET k abcd", "HSET k abcd 1", "HSET k f abcd", "MSET a 1 b abcd", "SADD k abcd", "XADD k * f abcd"]
)
def test_every_value_is_looked_at(text: str) -> None:
    assert isinstance(sizes(value=3).judge(command(text), context()), Refuse)


def test_a_streamed_value_is_judged_by_its_announced_length() -> None:
    for rule in (sizes(value=1 << 20), sizes(command=1 << 20)):
        verdict = rule.judge(streamed([b"SET", b"k", b""], 2, 1 << 21), context())
        assert isinstance(verdict, Refuse)
        assert b"%d" % (1 << 21) in verdict.error or b"bytes of arguments" in verdict.error


def test_what_it_touches() -> None:
    assert sizes(value=1).touches(spec("SET"))
    assert not sizes(value=1).touches(spec("GET"))
    assert sizes(command=1).touches(spec("GET"))
    assert not sizes(command=1).touches(spec("MULTI"))

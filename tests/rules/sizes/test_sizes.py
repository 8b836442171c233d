"""The limits of one write: values, members, whole commands; the limit itself passes, one more does not."""

import pytest

from proxy.rules.lowering import Lowering
from proxy.rules.rule import Wording
from proxy.rules.sizes.rule import Sizes, SizesSettings
from proxy.rules.verdict import PASS, Refuse
from tests.rules.given import BINDING, NO_WORDS, command, context, spec, streamed


def sizes(wording: Wording = NO_WORDS, **settings: int) -> Sizes:
    return SizesSettings(**settings).bind("small", wording, BINDING)


def test_the_error_says_what_is_too_large() -> None:
    assert sizes(value=3).judge(command("SET k abcd"), context()) == Refuse(
        b"-DENIED keyrail/small: the value in argument 2, for the key 'k' (argument 1 of SET), has 4 bytes, "
        b"1 more than the limit of 3; "
        b"keep it small: compress it, or split it over several keys\r\n"
    )
    assert sizes(value=100).judge(command("SETRANGE k 100 a"), context()) == Refuse(
        b"-DENIED keyrail/small: the write at an offset makes 101 bytes of the key 'k' (argument 1 of SETRANGE), "
        b"1 more than the limit of 100; "
        b"keep it small: compress it, or split it over several keys\r\n"
    )
    assert sizes(members=2).judge(command("RPUSH k a b c"), context()) == Refuse(
        b"-DENIED keyrail/small: the command writes 3 members to the key 'k' (argument 1 of RPUSH), "
        b"1 more than the limit of 2; write them in batches of at most 2\r\n"
    )
    said = sizes(Wording("it hurts", "do less"), command=7).judge(command("MGET a b c d"), context())
    assert said == Refuse(
        b"-DENIED keyrail/small: MGET has 8 bytes of arguments, 1 more than the limit of 7, and it hurts; do less\r\n"
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
    assert settings.bind("small", NO_WORDS, BINDING).judge(command(text), context()) is PASS


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


UNPACKS_FAR = b"\x00\xc3\x0a\x80\x00\xa0\x00\x00" + b"\x00" * 20
"""A string of ten bytes that says that it unpacks to 10 MB."""
HAS_MANY = b"\x02\x80\x00\x0f\x42\x40" + b"\x00" * 10
"""A set of a million members."""


def test_a_payload_counts_for_what_it_unpacks_to() -> None:
    for text, payload, settings, fault in (
        ("RESTORE k 0", UNPACKS_FAR, SizesSettings(value=1 << 20), "unpacks to up to 10485760 bytes"),
        ("RESTORE-ASKING k 0", UNPACKS_FAR, SizesSettings(value=1 << 20), "unpacks to up to 10485760"),
        ("RESTORE k 0", HAS_MANY, SizesSettings(members=100), "the command writes 1000000 members"),
        ("RESTORE k 0", b"\x07" + b"x" * 99, SizesSettings(value=5000), "unpacks to up to 8800 bytes"),
    ):
        rule = settings.bind("sizes", NO_WORDS, BINDING)
        verdict = rule.judge(command(text, payload), context())
        assert isinstance(verdict, Refuse)
        assert fault.encode() in verdict.error
        lowering = Lowering(spec("RESTORE"))
        rule.lower(spec("RESTORE"), lowering)
        assert lowering.settled, "a plan does not read payloads"
    small = SizesSettings(value=1 << 20, members=100, command=1 << 20).bind("sizes", NO_WORDS, BINDING)
    assert small.judge(command("RESTORE k 0", b"\x00\x03abc" + b"\x00" * 10), context()) == PASS
    assert isinstance(small.judge(streamed([b"RESTORE", b"k", b"0", b""], 3, 1 << 19), context()), Refuse)
    assert small.judge(command("RESTORE k 0"), context()) == PASS, "Redis refuses it"

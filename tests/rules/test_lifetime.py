"""A string that is written without a TTL gets one inside the command that writes it, and the application sees the
reply that it expects. What says something about its TTL is left alone; what is not understood is left alone and
counted."""

import pytest

from proxy.rules.lifetime import Lifetime, LifetimeSettings
from proxy.rules.rule import Binding, Wording
from proxy.rules.verdict import PASS, Pass, Refuse, Rewrite, Verdict
from tests.rules.given import BINDING, NO_WORDS, command, context, spec, streamed


def lifetime(jitter: float = 0.0, available: frozenset[str] | None = None, wording: Wording = NO_WORDS) -> Lifetime:
    binding = Binding(BINDING.table, available)
    return Lifetime("lifetimes", LifetimeSettings(300, jitter), wording, binding)


def judged(text: str) -> Verdict:
    return lifetime().judge(command(text), context())


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("SET k v", "SET k v EX 300"),
        ("set k v", "set k v EX 300"),
        ("SET k v NX", "SET k v NX EX 300"),
        ("SET k v xx get", "SET k v xx get EX 300"),
        ("SET k EX", "SET k EX EX 300"),
        ("SET EX KEEPTTL", "SET EX KEEPTTL EX 300"),
        ("SET k v IFEQ EX", "SET k v IFEQ EX EX 300"),
        ("GETSET k v", "SET k v EX 300 GET"),
    ],
)
def test_a_write_without_a_ttl_gets_one(text: str, becomes: str) -> None:
    assert judged(text) == Rewrite(becomes.encode().split(), None)


@pytest.mark.parametrize(
    "text",
    [
        "SET k v EX 5",
        "SET k v px 5",
        "SET k v NX eXaT 5",
        "SET k v GET PXAT 5",
        "SET k v KEEPTTL",
        "SET k v IFEQ x EX 5",
        "SET k v EX",
    ],
)
def test_a_write_that_speaks_of_its_ttl_is_left_alone(text: str) -> None:
    assert judged(text) == PASS


@pytest.mark.parametrize("text", ["SET", "SET k", "SETNX k", "SETNX k v x", "GETSET k", "GETSET k v x"])
def test_what_redis_will_refuse_is_left_to_redis(text: str) -> None:
    assert judged(text) == PASS


@pytest.mark.parametrize("text", ["SET k v FROB", "SET k v NX FROB EX 5", "SET k v GET 12"])
def test_an_unknown_option_is_skipped(text: str) -> None:
    verdict = judged(text)
    assert isinstance(verdict, Pass)
    assert verdict.skipped


def test_setnx_answers_as_setnx_does() -> None:
    verdict = judged("setnx k v")
    assert isinstance(verdict, Rewrite)
    assert verdict.argv == [b"SET", b"k", b"v", b"NX", b"EX", b"300"]
    assert verdict.edit is not None
    assert verdict.edit(b"+OK\r\n") == b":1\r\n"
    assert verdict.edit(b"$-1\r\n") == b":0\r\n"
    assert verdict.edit(b"_\r\n") == b":0\r\n"
    for other in (b"-OOM command not allowed\r\n", b"+QUEUED\r\n"):
        assert verdict.edit(other) == other


def test_what_set_replaces_needs_set() -> None:
    assert lifetime().needs == {"SET"}
    rule = lifetime(available=frozenset())
    for text in ("SETNX k v", "GETSET k v"):
        verdict = rule.judge(command(text), context())
        assert isinstance(verdict, Pass)
        assert "SET" in verdict.skipped
    assert isinstance(rule.judge(command("SET k v"), context()), Rewrite)


def test_a_streamed_value_keeps_its_place() -> None:
    verdict = lifetime().judge(streamed([b"SET", b"k", b""], 2, 2**28), context())
    assert verdict == Rewrite([b"SET", b"k", b"", b"EX", b"300"])
    verdict = lifetime().judge(streamed([b"SETNX", b"k", b""], 2, 2**28), context())
    assert isinstance(verdict, Rewrite)
    assert verdict.argv[2] == b""


def test_behind_a_streamed_value_nothing_can_be_added() -> None:
    verdict = lifetime().judge(streamed([b"SET", b"k", b"", b"NX"], 2, 2**28), context())
    assert verdict == Refuse(
        b"-DENIED keyrail/lifetimes: the value is too large for a TTL to be added behind its options; "
        b"write it with EX\r\n"
    )
    assert lifetime().judge(streamed([b"SET", b"k", b"", b"EX", b"5"], 2, 2**28), context()) == PASS
    worded = lifetime(wording=Wording("all of it expires", "send PX"))
    verdict = worded.judge(streamed([b"SET", b"k", b"", b"NX"], 2, 2**28), context())
    assert isinstance(verdict, Refuse)
    assert verdict.error.endswith(b"options, and all of it expires; send PX\r\n")


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 270), (0.5, 300), (0.9999999, 330)])
def test_jitter_is_even_around_the_default(chance: float, seconds: int) -> None:
    verdict = lifetime(0.1).judge(command("SET k v"), context(chance))
    assert isinstance(verdict, Rewrite)
    assert verdict.argv[-1] == b"%d" % seconds


def test_a_lifetime_is_never_less_than_a_second() -> None:
    assert LifetimeSettings(1, 0.9).seconds(0.0) == 1


def test_it_touches_what_writes_strings_without_a_ttl() -> None:
    assert [name for name in ("SET", "SETNX", "GETSET", "SETEX", "GET", "INCR") if lifetime().touches(spec(name))] == [
        "SET",
        "SETNX",
        "GETSET",
    ]
